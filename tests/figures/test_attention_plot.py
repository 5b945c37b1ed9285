"""The attention figure reads back: the numbers of the trace in every cell, hover text, bar and
label."""

from functools import cache

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from alibi_viz import alibi_slopes, attention_trace
from alibi_viz.figures.attention_plot import STEPS, blank, draw
from alibi_viz.figures.theme import named_trace
from alibi_viz.figures.tile_grid import Grid
from tests.figures.reading import hovered

TOKENS = ["the", "cat", "<b>x</b>", "saw", "the", "other", "cat"]
LENGTH = len(TOKENS)
HEADS = 4
GRID = Grid(HEADS, 880 - 76 - 18 - 8, 64)  # without margins
QUERY, KEY = torch.randn(2, 1, HEADS, LENGTH, 8, generator=torch.Generator().manual_seed(0))


def trace(slopes, causal=True):
    return attention_trace(QUERY, KEY, slopes, causal=causal)


WITH_BIAS = trace(alibi_slopes(HEADS))
WITHOUT_BIAS = trace(None)


def zeros_trace(heads, length):
    """All content is equal, and there is no bias."""
    return attention_trace(torch.zeros(1, heads, length, 2), torch.zeros(1, heads, length, 2), None)


def numbers(head, query, key):
    """What is said of a cell: its numbers, and the key."""
    return f"{head} {query} {key} {TOKENS[key] if key < LENGTH else ''}"


def attention_figure(*arguments, **options):
    figure = blank()
    draw(figure, *arguments, **{"describe": numbers, **options})
    return figure


@cache
def drawn(**options):
    """The figure of the seven tokens with and without bias, which no test changes."""
    return attention_figure(TOKENS, WITH_BIAS, WITHOUT_BIAS, **options)


def shape(figure, name):
    (found,) = figure.select_shapes({"name": name})
    return found


# The matrices of the selected head


@pytest.mark.parametrize(
    ("name", "head"), [("content", 0), ("bias", 3), ("logits", 0), ("weights", 3)]
)
def test_matrix_shows_a_step_of_the_head_and_gaps_where_masked(name, head):
    figure = drawn(head=head)
    shown = named_trace(figure, name).z.astype(float)
    expected = getattr(WITH_BIAS, name)[0, head].numpy()
    future = np.triu(np.ones((LENGTH, LENGTH), dtype=bool), 1)
    assert np.isnan(shown[future]).all()
    np.testing.assert_allclose(shown[~future], expected[~future], atol=1e-5)


@pytest.mark.parametrize("name", STEPS)
def test_without_a_mask_every_cell_is_shown(name):
    whole = trace(alibi_slopes(HEADS), causal=False)
    figure = attention_figure(TOKENS, whole, whole, head=1)
    shown = named_trace(figure, name).z.astype(float)
    np.testing.assert_allclose(shown, getattr(whole, name)[0, 1].numpy(), atol=1e-5)


def test_terms_of_the_sum_share_one_color_scale():
    figure = drawn()
    axes = [named_trace(figure, name).coloraxis for name in ("content", "bias", "logits")]
    assert axes == ["coloraxis"] * 3


def test_zero_is_in_the_middle_of_the_color_scale():
    scale = drawn().layout.coloraxis
    assert scale.cmin == -scale.cmax
    assert list(scale.colorbar.tickvals) == [scale.cmin, 0, scale.cmax]


def test_color_scale_holds_the_content_of_every_head():
    large = attention_trace(8 * QUERY, KEY, None)
    largest = large.content[0].abs().tril().max()
    limits = {
        attention_figure(TOKENS, large, large, head=head).layout.coloraxis.cmax
        for head in range(HEADS)
    }
    (limit,) = limits  # the same whichever head is selected
    assert limit >= largest


# The selected query


@pytest.mark.parametrize(
    ("name", "source"), [("bars", WITH_BIAS), ("other", WITHOUT_BIAS)], ids=["bars", "diamonds"]
)
def test_weights_of_the_query_are_shown_up_to_itself(name, source):
    figure = drawn(head=2, query=4)
    heights = named_trace(figure, name).y
    np.testing.assert_allclose(heights[:5].astype(float), source.weights[0, 2, 4, :5], atol=1e-5)
    assert list(heights[5:]) == [None, None]


@pytest.mark.parametrize("name", STEPS)
def test_frame_marks_the_query_in_each_matrix(name):
    frame = shape(drawn(query=4), name)
    assert (frame.y0, frame.y1) == (3.5, 4.5)


def test_frame_marks_the_head_in_the_grid():
    figure = drawn(head=2)
    frame = shape(figure, "head in the grid")
    left, top = GRID.corners[2]
    assert (frame.x0, frame.x1) == (left - 2, left + GRID.side + 2)
    assert (frame.y0, frame.y1) == (top - 2, top + GRID.side + 2)


def test_frames_mark_the_query_in_every_tile():
    figure = drawn(query=4)
    tops = []
    for rectangle in shape(figure, "query in the grid").path.split("Z")[:-1]:
        first_corner = rectangle.removeprefix("M").partition("H")[0]
        _, top = first_corner.split(",")
        tops.append(float(top))
    expected = GRID.corners[:, 1] + GRID.side * 4 / LENGTH
    np.testing.assert_allclose(tops, expected, atol=0.01)


def test_titles_name_the_query_and_the_bias():
    figure = drawn(query=1, names=("on", "off"), bias_name="my bias")
    titles = {annotation.name: annotation.text for annotation in figure.layout.annotations}
    assert titles["bias"] == "my bias"
    assert "on" in titles["bars"]
    assert "off" in titles["bars"]
    assert titles["grid"].endswith("masked")


def test_signs_between_the_matrices_say_what_is_done_with_them():
    figure = drawn()
    texts = {annotation.name: annotation.text for annotation in figure.layout.annotations}
    signs = [texts[f"after {name}"] for name in ("content", "bias", "logits")]
    assert signs == ["+", "=", "→"]


# With the matrices and without them


def subplot_of(figure, name):
    """The axes of a trace."""
    trace = named_trace(figure, name)
    x = figure.layout[trace.xaxis.replace("x", "xaxis")]
    y = figure.layout[trace.yaxis.replace("y", "yaxis")]
    return x, y


def test_without_the_matrices_the_bars_are_as_wide_as_the_figure():
    figure = drawn(matrices=False)
    x, _ = subplot_of(figure, "bars")
    assert x.domain == (0, 1)


@pytest.mark.parametrize("page_width", [620, 1260])
def test_matrices_and_bars_stand_beside_each_other(page_width):
    figure = drawn(page_width=page_width)
    ends = [0.0]
    for name in (*STEPS, "bars"):
        x, _ = subplot_of(figure, name)
        start, end = x.domain
        assert start >= ends[-1]
        ends.append(end)
    assert ends[-1] == 1


@pytest.mark.parametrize("page_width", [480, 620, 1260])
def test_a_matrix_is_square(page_width):
    figure = drawn(page_width=page_width)
    margin = figure.layout.margin
    x, y = subplot_of(figure, "weights")
    width = (x.domain[1] - x.domain[0]) * (page_width - margin.l - margin.r)
    height = (y.domain[1] - y.domain[0]) * (figure.layout.height - margin.t - margin.b)
    assert width == pytest.approx(height)


@pytest.mark.parametrize("page_width", [440, 600])
def test_on_a_narrow_page_the_bars_are_below_the_matrices(page_width):
    figure = drawn(page_width=page_width)
    bars_across, bars_down = subplot_of(figure, "bars")
    assert tuple(bars_across.domain) == (0, 1)
    for name in STEPS:
        across, down = subplot_of(figure, name)
        assert bars_down.domain[1] < down.domain[0]
        assert across.domain[1] <= 1


def test_on_a_narrow_page_titles_fit_their_matrices():
    figure = drawn(page_width=480)
    titles = {title.name: title.text for title in figure.layout.annotations}
    assert [titles[name] for name in STEPS] == list(STEPS)


def test_without_the_matrices_nothing_of_them_is_left():
    figure = attention_figure(TOKENS, WITH_BIAS, WITHOUT_BIAS)
    draw(figure, TOKENS, WITH_BIAS, WITHOUT_BIAS, describe=numbers, matrices=False)
    for name in STEPS:
        matrix = named_trace(figure, name)
        assert matrix.visible is False
        assert matrix.z is None
        x, y = subplot_of(figure, name)
        assert (x.visible, y.visible) == (False, False)
        assert shape(figure, name).visible is False
    shown = {title.name for title in figure.layout.annotations if title.visible is not False}
    assert shown == {"grid", "bars"}
    assert figure.layout.coloraxis.showscale is False


@pytest.mark.parametrize("page_width", [620, 1260])
def test_the_figure_is_equally_high_with_the_matrices(page_width):
    heights = set()
    for matrices in (True, False):
        figure = drawn(matrices=matrices, page_width=page_width)
        heights.add(figure.layout.height)
    (height,) = heights
    assert height <= 360


# Hover texts


@pytest.mark.parametrize("name", STEPS)
def test_hover_text_of_a_cell_is_that_of_its_pair(name):
    figure = drawn(head=1)
    assert named_trace(figure, name).customdata[6][1] == "1 6 1 cat"


def test_hover_text_above_a_bar_is_that_of_its_key():
    figure = drawn(head=1, query=4)
    assert named_trace(figure, "columns").customdata[1] == "1 4 1 cat"


def test_a_column_for_the_pointer_is_as_high_as_the_axis():
    figure = drawn()
    _, y = subplot_of(figure, "columns")
    assert set(named_trace(figure, "columns").y) == {y.range[1]}


def test_hover_text_of_the_grid_names_its_head():
    figure = drawn()
    number_of_head = 2
    shown = hovered(figure, LENGTH, LENGTH, GRID)
    assert shown[number_of_head, 6, 1] == "head 2: 1 6 1 cat"


def test_of_many_tokens_some_share_a_hover_text_of_the_grid():
    tokens = [f"t{place}" for place in range(70)]
    equal = zeros_trace(heads=1, length=70)
    grid = Grid(1, GRID.width, GRID.height)
    shown = hovered(attention_figure(tokens, equal, equal), 70, 70, grid)
    for cell in [(1, 60, 40), (1, 61, 40), (1, 60, 41), (1, 61, 41)]:
        assert shown[cell] == "head 1: 0 61 41 "


def test_hover_text_shows_a_token_as_it_is_written():
    figure = drawn()
    assert named_trace(figure, "content").customdata[6][2] == "0 6 2 &lt;b&gt;x&lt;/b&gt;"


# Labels and sizes


@cache
def many_tokens(page_width):
    tokens = [f"t{place}" for place in range(48)]
    equal = zeros_trace(heads=1, length=48)
    return attention_figure(tokens, equal, equal, query=7, page_width=page_width)


def test_a_wide_page_has_a_label_for_each_token():
    x, _ = subplot_of(many_tokens(2200), "bars")
    assert len(x.tickvals) == 48


def test_a_narrow_page_has_fewer_labels():
    x, _ = subplot_of(many_tokens(640), "bars")
    assert len(x.tickvals) < 20


def test_the_selected_query_is_labeled_in_bold():
    x, y = subplot_of(many_tokens(600), "content")
    assert "<b>t7</b>" in y.ticktext
    assert "<b>t7</b>" in x.ticktext


def test_labels_do_not_run_into_each_other():
    _, y = subplot_of(many_tokens(934), "content")
    most_labels = 15  # that fit the height of a matrix
    assert np.diff(y.tickvals).min() >= 48 / most_labels


def test_short_labels_below_wide_bars_are_not_turned():
    figure = drawn(matrices=False)
    x, _ = subplot_of(figure, "bars")
    assert x.tickangle == 0


def test_labels_below_narrow_bars_are_turned():
    x, _ = subplot_of(drawn(), "bars")
    assert x.tickangle == -90


@pytest.mark.parametrize(("heads", "page_width"), [(1, 480), (12, 690), (32, 480)])
def test_all_heads_fit_the_page(heads, page_width):
    equal = zeros_trace(heads, length=3)
    figure = attention_figure(["a", "b", "c"], equal, equal, page_width=page_width)
    margin = figure.layout.margin
    titles = named_trace(figure, "titles")
    assert len(titles.text) == heads
    assert max(titles.x) < page_width - margin.l - margin.r


@pytest.mark.parametrize("page_width", [480, 1024])
def test_one_unit_of_the_grid_is_one_pixel(page_width):
    equal = zeros_trace(heads=12, length=3)
    figure = attention_figure(["a", "b", "c"], equal, equal, page_width=page_width)
    margin = figure.layout.margin
    width = page_width - margin.l - margin.r
    height = figure.layout.height - margin.t - margin.b
    x, y = figure.get_subplot(1, 1)
    assert x.domain == (0, 1)
    assert x.range[1] - x.range[0] == pytest.approx(width)
    assert y.range[0] - y.range[1] == pytest.approx((y.domain[1] - y.domain[0]) * height, abs=1)


# Redrawing


def test_drawing_again_leaves_nothing_of_the_previous_text():
    equal = zeros_trace(heads=2, length=3)
    redrawn = attention_figure(TOKENS, WITH_BIAS, WITHOUT_BIAS)
    draw(redrawn, ["a", "b", "c"], equal, equal, describe=numbers)
    assert redrawn.to_json() == attention_figure(["a", "b", "c"], equal, equal).to_json()


def test_selecting_a_head_or_a_query_sends_no_matrix_of_the_grid_again():
    figure = go.FigureWidget(attention_figure(TOKENS, WITH_BIAS, WITH_BIAS))
    changed_traces = []
    changed_layout = []

    def keep(relayout_data, trace_indexes, **_):
        changed_traces.extend(trace_indexes)
        changed_layout.extend(relayout_data)

    figure._send_update_msg = keep
    draw(figure, TOKENS, WITH_BIAS, WITH_BIAS, describe=numbers, head=3, query=2)
    assert figure.data.index(named_trace(figure, "tiles")) not in changed_traces
    assert any("shapes" in path for path in changed_layout)
    assert not any("images" in path for path in changed_layout)
