"""What a page is told of a change must hold for the views that it draws later, too."""

from typing import Any

import plotly.graph_objects as go
import pytest
from plotly.basedatatypes import Undefined

from alibi_viz.widgets.core.live_figure import LiveFigure


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The messages that a figure sends."""
    messages: list[dict[str, Any]] = []

    def send(figure: go.FigureWidget, style: Any, layout: Any, traces: Any = None, source: Any = None) -> None:
        messages.append({"style": style, "layout": dict(layout), "traces": traces})

    monkeypatch.setattr(go.FigureWidget, "_send_update_msg", send)
    return messages


def test_a_property_that_changes_in_one_trace_is_said_of_all(told: list[dict[str, Any]]) -> None:
    figure = LiveFigure(go.Figure([go.Scatter(name="one", marker_size=3), go.Scatter(name="two")]))
    with figure.batch_update():
        figure.data[0].x = [1, 2]
        figure.data[1].update(x=[3], name="three", marker_size=7)
    (message,) = told
    assert message["style"]["name"] == ["one", "three"]
    assert message["style"]["marker.size"] == [3, 7]
    assert not any(value is Undefined for values in message["style"].values() for value in values)


def test_a_property_that_was_never_set_is_nothing(told: list[dict[str, Any]]) -> None:
    figure = LiveFigure(go.Figure([go.Scatter(), go.Scatter()]))
    with figure.batch_update():
        figure.data[0].x = [1]
        figure.data[1].update(x=[3], line_color="red")
    assert told[0]["style"]["line.color"] == [None, "red"]


def test_plotlys_own_update_still_takes_one_value_for_all(told: list[dict[str, Any]]) -> None:
    figure = LiveFigure(go.Figure([go.Scatter(), go.Scatter()]))
    figure.plotly_update({"visible": False})
    figure.plotly_update({"marker.color": ["red"]}, {}, [0, 1])
    assert figure.data[1].visible is False
    assert figure.data[1].marker.color == "red"
