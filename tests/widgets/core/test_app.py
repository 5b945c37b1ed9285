"""What every app inherits: validation, controls, one picture, a caption. Tested with a tiny app."""

import re
from threading import Event, RLock, Thread

import numpy as np
import pytest
import torch
from ipywidgets.widgets.widget import _instances
from traitlets import Bool, Enum, Float, Int, TraitError, Tuple, Unicode

from alibi_viz.figures import theme
from alibi_viz.widgets.core.app import App, Drawn, Why
from alibi_viz.widgets.core.controls import LabeledSlider
from alibi_viz.widgets.core.page import PageWidget
from alibi_viz.widgets.core.plot import PlotlyScript
from alibi_viz.widgets.core.traits import BadValue
from tests.rows import each_case
from tests.widgets.race.small_race import DEADLINE, control, controls, message


class Doubling(App):
    """Draws powers of two. It refuses to draw 13 of them big, with `error`."""

    why = Why("Each power is twice the one before.", "01_the_line", "The rule")
    count = Int(8, min=1, max=64)
    color = Enum(("red", "blue"), None, allow_none=True)
    big = Bool(False)
    name = Unicode("<b>")
    share = Float(0.5, min=0.25, max=1)
    last = Int(1).tag(choices="powers")
    names = Tuple(("a",)).tag(choices="letters")
    letters = ("a", "b", "c")
    draws = 0
    error: type[Exception] = ValueError

    @property
    def powers(self):
        return range(1, self.count + 1)

    def controls(self):
        return [
            self.slider("count", "powers", "s-count", "How many"),
            self.menu("color", "color", "s-color", "Which", {None: "none"}),
            self.checkbox("big", "big", "s-big", "Big"),
            self.reset_button(),
        ]

    def draw(self):
        if self.count == 13 and self.big:
            raise self.error("13 must not be big <i>")
        self.draws += 1
        powers = [2**exponent for exponent in range(self.count)]
        curve = {"type": "scatter", "name": "powers", "y": powers}
        picture = theme.picture([curve], height=200, width=self.page_width)
        details = f"The details of {self.name}" if self.big else ""
        return Drawn(picture, f"{self.count} powers of {self.name}", details)

    def clicked(self, trace, point):
        if trace == "powers":
            self.count = point["y"]


@pytest.fixture
def app():
    return Doubling()


# A value that a trait refuses

REFUSED = {
    "too large": ("count", 65, "an integer from 1 to 64, got 65"),
    "between integers": ("count", 2.5, "an integer from 1 to 64, got 2.5"),
    "a truth value is no number": ("count", True, "an integer from 1 to 64, got True"),
    "text is no number": ("count", "8", "an integer from 1 to 64, got '8'"),
    "too long to print": ("count", 10**5000, "an integer from 1 to 64, got a int too long to"),
    "NaN": ("share", float("nan"), "a number from 0.25 to 1, got nan"),
    "too large for a float": ("share", 10**400, "a number from 0.25 to 1, got 1000"),
    "none where there is always one": ("big", None, "True or False, got None"),
    "no choice": ("color", ["red"], "one of red, blue or None, got ['red']"),
    "a tensor": ("color", torch.zeros(2), "one of red, blue or None, got tensor([0., 0.])"),
    "no present choice": ("last", 9, "one of 1, 2, 3, 4, 5, 6, 7, 8, got 9"),
    "a name that is unknown": ("names", ["b", "e"], "names out of a; b; c, got ['b', 'e']"),
    "no names": ("names", 3, "names out of a; b; c, got 3"),
    "not a string": ("name", 3, "a string, got 3"),
}


@each_case(("trait", "value", "expected"), REFUSED)
def test_bad_value_is_refused_with_what_is_allowed_and_changes_nothing(app, trait, value, expected):
    before = repr(app), app.caption, app.figure.to_json()
    with pytest.raises(BadValue, match=f"^{re.escape(f'{trait} must be {expected}')}") as caught:
        setattr(app, trait, value)
    assert len(str(caught.value)) < 120
    assert isinstance(caught.value, TraitError)
    assert isinstance(caught.value, ValueError)
    assert (repr(app), app.caption, app.figure.to_json()) == before


def test_bad_value_is_refused_when_the_app_is_made():
    with pytest.raises(BadValue, match="count must be an integer from 1 to 64, got 0"):
        Doubling(count=0)


TAKEN = {
    "an integer of NumPy": ("count", np.int64(3), 3),
    "a number of NumPy": ("share", np.float32(0.5), 0.5),
    "a truth value of NumPy": ("big", np.bool_(True), True),
    "a limit": ("share", 1, 1.0),
    "another number for the same choice": ("last", 3.0, 3),
    "names in the order in which they are offered": ("names", ["c", "a", "c"], ("a", "c")),
}


@each_case(("trait", "value", "expected"), TAKEN)
def test_value_of_another_kind_becomes_that_of_the_trait(app, trait, value, expected):
    setattr(app, trait, value)
    assert getattr(app, trait) == expected
    assert type(getattr(app, trait)) is type(expected)


UNKNOWN = "Doubling has no counts; it has count, color, big, name, share, last, names"


def test_unknown_trait_is_refused_with_all_traits():
    with pytest.raises(TypeError, match=UNKNOWN):
        Doubling(counts=3)


def test_unknown_name_is_refused_later_as_well(app):
    with pytest.raises(AttributeError, match=UNKNOWN):
        app.counts = 3


def test_app_that_cannot_be_drawn_leaves_no_widget():
    PlotlyScript.current()  # stays, for all apps of a kernel
    before = set(_instances)
    with pytest.raises(ValueError, match="13 must not be big"):
        Doubling(count=13, big=True)
    assert set(_instances) == before, "ipywidgets keeps every widget that is not closed"


# Controls


def test_change_in_code_reaches_every_control(app):
    app.count = 3
    app.color = "blue"
    app.big = True
    assert control(app, "s-count").value == 3
    assert control(app, "s-count-field").value == "3"
    assert control(app, "s-color").label == "blue"
    assert control(app, "s-big").value is True


def test_slider_changes_the_trait_and_the_figure(app):
    control(app, "s-count").value = 3
    assert app.count == 3
    assert list(app.figure.data[0].y) == [1, 2, 4]
    assert app.caption == "3 powers of <b>"


def test_a_slider_has_its_whole_label_and_one_number_in_a_field(app):
    (slider,) = [widget for widget in controls(app) if isinstance(widget, LabeledSlider)]
    label, *_ = slider.children
    assert (label.value, label.layout.flex) == ("powers", "none")  # never squeezed
    assert control(app, "s-count").readout is False
    field = control(app, "s-count-field")
    assert field.continuous_update is False, "it is read when the user has finished"
    field.value = " 6 "
    assert app.count == 6
    assert field.value == "6"


def test_menu_and_checkbox_change_their_traits():
    app = Doubling(color="red", big=True)
    control(app, "s-color").label = "none"
    control(app, "s-big").value = False
    assert app.color is None
    assert app.big is False


def test_reset_restores_the_start():
    app = Doubling(count=7, color="red")
    app.count = 3
    app.color = None
    app.big = True
    control(app, "s-reset").click()
    assert repr(app) == repr(Doubling(count=7, color="red"))


@pytest.mark.parametrize("text", ["65", "<script>alert(1)</script>", "9" * 6000], ids=len)
def test_bad_text_in_a_field_changes_nothing_and_is_told_until_the_next_good_value(app, text):
    field = control(app, "s-count-field")
    field.value = text
    assert "count must be an integer from 1 to 64, got" in message(app)
    assert 'role="alert"' in message(app)
    assert "<script>" not in message(app)
    assert (app.count, field.value, control(app, "s-count").value) == (8, "8", 8)

    field.value = "9"
    assert app.count == 9
    assert message(app) == ""


def test_request_is_text_and_no_error_and_goes_with_the_next_good_value(app):
    app.ask("Guess <b> first.")
    assert "Guess &lt;b&gt; first." in message(app)
    assert "alibi-error" not in message(app)
    control(app, "s-count-field").value = "9"
    assert message(app) == ""


# Work that takes long


def test_busy_app_says_what_it_does_and_is_dim_until_it_has_done_it_or_failed(app):
    caption = app.caption_line.value
    with pytest.raises(ZeroDivisionError), app.busy("Counting <b>"):
        assert app.caption_line.value == "Counting &lt;b&gt;"
        assert "alibi-busy" in app._dom_classes
        raise ZeroDivisionError
    assert "alibi-busy" not in app._dom_classes
    assert app.caption_line.value == caption


# A state that cannot be drawn


@pytest.mark.parametrize("error", [MemoryError, RuntimeError, TypeError, ValueError])
def test_state_that_cannot_be_drawn_changes_nothing_and_the_next_one_is_drawn(error):
    app = Doubling(big=True)
    app.error = error
    with pytest.raises(BadValue, match="13 must not be big"):
        app.count = 13
    assert app.count == 8
    assert app.caption == "8 powers of <b>"
    assert len(app.figure.data[0].y) == 8

    app.count = 14
    assert app.caption == "14 powers of <b>"


def test_control_shows_why_draw_raised():
    app = Doubling(big=True)
    control(app, "s-count-field").value = "13"
    assert "13 must not be big &lt;i&gt;" in message(app)
    assert control(app, "s-count-field").value == "8"


def test_traits_set_together_are_restored_together():
    app = Doubling(big=True)
    with pytest.raises(BadValue):
        app.set_together({"count": 13, "color": "red"})
    assert app.count == 8
    assert app.color is None


# How often it draws


def close_and_change(app):
    app.close()
    app.count = 12


@each_case(
    ("change", "draws"),
    {
        "new value": (lambda app: setattr(app, "count", 9), 1),
        "equal value": (lambda app: setattr(app, "count", 8), 0),
        "control": (lambda app: setattr(control(app, "s-count"), "value", 10), 1),
        "two traits together": (lambda app: app.set_together({"count": 11, "big": True}), 1),
        "refresh of an unchanged state": (Doubling.refresh, 1),
        "closed app": (close_and_change, 0),
    },
)
def test_app_draws_once_for_a_change(app, change, draws):
    app.draws = 0
    change(app)
    assert app.draws == draws


class LockThatTells:
    """A lock for one thread at a time, which tells when a second thread has come to it."""

    def __init__(self):
        self.second_thread_waits = Event()
        self._lock = RLock()

    def __enter__(self):
        is_free = self._lock.acquire(blocking=False)
        if not is_free:
            self.second_thread_waits.set()
            self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


class Interrupted(Doubling):
    """It stops while it draws 5 powers, so that another thread can change it."""

    def __init__(self):
        self.is_drawing = Event()
        self.go_on = Event()
        super().__init__()
        self._lock = LockThatTells()

    def draw(self):
        drawn = super().draw()
        if self.count == 5:
            self.is_drawing.set()
            assert self.go_on.wait(DEADLINE)
        return drawn


def set_on_a_thread(changed, name, value):
    """Set a trait of an app or a control on another thread."""
    thread = Thread(target=setattr, args=(changed, name, value), daemon=True)
    thread.start()
    return thread


def wait_for(event):
    assert event.wait(DEADLINE), f"nothing has happened for {DEADLINE} s"


def test_change_in_code_during_a_drawing_is_drawn_after_it():
    app = Interrupted()
    drawing = set_on_a_thread(app, "count", 5)
    wait_for(app.is_drawing)
    changing = set_on_a_thread(app, "count", 3)
    wait_for(app._lock.second_thread_waits)
    assert app.count == 3, "code sets the trait at once: only its drawing waits"

    app.go_on.set()
    for thread in (drawing, changing):
        thread.join(DEADLINE)
    assert app.caption == "3 powers of <b>"
    assert list(app.figure.data[0].y) == [1, 2, 4]


def test_control_waits_for_the_drawing_of_another_thread():
    app = Interrupted()
    slider = control(app, "s-count")
    drawing = set_on_a_thread(app, "count", 5)
    wait_for(app.is_drawing)
    moving = set_on_a_thread(slider, "value", 3)
    wait_for(app._lock.second_thread_waits)
    assert app.count == 5, "a control sets the trait only after the drawing"

    app.go_on.set()
    for thread in (drawing, moving):
        thread.join(DEADLINE)
    assert app.caption == "3 powers of <b>"


# On the page


def test_figure_is_a_copy_of_the_picture_that_may_be_edited(app):
    figure = app.figure
    figure.data[0].y = [3]
    assert list(app.figure.data[0].y) == [2**exponent for exponent in range(8)]


def test_click_on_a_point_reaches_the_app(app):
    app.plot.clicks("powers", {"y": 4})
    assert app.count == 4


def test_click_that_the_app_cannot_follow_is_told(app):
    app.plot.clicks("powers", {"y": 128})
    assert app.count == 8
    assert "count must be an integer from 1 to 64, got 128" in message(app)


def page_of(app):
    (page,) = [part for part in app.children if isinstance(part, PageWidget)]
    return page


def test_page_and_picture_know_their_app(app):
    assert page_of(app).app == app.plot.app == app.model_id


def test_picture_is_closed_with_its_app(app):
    app.close()
    assert app.plot.comm is None, "it would go on adding its image to the file"


def test_figure_is_as_wide_as_the_page_reports(app):
    page_of(app).set_state({"width": 640})
    assert app.page_width == 640
    assert app.figure.layout.width == 640


@pytest.mark.parametrize("words", ["caption_line", "details_line"])
def test_caption_and_details_are_escaped(words):
    app = Doubling(name="<img src=x onerror=alert(1)>", big=True)
    shown = getattr(app, words).value
    assert "&lt;img src=x onerror=alert(1)&gt;" in shown
    assert "<img" not in shown


def test_details_are_folded_and_hidden_where_there_are_none():
    app = Doubling(big=True)
    assert app.details_line.value.startswith('<details class="alibi-details"><summary>')
    app.big = False
    assert app.details == ""
    assert app.details_line.layout.display == "none"


# In a notebook's text


class DoublingWithAVeryLongNameIndeed(Doubling):
    """Its repr is longer than the 110 characters at which ipywidgets cuts."""


def test_repr_is_the_state():
    app = Doubling(count=3, color="red")
    state = "count=3, color='red', big=False, name='<b>', share=0.5, last=1, names=('a',)"
    assert repr(app) == f"Doubling({state})"


def test_repr_of_a_long_value_is_cut():
    assert len(repr(Doubling(name="x" * 5000))) < 170


def test_text_output_is_the_whole_repr():
    app = DoublingWithAVeryLongNameIndeed(name="x" * 5000)
    assert len(repr(app)) > 110
    bundle = app._repr_mimebundle_()
    assert bundle["text/plain"] == repr(app)
    assert "application/vnd.jupyter.widget-view+json" in bundle
