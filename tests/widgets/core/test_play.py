"""A slider may have a button that plays it."""

import pytest
from ipywidgets import Play
from traitlets import Int

from alibi_viz import widgets
from alibi_viz.figures import theme
from alibi_viz.widgets.core.app import App, Why
from tests.rows import each_case
from tests.widgets.race.small_race import control, controls


class Clock(App):
    """Its hours can be played."""

    why = Why("Time passes.", "01_the_line", "The rule")
    hour = Int(3, min=1, max=12)

    def blank(self):
        return theme.blank(200)

    def controls(self):
        return [
            self.slider("hour", "hour", "s-hour", "Which hour", play=True),
            self.reset_button(),
        ]

    def draw(self):
        return f"{self.hour} o'clock"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def play(clock):
    return control(clock, "s-hour-play")


def test_a_step_of_the_button_moves_the_app(clock, play):
    play.set_state({"value": 4})  # as the page does
    assert clock.caption == "4 o'clock"


def test_a_step_of_the_button_moves_the_slider(clock, play):
    play.set_state({"value": 4})
    assert control(clock, "s-hour").value == 4


def test_the_button_goes_on_from_where_the_slider_is(clock, play):
    control(clock, "s-hour").set_state({"value": 9})
    assert play.value == 9


def test_the_button_plays_every_value_of_the_slider(play):
    assert (play.min, play.max, play.step) == (1, 12, 1)


def test_the_button_cannot_be_made_to_repeat(play):
    assert play.show_repeat is False


def test_reset_stops_the_button(clock, play):
    play.playing = True
    control(clock, "s-reset").click()
    assert not play.playing


@each_case(
    ("name", "css"),
    {
        "matrices grow": ("BiasExplorer", "s-length-play"),
        "a match is forgotten": ("TugOfWar", "s-distance-play"),
        "clocks turn": ("PositionZoo", "s-distance-play"),
    },
)
def test_what_happens_in_time_can_be_played(name, css):
    app = getattr(widgets, name)()
    (button,) = [widget for widget in controls(app) if isinstance(widget, Play)]
    assert css in button._dom_classes
