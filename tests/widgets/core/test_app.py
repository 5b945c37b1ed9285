"""What every app inherits: validation, controls, one figure, a caption. Tested with a tiny app."""

import re
from threading import Thread

import numpy as np
import plotly.graph_objects as go
import pytest
from ipywidgets import Widget
from ipywidgets.widgets.widget import _instances
from traitlets import TraitError, Unicode

from alibi_viz.figures import theme
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.traits import BadValue, Choice, Count, Flag
from tests.widgets.race.small_race import control, controls, message


class Doubling(App):
    why = Why("Each power is twice the one before.", "01_slopes", "The rule")
    count, color = Count(8, min=1, max=64), Choice(("red", "blue"), None, allow_none=True)
    big, name = Flag(False), Unicode("<b>").tag(state=True)
    draws, error = 0, ValueError

    def blank(self) -> go.Figure:
        return theme.blank(200).add_scatter()

    def controls(self) -> list[Widget]:
        return [
            self.slider("count", "powers", "s-count", "How many"),
            self.menu("color", "color", "s-color", "Which", {None: "none"}),
            self.checkbox("big", "big", "s-big", "Big"),
            self.reset_button(),
        ]

    def draw(self) -> str | tuple[str, str]:
        if self.count == 13 and self.big:
            raise self.error("13 must not be big <i>")
        self.draws += 1
        self.figure.data[0].update(y=[2**at for at in range(self.count)])
        caption = f"{self.count} powers of {self.name}"
        return (caption, f"The details of {self.name}") if self.big else caption


@pytest.mark.parametrize("value", [0, 65, 2.5, 10**5000, float("nan"), True, None], ids=type)
def test_bad_value_raises_with_the_allowed_range_and_changes_nothing(value):
    app = Doubling()
    before = app.figure.to_json()
    with pytest.raises(
        BadValue, match=r"^count must be an integer from 1 to 64, got .+$"
    ) as caught:
        app.count = value
    assert len(str(caught.value)) < 120
    assert isinstance(caught.value, TraitError) and isinstance(caught.value, ValueError)
    assert (app.count, app.figure.to_json(), app.caption) == (8, before, "8 powers of <b>")


def test_bad_value_or_unknown_trait_in_the_constructor_raises():
    with pytest.raises(
        BadValue, match=re.escape("color must be one of None, red, blue, got ['red']")
    ):
        Doubling(color=["red"])
    with pytest.raises(TypeError, match="Doubling has no counts; it has count, color, big, name"):
        Doubling(counts=3)
    before = set(_instances)
    with pytest.raises(ValueError, match="13 must not be big"):
        Doubling(count=13, big=True)
    assert set(_instances) == before, "ipywidgets keeps every widget that is not closed"


def test_traits_and_controls_agree_and_reset_restores_the_start():
    app = Doubling(count=7)
    app.count, app.color, app.big = np.int64(3), "blue", True
    assert type(app.count) is int
    slider, field = control(app, "s-count"), control(app, "s-count-field")
    assert (slider.value, field.value) == (3, "3")
    assert control(app, "s-color").label == "blue" and control(app, "s-big").value is True
    assert (list(app.figure.data[0].y), app.caption) == ([1, 2, 4], "3 powers of <b>")
    slider.value = 5
    assert app.count == 5
    field.value = " 6 "
    assert (app.count, field.value) == (6, "6")
    control(app, "s-color").label, control(app, "s-big").value = "none", False
    assert (app.color, app.big) == (None, False)
    control(app, "s-reset").click()
    assert repr(app) == repr(Doubling(count=7))


@pytest.mark.parametrize("text", ["65", "", "<script>alert(1)</script>", "9" * 6000])
def test_bad_value_in_a_control_shows_a_message_and_the_app_stays_usable(text):
    app = Doubling()
    field = control(app, "s-count-field")
    field.value = text
    assert "count must be an integer from 1 to 64, got" in message(
        app
    ) and 'role="alert"' in message(app)
    assert "<script>" not in message(app) and (
        app.count,
        field.value,
        control(app, "s-count").value,
    ) == (8, "8", 8)
    field.value = "9"
    assert (app.count, message(app), field.continuous_update) == (9, "", False)


@pytest.mark.parametrize("error", [MemoryError, TypeError, ValueError])
def test_state_is_restored_when_draw_raises(error):
    app = Doubling(big=True)
    app.error = error
    with pytest.raises(BadValue, match="13 must not be big"):
        app.count = 13
    assert (app.count, app.caption, len(app.figure.data[0].y)) == (8, "8 powers of <b>", 8)
    control(app, "s-count-field").value = "13"
    assert "13 must not be big &lt;i&gt;" in message(app)
    assert (app.count, control(app, "s-count-field").value) == (8, "8")
    with pytest.raises(BadValue):
        app.set_together({"count": 13, "color": "red"})
    assert (app.count, app.color) == (8, None)
    app.count = 14
    assert app.caption.startswith("14")


def test_a_change_draws_once_and_an_equal_value_or_a_change_of_a_closed_app_draws_nothing():
    app = Doubling()
    for change, draws in (
        (lambda: setattr(app, "count", 9), 1),
        (lambda: setattr(app, "count", 9), 0),
        (lambda: setattr(control(app, "s-count"), "value", 10), 1),
        (lambda: app.set_together({"count": 11, "big": True}), 1),
        (app.refresh, 1),
        (lambda: app.close() or setattr(app, "count", 12), 0),
    ):
        app.draws = 0
        change()
        assert app.draws == draws


def test_a_change_on_another_thread_waits_for_the_drawing_or_is_drawn_after_it():
    class Interrupted(Doubling):
        def draw(self) -> str | tuple[str, str]:
            drawn = super().draw()
            if self.count == 5:
                thread.start()
                thread.join(0.2)
                seen.append(self.count)
            return drawn

    for code in (True, False):
        app, seen = Interrupted(), []
        thread = Thread(
            target=setattr,
            args=(app, "count", 3) if code else (control(app, "s-count"), "value", 3),
        )
        app.count = 5
        thread.join()
        assert app.caption.startswith("3 powers")
    assert seen == [5], "a control waits; code does not"


def test_figure_stays_the_same_object_and_a_reloaded_page_gets_its_current_state():
    app = Doubling()
    figure = app.figure
    app.count = 3
    assert app.figure is figure and list(figure.get_state()["_widget_data"][0]["y"]) == [1, 2, 4]
    assert app.children[-1].get_state()["controls"] == [
        each.model_id for each in controls(app.children[1])
    ]
    app.children[-1].set_state({"width": 640})  # as the page reports it
    assert app.page_width == figure.layout.width == 640
    assert figure.get_state()["_widget_layout"]["width"] == 640 and "_plotly" in figure.get_state()
    assert "alibi-figure" in figure._dom_classes and figure._config == {"displayModeBar": False}


def test_caption_and_details_are_escaped_and_details_are_folded():
    app = Doubling(name="<img src=x onerror=alert(1)>", big=True)
    for widget in (app._caption, app._details):
        assert "&lt;img src=x onerror=alert(1)&gt;" in widget.value and "<img" not in widget.value
    assert app._details.value.startswith('<details class="alibi-details"><summary>')
    app.big = False
    assert (app.details, app._details.layout.display) == ("", "none")


def test_repr_shows_the_state_and_is_the_whole_text_output():
    class DoublingWithAVeryLongNameIndeed(Doubling):
        """Its repr is longer than the 110 characters at which ipywidgets cuts."""

    app = DoublingWithAVeryLongNameIndeed(count=3, color="red")
    assert (
        repr(app) == "DoublingWithAVeryLongNameIndeed(count=3, color='red', big=False, name='<b>')"
    )
    app.name = "x" * 5000
    assert 110 < len(repr(app)) < 150
    bundle = app._repr_mimebundle_()
    assert (
        bundle["text/plain"] == repr(app) and "application/vnd.jupyter.widget-view+json" in bundle
    )
