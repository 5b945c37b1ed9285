"""A picture sends its page what has changed, so that views opened later are right too; `App.save`
writes files."""

import base64
import html
import re

import numpy as np
import plotly.graph_objects as go
import pytest
from ipywidgets import Widget

from alibi_viz.figures import theme
from alibi_viz.widgets.core.plot import Plot, PlotlyScript, plain
from tests.widgets.core.test_app import Doubling


def two_curves(**changes):
    """Two curves and an annotation."""
    settings = {"x": [0, 1], "color": "red", "text": "here", "width": 300}
    settings |= changes
    curve = {"type": "scatter", "name": "one", "x": np.array(settings["x"]), "y": [1, 2]}
    other = {"type": "scatter", "name": "two", "line": {"color": settings["color"], "width": 2}}
    return theme.picture(
        [curve, other],
        height=200,
        width=settings["width"],
        annotations=[{"text": settings["text"], "x": 0, "y": 0}],
    )


@pytest.fixture
def plot():
    plot = Plot(app="app")
    plot.show(two_curves())
    return plot


@pytest.fixture
def sent(plot):
    """The changes that the plot sends to its page from now on."""
    changes = []
    plot.observe(lambda change: changes.append(change.new), names="change")
    return changes


# What is sent


def test_change_of_a_property_is_sent_alone(plot, sent):
    plot.show(two_curves(color="blue"))
    (change,) = sent
    assert change["traces"] == {"1": {"line.color": "blue"}}
    assert change["layout"] == {}


def test_changes_of_data_and_layout_are_one_message(plot, sent):
    plot.show(two_curves(x=[0, 3], text="there", width=400))
    (change,) = sent
    assert change["traces"] == {"0": {"x": [0, 3]}}
    assert change["layout"] == {"annotations[0].text": "there", "width": 400}


def test_property_that_has_gone_is_sent_as_none(plot, sent):
    picture = two_curves()
    del picture["layout"]["width"]
    plot.show(picture)
    assert sent[0]["layout"] == {"width": None}


def test_equal_picture_is_not_sent_again(plot, sent):
    plot.show(two_curves())
    assert sent == []


def without_a_curve(picture):
    del picture["data"][1]


def with_another_kind_of_curve(picture):
    picture["data"][1]["type"] = "bar"


def without_an_object_of_properties(picture):
    del picture["data"][1]["line"]


def with_further_axes(picture):
    picture["layout"]["xaxis2"] = {"anchor": "y2"}


@pytest.mark.parametrize(
    "change",
    [
        without_a_curve,
        with_another_kind_of_curve,
        without_an_object_of_properties,
        with_further_axes,
    ],
)
def test_picture_of_other_parts_is_sent_as_a_whole(plot, sent, change):
    picture = two_curves()
    change(picture)
    plot.show(picture)
    assert sent[0]["whole"] == plain(picture)


def test_lists_of_other_length_are_sent_as_a_whole(plot, sent):
    picture = two_curves()
    picture["layout"]["annotations"] = []
    plot.show(picture)
    assert sent[0]["layout"] == {"annotations": []}


def test_caption_is_sent_before_the_picture(monkeypatch):
    messages = []
    app = Doubling()
    monkeypatch.setattr(Widget, "send_state", lambda widget, key=None: messages.append(widget))
    app.count = 5
    shown = [widget for widget in messages if widget in (app.caption_line, app.plot)]
    assert shown == [app.caption_line, app.plot]


# How the page finds out what it has


def test_new_page_gets_the_picture_and_no_change_that_is_in_it_already(plot):
    plot.show(two_curves(width=400))
    state = plot.get_state()
    assert state["whole"]["layout"]["width"] == 400
    assert state["change"] is None


def test_changes_are_counted_from_the_picture_of_a_new_page(plot, sent):
    number = plot.get_state()["whole"]["number"]
    plot.show(two_curves(width=400))
    plot.show(two_curves(width=500))
    assert [change["number"] for change in sent] == [number + 1, number + 2]


def test_page_that_has_missed_a_change_gets_the_whole_picture(plot, sent):
    plot.show(two_curves(width=400))
    plot._handle_custom_msg({"missed": 1}, [])
    assert sent[-1]["whole"]["layout"]["width"] == 400
    assert sent[-1]["number"] > sent[0]["number"]


def test_all_pictures_share_one_script(plot):
    script = plot.get_state()["script"]
    assert script == Plot().get_state()["script"] == PlotlyScript.current().model_id


def test_script_is_sent_again_after_all_widgets_were_closed(plot):
    before = PlotlyScript.current()
    closed = before.model_id
    before.close()
    assert Plot().get_state()["script"] != closed


# As JSON


def test_gaps_and_numbers_of_numpy_are_plain():
    values = plain({"y": np.array([1.5, np.nan]), "n": np.int64(3), "z": [float("inf"), None]})
    assert values == {"y": [1.5, None], "n": 3, "z": [None, None]}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "int64", "uint8"])
def test_long_arrays_are_bytes_that_plotly_reads(dtype):
    numbers = np.arange(60, dtype=dtype).reshape(6, 10)
    sent = plain(numbers)
    read = np.frombuffer(base64.b64decode(sent["bdata"]), dtype=sent["dtype"])
    assert read.reshape(6, 10).tolist() == numbers.tolist()
    assert sent["shape"] == "6, 10"
    assert sent["dtype"] in ("f4", "f8", "i4", "u1")


# What the reader does


def test_handle_moves_its_own_mark(plot):
    moved = []
    plot.add_handle(["one"], "Drag it", lambda place: moved.append(("one", place)))
    plot.add_handle(["two"], "Drag it", lambda place: moved.append(("two", place)), axis="y")
    plot.dragged = {"handle": 1, "place": 0.5}
    plot.dragged = {"handle": 0, "place": 2}
    assert moved == [("two", 0.5), ("one", 2)]


def test_click_is_told_with_its_trace(plot):
    clicks = []
    plot.clicks.register_callback(lambda trace, point: clicks.append((trace, point)))
    plot._handle_custom_msg({"click": {"trace": "two", "x": 3}}, [])
    assert clicks == [("two", {"x": 3})]


# Files


@pytest.fixture
def app():
    return Doubling(name="</p><script>alert(1)</script>", big=True)


@pytest.fixture
def page(app, tmp_path):
    """The saved page."""
    return app.save(str(tmp_path / "x.html")).read_text(encoding="utf-8")


def test_saved_page_has_the_caption_and_the_details(app, page):
    assert html.escape(f"{app.caption} {app.details}") in page


def test_saved_page_escapes_words(page):
    assert "<script>alert(1)" not in page


def test_saved_page_is_one_page(page):
    assert page.count("<html") == 1


def test_saved_page_fetches_nothing(page):
    assert re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=", page) == []


def test_saved_page_contains_plotly(page):
    assert "Plotly.newPlot" in page
    assert len(page) > 3_000_000


def test_saved_page_shows_no_logo(page):
    assert '"displaylogo": false' in page


@pytest.mark.parametrize("name", ["x.PNG", "x.svg", "x.pdf"])
def test_image_is_of_the_figure(app, name, tmp_path, monkeypatch):
    saved = {}
    # A browser for each would be slow.
    monkeypatch.setattr("alibi_viz.figures.theme.save_images", saved.update)
    path = app.save(str(tmp_path / name))
    assert saved == {path: app.figure}


def test_other_suffix_is_refused(app, tmp_path):
    with pytest.raises(ValueError, match=r"save writes .*, got '\.zip' in .*x"):
        app.save(tmp_path / "x.html.zip")


def test_snapshot_is_a_plain_figure(app):
    assert type(app.figure) is go.Figure


def test_snapshots_of_equal_apps_are_equal():
    assert Doubling().figure.to_json() == Doubling().figure.to_json()
