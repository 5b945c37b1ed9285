"""The attention figure reads back: the numbers of the trace in every cell, hover text, bar and
label."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from alibi_viz import AttentionTrace, alibi_slopes, attention_trace
from alibi_viz.figures.attention_plot import STEPS, blank, draw
from alibi_viz.figures.matrices import Grid, named_trace
from tests.figures.reading import hovered

LENGTH, COUNT = 7, 4
TOKENS = ["the", "cat", "<b>x</b>", "saw", "the", "other", "cat"]
GRID = Grid(COUNT, 880 - 92 - 84 - 10, 110)
QUERY, KEY = torch.randn(2, 1, COUNT, LENGTH, 8, generator=torch.Generator().manual_seed(0))


def trace(slopes: torch.Tensor | None, causal: bool = True) -> AttentionTrace:
    return attention_trace(QUERY, KEY, slopes, causal=causal)


ON, OFF = trace(alibi_slopes(COUNT)), trace(None)  # with and without the bias


def attention_figure(*arguments: Any, **options: Any) -> go.Figure:
    figure = blank()
    draw(figure, *arguments, **options)
    return figure


@pytest.mark.parametrize(("causal", "head"), [(True, 0), (True, 3), (False, 0), (False, 3)])
def test_matrices_show_the_steps_of_the_head(causal: bool, head: int) -> None:
    on, off = trace(alibi_slopes(COUNT), causal), trace(None, causal)
    figure = attention_figure(TOKENS, on, off, head=head)
    future = np.triu(np.ones((LENGTH, LENGTH), dtype=bool), 1) & causal
    for name in STEPS:
        shown = named_trace(figure, name).z.astype(float)
        np.testing.assert_array_equal(np.isnan(shown), future)
        np.testing.assert_allclose(
            shown[~future], getattr(on, name)[0, head].numpy()[~future], atol=1e-5
        )


def test_terms_of_the_sum_share_one_color_scale_that_is_the_same_for_every_head() -> None:
    drawn = [attention_figure(TOKENS, ON, OFF, head=head) for head in range(COUNT)]
    assert {named_trace(drawn[0], name).coloraxis for name in STEPS[:3]} == {"coloraxis"}
    (limit,) = {figure.layout.coloraxis.cmax for figure in drawn}
    scale = drawn[0].layout.coloraxis
    assert (scale.cmin, *scale.colorbar.tickvals) == (-limit, -limit, 0, limit), (
        "zero, white, is in the middle"
    )
    assert limit >= ON.content[0].abs().tril().max()


def test_bars_show_the_selected_query_with_and_without_bias_and_frames_mark_it_and_the_head() -> (
    None
):
    figure = attention_figure(TOKENS, ON, OFF, head=2, query=4)
    bars, other = (named_trace(figure, name) for name in ("bars", "other"))
    np.testing.assert_allclose(bars.y[:5].astype(float), ON.weights[0, 2, 4, :5], atol=1e-5)
    np.testing.assert_allclose(other.y[:5].astype(float), OFF.weights[0, 2, 4, :5], atol=1e-5)
    assert list(bars.y[5:]) == list(other.y[5:]) == [None, None]
    frames = {shape.name: shape for shape in figure.layout.shapes}
    assert all((frames[name].y0, frames[name].y1) == (3.5, 4.5) for name in STEPS)
    box, (x, y) = frames["head in the grid"], GRID.corners[2]
    assert (box.x0, box.y0, box.x1, box.y1) == (x - 2, y - 2, x + GRID.side + 2, y + GRID.side + 2)
    tops = [
        float(row.partition("H")[0].split(",")[1])
        for row in frames["query in the grid"].path.split("Z")[:-1]
    ]
    np.testing.assert_allclose(tops, GRID.corners[:, 1] + GRID.side * 4 / LENGTH, atol=0.01)


def test_hover_texts_give_every_step_of_a_pair() -> None:
    figure = attention_figure(TOKENS, ON, OFF, head=1)
    expected = [
        step[0, 1, 6, 1].item() for step in (ON.content, ON.bias, ON.logits, 100 * ON.weights)
    ]
    found = hovered(figure, LENGTH, LENGTH, GRID)
    for name in STEPS:
        shown = named_trace(figure, name).customdata
        for cell in (shown[6][1], found[2, 6, 1], named_trace(figure, "bars").customdata[1]):
            assert list(cell[:3]) == [2, "6 “cat”", "1 “cat”"] and list(cell[3:]) == pytest.approx(
                expected, abs=6e-4
            )
    assert list(found[1, 0, 2][1:3]) == ["0 “the”", "2 “&lt;b&gt;x&lt;/b&gt;”"]


def test_labels_fit_the_page_and_include_the_query() -> None:
    long, tokens = (
        attention_trace(*torch.zeros(2, 1, 1, 48, 2), None),
        [f"t{place}" for place in range(48)],
    )
    narrow, wide = (
        attention_figure(tokens, long, long, query=7, page_width=width) for width in (600, 2200)
    )
    assert (
        len(narrow.get_subplot(2, 1).xaxis.tickvals) < 20
        and len(wide.get_subplot(2, 1).xaxis.tickvals) == 48
    )
    labels = narrow.get_subplot(1, 1).yaxis
    assert "<b>t7</b>" in labels.ticktext and np.diff(labels.tickvals).min() >= 48 / 20, (
        "no label runs into another"
    )


@pytest.mark.parametrize(("heads", "page_width"), [(1, 480), (12, 690), (32, 480), (32, 1024)])
def test_all_heads_fit_the_page(heads: int, page_width: int) -> None:
    short = attention_trace(*torch.zeros(2, 1, heads, 3, 2), None)
    figure = attention_figure(["a", "b", "c"], short, short, page_width=page_width)
    margin = figure.layout.margin
    width, height = page_width - margin.l - margin.r, figure.layout.height - margin.t - margin.b
    x, y = figure.get_subplot(3, 1)
    assert x.range[1] - x.range[0] == pytest.approx(width) and x.domain == (0, 1), (
        "one unit is one pixel"
    )
    assert y.range[0] - y.range[1] == pytest.approx((y.domain[1] - y.domain[0]) * height, abs=1)
    assert (
        len(named_trace(figure, "titles").text) == heads
        and max(named_trace(figure, "titles").x) < width
    )


def test_drawing_again_leaves_nothing_of_the_previous_text() -> None:
    figure = attention_figure(TOKENS, ON, OFF)
    short = attention_trace(*torch.zeros(2, 1, 2, 3, 2), alibi_slopes(2), causal=False)
    draw(figure, ["a", "b", "c"], short, short)
    assert figure.to_json() == attention_figure(["a", "b", "c"], short, short).to_json()


def test_selecting_a_head_or_a_query_sends_no_matrix_of_the_grid_again() -> None:
    figure = go.FigureWidget(attention_figure(TOKENS, ON, ON))
    sent: list[tuple[list[int], list[str]]] = []
    figure._send_update_msg = lambda relayout_data, trace_indexes, **_: sent.append(
        (trace_indexes, [*relayout_data])
    )
    draw(figure, TOKENS, ON, ON, head=3, query=2)
    ((changed, layout),) = sent
    assert figure.data.index(named_trace(figure, "tiles")) not in changed
    assert not any("images" in path for path in layout) and any("shapes" in path for path in layout)
