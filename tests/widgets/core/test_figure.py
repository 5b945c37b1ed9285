"""LiveFigure sends complete messages, so that views opened later are right too; `App.save` writes
files."""

import html
import re
import subprocess
import sys

import plotly.graph_objects as go
import pytest
from ipywidgets import Widget

from alibi_viz.widgets.core.figure import LiveFigure
from tests.widgets.core.test_app import Doubling


@pytest.fixture
def figure():
    """Two traces and an annotation."""
    figure = go.Figure([go.Scatter(name="one", marker_size=3), go.Scatter(name="two")])
    figure.add_annotation(text="here")
    return LiveFigure(figure)


@pytest.fixture
def messages(figure):
    """What the figure sends to its page from now on."""
    sent = []

    def keep(change):
        if change.new:
            sent.append(change.new)

    figure.observe(keep, names="_py2js_update")
    return sent


def test_page_is_not_asked_to_count_its_views(figure):
    assert figure.get_state()["_view_count"] is None, "it would report them to a closed figure"


# In an interpreter in which nobody has loaded nbformat
WITHOUT_NBFORMAT = """
import plotly.graph_objects as go
from alibi_viz.widgets.core import figure

go.Figure().show("plotly_mimetype")

import nbformat
print(nbformat.validate.__name__)
"""


@pytest.fixture(scope="module")
def printed_without_nbformat():
    command = [sys.executable, "-c", WITHOUT_NBFORMAT]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def test_plotly_still_shows_its_own_figures(printed_without_nbformat):
    """It asks for the version of nbformat, and would say that it is not installed."""
    assert "application/vnd.plotly.v1+json" in printed_without_nbformat


def test_the_whole_of_nbformat_can_be_imported_later(printed_without_nbformat):
    assert printed_without_nbformat.splitlines()[-1] == "validate"


def test_property_changed_in_one_trace_is_sent_for_all_traces_of_the_batch(figure, messages):
    with figure.batch_update():
        figure.data[0].x = [1, 2]
        figure.data[1].name = "three"
        figure.data[1].marker.size = 7
        figure.data[1].line.color = "red"
    (message,) = messages
    assert message["style_data"] == {
        "x": [[1, 2], None],
        "name": ["one", "three"],
        "marker.size": [3, 7],
        "line.color": [None, "red"],
    }
    assert message["style_traces"] == [0, 1]
    assert message["layout_data"] == {}


def test_one_value_for_all_traces_is_sent_as_it_is(figure):
    figure.plotly_update({"visible": False})
    assert [trace.visible for trace in figure.data] == [False, False]


def test_change_of_the_layout_names_elements_with_brackets(figure, messages):
    with figure.batch_update():
        figure.layout.annotations[0].text = "there"
        figure.layout.xaxis.range = [0, 1]
    (message,) = messages
    assert message["layout_data"] == {"annotations[0].text": "there", "xaxis.range": [0, 1]}


def test_change_of_the_layout_draws_no_trace_again(figure, messages):
    with figure.batch_update():
        figure.layout.xaxis.range = [0, 1]
    (message,) = messages
    assert message["style_data"] == {}
    assert message["style_traces"] == [-1], "plotly.js takes an empty list for all traces"


@pytest.fixture
def sent(monkeypatch):
    """Every message with new values from now on: its widget and the names of the values."""
    messages = []

    def keep(widget, key=None):
        messages.append((widget, {key} if isinstance(key, str) else set(key or ())))

    monkeypatch.setattr(Widget, "send_state", keep)
    return messages


def test_changes_of_a_batch_are_one_message(figure, sent):
    with figure.batch_update():
        figure.data[0].x = [1, 2]
        figure.layout.xaxis.range = [0, 1]
    assert [widget for widget, _ in sent] == [figure]


def test_equal_changes_make_different_messages(figure, messages):
    for width in (300, 400, 300):
        with figure.batch_update():
            figure.layout.width = width
    first, _, last = messages
    assert first["layout_data"] == last["layout_data"]
    assert first != last, "the page would take the last one for no change"


def test_new_page_gets_no_changes_that_are_in_the_figure_already(figure):
    with figure.batch_update():
        figure.layout.width = 300
    state = figure.get_state()
    assert state["_widget_layout"]["width"] == 300
    assert state["_py2js_update"] is None


def test_held_changes_are_sent_in_their_order_when_the_block_ends(figure, messages):
    with figure.held():
        for width in (300, 400):
            with figure.batch_update():
                figure.layout.width = width
        assert messages == []
    assert [message["layout_data"] for message in messages] == [{"width": 300}, {"width": 400}]


def test_held_changes_are_sent_when_the_outermost_block_ends(figure, messages):
    with figure.held():
        with figure.held(), figure.batch_update():
            figure.layout.width = 300
        assert messages == []
    assert len(messages) == 1


def test_held_changes_are_sent_when_the_block_raises(figure, messages):
    with pytest.raises(ZeroDivisionError), figure.held():
        with figure.batch_update():
            figure.layout.width = 300
        raise ZeroDivisionError
    assert len(messages) == 1


def test_caption_is_sent_before_the_figure(sent):
    app = BatchedDoubling()
    sent.clear()
    app.count = 5
    shown = [widget for widget, _ in sent if widget in (app._caption, app.figure)]
    assert shown == [app._caption, app.figure]


class BatchedDoubling(Doubling):
    """Draws in a `batch_update`, as the apps do."""

    def draw(self):
        with self.figure.batch_update():
            return super().draw()


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
def test_image_is_of_the_snapshot(app, name, tmp_path, monkeypatch):
    saved = {}
    # A browser for each would be slow.
    monkeypatch.setattr("alibi_viz.figures.theme.save_images", saved.update)
    path = app.save(str(tmp_path / name))
    assert saved == {path: app.snapshot()}


def test_other_suffix_is_refused(app, tmp_path):
    with pytest.raises(ValueError, match=r"save writes .*, got '\.zip' in .*x"):
        app.save(tmp_path / "x.html.zip")


def test_snapshot_is_a_plain_figure(app):
    assert type(app.snapshot()) is go.Figure


def test_snapshots_of_equal_apps_are_equal():
    assert Doubling().snapshot().to_json() == Doubling().snapshot().to_json()
