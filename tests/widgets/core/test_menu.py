"""A menu offers what its trait may be now, and the choice stays the user's."""

import pytest
from traitlets import Any, Int, Unicode

from alibi_viz.figures import theme
from alibi_viz.laws import window
from alibi_viz.widgets.core.app import App, Drawn, Why
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

    def controls(self):
        return [
            self.menu("letter", "letter", "s-letter", "Which", {"f": "last"}, follows="count"),
            self.menu("function", "function", "s-function", "Which", offered=self.functions),
        ]

    def draw(self):
        return Drawn(theme.picture([], height=200), f"{self.count} letters, {self.letter}")


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


def test_menu_offers_what_its_trait_may_be_now_and_keeps_the_choice(app):
    menu = control(app, "s-letter")
    assert (entries(menu), menu.label) == (["d", "e", "last"], "e")
    app.count = 5
    assert (entries(menu), menu.label) == (["b", "c", "d", "e", "last"], "e")
    assert app.letter == "e"


def test_choice_reaches_the_trait_and_a_value_in_code_the_menu(app):
    menu = control(app, "s-letter")
    app.count = 5
    menu.label = "b"
    assert app.letter == "b"
    menu.label = "last"
    assert app.letter == "f"
    app.letter = "c"
    assert menu.label == "c"


def test_function_is_offered_by_its_name(app):
    menu = control(app, "s-function")
    assert entries(menu) == ["window", "shorter"]
    menu.label = "shorter"
    assert app.function is shorter
