"""Content + bias = logits -> weights, for one head; below, one query's weights, and the same query in every head.

The sheet is laid out in attention_sheet.py. Content, bias and logits share one colour scale, or their sum could not be
seen.
"""

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from torch import Tensor

from alibi_viz.attention import AttentionTrace
from alibi_viz.figures import theme
from alibi_viz.figures.attention_sheet import (
    BARS,
    BIAS,
    CONTENT,
    FRAMES,
    HEADS,
    LOGITS,
    MATRICES,
    OTHER,
    PAIR,
    PANELS,
    WEIGHTS,
    blank,
    labels,
    name,
)
from alibi_viz.figures.tokens import full, label, literal, quoted

__all__ = [
    "BARS",
    "BIAS",
    "CONTENT",
    "HEADS",
    "LOGITS",
    "MATRICES",
    "OTHER",
    "WEIGHTS",
    "attention_figure",
    "blank",
    "draw",
]

_MINUS = "\N{MINUS SIGN}"


def attention_figure(
    tokens: Sequence[str], trace: AttentionTrace, other: AttentionTrace, **options: object
) -> go.Figure:
    """The picture as a plain figure; the arguments are those of `draw`.

    >>> from alibi_viz.figures.attention import attention_figure
    >>> q = k = torch.zeros(1, 1, 2, 4)
    >>> trace, other = attention_trace(q, k, torch.ones(1)), attention_trace(q, k, None)
    >>> attention_figure(["to", "be"], trace, other).data[3].z  # the weights; None is masked
    array([[1.0, None],
           [0.26894, 0.73106]], dtype=object)
    """
    figure = blank()
    draw(figure, tokens, trace, other, **options)  # type: ignore[arg-type]
    return figure


def draw(
    figure: go.Figure,
    tokens: Sequence[str],
    trace: AttentionTrace,
    other: AttentionTrace,
    *,
    head: int = 0,
    query: int = -1,
    names: tuple[str, str] = ("bias on", "bias off"),
    bias_name: str = "bias",
    page_width: int = 880,
) -> None:
    """Put one text into the sheet.

    Args:
        figure: what `blank` made, plain or live.
        tokens: [length], as text; it is shown as it stands, markup and all.
        trace: of one text, [1, heads, length, length]; a cell whose logit is -inf is masked.
        other: the same with the bias switched the other way; its weights are the diamonds.
        head, query: which head and which row are chosen, counted from 0; negative from the end.
        names: what `trace` and `other` are called.
        bias_name: title of the bias.
        page_width: pixels, to write only as many labels as there is room for.
    """
    steps = np.stack([_array(step) for step in (trace.content, trace.bias, trace.logits, trace.weights)])
    others = _array(other.weights)  # [heads, query, key]; steps have one more axis in front: which of the four
    heads, length = others.shape[:2]
    pairs = _pairs(tokens)
    head, query = head % heads, query % length
    with figure.batch_update():
        _draw_axes(figure, tokens, heads, query, page_width)
        _draw_scale(figure, steps[CONTENT][~_masked(steps)])
        _draw_matrices(figure, pairs, steps[:, head], head, query)
        _draw_heads(figure, pairs[query], steps[:, :, query], head)
        _draw_query(figure, pairs[query], steps[:, head, query], others[head, query])
        figure.data[OTHER].hovertemplate = f"%{{hovertext}}<br>weight {names[1]} %{{y:.2%}}<extra></extra>"
        highest = max(steps[WEIGHTS, :, query].max(), others[:, query].max())  # of all heads: no head moves the axis
        figure.layout[name("yaxis", BARS)].range = [0, 1.08 * highest]
        word = f"query {query} {quoted(tokens[query], 16)}"
        titles = _titles(word, names, bias_name, heads, bool(_masked(steps).any()))
        for annotation, title in zip(figure.layout.annotations, titles, strict=True):
            annotation.text = title


def _draw_axes(figure: go.Figure, tokens: Sequence[str], heads: int, query: int, page_width: int) -> None:
    """Tokens on the axes, the chosen query in bold; every so many of them where all would not fit."""
    length, words = len(tokens), [label(token) for token in tokens]
    room_across, room_down = labels(page_width)
    across, down = _spread(length, room_across), _spread(length, room_down, query)
    bold = [f"<b>{words[at]}</b>" if at == query else words[at] for at in down]
    for panel in range(len(PANELS)):
        x, y = figure.layout[name("xaxis", panel)], figure.layout[name("yaxis", panel)]
        x.update(range=[-0.5, length - 0.5], tickvals=across, ticktext=[words[at] for at in across])
        if panel in MATRICES:
            y.update(range=[length - 0.5, -0.5], tickvals=down, ticktext=bold)
        elif panel == HEADS:
            y.update(range=[heads + 0.5, 0.5], tickvals=[at + 1 for at in _spread(heads, 8)])


def _draw_scale(figure: go.Figure, content: NDArray[np.float64]) -> None:
    """The colours of content, bias and logits: from the content of all heads, so that moving the head leaves them."""
    limit = max(4, math.ceil(1.5 * float(np.abs(content).max())))
    ticks = [-limit, -limit / 2, 0, limit / 2, limit]
    words = [f"≤ {-limit:g}", *(f"{tick:g}" for tick in ticks[1:-1]), f"≥ {limit:g}"]
    figure.layout.coloraxis.update(cmin=-limit, cmax=limit)
    figure.layout.coloraxis.colorbar.update(tickvals=ticks, ticktext=[word.replace("-", _MINUS) for word in words])


def _draw_matrices(
    figure: go.Figure, pairs: NDArray[np.object_], steps: NDArray[np.float64], head: int, query: int
) -> None:
    """The four steps of one head, [4, query, key], with a frame around the chosen query."""
    numbers = _numbers(steps)
    for panel in MATRICES:
        figure.data[panel].update(z=_with_gaps(steps, panel), text=pairs, customdata=numbers)
        figure.data[panel].hovertemplate = f"head {head + 1}<br>{PAIR}"
        figure.layout.shapes[FRAMES + panel].update(y0=query - 0.5, y1=query + 0.5)


def _draw_heads(figure: go.Figure, pairs: NDArray[np.object_], steps: NDArray[np.float64], head: int) -> None:
    """The weights of one query in every head, from [4, heads, key], with a frame around the chosen head."""
    words = np.tile(pairs, (steps.shape[1], 1))
    figure.data[HEADS].update(z=_with_gaps(steps, WEIGHTS), y0=1, text=words, customdata=_numbers(steps))
    figure.data[HEADS].hovertemplate = f"head %{{y}}<br>{PAIR}"
    figure.layout.shapes[FRAMES + HEADS].update(y0=head + 0.5, y1=head + 1.5)


def _draw_query(
    figure: go.Figure, pairs: NDArray[np.object_], steps: NDArray[np.float64], others: NDArray[np.float64]
) -> None:
    """One query's weights, from [4, key], as bars; `others`, [key], as diamonds; grey behind the keys it cannot see."""
    keys, masked = np.arange(len(pairs)), _masked(steps)
    figure.data[BARS].update(x=keys, y=_with_gaps(steps, WEIGHTS), hovertext=pairs, customdata=_numbers(steps))
    figure.data[OTHER].update(x=keys, y=np.where(masked, np.nan, others), hovertext=pairs)
    hidden = keys[masked]
    ends = (hidden[0] - 0.5, hidden[-1] + 0.5) if len(hidden) else (0, 0)
    figure.layout.shapes[BARS].update(x0=float(ends[0]), x1=float(ends[1]))


def _titles(word: str, names: tuple[str, str], bias_name: str, heads: int, masked: bool) -> list[str]:
    """What stands above each panel; `word` is the query."""
    bars, diamonds = (
        f'<span style="color:{color}">{sign}</span>' for color, sign in zip(theme.COLORS[:2], "■◇", strict=True)
    )
    grey = f'    <span style="color:{theme.MASKED}">■</span> masked' if masked else ""
    return [
        f"content, q · k / √d{grey}",
        f"+  {bias_name}",
        "=  logits",
        "→  softmax: weights",
        f"same query, {'every head' if heads > 1 else 'the one head'}",
        f"{literal(word)}<br>{bars} {names[0]}  {diamonds} {names[1]}",
    ]


def _array(step: Tensor) -> NDArray[np.float64]:
    return np.round(step[0].double().numpy(), 5)  # more digits than that are never seen, but travel to the browser


def _masked(steps: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.isneginf(steps[LOGITS])


def _with_gaps(steps: NDArray[np.float64], step: int) -> NDArray[np.object_]:
    """One of the steps, with None where a cell is masked."""
    values = steps[step].astype(object)
    values[_masked(steps)] = None
    return values


def _numbers(steps: NDArray[np.float64]) -> NDArray[np.object_]:
    """For the pointer: content, bias, logit and weight in per cent, [..., 4]."""
    table = np.stack([*steps[:WEIGHTS], 100 * steps[WEIGHTS]], axis=-1).round(4).astype(object)
    table[_masked(steps), BIAS] = "masked"
    table[_masked(steps), LOGITS] = f"{_MINUS}∞"
    return table


def _pairs(tokens: Sequence[str]) -> NDArray[np.object_]:
    """For the pointer: every query with every key, [query, key]."""
    names = [f"{at} {full(token)}" for at, token in enumerate(tokens)]
    pairs = [
        [f"query {query}<br>key {key}<br>distance {abs(i - j)}" for j, key in enumerate(names)]
        for i, query in enumerate(names)
    ]
    return np.array(pairs, dtype=object)


def _spread(length: int, most: int, keep: int | None = None) -> list[int]:
    """Every so many positions, at most `most`; `keep` is among them, and pushes its neighbours out.

    >>> _spread(10, 5), _spread(10, 5, keep=3)
    ([0, 2, 4, 6, 8], [0, 3, 6, 8])
    """
    step = math.ceil(length / most)
    ticks = [at for at in range(0, length, step) if keep is None or abs(at - keep) >= step]
    return sorted(ticks if keep is None else [*ticks, keep])
