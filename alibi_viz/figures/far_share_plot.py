"""The loss of one kind of model against the share of attention that its far keys get.

A dot for each setting, which says where the angles of rotary positions stop growing and how steep a
brake lowers the scores of far keys. Small pale dots behind it are the single models.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.figures import theme
from alibi_viz.figures.theme import Picture
from alibi_viz.formatting import format_slope
from alibi_viz.measure.table import check_table

Setting = tuple[int, float]  # where the angles stop, and the slope of the brake
Points = Mapping[Setting, NDArray[np.float64]]  # far share and bits of each model, [models, 2]

LENGTH = 64  # letters in training: angles that stop below are no new ones
_HEIGHT = 270  # pixels: the text below it belongs to the same screen
_MARGIN = {"l": 60, "r": 20, "t": 30, "b": 48}
_PADDING = 1.25  # above and below the losses, as a factor
# Settings with angles that training has never shown, and the others
_KINDS = {
    True: {"name": "unseen angles", "color": theme.ORANGE, "symbol": "diamond", "bullet": "◆"},
    False: {"name": "no unseen angle", "color": theme.BLUE, "symbol": "circle", "bullet": "●"},
}


def far_share_figure(rows: pd.DataFrame) -> go.Figure:
    """The loss against the share of attention on far keys, a dot for each setting.

    Args:
        rows: results as `study.far_keys()` returns them. Rows whose share was exchanged are left
            out. An infinite brake is a window, whose loss is a line.

    Raises ValueError for rows that lack a column, or have no setting besides the window.

    >>> from alibi_viz import figures, study
    >>> figure = figures.far_share_figure(study.far_keys())
    >>> [trace.name for trace in figure.data]
    ['models', 'unseen angles', 'no unseen angle']
    """
    points, window = far_share_points(rows)
    if not points:
        raise ValueError("rows must have a setting besides the window")
    return theme.figure(far_share_picture(points, now=None, visited=points, window=window))


def far_share_points(rows: pd.DataFrame) -> tuple[dict[Setting, NDArray[np.float64]], float]:
    """The far shares and losses of all models in each setting, and the mean loss with a window,
    NaN if it wasn't measured."""
    check_table("rows", rows, ("seed", "stop", "brake", "share_stop", "bits", "far_share"))
    rows = rows[rows["stop"] == rows["share_stop"]]
    has_window = np.isinf(rows["brake"])
    points = {}
    for (stop, brake), of_setting in rows[~has_window].groupby(["stop", "brake"]):
        points[int(stop), float(brake)] = of_setting[["far_share", "bits"]].to_numpy(np.float64)
    return points, float(rows.loc[has_window, "bits"].mean())


def far_share_picture(
    points: Points, *, now: Setting | None, visited: Collection[Setting], window: float
) -> Picture:
    """The visited settings as dots.

    Args:
        points: far share and bits of each model in all settings. The axes hold all of them, so they
            stay as they are when more settings are visited.
        now: the setting whose dot is large.
        visited: the settings that have a dot.
        window: the loss of the same models with a window, for a line.
    """
    bits = np.concatenate(list(points.values()))[:, 1]
    lowest = np.nanmin([*bits, window]) / _PADDING
    highest = bits.max() * _PADDING
    shown = [setting for setting in points if setting in visited]
    traces = [_models(points, shown)]
    traces += [_means(points, shown, unseen) for unseen in _KINDS]

    annotations = [_legend()]
    if now is not None:
        traces.append(_dot_of(now, points[now]))
        annotations.append(_bits_of(points[now]))
    shapes = []
    if np.isfinite(window):
        shapes.append(_window_line(window))
    return theme.picture(
        traces,
        height=_HEIGHT,
        hovermode="closest",
        margin=_MARGIN,
        showlegend=False,
        xaxis={
            "range": [-0.02, 1.02],
            "tickformat": ".0%",
            "title": {"text": f"share of attention that goes {LENGTH} or more letters back"},
        },
        yaxis={
            "type": "log",
            "range": np.log10([lowest, highest]).tolist(),
            "tickvals": [0.5, 1, 2, 4, 8],
            "title": {"text": "bits per letter"},
        },
        shapes=shapes,
        annotations=annotations,
    )


def _kind(setting: Setting) -> dict[str, str]:
    """How a setting is drawn."""
    stop, _ = setting
    return _KINDS[stop >= LENGTH]


def _models(points: Points, shown: Collection[Setting]) -> dict[str, Any]:
    """A small pale dot for each model in each setting."""
    x: list[float] = []
    y: list[float] = []
    colors: list[str] = []
    for setting in shown:
        x += points[setting][:, 0].tolist()
        y += points[setting][:, 1].tolist()
        colors += [_kind(setting)["color"]] * len(points[setting])
    return {
        "type": "scatter",
        "name": "models",
        "mode": "markers",
        "x": x,
        "y": y,
        "marker": {"size": 5, "color": colors, "opacity": 0.5, "line": {"width": 0}},
        "hoverinfo": "skip",
    }


def _means(points: Points, shown: Collection[Setting], unseen: bool) -> dict[str, Any]:
    """A dot for the mean of each setting of one kind."""
    kind = _KINDS[unseen]
    settings = [setting for setting in shown if _kind(setting) is kind]
    means = [points[setting].mean(axis=0).tolist() for setting in settings]
    return {
        "type": "scatter",
        "name": kind["name"],
        "mode": "markers",
        "x": [far_share for far_share, _ in means],
        "y": [bits for _, bits in means],
        "marker": {"size": 9, "color": kind["color"], "symbol": kind["symbol"]},
        "text": [_in_words(setting) for setting in settings],
        "hovertemplate": "%{text}: %{x:.0%}, %{y:.2f} bits<extra></extra>",
    }


def _dot_of(now: Setting, models: NDArray[np.float64]) -> dict[str, Any]:
    """The large dot of the present setting."""
    kind = _kind(now)
    far_share, bits = models.mean(axis=0).tolist()
    return {
        "type": "scatter",
        "name": "now",
        "mode": "markers",
        "x": [far_share],
        "y": [bits],
        "marker": {
            "size": 18,
            "color": kind["color"],
            "symbol": kind["symbol"],
            "line": {"color": "white", "width": 2},
        },
        "hoverinfo": "skip",
    }


def _bits_of(models: NDArray[np.float64]) -> dict[str, Any]:
    """The loss of the present setting beside its dot, on the side that has room."""
    far_share, bits = models.mean(axis=0).tolist()
    is_left = far_share < 0.5
    return {
        "name": "now",
        "text": f"<b>{bits:.2f}</b>",
        "x": far_share,
        "xanchor": "left" if is_left else "right",
        "xshift": 12 if is_left else -12,
        "y": float(np.log10(bits)),  # as plotly wants it on a logarithmic axis
        "font": {"size": 20},
        "showarrow": False,
    }


def _legend() -> dict[str, Any]:
    """What the two colors mean, above the plot."""
    words = []
    for kind in _KINDS.values():
        bullet = f'<span style="color: {kind["color"]}">{kind["bullet"]}</span>'
        words.append(f"{bullet} {kind['name']}")
    return {
        **theme.TITLE,
        "name": "legend",
        "text": "    ".join(words),
        "xref": "paper",
        "yref": "paper",
        "yshift": 4,
        "font": {"size": 12},
    }


def _window_line(bits: float) -> dict[str, Any]:
    """A thin line at the loss of the same models with a window."""
    return {
        "type": "line",
        "name": "window",
        "xref": "x domain",
        "x0": 0,
        "x1": 1,
        "y0": bits,
        "y1": bits,
        "line": theme.DOTTED,
        "layer": "below",
        "label": {
            "text": f"with a window, which hides far keys: {bits:.2f} ",
            "textposition": "end",
            "yanchor": "bottom",
            "font": {"size": 11},
        },
    }


def _in_words(setting: Setting) -> str:
    """A setting, for the pointer."""
    stop, brake = setting
    angles = "angles never stop" if stop >= LENGTH else f"angles stop at {stop}"
    return f"{angles}, brake {format_slope(brake)}" if brake else f"{angles}, no brake"
