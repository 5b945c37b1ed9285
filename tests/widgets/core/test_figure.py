"""LiveFigure sends complete messages, so that views opened later are right too; `App.save` writes files."""

import html
import re
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from plotly.basedatatypes import Undefined

from alibi_viz.widgets.core.figure import LiveFigure
from tests.widgets.core.test_app import Doubling


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
        figure.data[1].update(x=[3], name="three", marker_size=7, line_color="red")
    (message,) = figure._sent
    assert (message["name"], message["marker.size"], message["line.color"]) == (["one", "three"], [3, 7], [None, "red"])
    assert not any(value is Undefined for values in message.values() for value in values)
    assert message["traces"] == [0, 1]
    figure.plotly_update({"visible": False})  # one value for all traces
    assert figure.data[1].visible is False


def test_a_change_of_the_layout_names_elements_with_brackets_and_no_trace() -> None:
    figure = Recorded(go.Scatter(x=[0]))
    figure.add_annotation(text="one")
    with figure.batch_update():
        figure.layout.annotations[0].text = "two"
        figure.layout.xaxis.range = [0, 1]
    assert figure._sent == [{"annotations[0].text": "two", "xaxis.range": [0, 1], "traces": [-1]}]


@pytest.fixture
def app() -> Doubling:
    return Doubling(name="</p><script>alert(1)</script>", big=True)


def test_saved_page_has_the_words_and_fetches_nothing(app: Doubling, tmp_path: Path) -> None:
    page = app.save(str(tmp_path / "x.html")).read_text(encoding="utf-8")
    assert html.escape(f"{app.caption} {app.details}") in page and "Plotly.newPlot" in page
    assert "<script>alert(1)" not in page and not re.search(r"<(script|link|img)[^>]*(src|href)=", page)
    assert len(page) > 3_000_000, "plotly itself is inside"


def test_an_image_has_the_format_of_its_suffix(app: Doubling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go.Figure, "to_image", lambda _, format, **__: format.encode())  # a browser for each is slow
    assert [app.save(tmp_path / name).read_bytes() for name in ("x.PNG", "x.svg", "x.pdf")] == [b"png", b"svg", b"pdf"]


def test_unknown_suffix_raises(app: Doubling, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"save writes .*, got '\.zip' in .*x"):
        app.save(tmp_path / "x.html.zip")


def test_snapshot_is_a_plain_figure_and_the_same_in_every_run(app: Doubling) -> None:
    one, other = app.snapshot(), Doubling().snapshot()
    assert not isinstance(one, go.FigureWidget)
    assert one.to_json() == other.to_json()
