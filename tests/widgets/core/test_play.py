"""A slider may have a button that plays it."""

from ipywidgets import Play
from traitlets import Int

from alibi_viz import widgets
from alibi_viz.figures import theme
from alibi_viz.widgets.core.app import App, Drawn, Why
from tests.rows import each_case
from tests.widgets.race.small_race import control, controls


class Clock(App):
    """Its hours can be played."""

    why = Why("Time passes.", "01_the_line", "The rule")
    hour = Int(3, min=1, max=12)

    def controls(self):
        return [
            self.slider("hour", "hour", "s-hour", "Which hour", play=True),
            self.reset_button(),
        ]

    def draw(self):
        return Drawn(theme.picture([], height=200), f"{self.hour} o'clock")


def test_the_button_moves_the_app_through_every_value_from_where_its_slider_is():
    clock = Clock()
    slider = control(clock, "s-hour")
    play = control(clock, "s-hour-play")
    assert (play.min, play.max, play.step, play.show_repeat) == (1, 12, 1, False)
    slider.set_state({"value": 9})  # as the page does
    assert play.value == 9
    play.set_state({"value": 10})
    assert clock.caption == "10 o'clock"
    assert slider.value == 10


def test_reset_stops_the_button():
    clock = Clock()
    play = control(clock, "s-hour-play")
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
