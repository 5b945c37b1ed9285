"""One query of the attention figure, with all its keys: in one head as bars, and in every head as rows of cells.

A long text has more keys than there are pixels, so a bar or a cell is then the sum of the weights of several keys.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.figures import attention_layout as layout
from alibi_viz.figures.arrays import update_changed
from alibi_viz.figures.attention_layout import BARS, BIAS, HEADS, LOGITS, OTHER, WEIGHTS, name
from alibi_viz.figures.tokens import full

__all__ = ["Bins", "draw_row", "numbers", "with_gaps"]

_MAX_BARS = 64  # in a panel that is about 200 pixels wide
_MINUS = "\N{MINUS SIGN}"
_SUM = "%{text}<br>weight %{customdata[0]}%<extra></extra>"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bins:
    """Neighboring keys that share a bar: a single key each, unless the text is long.

    >>> Bins(48).size, Bins(4096).size
    (1, 64)
    """

    length: int

    @property
    def size(self) -> int:
        """The number of keys in a bin; the last may have fewer."""
        return math.ceil(self.length / _MAX_BARS)

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first key of each bin."""
        return np.arange(0, self.length, self.size)

    @property
    def centers(self) -> Floats:
        """The position of each bin on an axis of keys."""
        return self.starts.astype(np.float64) + (self.size - 1) / 2

    def sums(self, weights: Floats) -> Floats:
        """The total weight of each bin, [..., bin], from [..., key]."""
        sums: Floats = np.add.reduceat(weights, self.starts, axis=-1)
        return sums.round(5)

    def masked(self, masked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether all keys of a bin are masked, [..., bin], from [..., key]."""
        return np.logical_and.reduceat(masked, self.starts, axis=-1)


def draw_row(
    figure: go.Figure,
    tokens: Sequence[str],
    bins: Bins,
    steps: Floats,
    *,
    query: int,
    head: int,
    other_name: str,
) -> None:
    """Draw the right column of the figure.

    Args:
        figure: the figure.
        tokens: [key].
        bins: of the keys.
        steps: content, bias, logits and weights of the query, and its weights with another bias: [5, heads, key].
        query: the position of the query.
        head: the selected head.
        other_name: of the other bias.
    """
    weights, others = bins.sums(steps[WEIGHTS]), bins.sums(steps[WEIGHTS + 1])  # [heads, bin]
    hidden = bins.masked(np.isneginf(steps[LOGITS]))
    custom = numbers(steps[: WEIGHTS + 1]) if bins.size == 1 else (100 * weights[..., None]).round(4)
    text, template = _texts(tokens, query, bins), layout.PAIR if bins.size == 1 else _SUM
    z = with_gaps(weights, hidden)
    figure.data[HEADS].update(z=z, x=bins.centers, y0=1, text=np.tile(text, (len(z), 1)), customdata=custom)
    figure.data[HEADS].hovertemplate = f"head %{{y}}<br>{template}"
    figure.layout.shapes[layout.FRAMES + HEADS].update(y0=head + 0.5, y1=head + 1.5)
    bars = {"hovertext": text, "hovertemplate": template.replace("text", "hovertext"), "customdata": custom[head]}
    figure.data[BARS].update(x=bins.centers, y=z[head], **bars)
    visible = np.where(hidden[head] & (others[head] == 0), np.nan, others[head])  # the other bias may mask fewer keys
    figure.data[OTHER].update(x=bins.centers, y=visible, hovertext=text)
    update_changed(figure.data[OTHER].marker, size=8 if bins.size == 1 else 5)
    hover = f"%{{hovertext}}<br>weight {other_name} %{{y:.2%}}<extra></extra>"
    update_changed(figure.data[OTHER], hovertemplate=hover)
    highest = max(weights.max(), others.max())  # of all heads, for a steady axis
    update_changed(figure.layout[name("yaxis", BARS)], range=[0, 1.08 * highest])
    update_changed(figure.layout.shapes[BARS], path=_rectangles(bins, hidden[head]))


def with_gaps(values: Floats, masked: NDArray[np.bool_]) -> NDArray[np.object_]:
    """The values, with None where a cell is masked."""
    cells = values.astype(object)
    cells[masked] = None
    return cells


def numbers(steps: Floats) -> NDArray[np.object_]:
    """For the hover texts: content, bias, logit and weight in percent, [..., 4]."""
    masked = np.isneginf(steps[LOGITS])
    table = np.stack([*steps[:WEIGHTS], 100 * steps[WEIGHTS]], axis=-1).round(3).astype(object)
    table[masked, BIAS] = f"{_MINUS}∞ (masked)"
    table[masked, LOGITS] = f"{_MINUS}∞"
    return table


def _texts(tokens: Sequence[str], query: int, bins: Bins) -> NDArray[np.object_]:
    """For the hover texts: the query, and the key or the keys of each bin."""
    texts = []
    for start in bins.starts.tolist():
        last = min(start + bins.size, bins.length) - 1
        key = f"key {start} {full(tokens[start])}" if start == last else f"keys {start} to {last}"
        ends = [abs(query - start), abs(query - last)]
        distance = f"{ends[0]}" if start == last else f"{0 if start <= query <= last else min(ends)} to {max(ends)}"
        texts.append(f"query {query} {full(tokens[query])}<br>{key}<br>distance {distance}")
    return np.array(texts, dtype=object)


def _rectangles(bins: Bins, masked: NDArray[np.bool_]) -> str:
    """A path around each run of masked bins."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], masked, [False])).astype(int))).reshape(-1, 2)
    runs = np.minimum(edges * bins.size, bins.length) - 0.5  # [run, 2]
    return "".join(f"M{left},0H{right}V1H{left}Z" for left, right in runs.tolist()) or "M0,0Z"
