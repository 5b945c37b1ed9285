"""LiveFigure sends complete messages, so that views opened later are right too; `App.save` writes
files."""

import html
import re
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from plotly.basedatatypes import Undefined

from alibi_viz.widgets.core.figure import LiveFigure
from tests.widgets.core.test_app import Doubling


def messages(figure: LiveFigure) -> list[dict[str, Any]]:
    """What a figure sends to its page from now on."""
    sent: list[dict[str, Any]] = []
    figure.observe(lambda change: change.new and sent.append(change.new), names="_py2js_update")
    return sent


def test_a_property_changed_in_one_trace_is_sent_for_all_traces_of_the_batch() -> None:
    figure = LiveFigure(go.Figure([go.Scatter(name="one", marker_size=3), go.Scatter(name="two")]))
    sent = messages(figure)
    with figure.batch_update():
        figure.data[0].x = [1, 2]
        figure.data[1].update(x=[3], name="three", marker_size=7, line_color="red")
    (message,) = sent
    style = message["style_data"]
    assert (style["name"], style["marker.size"], style["line.color"]) == (
        ["one", "three"],
        [3, 7],
        [None, "red"],
    )
    assert not any(value is Undefined for values in style.values() for value in values)
    assert message["style_traces"] == [0, 1] and message["layout_data"] == {}
    figure.plotly_update({"visible": False})  # one value for all traces
    assert figure.data[1].visible is False


def test_a_change_of_the_layout_names_elements_with_brackets_and_no_trace() -> None:
    figure = LiveFigure(go.Figure(go.Scatter(x=[0])).add_annotation(text="one"))
    sent = messages(figure)
    with figure.batch_update():
        figure.layout.annotations[0].text = "two"
        figure.layout.xaxis.range = [0, 1]
    (message,) = sent
    assert message["layout_data"] == {"annotations[0].text": "two", "xaxis.range": [0, 1]}
    assert (message["style_data"], message["style_traces"]) == ({}, [-1])


@pytest.fixture
def app() -> Doubling:
    return Doubling(name="</p><script>alert(1)</script>", big=True)


def test_saved_page_has_the_words_and_fetches_nothing(app: Doubling, tmp_path: Path) -> None:
    page = app.save(str(tmp_path / "x.html")).read_text(encoding="utf-8")
    assert html.escape(f"{app.caption} {app.details}") in page and page.count("<html") == 1
    assert "<script>alert(1)" not in page and not re.search(
        r"<(script|link|img)[^>]*(src|href)=", page
    )
    assert "Plotly.newPlot" in page and '"displaylogo": false' in page and len(page) > 3_000_000, (
        "plotly is inside"
    )


def test_an_image_is_of_its_suffix_and_the_same_in_every_run(
    app: Doubling, tmp_path: Path, monkeypatch: Any
) -> None:
    saved: list[Any] = []
    monkeypatch.setattr(
        "alibi_viz.figures.theme.save_images", saved.append
    )  # a browser for each is slow
    paths = [app.save(str(tmp_path / name)) for name in ("x.PNG", "x.svg", "x.pdf")]
    assert saved == [{path: app.snapshot()} for path in paths]
    with pytest.raises(ValueError, match=r"save writes .*, got '\.zip' in .*x"):
        app.save(tmp_path / "x.html.zip")
    one, other = app.snapshot(), Doubling().snapshot()
    assert not isinstance(one, go.FigureWidget) and one.to_json() == other.to_json()
