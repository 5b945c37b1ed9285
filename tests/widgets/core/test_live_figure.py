"""LiveFigure sends complete messages, so that views opened later are right too."""

from typing import Any

import plotly.graph_objects as go
import pytest
from plotly.basedatatypes import Undefined

from alibi_viz.widgets.core.live_figure import LiveFigure


class Recorded(LiveFigure):
    """A LiveFigure that keeps its messages instead of sending them to a page."""

    def __init__(self, *traces: go.Scatter) -> None:
        self._sent: list[dict[str, Any]] = []
        super().__init__(go.Figure(list(traces)))


@pytest.fixture(autouse=True)
def _record(monkeypatch: pytest.MonkeyPatch) -> None:
    send = go.FigureWidget._send_update_msg

    def record(figure: go.FigureWidget, style: Any, layout: Any, traces: Any, *rest: Any) -> None:
        if isinstance(figure, Recorded):  # other tests' figures may be sending too, from a thread
            figure._sent.append(style | layout | {"traces": traces})
        else:
            send(figure, style, layout, traces, *rest)

    monkeypatch.setattr(go.FigureWidget, "_send_update_msg", record)


def test_a_property_changed_in_one_trace_is_sent_for_all_traces_of_the_batch() -> None:
    figure = Recorded(go.Scatter(name="one", marker_size=3), go.Scatter(name="two"))
    with figure.batch_update():
        figure.data[0].x = [1, 2]
        figure.data[1].update(x=[3], name="three", marker_size=7)
    (message,) = figure._sent
    assert message["name"] == ["one", "three"]
    assert message["marker.size"] == [3, 7]
    assert not any(value is Undefined for values in message.values() for value in values)
    assert message["traces"] == [0, 1]


def test_a_property_that_was_never_set_is_sent_as_none() -> None:
    figure = Recorded(go.Scatter(), go.Scatter())
    with figure.batch_update():
        figure.data[0].x = [1]
        figure.data[1].update(x=[3], line_color="red")
    assert figure._sent[0]["line.color"] == [None, "red"]


def test_plotly_update_with_one_value_for_all_traces_still_works() -> None:
    figure = Recorded(go.Scatter(), go.Scatter())
    figure.plotly_update({"visible": False})
    figure.plotly_update({"marker.color": ["red"]}, {}, [0, 1])
    assert figure.data[1].visible is False
    assert figure.data[1].marker.color == "red"


def test_a_change_of_the_layout_names_elements_with_brackets_and_no_trace() -> None:
    figure = Recorded(go.Scatter(x=[0]))
    figure.add_annotation(text="one")
    with figure.batch_update():
        figure.layout.annotations[0].text = "two"
        figure.layout.xaxis.range = [0, 1]
    assert figure._sent == [{"annotations[0].text": "two", "xaxis.range": [0, 1], "traces": [-1]}]


def test_a_message_of_another_figure_is_not_recorded() -> None:
    figure = Recorded(go.Scatter(x=[0]))
    LiveFigure(go.Figure(go.Scatter(x=[0]))).data[0].x = [1]
    assert figure._sent == []
