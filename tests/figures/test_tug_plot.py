"""Content against distance: pulls, broken bars, and the weight of the match."""

import plotly.graph_objects as go
import pytest

import alibi_viz as av
from alibi_viz import figures
from alibi_viz.figures.panels import NARROW
from alibi_viz.figures.tug_plot import tug_picture
from tests.figures.reading import named_trace
from tests.rows import each_case


def test_pictures_are_plotly_figures():
    go.Figure(tug_picture(1 / 2, 0, 255, page_width=300))
    go.Figure(tug_picture(1 / 256, 12, 1))


# The pulls. Of slope 1/8 and content 4, the sum is 4 - distance / 8.


def pulls(distance):
    return figures.tug_figure(slope=1 / 8, content=4, distance=distance)


def bar(figure, name):
    """Where a bar of a pull starts and ends."""
    number = ["content", "distance", "sum"].index(name)
    bars = named_trace(figure, "pulls")
    start = bars.base[number]
    return start, start + bars.x[number]


def test_what_distance_takes_begins_where_content_ends():
    figure = pulls(16)
    assert bar(figure, "content") == (0, 4)
    assert bar(figure, "distance") == (4, 2)
    assert bar(figure, "sum") == (0, 2)
    assert list(named_trace(figure, "ends").x) == [4, 4, None, 2, 2]


def test_pulls_are_named_with_their_numbers():
    texts = list(pulls(255).layout.yaxis.ticktext)
    assert texts == ["content <b>+4.0</b>", "distance <b>−31.9</b>", "sum <b>−27.9</b>"]  # noqa: RUF001


def test_a_bar_that_ends_with_the_scale_is_not_broken():
    figure = pulls(160)
    low, _ = figure.layout.xaxis.range
    assert bar(figure, "sum") == (0, low)
    assert not named_trace(figure, "breaks").x
    assert not named_trace(figure, "arrows").x


def test_each_bar_that_is_too_long_has_two_slashes_and_an_arrow():
    figure = pulls(161)
    low, _ = figure.layout.xaxis.range
    _, end = bar(figure, "sum")
    assert end >= low
    slashes = named_trace(figure, "breaks")
    assert list(slashes.y) == [1, 1, 2, 2], "content, in row 0, is never too long"
    assert all(end < x < 0 for x in slashes.x)
    arrows = named_trace(figure, "arrows")
    assert list(arrows.y) == [1, 2]
    assert list(arrows.x) == [end, end]


# The weights


@each_case(
    ("head", "content", "distance"),
    {
        "steep and near": (1, 4, 8),
        "flat and far": (8, 12, 255),
        "no content": (1, 0, 255),
    },
)
def test_the_match_gets_the_weight_that_a_softmax_gives_it(head, content, distance):
    slope = av.alibi_slopes(8)[head - 1].item()
    match = 255 - distance
    logits = av.alibi_bias(av.alibi_slopes(8), 1, 256)[head - 1, 0]
    logits[match] += content
    weight = logits.softmax(-1)[match].item()

    figure = figures.tug_figure(slope, content, distance)
    assert named_trace(figure, "match").y[0] == pytest.approx(weight, abs=1e-6)
    curve = named_trace(figure, "weight by distance")
    assert curve.x[distance - 1] == distance
    assert curve.y[distance - 1] == pytest.approx(weight, abs=1e-6)


def test_a_line_with_a_label_shows_where_the_two_tie():
    figure = figures.tug_figure(1 / 8, 4, 1)
    (line,) = figure.select_shapes({"name": "tie"})
    assert line.x0 == line.x1 == 32
    (label,) = figure.select_annotations({"name": "tie"})
    assert label.text == "tie, 32 back"
    assert 10**label.x == pytest.approx(32)


@pytest.mark.parametrize(("slope", "content"), [(1 / 256, 12), (1 / 2, 0)])
def test_a_tie_out_of_sight_has_no_line(slope, content):
    assert not figures.tug_figure(slope, content, 1).layout.shapes


# The layout


def test_pulls_and_weights_are_beside_each_other():
    layout = go.Figure(tug_picture(1 / 8, 4, 16, page_width=NARROW)).layout
    assert layout.xaxis.domain[1] < layout.xaxis2.domain[0]
    assert layout.yaxis.domain == layout.yaxis2.domain == (0, 1)


def test_on_a_narrow_page_the_pulls_are_above_the_weights():
    layout = go.Figure(tug_picture(1 / 8, 4, 16, page_width=NARROW - 1)).layout
    assert layout.yaxis2.domain[1] < layout.yaxis.domain[0]
    assert layout.xaxis.domain == layout.xaxis2.domain == (0, 1)
