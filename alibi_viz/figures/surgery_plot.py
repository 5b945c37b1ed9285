"""A trained model before and after a change.

On the left, how far back each head looks; on the right, the loss at each length. On a narrow page,
the losses are below. Both plots show the same two series, before and after the change.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.arguments import as_list, check_instance, check_positive_integers
from alibi_viz.figures import panels, theme
from alibi_viz.figures.theme import Picture, as_array
from alibi_viz.figures.yardstick_lines import LABEL_WIDTH, yardstick_lines

BEFORE = "as trained"
AFTER = "changed"
_STYLES = {
    BEFORE: {"color": theme.GRAY, "dash": "dot", "symbol": "circle-open"},
    AFTER: {"color": theme.BLUE, "dash": "solid", "symbol": "circle"},
}
_TITLES = ("How far back each head looks", "Loss on longer sequences")
_MARGIN = {"l": 60, "r": 20, "t": 44, "b": 62}
_HEIGHT = 256  # pixels: the texts below it belong to the same screen
_STACKED_HEIGHT = 440  # with one plot below the other
# Shares of the width
_LEFT = (0.0, 0.396)
_RIGHT = (0.516, 1.0)
# The axis of losses starts at 0 and always includes these bits per byte, and with them the lines of
# models that only count.
_USUAL_LOSSES = 5.0
_MAX_LABELS = 16  # with more heads than this, only the layers are labeled
_LOSS = "sequences of %{x:,}: %{y:.2f} bits<extra>%{fullData.name}</extra>"

Losses = Mapping[int, float]  # {length: bits per byte}


def surgery_figure(
    length: int,
    losses: Sequence[Losses],
    distances: Sequence[ArrayLike],
    *,
    unit: str = "bytes",
    yardsticks: Mapping[str, float] | None = None,
) -> go.Figure:
    """The losses and the attention of a trained model, before and after a change.

    Args:
        length: the training length.
        losses: {length: bits per byte} before the change and, if there is one, after it; NaN where
            the model isn't defined.
        distances: the mean distance of the keys that each head attends to, [layers, heads],
            of as many models. `attention_stats` measures it.
        unit: what lengths and distances are counted in. Losses are in bits per letter for
            "letters", and otherwise in bits per byte.
        yardsticks: {name: bits per byte} to compare with, such as `Text.yardsticks`.

    >>> from alibi_viz import figures
    >>> losses = [{32: 2.5, 64: 2.6}, {32: 2.5, 64: 2.7}]
    >>> figure = figures.surgery_figure(32, losses, [[[3.0, 9.0]], [[3.0, 5.0]]])
    >>> [trace.name for trace in figure.data]
    ['as trained', 'as trained', 'changed', 'changed']
    """
    check_positive_integers(length=length)
    check_instance("unit", unit, str)
    losses = as_list("losses", losses, "mappings", Mapping)
    distances = as_list("distances", distances, "arrays")
    yardsticks = {} if yardsticks is None else yardsticks
    check_instance("yardsticks", yardsticks, Mapping)
    if len(losses) not in (1, 2) or len(distances) != len(losses) or not losses[0]:
        raise ValueError("losses and distances must be those of one or two models, and not empty")
    shapes = [as_array(of_model, name="distances").shape for of_model in distances]
    if len(shapes[0]) != 2 or shapes[0] != shapes[-1]:
        raise ValueError(f"distances must be [layers, heads] for each model, got {shapes}")
    picture = surgery_picture(length, losses, distances, unit=unit, yardsticks=yardsticks)
    return theme.figure(picture)


def surgery_picture(
    length: int,
    losses: Sequence[Losses],
    distances: Sequence[ArrayLike],
    *,
    unit: str,
    yardsticks: Mapping[str, float],
    page_width: int = 880,
) -> Picture:
    """The picture of `surgery_figure`, for a page that is so many pixels wide."""
    spans = [as_array(of_model) for of_model in distances]
    heads = [(layer + 1, head + 1) for layer, head in np.ndindex(spans[0].shape)]
    curves = []  # where the models are defined
    for of_model in losses:
        curves.append({tested: bits for tested, bits in of_model.items() if np.isfinite(bits)})

    lengths = sorted(losses[0])
    # The axis of the lengths is logarithmic, and plotly wants the logarithms of its ends.
    right_end = lengths[-1] * 1.12
    length_range = np.log10([lengths[0] / 1.12, right_end]).tolist()
    # A whole bit, so that the axis seldom changes
    highest = max(max(curve.values(), default=0.0) for curve in curves)
    loss_range = [0.0, max(_USUAL_LOSSES, float(np.ceil(highest + 0.1)))]

    height = _HEIGHT
    domains = panels.beside(_LEFT, _RIGHT)
    if page_width < panels.NARROW:
        height = _STACKED_HEIGHT
        domains = panels.stacked(height=height, margin=_MARGIN)

    traces = []
    for name, curve, span in zip(_STYLES, curves, spans, strict=False):
        traces += [_loss_trace(name, curve), _distance_trace(name, heads, span, unit)]

    return theme.picture(
        traces,
        height=height,
        hovermode="closest",
        margin=_MARGIN,
        showlegend=True,
        legend={"yref": "container", "y": 1, "yanchor": "top", "x": 0},
        xaxis={
            "domain": domains["xaxis"],
            "range": [0.4, len(heads) + 0.6],
            "tickvals": list(range(1, len(heads) + 1)),
            "ticktext": _head_labels(heads),
            "tickangle": 0,
            "title": {"text": "head, layer by layer"},
            "showgrid": False,
        },
        yaxis={
            "domain": domains["yaxis"],
            "type": "log",
            "dtick": float(np.log10(4)),  # labels of all powers of two may touch
            "tickformat": ".3~g",
            "title": {"text": f"{unit} back, mean"},
        },
        xaxis2={
            "anchor": "y2",
            "domain": domains["xaxis2"],
            "type": "log",
            "range": length_range,
            "tickvals": lengths,
            "ticktext": [_length_label(tested, length) for tested in lengths],
            "title": {"text": f"length of the test sequences, {unit}", "standoff": 14},
        },
        yaxis2={
            "anchor": "x2",
            "domain": domains["yaxis2"],
            "range": loss_range,
            # A letter of the lessons is a byte. Tokens of other models have several.
            "title": {"text": "bits per letter" if unit == "letters" else "bits per byte"},
        },
        annotations=panels.titles(_TITLES),
        shapes=[
            *_marks(length, right_end),
            *yardstick_lines(
                yardsticks,
                loss_range,
                curves=[
                    (np.log10(list(curve)), np.array(list(curve.values()))) for curve in curves
                ],
                x_range=length_range,
                label_width=2 * LABEL_WIDTH,  # the plot has about half of the page
                x="x2",
                y="y2",
            ),
        ],
    )


def _trace(name: str) -> dict[str, Any]:
    """A trace in the style of a series, without its points."""
    style = _STYLES[name]
    return {
        "type": "scatter",
        "name": name,
        "line": {"color": style["color"], "dash": style["dash"], "width": 2},
        "marker": {"color": style["color"], "symbol": style["symbol"], "size": 8},
        "cliponaxis": False,
    }


def _loss_trace(name: str, losses: Losses) -> dict[str, Any]:
    """The losses of a model."""
    return _trace(name) | {
        "mode": "lines+markers",
        "x": list(losses),
        "y": list(losses.values()),
        "hovertemplate": _LOSS,
        "xaxis": "x2",
        "yaxis": "y2",
    }


def _distance_trace(
    name: str, heads: Sequence[tuple[int, int]], distances: NDArray[np.float64], unit: str
) -> dict[str, Any]:
    """The mean distance of each head, (layer, head)."""
    # The hover text has the exact distance; a logarithmic axis has no 0.
    texts = [[*head, distance] for head, distance in zip(heads, distances.flat, strict=True)]
    return _trace(name) | {
        "mode": "markers",
        "x": np.arange(1, len(heads) + 1),
        "y": distances.ravel().clip(0.1),
        "customdata": texts,
        "hovertemplate": (
            "layer %{customdata[0]}, head %{customdata[1]}: "
            f"%{{customdata[2]:.1f}} {unit} back<extra>%{{fullData.name}}</extra>"
        ),
        "showlegend": False,  # it lists the lines
    }


def _marks(length: int, right_end: float) -> list[dict[str, Any]]:
    """Shapes: the training length in both plots, and what is longer."""
    whole_height = {"xref": "x2", "yref": "y2 domain", "y0": 0, "y1": 1, "layer": "below"}
    as_far_back = {
        "type": "line",
        "name": "training length",
        "xref": "x domain",
        "x0": 0,
        "x1": 1,
        "yref": "y",
        "y0": length,
        "y1": length,
        "line": theme.DOTTED,
    }
    as_long = {
        **whole_height,
        "type": "line",
        "name": "training length",
        "x0": length,
        "x1": length,
        "line": theme.DOTTED,
    }
    longer = {
        **whole_height,
        "type": "rect",
        "name": "longer than training",
        "x0": length,
        "x1": right_end,
        "fillcolor": theme.SHADE,
        "line": {"width": 0},
    }
    return [as_far_back, as_long, longer]


def _head_labels(heads: Sequence[tuple[int, int]]) -> list[str]:
    """A label per head: its number, and below the first head of a layer that of the layer.

    >>> _head_labels([(1, 1), (1, 2), (2, 1), (2, 2)])
    ['1<br>layer 1', '2', '1<br>layer 2', '2']
    """
    crowded = len(heads) > _MAX_LABELS
    labels = []
    for layer, head in heads:
        number = "" if crowded else str(head)
        layer_name = str(layer) if crowded else f"layer {layer}"
        if head == 1:
            labels.append(f"{number}<br>{layer_name}")
        else:
            labels.append(number)
    return labels


def _length_label(length: int, training_length: int) -> str:
    """A length, and below it the same as a multiple of the training length L.

    >>> _length_label(2048, 1024), _length_label(1024, 1024)
    ('2,048<br>2 L', '1,024<br>L')
    """
    if length == training_length:
        return f"{length:,}<br>L"
    return f"{length:,}<br>{length / training_length:g} L"
