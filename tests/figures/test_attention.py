"""The attention figure shows the numbers of the trace in every cell, hover text and label."""

import math

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from alibi_viz import AttentionTrace, alibi_slopes, attention_trace
from alibi_viz.figures.attention import attention_figure, blank, draw
from alibi_viz.figures.attention_layout import (
    BARS,
    BIAS,
    CONTENT,
    HEADS,
    LOGITS,
    MATRICES,
    OTHER,
    PANELS,
    QUERY_FRAME,
    WEIGHTS,
)
from tests.reference import reference_attention, reference_bias

LENGTH, COUNT = 7, 4
TOKENS = ["the", "cat", "<b>x</b>", "saw", "the", "other", "cat"]


def traces(causal: bool = True) -> tuple[torch.Tensor, torch.Tensor, AttentionTrace, AttentionTrace]:
    """Query and key, and their traces with and without the bias."""
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 1, COUNT, LENGTH, 8, generator=generator)
    on, off = (attention_trace(query, key, slopes, causal=causal) for slopes in (alibi_slopes(COUNT), None))
    return query, key, on, off


def numbers(figure: go.Figure, panel: int) -> np.ndarray:
    """The cells of a panel, NaN for the gaps."""
    return np.array(figure.data[panel].z, dtype=object).astype(float)


@pytest.mark.parametrize("head", [0, 3])
def test_matrices_show_the_trace_of_the_head(head: int) -> None:
    _, _, on, off = traces()
    figure = attention_figure(TOKENS, on, off, head=head)
    future = np.triu(np.ones((LENGTH, LENGTH), dtype=bool), 1)
    for panel, step in zip(MATRICES, (on.content, on.bias, on.logits, on.weights), strict=True):
        assert np.array_equal(np.isnan(numbers(figure, panel)), future)
        np.testing.assert_allclose(numbers(figure, panel)[~future], step[0, head].numpy()[~future], atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_cells_equal_the_reference_loop(causal: bool) -> None:
    query, key, on, off = traces(causal)
    form, places = "relative" if causal else "symmetric", list(range(LENGTH))
    bias = reference_bias(alibi_slopes(COUNT), places, places, form)
    _, weights = reference_attention(query, key, key, bias, causal=causal)
    figure = attention_figure(TOKENS, on, off, head=1)
    seen = ~np.isnan(numbers(figure, WEIGHTS))
    assert seen.sum() == (LENGTH * (LENGTH + 1) // 2 if causal else LENGTH**2)
    np.testing.assert_allclose(numbers(figure, BIAS)[seen], bias[1].numpy()[seen], atol=1e-5)
    np.testing.assert_allclose(numbers(figure, WEIGHTS)[seen], weights[0, 1].numpy()[seen], atol=1e-5)


def test_shown_content_plus_bias_equals_the_shown_logits() -> None:
    _, _, on, off = traces()
    figure = attention_figure(TOKENS, on, off, head=2)
    seen = ~np.isnan(numbers(figure, LOGITS))
    total = numbers(figure, CONTENT) + numbers(figure, BIAS)
    np.testing.assert_allclose(total[seen], numbers(figure, LOGITS)[seen], atol=3e-5)
    assert {figure.data[panel].coloraxis for panel in (CONTENT, BIAS, LOGITS)} == {"coloraxis"}, "one scale for the sum"
    assert figure.layout.coloraxis.cmin == -figure.layout.coloraxis.cmax, "zero is in the middle"


def test_right_column_shows_one_query_with_and_without_bias_and_in_every_head() -> None:
    _, _, on, off = traces()
    figure = attention_figure(TOKENS, on, off, head=2, query=4)
    np.testing.assert_allclose(figure.data[BARS].y[:5].astype(float), on.weights[0, 2, 4, :5], atol=1e-5)
    np.testing.assert_allclose(figure.data[OTHER].y[:5], off.weights[0, 2, 4, :5], atol=1e-5)
    assert list(figure.data[BARS].y[5:]) == [None, None]
    assert np.isnan(figure.data[OTHER].y[5:]).all()
    np.testing.assert_allclose(numbers(figure, HEADS)[:, :5], on.weights[0, :, 4, :5], atol=1e-5)
    assert np.isnan(numbers(figure, HEADS)[:, 5:]).all()
    assert figure.layout.yaxis6.range[1] >= max(on.weights[0, :, 4].max(), off.weights[0, :, 4].max())


def test_selection_is_framed_and_masked_keys_are_gray() -> None:
    _, _, on, off = traces()
    figure = attention_figure(TOKENS, on, off, head=2, query=4)
    frames = figure.layout.shapes[len(PANELS) : QUERY_FRAME]
    assert [(frame.y0, frame.y1) for frame in frames] == [(3.5, 4.5)] * 4 + [(2.5, 3.5)]  # heads count from 1
    background = figure.layout.shapes[BARS]
    assert background.path == "M4.5,0H6.5V1H4.5Z"
    assert all(shape.layer == "below" for shape in figure.layout.shapes[: len(PANELS)])


def test_hover_texts_give_every_step_of_a_pair() -> None:
    _, _, on, off = traces()
    figure = attention_figure(TOKENS, on, off, head=1)
    for panel in MATRICES:
        trace = figure.data[panel]
        assert trace.hovertemplate.startswith("head 2<br>%{text}<br>content %{customdata[0]} + bias %{")
        assert trace.text[6][1] == "query 6 “cat”<br>key 1 “cat”<br>distance 5"
        expected = [step[0, 1, 6, 1].item() for step in (on.content, on.bias, on.logits)]
        expected.append(100 * on.weights[0, 1, 6, 1].item())
        assert list(trace.customdata[6][1]) == pytest.approx(expected, abs=6e-4)
        content, *rest = trace.customdata[1][6]
        assert content == pytest.approx(on.content[0, 1, 1, 6].item(), abs=1e-3)
        assert rest == ["\N{MINUS SIGN}∞ (masked)", "\N{MINUS SIGN}∞", 0]
    pair = "query 6 “cat”<br>key 1 “cat”<br>distance 5"
    assert figure.data[HEADS].text[0][1] == figure.data[BARS].hovertext[1] == pair


def test_tokens_are_escaped_on_axes_and_in_hover_texts() -> None:
    _, _, on, off = traces()
    figure = attention_figure(TOKENS, on, off, query=2)
    shown = "&lt;b&gt;x&lt;/b&gt;"
    assert figure.layout.xaxis3.ticktext[2] == shown
    assert figure.layout.yaxis.ticktext[2] == f"<b>{shown}</b>", "the selected query is bold"
    assert "<b>x" not in str(figure.data[CONTENT].text.tolist())
    assert any(shown in annotation.text for annotation in figure.layout.annotations)


def test_long_text_has_only_labels_that_fit_including_the_query() -> None:
    vectors = torch.zeros(1, 1, 48, 2)
    trace = attention_trace(vectors, vectors, None)
    tokens = [f"t{place}" for place in range(48)]
    narrow, wide = (attention_figure(tokens, trace, trace, query=7, page_width=width) for width in (600, 2200))
    assert len(narrow.layout.xaxis3.tickvals) < 20
    assert len(wide.layout.xaxis3.tickvals) == 48
    assert "<b>t7</b>" in narrow.layout.yaxis.ticktext
    gaps = np.diff(narrow.layout.yaxis.tickvals)
    assert gaps.min() >= math.ceil(48 / 14), "no label runs into another"


def test_color_scale_is_the_same_for_every_head() -> None:
    _, _, on, off = traces()
    limits = {attention_figure(TOKENS, on, off, head=head).layout.coloraxis.cmax for head in range(COUNT)}
    assert len(limits) == 1
    assert limits.pop() >= on.content[0].abs().tril().max()


def test_drawing_again_leaves_nothing_of_the_previous_text() -> None:
    _, _, on, off = traces()
    figure = attention_figure(TOKENS, on, off)
    vectors = torch.zeros(1, 2, 3, 2)
    short = attention_trace(vectors, vectors, alibi_slopes(2), causal=False)
    draw(figure, ["a", "b", "c"], short, short)
    fresh = blank()
    draw(fresh, ["a", "b", "c"], short, short)
    assert figure.to_json() == fresh.to_json()
