"""A menu offers what its trait may be now, and the choice stays the user's."""

import pytest
from traitlets import Any, Int, Unicode

from alibi_viz.figures import theme
from alibi_viz.laws import window
from alibi_viz.widgets.core.app import App, Why
from tests.widgets.race.small_race import control

LETTERS = "abcdef"


def shorter(distance):
    """A function that a menu shows by its name."""
    return distance / 2


class Drawer(App):
    """Its last letters and its functions can be chosen."""

    why = Why("A menu needs a trait.", "01_the_line", "The rule")
    count = Int(3, min=1, max=6)
    letter = Unicode("e").tag(choices="letters")
    function = Any(window)

    @property
    def letters(self):
        """The last `count` letters, so that another count has another first one."""
        return list(LETTERS[-self.count :])

    def functions(self):
        return [window, shorter]

    def blank(self):
        return theme.blank(200)

    def controls(self):
        return [
            self.menu("letter", "letter", "s-letter", "Which", {"f": "last"}, follows="count"),
            self.menu("function", "function", "s-function", "Which", offered=self.functions),
        ]

    def draw(self):
        return f"{self.count} letters, {self.letter}"


@pytest.fixture
def app():
    return Drawer()


def entries(menu):
    """The texts in a menu."""
    return [text for text, _ in menu.options]


def test_new_entries_are_sent_together_with_the_selected_one(app, monkeypatch):
    menu = control(app, "s-letter")
    sent = []

    def keep(names):
        sent.append(set(names))  # a copy: ipywidgets empties its own

    monkeypatch.setattr(menu, "send_state", keep)
    app.count = 4
    assert sent == [{"_options_labels", "index"}]


def test_menu_offers_what_its_trait_may_be(app):
    assert entries(control(app, "s-letter")) == ["d", "e", "last"]


def test_menu_selects_the_value_of_its_trait(app):
    assert control(app, "s-letter").label == "e"


def test_followed_trait_changes_the_offer(app):
    app.count = 5
    assert entries(control(app, "s-letter")) == ["b", "c", "d", "e", "last"]


def test_changed_offer_keeps_the_choice(app):
    app.count = 5
    assert app.letter == "e"
    assert control(app, "s-letter").label == "e"


def test_choice_from_a_changed_offer_reaches_the_trait(app):
    app.count = 5
    control(app, "s-letter").label = "b"
    assert app.letter == "b"


def test_choice_by_its_text_reaches_the_trait(app):
    control(app, "s-letter").label = "last"
    assert app.letter == "f"


def test_value_in_code_is_selected_in_the_menu(app):
    app.letter = "f"
    assert control(app, "s-letter").label == "last"


def test_function_is_offered_by_its_name(app):
    assert entries(control(app, "s-function")) == ["window", "shorter"]


def test_chosen_function_reaches_the_trait(app):
    control(app, "s-function").label = "shorter"
    assert app.function is shorter
