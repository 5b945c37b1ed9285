"""What a position method makes of the distance: a curve, waves as a barcode, or hands of clocks.

Distances beyond those of training are gray: they are longer. Red is only for what training never
showed, such as the angle of a hand or of a wave.
"""

from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from alibi_viz.arguments import check_integer
from alibi_viz.figures import theme
from alibi_viz.figures.theme import Picture, as_array
from alibi_viz.formatting import format_fixed

TRAINED = 64  # tokens in training
TOKENS = 256  # tokens in the picture
ONCE_ROUND = 2 * np.pi
RED = "#D53C28"
_NEW_BAND = "rgba(213, 60, 40, 0.75)"
_SEEN_BAND = "rgba(0, 114, 178, 0.35)"
# Of waves, from -1 to 1, as numbers from 0 to 255: gray up to 100, and from 155 on red, where
# training never showed the wave
_FIRST_RED = 155
_WAVE_COLORS = [
    [0, "#F1F1F1"],
    [100 / 255, "#3D3D3D"],
    [_FIRST_RED / 255, "#FADCD7"],
    [1, "#8E1606"],
]

_HEIGHT = 372
_MARGIN = {"l": 60, "r": 16, "t": 30, "b": 46}
# Shares of the height: the clocks are above a low curve.
_LOW_CURVE = 0.23
_CLOCKS = [0.32, 1]
# Parts of a clock, whose neighbor is 1 away
_RADIUS = 0.47
_BAND = (0.34, 0.45)  # its inner and outer radius
_HAND = 0.43
_EDGE = 7  # positions beyond the last one, with room for the marks at the edge of the barcode

Floats = NDArray[np.floating]


def logit_figure(logits: ArrayLike, distance: int) -> go.Figure:
    """The logit of a position method at each distance, within and beyond 64 tokens of training.

    Args:
        logits: [256], at the distances from 0 to 255.
        distance: the marked one.

    >>> import numpy as np
    >>> from alibi_viz import figures
    >>> figure = figures.logit_figure(-np.arange(256) / 16, distance=200)
    >>> figure.data[1].y
    (-12.5,)
    """
    values = as_array(logits, name="logits")
    if values.shape != (TOKENS,) or not np.isfinite(values).all():
        raise ValueError(f"logits must be [{TOKENS}] and finite, got {values.tolist()}")
    check_integer("distance", distance, 0, TOKENS - 1)
    return theme.figure(logit_picture(values, distance))


def waves_figure(speeds: ArrayLike, position: int) -> go.Figure:
    """Sinusoidal waves at each position, as a barcode, and which of them are new at one position.

    Args:
        speeds: [waves], in radians per token.
        position: the marked one, from 0 to 255.

    >>> from alibi_viz import figures
    >>> figure = figures.waves_figure([1.0, 0.01], position=200)
    >>> # Only the slow wave has not gone round in training
    >>> figure.data[1].y
    array([2])
    """
    values = _checked_speeds(speeds)
    check_integer("position", position, 0, TOKENS - 1)
    return theme.figure(waves_picture(values, position))


def clocks_figure(speeds: ArrayLike, distance: int) -> go.Figure:
    """Rotary positions as the hands of clocks, above the logit at each distance.

    Args:
        speeds: [hands], in radians per token.
        distance: which the hands show, from 0 to 255 tokens.

    >>> from alibi_viz import figures
    >>> figure = figures.clocks_figure([1.0, 0.01], distance=200)
    >>> [label.text for label in figure.select_annotations({"name": "period"})]
    ['turns in 6', 'turns in 628<br><span style="color:#D53C28">new angle</span>']
    """
    values = _checked_speeds(speeds)
    check_integer("distance", distance, 0, TOKENS - 1)
    return theme.figure(clocks_picture(values, distance))


def logit_picture(logits: Floats, distance: int) -> Picture:
    """The logit at each distance, as a curve."""
    return theme.picture(
        _curve(logits, distance),
        height=_HEIGHT,
        margin=_MARGIN,
        showlegend=False,
        hovermode="x",
        xaxis=_token_axis("distance, letters back"),
        yaxis=_logit_axis("logit at equal content", logits),
        shapes=[_longer(top=1)],
        annotations=_regions(top=1),
    )


def waves_picture(speeds: Floats, position: int) -> Picture:
    """The waves as a barcode, with marks at its edge for those that are new at the position."""
    new_rows = np.flatnonzero(is_new(speeds, position)) + 1
    now = {
        "type": "scatter",
        "name": "waves now",
        "mode": "markers",
        "x": [TOKENS + 0.4 * _EDGE] * len(new_rows),
        "y": new_rows,
        "marker": {"size": 8, "symbol": "triangle-left", "color": RED},
        "cliponaxis": False,
        "hoverinfo": "skip",
    }
    line = {
        "name": "position",
        "type": "line",
        "x0": position,
        "x1": position,
        "y0": 0,
        "y1": 1,
        "yref": "y domain",
        "line": {"color": theme.BLUE, "width": 3},
    }
    count = {
        "name": "new waves",
        "text": f"{_red(f'{len(new_rows)} new')} at {position}",
        "x": 1,
        "xref": "paper",
        "xanchor": "right",
        "xshift": _MARGIN["r"],
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "showarrow": False,
    }
    rows = len(speeds)
    labeled = [*range(1, rows + 1, 8), rows]
    return theme.picture(
        [_barcode(speeds), now],
        height=_HEIGHT,
        margin=_MARGIN,
        showlegend=False,
        hovermode="x",
        xaxis=_token_axis("position, letters"),
        yaxis={
            "title": {"text": "period of the wave, letters"},
            "range": [rows + 0.5, 0.5],
            "tickvals": labeled,
            "ticktext": [f"{ONCE_ROUND / speeds[row - 1]:,.0f}" for row in labeled],
            "ticks": "",
            "showgrid": False,
            "fixedrange": True,
        },
        shapes=[line],
        annotations=[*_regions(top=1), count],
    )


def clocks_picture(speeds: Floats, distance: int) -> Picture:
    """The clocks above the curve: which way each hand points, and the angles that it went through.

    The curve is the product of a query and a key of ones, whose pairs of channels the hands turn.
    """
    distances = np.arange(TOKENS)[:, None]
    logits = 2 * (np.cos(distances * speeds) - 1).sum(-1)

    hands = len(speeds)
    bare = {"showgrid": False, "showticklabels": False, "ticks": "", "fixedrange": True}
    return theme.picture(
        [*_curve(logits, distance), *_clocks(speeds, distance)],
        height=_HEIGHT,
        margin=_MARGIN,
        showlegend=False,
        hovermode="x",
        xaxis=_token_axis("distance, letters back"),
        yaxis={**_logit_axis("logit", logits), "domain": [0, _LOW_CURVE]},
        xaxis2={"anchor": "y2", "range": [-0.5, hands - 0.5], "constrain": "domain", **bare},
        # With `constrain`, a clock stays round because its axes get shorter. By default their
        # ranges would widen.
        yaxis2={
            "anchor": "x2",
            "range": [-0.72, 0.48],
            "scaleanchor": "x2",
            "constrain": "domain",
            "domain": _CLOCKS,
            **bare,
        },
        shapes=[_longer(top=_LOW_CURVE)],
        annotations=[*_regions(top=_LOW_CURVE), *_periods(speeds, distance)],
    )


def is_new(speeds: Floats, distance: Any) -> NDArray[np.bool_]:
    """Which hands or waves are, at this distance, where no distance of training has turned them.

    `speeds` are in radians per token.
    """
    new: NDArray[np.bool_] = (speeds * distance) % ONCE_ROUND > speeds * (TRAINED - 1) + 1e-9
    return new


def _checked_speeds(speeds: ArrayLike) -> NDArray[np.float64]:
    values: NDArray[np.float64] = as_array(speeds, name="speeds")
    is_speed = (values > 0) & (values <= np.pi)
    if values.ndim != 1 or not values.size or not is_speed.all():
        raise ValueError(f"speeds must be above 0 and at most pi [hands], got {values.tolist()}")
    return values


def _token_axis(title: str) -> dict[str, Any]:
    return {
        "title": {"text": title},
        "range": [-1, TOKENS + _EDGE],
        "showgrid": False,
        "fixedrange": True,
    }


def _logit_axis(title: str, logits: Floats) -> dict[str, Any]:
    """An axis that is the same for all usual methods, so that one can compare them."""
    return {
        "title": {"text": title},
        "range": [min(-17, float(logits.min()) - 1), max(1.5, float(logits.max()) + 1)],
        "fixedrange": True,
    }


def _longer(top: float) -> dict[str, Any]:
    """A shade behind what is longer than in training, up to this share of the height."""
    return {
        "name": "longer",
        "type": "rect",
        "layer": "below",
        "x0": TRAINED - 0.5,
        "x1": TOKENS,
        "y0": 0,
        "y1": top,
        "yref": "paper",
        "line": {"width": 0},
        "fillcolor": theme.SHADE,
    }


def _regions(top: float) -> list[dict[str, Any]]:
    """What stands above the distances of training, and above longer ones."""
    labels = []
    for text, middle in (
        ("seen in training", TRAINED / 2),
        ("longer than in training", (TRAINED + TOKENS) / 2),
    ):
        labels.append(
            {
                "name": "region",
                "text": text,
                "x": middle,
                "y": top,
                "yref": "paper",
                "yanchor": "bottom",
                "showarrow": False,
            }
        )
    return labels


def _curve(logits: Floats, distance: int) -> list[dict[str, Any]]:
    """The logit at each distance, and a point at one of them."""
    curve = {
        "type": "scatter",
        "name": "curve",
        "mode": "lines",
        "y": np.asarray(logits, dtype=np.float32),
        "line": {"color": theme.BLUE, "width": 3},
        "customdata": [format_fixed(logit, 2) for logit in logits],
        "hovertemplate": "%{x} back: %{customdata}<extra></extra>",
    }
    point = {
        "type": "scatter",
        "name": "distance",
        "x": [distance],
        "y": [float(logits[distance])],
        "marker": {"size": 13, "color": theme.ORANGE},
        "hoverinfo": "skip",
    }
    return [curve, point]


def _barcode(speeds: Floats) -> dict[str, Any]:
    """A row per wave: gray, and red where training never showed the wave."""
    positions = np.arange(TOKENS)
    waves = np.sin(speeds[:, None] * positions)
    shades = 50 + 50 * waves
    shades[is_new(speeds[:, None], positions)] += _FIRST_RED
    return {
        "type": "heatmap",
        "name": "waves",
        "y": list(range(1, len(speeds) + 1)),
        "z": np.rint(shades).astype(np.uint8),
        "zmin": 0,
        "zmax": 255,
        "colorscale": _WAVE_COLORS,
        "showscale": False,
        "ygap": 1,
        "hovertemplate": "position %{x}<extra></extra>",
    }


def _clocks(speeds: Floats, distance: int) -> list[dict[str, Any]]:
    """The bands of the angles that the hands went through, outlines, and hands."""
    turns = speeds * distance
    seen_turns = np.minimum(speeds * (TRAINED - 1), ONCE_ROUND)
    new_turns = np.clip(turns, seen_turns, ONCE_ROUND)
    new = is_new(speeds, distance)
    outlines = _on_clocks(_RADIUS, np.tile(np.linspace(0, ONCE_ROUND, 100), (len(speeds), 1)))
    hands = _on_clocks(np.array([0, _HAND]), turns[:, None])
    return [
        _band("turns of training", _SEEN_BAND, 0 * turns, seen_turns),
        _band("new turns", _NEW_BAND, seen_turns, new_turns),
        _lines("clocks", theme.GRAY, 1, outlines),
        _lines("known hands", theme.BLUE, 5, hands[~new]),
        _lines("new hands", RED, 5, hands[new]),
    ]


def _periods(speeds: Floats, distance: int) -> list[dict[str, Any]]:
    """Below each clock, how long its hand takes to go round, and whether its angle is new."""
    labels = []
    for clock, hand_is_new in enumerate(is_new(speeds, distance)):
        text = f"turns in {ONCE_ROUND / speeds[clock]:,.0f}"
        if hand_is_new:
            text += f"<br>{_red('new angle')}"
        labels.append(
            {
                "name": "period",
                "text": text,
                "x": clock,
                "y": -0.49,
                "yanchor": "top",
                "xref": "x2",
                "yref": "y2",
                "showarrow": False,
            }
        )
    return labels


def _on_clocks(radius: ArrayLike, turns: Floats) -> NDArray[np.complex128]:
    """Points on each clock, turned clockwise from noon: complex [clocks, points]."""
    centers = np.arange(len(turns))[:, None]
    points: NDArray[np.complex128] = centers + radius * np.exp(1j * (np.pi / 2 - turns))
    return points


def _band(name: str, color: str, start: Floats, end: Floats) -> dict[str, Any]:
    """A band on each clock, from one angle to another: out along one edge, and back."""
    inner, outer = _BAND
    turns = np.linspace(start, end, 100, axis=1)
    there = _on_clocks(outer, turns)
    back = _on_clocks(inner, turns[:, ::-1])
    outline = _lines(name, color, 0, np.concatenate([there, back], axis=1))
    return outline | {"fill": "toself", "fillcolor": color}


def _lines(name: str, color: str, width: int, points: NDArray[np.complex128]) -> dict[str, Any]:
    """A line on each of some clocks, with gaps between them."""
    with_gaps = np.pad(points, ((0, 0), (0, 1)), constant_values=np.nan).ravel()
    return {
        "type": "scatter",
        "name": name,
        "mode": "lines",
        "x": with_gaps.real.astype(np.float32),
        "y": with_gaps.imag.astype(np.float32),
        "line": {"color": color, "width": width, "simplify": False},
        "hoverinfo": "skip",
        "xaxis": "x2",
        "yaxis": "y2",
    }


def _red(text: str) -> str:
    """Text in red, also in an app, whose annotations have the color of the page."""
    return f'<span style="color:{RED}">{text}</span>'
