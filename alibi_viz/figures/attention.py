"""Content + bias = logits -> weights for one head, one query's weights, the same query in every head, and all heads.

The panels are laid out in attention_layout.py. attention_row.py draws those in the right column, which show all keys of
one query, and attention_tiles.py draws the small matrices of all heads. Content, bias and logits share one color scale,
so that they can be compared.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from torch import Tensor

from alibi_viz.attention import AttentionTrace
from alibi_viz.figures import attention_layout as layout
from alibi_viz.figures import theme
from alibi_viz.figures.arrays import as_array, update_changed
from alibi_viz.figures.attention_layout import BARS, CONTENT, HEADS, LOGITS, MATRICES, blank, name
from alibi_viz.figures.attention_row import Bins, draw_row, numbers, with_gaps
from alibi_viz.figures.attention_tiles import draw_tiles
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
    start: int = 0,
    names: tuple[str, str] = ("bias on", "bias off"),
    bias_name: str = "bias",
    page_width: int = 880,
) -> None:
    """Draw one text into a figure from `blank`, plain or live.

    Args:
        figure: the figure.
        tokens: [length], plain text; markup is shown as it is.
        trace: of one text, [1, heads, queries, length]; a cell whose logit is -inf is masked.
        other: the same text with another bias, at least the selected query; its weights are the diamonds.
        head, query: the selected head, and the position of the selected query; negative from the end.
        start: the position of the first query of the trace. The matrices show the keys at the positions of the queries.
            The right column shows all keys, and sums over neighboring ones if there are too many. The tiles show the
            same queries and keys as the matrices.
        names: the names of `trace` and `other` in the legend.
        bias_name: the title of the bias panel.
        page_width: pixels available for the figure; they decide its height and the number of labels.
    """
    _, heads, queries, length = trace.weights.shape
    head, query, shown = head % heads, query % length, range(start, start + queries)
    arrays = (trace.content, trace.bias, trace.logits, trace.weights)
    compared = other.weights[0, :, query - start if other.weights.shape[2] == queries else 0]
    row = _stack([*(array[0, :, query - start] for array in arrays), compared])  # [5, heads, key]
    square = _stack(array[0, :, :, start : start + queries] for array in arrays)  # [4, heads, query, key]
    masked = np.isneginf(square[LOGITS])
    bins = Bins(length)
    with figure.batch_update():
        _draw_axes(figure, tokens, shown, bins, heads=heads, query=query, page_width=page_width)
        _draw_scale(figure, square[CONTENT][~masked])
        _draw_matrices(figure, _pairs(tokens, shown), square[:, head], head=head, query=query, start=start)
        draw_row(figure, tokens, bins, row, query=query, head=head, other_name=names[1])
        draw_tiles(figure, tokens, square, head=head, query=query, start=start, page_width=page_width)
        word = f"query {query:,} {quoted(tokens[query], 16)}"
        every, narrow = "every head" if heads > 1 else "the only head", layout.is_narrow(page_width)
        every = f"in {every}" if bins.size == 1 or narrow else f"{every}, {bins.size} keys per cell"
        titles = _titles(word, names, bias_name, every, masked=bool(masked.any()), narrow=narrow)
        for annotation, title in zip(figure.layout.annotations, titles, strict=True):
            update_changed(annotation, text=title)


def _stack(arrays: Iterable[Tensor]) -> NDArray[np.float64]:
    """Arrays of one shape, rounded: more digits are never visible."""
    return np.round(np.stack([as_array(array) for array in arrays]), 5)


def _draw_axes(
    figure: go.Figure, tokens: Sequence[str], shown: range, bins: Bins, *, heads: int, query: int, page_width: int
) -> None:
    """Tokens on the axes, the selected query in bold; only every n-th token if there is no room for all.

    Below bins of several keys are positions instead of tokens.
    """
    layout.place(figure, page_width, heads)
    room_across, room_down = layout.max_labels(page_width)
    across, down = _spread(shown, room_across), _spread(shown, room_down, query)
    ends = [shown.start - 0.5, shown.stop - 0.5]
    bold = [f"<b>{label(tokens[at])}</b>" if at == query else label(tokens[at]) for at in down]
    for panel in MATRICES:
        x, y = figure.layout[name("xaxis", panel)], figure.layout[name("yaxis", panel)]
        update_changed(x, range=ends, tickvals=across, ticktext=[label(tokens[at]) for at in across])
        update_changed(y, range=ends[::-1], tickvals=down, ticktext=bold)
    every = _spread(range(len(tokens)), room_across) if bins.size == 1 else None
    words = None if every is None else [label(tokens[at]) for at in every]
    for panel in (BARS, HEADS):
        x = figure.layout[name("xaxis", panel)]
        update_changed(x, range=[-0.5, len(tokens) - 0.5], tickvals=every, ticktext=words)
        update_changed(x, tickmode="auto" if every is None else "array")
    rows = [at + 1 for at in _spread(range(heads), 8)]
    update_changed(figure.layout[name("yaxis", HEADS)], range=[heads + 0.5, 0.5], tickvals=rows)


def _draw_scale(figure: go.Figure, content: NDArray[np.float64]) -> None:
    """The colors of content, bias and logits. They depend on all heads, so selecting a head keeps them."""
    limit = max(4, math.ceil(1.5 * float(np.abs(content).max())))
    ticks = [-limit, -limit / 2, 0, limit / 2, limit]
    labels = [f"≤ {-limit:g}", *(f"{tick:g}" for tick in ticks[1:-1]), f"≥ {limit:g}"]
    labels = [text.replace("-", _MINUS) for text in labels]
    update_changed(figure.layout.coloraxis, cmin=-limit, cmax=limit)
    update_changed(figure.layout.coloraxis.colorbar, tickvals=ticks, ticktext=labels)


def _draw_matrices(
    figure: go.Figure, pairs: NDArray[np.object_], steps: NDArray[np.float64], *, head: int, query: int, start: int
) -> None:
    """The four steps of one head, [4, query, key], with a frame around the selected query."""
    masked, custom = np.isneginf(steps[LOGITS]), numbers(steps)
    for panel in MATRICES:
        z = with_gaps(steps[panel], masked)
        figure.data[panel].update(z=z, x0=start, y0=start, text=pairs, customdata=custom)
        figure.data[panel].hovertemplate = f"head {head + 1}<br>{layout.PAIR}"
        figure.layout.shapes[layout.FRAMES + panel].update(y0=query - 0.5, y1=query + 0.5)


def _titles(query: str, names: tuple[str, str], bias_name: str, every: str, *, masked: bool, narrow: bool) -> list[str]:
    """The title of each panel, shortened on a narrow page."""
    signs = zip((*theme.COLORS[:2], theme.MASKED), "■◇■", strict=True)
    bars, diamonds, gray = (f'<span style="color:{color}">{sign}</span>' for color, sign in signs)
    content = "content" if narrow else "content, q · k / √d"
    content += f"<br>{gray} masked" * masked
    weights = "→  weights" if narrow else "→  softmax: weights"
    selected = f"{literal(query)}<br>{bars} {names[0]}  {diamonds} {names[1]}"
    frame = f'<span style="color:{layout.FRAME_COLOR}">▭</span>'
    tiles = f"weights of every head, {frame} {literal(query)}" + "; click a head to select it" * (not narrow)
    return [content, f"+  {bias_name}", "=  logits", weights, every, selected, tiles]


def _pairs(tokens: Sequence[str], shown: range) -> NDArray[np.object_]:
    """For the hover texts: every query with every key at the positions shown, [query, key]."""
    names = [(at, f"{at} {full(tokens[at])}") for at in shown]
    pairs = [[f"query {query}<br>key {key}<br>distance {abs(i - j)}" for j, key in names] for i, query in names]
    return np.array(pairs, dtype=object)


def _spread(positions: range, limit: int, keep: int | None = None) -> list[int]:
    """Every n-th position, about `limit` of them. `keep` is always one of them and replaces its neighbors.

    >>> _spread(range(10), 5), _spread(range(10), 5, keep=3)
    ([0, 2, 4, 6, 8], [0, 3, 6, 8])
    """
    step = math.ceil(len(positions) / limit)
    ticks = [at for at in positions[::step] if keep is None or abs(at - keep) >= step]
    return sorted(ticks if keep is None else [*ticks, keep])
