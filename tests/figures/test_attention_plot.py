"""The attention figure reads back: the numbers of the trace in every cell, hover text, bar and
label."""

from functools import cache

import numpy as np
import pytest
import torch

from alibi_viz import alibi_slopes, attention_trace
from alibi_viz.figures import attention_figure
from alibi_viz.figures.attention_plot import STEPS
from alibi_viz.figures.tile_grid import Grid
from tests.figures.reading import hovered, named_trace
from tests.rows import each_case

TOKENS = ["the", "cat", "<b>x</b>", "saw", "the", "other", "cat"]
LENGTH = len(TOKENS)
HEADS = 4
GRID = Grid(HEADS, 880 - 76 - 18 - 8, 64)  # without margins
QUERY, KEY = torch.randn(2, 1, HEADS, LENGTH, 8, generator=torch.Generator().manual_seed(0))
WITH_BIAS = attention_trace(QUERY, KEY, alibi_slopes(HEADS))
WITHOUT_BIAS = attention_trace(QUERY, KEY, None)
UNMASKED = attention_trace(QUERY, KEY, alibi_slopes(HEADS), causal=False)


@cache
def drawn(**options):
    """The figure of the seven tokens with and without bias, which no test changes."""
    return attention_figure(TOKENS, WITH_BIAS, WITHOUT_BIAS, **options)


@cache
def equal_tokens(length, heads=1, **options):
    """The figure of so many tokens with equal content, and without a bias."""
    zeros = torch.zeros(1, heads, length, 2)
    trace = attention_trace(zeros, zeros, None)
    return attention_figure([f"t{place}" for place in range(length)], trace, trace, **options)


def shape(figure, name):
    (found,) = figure.select_shapes({"name": name})
    return found


def titles(figure):
    return {title.name: title.text for title in figure.layout.annotations}


def axes_of(figure, name):
    """The axes of a trace."""
    trace = named_trace(figure, name)
    x = figure.layout[trace.xaxis.replace("x", "xaxis")]
    y = figure.layout[trace.yaxis.replace("y", "yaxis")]
    return x, y


# The matrices of the selected head


@pytest.mark.parametrize("trace", [WITH_BIAS, UNMASKED], ids=["masked", "unmasked"])
def test_matrices_show_the_steps_of_the_head_and_gaps_where_masked(trace):
    figure = attention_figure(TOKENS, trace, trace, head=3)
    masked = trace.logits[0, 3].isneginf()
    for step in STEPS:
        expected = getattr(trace, step)[0, 3].masked_fill(masked, torch.nan)
        np.testing.assert_allclose(named_trace(figure, step).z, expected, atol=1e-5)


def test_terms_of_the_sum_share_a_color_scale_around_zero():
    figure = drawn()
    axes = {named_trace(figure, step).coloraxis for step in ("content", "bias", "logits")}
    assert axes == {"coloraxis"}
    assert figure.layout.coloraxis.cmin == -figure.layout.coloraxis.cmax


def test_color_scale_holds_the_content_of_every_head():
    large = attention_trace(8 * QUERY, KEY, None)
    (limit,) = {
        attention_figure(TOKENS, large, large, head=head).layout.coloraxis.cmax
        for head in range(HEADS)
    }
    assert limit >= large.content[0].abs().tril().max()


def test_titles_are_the_sum_and_name_the_bias_and_both_traces():
    shown = titles(drawn(names=("on", "off"), bias_name="my bias"))
    assert [shown[f"after {step}"] for step in STEPS[:3]] == ["+", "=", "→"]
    assert shown["bias"] == "my bias"
    assert shown["bars"].index("on") < shown["bars"].index("off")
    assert shown["grid"].endswith("masked")


def test_without_the_matrices_nothing_of_them_is_in_the_figure():
    figure = drawn(matrices=False)
    assert {trace.name for trace in figure.data}.isdisjoint(STEPS)
    assert set(titles(figure)) == {"grid", "bars"}
    x, _ = axes_of(figure, "bars")
    assert x.domain == (0, 1)
    assert "query 6 “cat” in head 1" in titles(figure)["bars"]


# The selected head and query


@pytest.mark.parametrize(
    ("name", "source"), [("bars", WITH_BIAS), ("other", WITHOUT_BIAS)], ids=["bars", "diamonds"]
)
def test_weights_of_the_query_are_shown_up_to_itself(name, source):
    heights = named_trace(drawn(head=2, query=4), name).y
    np.testing.assert_allclose(heights[:5], source.weights[0, 2, 4, :5], atol=1e-5)
    assert np.isnan(heights[5:]).all()


def test_frames_mark_the_query_and_the_head():
    figure = drawn(head=2, query=4)
    for step in STEPS:
        frame = shape(figure, step)
        assert (frame.y0, frame.y1) == (3.5, 4.5)

    left, top = GRID.corners[2]
    frame = shape(figure, "head in the grid")
    assert (frame.x0, frame.x1) == (left - 2, left + GRID.side + 2)
    assert (frame.y0, frame.y1) == (top - 2, top + GRID.side + 2)

    tops = []
    for rectangle in shape(figure, "query in the grid").path.split("Z")[:-1]:
        first_corner = rectangle.removeprefix("M").partition("H")[0]
        tops.append(float(first_corner.partition(",")[2]))
    np.testing.assert_allclose(tops, GRID.corners[:, 1] + GRID.side * 4 / LENGTH, atol=0.01)


@each_case(
    ("tokens", "options", "error", "reason"),
    {
        "tokens": (TOKENS[1:], {}, ValueError, "with length tokens, got .* and 6 tokens"),
        "head": (TOKENS, {"head": HEADS}, IndexError, "out of range"),
        "query": (TOKENS, {"query": -LENGTH - 1}, IndexError, "out of range"),
    },
)
def test_what_is_not_in_the_trace_is_refused(tokens, options, error, reason):
    with pytest.raises(error, match=reason):
        attention_figure(tokens, WITH_BIAS, WITHOUT_BIAS, **options)


# Places on the page


@pytest.mark.parametrize("page_width", [620, 1260])
def test_matrices_and_bars_stand_beside_each_other(page_width):
    figure = drawn(page_width=page_width)
    domains = [axes_of(figure, name)[0].domain for name in (*STEPS, "bars")]
    edges = np.ravel(domains)
    assert (np.diff(edges) >= 0).all()
    assert (edges[0], edges[-1]) == (0, 1)


def test_on_a_narrow_page_the_bars_are_below_the_matrices_and_titles_are_short():
    figure = drawn(page_width=480)
    bars_across, bars_down = axes_of(figure, "bars")
    assert bars_across.domain == (0, 1)
    for step in STEPS:
        _, down = axes_of(figure, step)
        assert bars_down.domain[1] < down.domain[0]
        assert titles(figure)[step] == step


@pytest.mark.parametrize("page_width", [480, 1260])
def test_a_matrix_is_square_and_a_unit_of_the_grid_a_pixel(page_width):
    figure = drawn(page_width=page_width)
    margin = figure.layout.margin
    width = page_width - margin.l - margin.r
    height = figure.layout.height - margin.t - margin.b
    x, y = axes_of(figure, "weights")
    assert np.ptp(x.domain) * width == pytest.approx(np.ptp(y.domain) * height)
    x, y = axes_of(figure, "tiles")
    assert np.ptp(x.range) == pytest.approx(np.ptp(x.domain) * width)
    assert np.ptp(y.range) == pytest.approx(np.ptp(y.domain) * height)


@pytest.mark.parametrize("page_width", [480, 1260])
def test_the_figure_is_equally_high_with_the_matrices(page_width):
    heights = {
        drawn(matrices=matrices, page_width=page_width).layout.height for matrices in (True, False)
    }
    assert len(heights) == 1


@pytest.mark.parametrize(("heads", "page_width"), [(1, 480), (12, 690), (32, 480)])
def test_all_heads_fit_the_page(heads, page_width):
    figure = equal_tokens(3, heads, page_width=page_width)
    margin = figure.layout.margin
    names = named_trace(figure, "titles")
    assert len(names.text) == heads
    assert max(names.x) < page_width - margin.l - margin.r


# Hover texts


@each_case(
    ("slopes", "pair", "text"),
    {
        "bias": ([1.0], (2, 0), "“or” → “to”, 2 back: 0.00 − 2.00 = −2.00 → 9.0%"),  # noqa: RUF001
        "no bias": (None, (2, 0), "“or” → “to”, 2 back: 0.00 → 33%"),
        "masked": ([1.0], (0, 2), "“to” → “or”, 2 ahead: masked"),
    },
)
def test_hover_text_is_the_sum_behind_a_weight(slopes, pair, text):
    zeros = torch.zeros(1, 1, 3, 2)
    trace = attention_trace(zeros, zeros, slopes and torch.tensor(slopes))
    query, key = pair
    figure = attention_figure(["to", "be", "or"], trace, trace, query=query)
    for step in STEPS:
        assert named_trace(figure, step).customdata[query][key] == text
    assert named_trace(figure, "columns").customdata[key] == text
    assert hovered(figure, 3, 3, Grid(1, GRID.width, 64))[1, query, key] == f"head 1: {text}"


def test_hover_text_shows_a_token_as_it_is_written():
    text = named_trace(drawn(), "columns").customdata[2]
    assert text.startswith("“cat” → “&lt;b&gt;x&lt;/b&gt;”, 4 back")


def test_a_column_for_the_pointer_is_as_high_as_the_axis():
    _, y = axes_of(drawn(), "columns")
    assert set(named_trace(drawn(), "columns").y) == {y.range[1]}


def test_of_many_tokens_some_share_a_hover_text_of_the_grid():
    shown = hovered(equal_tokens(70), 70, 70, Grid(1, GRID.width, 64))
    texts = {shown[1, row, column] for row in (60, 61) for column in (40, 41)}
    assert texts == {"head 1: “t61” → “t41”, 20 back: 0.00 → 1.6%"}


# Labels


@each_case(("page_width", "least", "most"), {"wide": (2200, 48, 48), "narrow": (640, 5, 19)})
def test_a_wider_page_has_more_labels(page_width, least, most):
    x, _ = axes_of(equal_tokens(48, page_width=page_width), "bars")
    assert least <= len(x.tickvals) <= most


def test_labels_keep_their_distance_and_the_query_is_bold():
    x, y = axes_of(equal_tokens(48, query=7, page_width=934), "content")
    assert np.diff(y.tickvals).min() >= 48 / 15  # as many as fit
    assert "<b>t7</b>" in x.ticktext
    assert "<b>t7</b>" in y.ticktext


def test_labels_are_turned_where_they_do_not_fit():
    angles = [axes_of(drawn(matrices=matrices), "bars")[0].tickangle for matrices in (False, True)]
    assert angles == [0, -90]
