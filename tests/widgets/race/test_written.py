"""What the models of a race write, below the figure: escaped, with the training length and the
mentions marked."""

import html
import math

import pytest

from alibi_viz import lab
from alibi_viz.measure.continuations import Continuation, known_words
from alibi_viz.widgets.race.captions import written_html
from alibi_viz.widgets.race.state import RaceState, Written
from tests.widgets.race.small_race import (
    ENGLISH,
    LENGTH,
    control,
    open_tab,
    small,
    trained,
    unchanged,
)

TEXT = lab.load_text(ENGLISH)

# After a race


@pytest.fixture(scope="module")
def finished(small_models):
    return trained(methods=["alibi", "learned"], seed=3, text=ENGLISH)


@pytest.fixture
def raced(finished):
    """A race on a text that has ended."""
    with unchanged(finished):
        yield finished


def panel(app):
    open_tab(app, "longer sequences")
    return control(app, "s-written").value


def test_nothing_is_written_before_a_race():
    app = small()
    assert app.written == {}
    assert panel(app) == ""


@pytest.mark.parametrize("method", ["alibi", "learned"])
def test_models_of_a_race_continue_its_text(raced, method):
    texts = lab.continuations(raced.models[method], TEXT, LENGTH, seed=3)
    assert raced.written[method].texts == texts


@pytest.mark.parametrize("method", ["alibi", "learned"])
def test_known_words_beyond_the_training_length_are_counted(raced, method):
    written = raced.written[method]
    share = known_words([text.beyond for text in written.texts], TEXT)
    assert written.known_words == pytest.approx(share, nan_ok=True)


def test_first_text_is_shown(raced):
    prompt = raced.written["alibi"].texts[0].prompt
    assert html.escape(prompt) in panel(raced)


def test_method_that_is_not_defined_beyond_the_training_length_is_named(raced):
    assert "learned (not defined beyond 8)</div>" in panel(raced)


def test_texts_are_hidden_on_a_task_whose_models_write_none(raced):
    open_tab(raced, "needle")
    assert control(raced, "s-written").value == ""


# How a text is marked


def page(prompt, within, beyond, known_words=math.nan):
    """What is shown of a text by alibi."""
    race = RaceState("text", ("alibi",), length=32, steps=300, seed=0, seeds=1)
    texts = [Continuation(prompt, within, beyond)] * 8
    race.written = {"alibi": Written(texts, known_words)}
    return written_html(race)


def test_prompt_and_text_up_to_the_training_length_are_told_apart():
    shown = page("one", " two", " three")
    assert '<span class="prompt">one</span><span class="within"> two</span>' in shown


def test_text_beyond_the_training_length_is_shaded():
    assert '<span class="beyond"> three</span>' in page("one", " two", " three")


def test_text_is_escaped():
    shown = page("<b>one", " two &", " three</pre>")
    assert "&lt;b&gt;one<" in shown
    assert " two &amp;<" in shown
    assert " three&lt;/pre&gt;<" in shown


def test_control_characters_are_replaced_except_for_line_breaks():
    assert "three\n\ufffd\ufffd\ufffd<" in page("one", "two", "three\n\x00\x1b\u202e")


def test_share_of_known_words_is_told():
    told = "alibi: 55% of the shaded words, in 8 such texts, occur in the training text</div>"
    assert told in page("one", " two", " three", known_words=0.554)


def test_share_of_known_words_is_not_told_without_any_word():
    assert "<div>alibi</div>" in page("one", " two", " three", known_words=math.nan)


def test_mentions_up_to_the_training_length_are_bold():
    shown = page("Leo was a fox", " in the mi", "ll. ")
    assert '"prompt"><b>Leo</b> was a <b>fox</b></span>' in shown


def test_mentions_that_are_new_beyond_the_training_length_are_underlined():
    shown = page("Leo was a fox", " in the mi", "ll. Mia, a fox, hid a bell in the mill. ")
    assert "<u>Mia</u>, a <b>fox</b>, hid a <u>bell</u> in the <b>mill</b>." in shown


def test_legend_explains_bold_mentions():
    assert "from the first 32 bytes" in page("Leo", " was", " here.")


def test_legend_explains_underlined_mentions():
    shown = page("He", " is ", "Leo.")
    _, legend, text = shown.partition("Names, animals, places and things are")
    assert legend
    assert "<u>Leo</u>" in text


def test_text_without_mentions_needs_no_legend():
    assert "Names" not in page("one", " two", " three")
