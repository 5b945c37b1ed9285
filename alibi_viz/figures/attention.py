"""Content + bias = logits -> weights for one head, one query's weights, and the same query in every head.

The panels are laid out in attention_layout.py. Content, bias and logits share one color scale, so that they can be
compared.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.attention import AttentionTrace
from alibi_viz.figures import attention_layout as layout
from alibi_viz.figures import theme
from alibi_viz.figures.arrays import as_array, update_changed
from alibi_viz.figures.attention_layout import BARS, BIAS, CONTENT, HEADS, LOGITS, MATRICES, OTHER, WEIGHTS, blank, name
from alibi_viz.figures.tokens import full, label, literal, quoted

__all__ = ["attention_figure", "blank", "draw"]

_MINUS = "\N{MINUS SIGN}"


def attention_figure(tokens: Sequence[str], trace: AttentionTrace, other: AttentionTrace, **options: Any) -> go.Figure:
    """An attention trace as a plain plotly figure. The arguments are those of `draw`.

    >>> from alibi_viz import figures
    >>> q = k = torch.zeros(1, 1, 2, 4)
    >>> trace, other = attention_trace(q, k, torch.ones(1)), attention_trace(q, k, None)
    >>> figures.attention_figure(["to", "be"], trace, other).data[3].z  # the weights; None is masked
    array([[1.0, None],
           [0.26894, 0.73106]], dtype=object)
    """
    figure = blank()
    draw(figure, tokens, trace, other, **options)
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
    """Draw one text into a figure from `blank`, plain or live.

    Args:
        figure: the figure.
        tokens: [length], plain text; markup is shown as it is.
        trace: of one text, [1, heads, length, length]; a cell whose logit is -inf is masked.
        other: the same text with the bias switched the other way; its weights are the diamonds.
        head, query: the selected head and row, counted from 0; negative from the end.
        names: the names of `trace` and `other` in the legend.
        bias_name: the title of the bias panel.
        page_width: pixels available for the figure; they decide its height and the number of labels.
    """
    arrays = (trace.content, trace.bias, trace.logits, trace.weights, other.weights)
    *each, others = (np.round(as_array(array[0]), 5) for array in arrays)  # more digits are never visible
    steps = np.stack(each)  # [4, heads, query, key]; others are [heads, query, key]
    heads, length = others.shape[:2]
    pairs = _pairs(tokens)
    head, query = head % heads, query % length
    with figure.batch_update():
        _draw_axes(figure, tokens, heads, query, page_width)
        _draw_scale(figure, steps[CONTENT][~_masked(steps)])
        _draw_matrices(figure, pairs, steps[:, head], head, query)
        _draw_heads(figure, pairs[query], steps[:, :, query], head)
        _draw_query(figure, pairs[query], steps[:, head, query], others[head, query])
        hover = f"%{{hovertext}}<br>weight {names[1]} %{{y:.2%}}<extra></extra>"
        update_changed(figure.data[OTHER], hovertemplate=hover)
        highest = max(steps[WEIGHTS, :, query].max(), others[:, query].max())  # of all heads, for a steady axis
        update_changed(figure.layout[name("yaxis", BARS)], range=[0, 1.08 * highest])
        word = f"query {query} {quoted(tokens[query], 16)}"
        titles = _titles(word, names, bias_name, heads, bool(_masked(steps).any()))
        for annotation, title in zip(figure.layout.annotations, titles, strict=True):
            update_changed(annotation, text=title)


def _draw_axes(figure: go.Figure, tokens: Sequence[str], heads: int, query: int, page_width: int) -> None:
    """Tokens on the axes, the selected query in bold; only every n-th token if there is no room for all."""
    update_changed(figure.layout, height=layout.height(page_width))
    length, labels = len(tokens), [label(token) for token in tokens]
    room_across, room_down = layout.max_labels(page_width)
    across, down = _spread(length, room_across), _spread(length, room_down, query)
    bold = [f"<b>{labels[at]}</b>" if at == query else labels[at] for at in down]
    for panel in range(len(layout.PANELS)):
        x, y = figure.layout[name("xaxis", panel)], figure.layout[name("yaxis", panel)]
        update_changed(x, range=[-0.5, length - 0.5], tickvals=across, ticktext=[labels[at] for at in across])
        if panel in MATRICES:
            update_changed(y, range=[length - 0.5, -0.5], tickvals=down, ticktext=bold)
        elif panel == HEADS:
            update_changed(y, range=[heads + 0.5, 0.5], tickvals=[at + 1 for at in _spread(heads, 8)])


def _draw_scale(figure: go.Figure, content: NDArray[np.float64]) -> None:
    """The colors of content, bias and logits. They depend on all heads, so selecting a head keeps them."""
    limit = max(4, math.ceil(1.5 * float(np.abs(content).max())))
    ticks = [-limit, -limit / 2, 0, limit / 2, limit]
    labels = [f"≤ {-limit:g}", *(f"{tick:g}" for tick in ticks[1:-1]), f"≥ {limit:g}"]
    labels = [text.replace("-", _MINUS) for text in labels]
    update_changed(figure.layout.coloraxis, cmin=-limit, cmax=limit)
    update_changed(figure.layout.coloraxis.colorbar, tickvals=ticks, ticktext=labels)


def _draw_matrices(
    figure: go.Figure, pairs: NDArray[np.object_], steps: NDArray[np.float64], head: int, query: int
) -> None:
    """The four steps of one head, [4, query, key], with a frame around the selected query."""
    numbers = _numbers(steps)
    for panel in MATRICES:
        figure.data[panel].update(z=_with_gaps(steps, panel), text=pairs, customdata=numbers)
        figure.data[panel].hovertemplate = f"head {head + 1}<br>{layout.PAIR}"
        figure.layout.shapes[layout.FRAMES + panel].update(y0=query - 0.5, y1=query + 0.5)


def _draw_heads(figure: go.Figure, pairs: NDArray[np.object_], steps: NDArray[np.float64], head: int) -> None:
    """The weights of one query in every head, from [4, heads, key], with a frame around the selected head."""
    text = np.tile(pairs, (steps.shape[1], 1))
    figure.data[HEADS].update(z=_with_gaps(steps, WEIGHTS), y0=1, text=text, customdata=_numbers(steps))
    figure.data[HEADS].hovertemplate = f"head %{{y}}<br>{layout.PAIR}"
    figure.layout.shapes[layout.FRAMES + HEADS].update(y0=head + 0.5, y1=head + 1.5)


def _draw_query(
    figure: go.Figure, pairs: NDArray[np.object_], steps: NDArray[np.float64], others: NDArray[np.float64]
) -> None:
    """One query's weights, from [4, key], as bars; `others`, [key], as diamonds; gray behind its masked keys."""
    keys, masked = np.arange(len(pairs)), _masked(steps)
    figure.data[BARS].update(x=keys, y=_with_gaps(steps, WEIGHTS), hovertext=pairs, customdata=_numbers(steps))
    figure.data[OTHER].update(x=keys, y=np.where(masked, np.nan, others), hovertext=pairs)
    hidden = keys[masked].tolist()
    figure.layout.shapes[BARS].update(x0=hidden[0] - 0.5 if hidden else 0, x1=hidden[-1] + 0.5 if hidden else 0)


def _titles(query: str, names: tuple[str, str], bias_name: str, heads: int, masked: bool) -> list[str]:
    """The title of each panel."""
    signs = zip((*theme.COLORS[:2], theme.MASKED), "■◇■", strict=True)
    bars, diamonds, gray = (f'<span style="color:{color}">{sign}</span>' for color, sign in signs)
    content = f"content, q · k / √d{f'<br>{gray} masked' if masked else ''}"
    every = "in every head" if heads > 1 else "in the only head"
    selected = f"{literal(query)}<br>{bars} {names[0]}  {diamonds} {names[1]}"
    return [content, f"+  {bias_name}", "=  logits", "→  softmax: weights", every, selected]


def _masked(steps: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.isneginf(steps[LOGITS])


def _with_gaps(steps: NDArray[np.float64], step: int) -> NDArray[np.object_]:
    """One of the steps, with None where a cell is masked."""
    values = steps[step].astype(object)
    values[_masked(steps)] = None
    return values


def _numbers(steps: NDArray[np.float64]) -> NDArray[np.object_]:
    """For the hover texts: content, bias, logit and weight in percent, [..., 4]."""
    table = np.stack([*steps[:WEIGHTS], 100 * steps[WEIGHTS]], axis=-1).round(4).astype(object)
    table[_masked(steps), BIAS] = "masked"
    table[_masked(steps), LOGITS] = f"{_MINUS}∞"
    return table


def _pairs(tokens: Sequence[str]) -> NDArray[np.object_]:
    """For the hover texts: every query with every key, [query, key]."""
    names = [(at, f"{at} {full(token)}") for at, token in enumerate(tokens)]
    pairs = [[f"query {query}<br>key {key}<br>distance {abs(i - j)}" for j, key in names] for i, query in names]
    return np.array(pairs, dtype=object)


def _spread(length: int, limit: int, keep: int | None = None) -> list[int]:
    """Every n-th position, about `limit` of them. `keep` is always one of them and replaces its neighbors.

    >>> _spread(10, 5), _spread(10, 5, keep=3)
    ([0, 2, 4, 6, 8], [0, 3, 6, 8])
    """
    step = math.ceil(length / limit)
    ticks = [at for at in range(0, length, step) if keep is None or abs(at - keep) >= step]
    return sorted(ticks if keep is None else [*ticks, keep])
