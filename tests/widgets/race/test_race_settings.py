"""The settings of LengthLab: its first screen, what is folded away, and the text to train on."""

import pytest

from alibi_viz import lab
from alibi_viz.models import POSITIONS
from tests.widgets.race.small_race import (
    ENGLISH,
    control,
    small,
    trained,
    visible,
    visible_controls,
)

FIRST_SCREEN = ["s-train", "s-stop", "s-guess", "s-more", "s-question", "s-reset"]
SETTINGS = ["s-length", "s-steps", "s-seeds", "s-seed", "s-text", "s-own-text"]

# The screen


def test_first_screen_has_six_controls():
    assert visible_controls(small()) == FIRST_SCREEN


def test_more_settings_unfold_the_methods_the_numbers_and_the_text():
    app = small()
    control(app, "s-more").value = True
    methods = [f"s-{name}" for name in POSITIONS]
    assert visible_controls(app) == [*FIRST_SCREEN, *methods, *SETTINGS]


def test_message_is_between_the_controls_and_the_figure():
    app = small()
    _style, _controls, message, figure, *_ = app.children
    assert message is app._message
    assert figure is app.figure


def test_words_and_what_the_models_write_are_below_the_figure():
    app = small()
    _style, _controls, _message, _figure, *below, _page, _picture = app.children
    assert below == [app._caption, app._written, app._details, app.reason]


def test_checkbox_of_a_method_has_the_first_line_of_its_docstring_as_its_tip():
    first_line = str(POSITIONS["alibi"].__doc__).partition("\n")[0]
    assert control(small(), "s-alibi").tooltip == first_line


def test_simple_mode_has_guesses_train_and_stop():
    app = small(guesses={"alibi": None, "none": None}, simple=True)
    assert visible_controls(app) == ["s-guess-alibi", "s-guess-none", "s-train", "s-stop"]


def test_simple_mode_without_guesses_has_train_and_stop():
    assert visible_controls(small(simple=True)) == ["s-train", "s-stop"]


def test_simple_mode_hides_settings_that_are_unfolded():
    app = small()
    control(app, "s-more").value = True
    app.simple = True
    assert visible_controls(app) == ["s-train", "s-stop"]


def test_simple_mode_hides_the_reason_for_the_picture():
    app = small(simple=True)
    assert app.reason not in visible(app)


def test_leaving_simple_mode_shows_the_first_screen():
    app = small(simple=True)
    app.simple = False
    assert visible_controls(app) == FIRST_SCREEN


# The text


@pytest.fixture
def fox(tmp_path):
    """A file with a name and a text that are not to be taken for HTML."""
    path = tmp_path / "<b>fox.txt"
    path.write_text("🐢 <script>".join(ENGLISH.split()[:500]))
    return path


@pytest.fixture
def with_fox(fox):
    """An app in whose field the path was typed."""
    app = small(methods=["none"])
    control(app, "s-own-text").value = str(fox)
    return app


def test_path_in_the_field_chooses_its_file(with_fox):
    assert with_fox.text.name == "<b>fox.txt"
    assert control(with_fox, "s-text").value == "<b>fox.txt"


def test_field_is_emptied_when_the_menu_has_its_file(with_fox):
    assert control(with_fox, "s-own-text").value == ""


def test_field_waits_until_a_path_is_complete():
    assert not control(small(), "s-own-text").continuous_update


def test_name_of_a_file_is_escaped_below_the_figure(fox):
    app = trained(methods=["none"], text=fox)
    assert "of <b>fox.txt, seeds: 0" in app.details
    assert "<b>" not in app._details.value


def test_text_that_is_set_in_code_is_chosen_in_the_menu():
    app = small()
    app.text = ENGLISH
    assert control(app, "s-text").value == "your text"


def test_menu_chooses_the_text():
    app = small()
    python = lab.python_text().name
    control(app, "s-text").value = python
    assert app.text.name == python
    assert python in app.caption


def test_menu_goes_back_to_the_tales():
    app = small(text=ENGLISH)
    control(app, "s-text").value = "tales"
    assert app.text is None


def test_menu_has_every_text_that_the_app_has_had(with_fox):
    with_fox.text = ENGLISH
    python = lab.python_text().name
    names = list(dict(control(with_fox, "s-text").options))
    assert names == ["tales", python, "<b>fox.txt", "your text"]
