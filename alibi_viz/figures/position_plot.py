"""What a position method makes of the distance: a curve, waves as a barcode, or hands of clocks.

Distances beyond those of training are gray: they are longer. Red is only for what training never
showed, such as the angle of a hand or of a wave.
"""

from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.figures import theme
from alibi_viz.formatting import format_fixed

RED = "#D53C28"
_NEW_BAND = "rgba(213, 60, 40, 0.75)"
_SEEN_BAND = "rgba(0, 114, 178, 0.35)"
_GRAYS = ["#F1F1F1", "#3D3D3D"]  # of a wave, from -1 to 1
_REDS = ["#FADCD7", "#8E1606"]  # the same where training never showed it

_HEIGHT = 372
_MARGIN = {"l": 60, "r": 16, "t": 30, "b": 46}
# Shares of the height: the clocks are above a low curve.
_LOW_CURVE = 0.23
_CLOCKS = [0.32, 1]
_WAVES = [0, 1]
# Of axes whose traces are hidden: they would catch the clicks on all that they cover.
_AWAY = [0.995, 1]
# Parts of a clock, whose neighbor is 1 away
_RADIUS = 0.47
_BAND = (0.34, 0.45)  # its inner and outer radius
_HAND = 0.43
_EDGE = 7  # positions beyond the last one, with room for the marks at the edge of the barcode


def blank(waves: NDArray[np.floating], new_waves: NDArray[np.bool_], trained: int) -> go.Figure:
    """The figure with its barcode, but without a curve and without hands.

    Args:
        waves: from -1 to 1, [wave, position].
        new_waves: where training never showed a wave, the same shape.
        trained: how many positions training had.
    """
    tokens = waves.shape[1]
    bare = {"showgrid": False, "showticklabels": False, "ticks": "", "fixedrange": True}
    figure = theme.blank(height=_HEIGHT, showlegend=False, margin=_MARGIN, hovermode="x")
    figure.update_layout(
        xaxis={
            "range": [-1, tokens + _EDGE],
            "anchor": "free",
            "position": 0,
            "showgrid": False,
            "fixedrange": True,
        },
        yaxis={"range": [-17, 1.5], "fixedrange": True},
        # The waves share the x axis of the curve; the clocks have axes of their own.
        yaxis2={
            "title_text": "period of the wave, tokens",
            "range": [len(waves) + 0.5, 0.5],
            "showgrid": False,
            "ticks": "",
            "fixedrange": True,
        },
        xaxis2={"anchor": "y3", "range": [-0.5, 3.5], "constrain": "domain", **bare},
        # With `constrain`, a clock stays round because its axes get shorter. By default their
        # ranges would widen, each time a bit more, and the clocks shrink.
        yaxis3={
            "anchor": "x2",
            "range": [-0.72, 0.48],
            "scaleanchor": "x2",
            "constrain": "domain",
            "domain": _CLOCKS,
            **bare,
        },
    )
    _add_region(figure, trained, tokens)
    _add_curve(figure)
    _add_waves(figure, waves, new_waves)
    _add_clocks(figure)
    return figure


def draw_curve(
    figure: go.Figure, distance: int, logits: NDArray[np.floating] | None, low: bool
) -> None:
    """Draw the logit at each distance, or hide the curve if there is none.

    A `low` one leaves room for the clocks.
    """
    is_shown = logits is not None
    top = _LOW_CURVE if low else 1
    figure.update_shapes({"y1": top, "visible": is_shown}, {"name": "longer"})
    figure.update_annotations({"y": top}, {"name": "region"})
    figure.layout.yaxis.update(
        visible=is_shown,
        domain=[0, top],
        title_text="logit" if low else "logit at equal content",
    )
    figure.update_traces({"visible": is_shown}, {"name": "curve"})
    figure.update_traces({"visible": is_shown}, {"name": "distance"})
    if logits is None:
        return
    figure.layout.xaxis.title.text = "distance, tokens back"
    hover = [format_fixed(logit, 2) for logit in logits]
    curve = {"x": np.arange(len(logits)), "y": logits, "customdata": hover}
    figure.update_traces(curve, {"name": "curve"})
    figure.update_traces({"x": [distance], "y": logits[[distance]]}, {"name": "distance"})


def draw_waves(
    figure: go.Figure, position: int, is_new: NDArray[np.bool_], periods: NDArray[np.floating]
) -> None:
    """Show the barcode, and mark at its edge which waves are new at this position."""
    rows = np.arange(1, len(is_new) + 1)
    labeled = [*rows[::8], rows[-1]]
    figure.layout.xaxis.title.text = "position, tokens"
    figure.layout.yaxis2.update(
        visible=True,
        domain=_WAVES,
        tickvals=labeled,
        ticktext=[f"{periods[row - 1]:,.0f}" for row in labeled],
    )
    for name in ("waves", "new waves"):
        figure.update_traces({"visible": True}, {"name": name})
    new_rows = rows[is_new]
    edge = figure.layout.xaxis.range[1] - 0.6 * _EDGE
    figure.update_traces(
        {"visible": True, "x": np.full(len(new_rows), edge), "y": new_rows}, {"name": "waves now"}
    )
    figure.update_shapes({"x0": position, "x1": position, "visible": True}, {"name": "position"})
    count = f"{_red(f'{is_new.sum()} new')} at {position}"
    figure.update_annotations({"text": count, "visible": True}, {"name": "new waves"})


def hide_waves(figure: go.Figure) -> None:
    """Hide the barcode."""
    figure.layout.yaxis2.update(visible=False, domain=_AWAY)
    for name in ("waves", "new waves", "waves now"):
        figure.update_traces({"visible": False}, {"name": name})
    figure.update_shapes({"visible": False}, {"name": "position"})
    figure.update_annotations({"visible": False}, {"name": "new waves"})


def draw_clocks(
    figure: go.Figure,
    turns: NDArray[np.float64],
    seen_turns: NDArray[np.float64],
    is_new: NDArray[np.bool_],
    periods: NDArray[np.float64],
) -> None:
    """Show the clocks: which way each hand points, and the angles that it went through.

    Args:
        turns: how far each of the four hands has turned, in radians.
        seen_turns: how far training turned it, at most once round.
        is_new: which hands point where training never turned them.
        periods: after how many tokens each has gone round.
    """
    once_round = 2 * np.pi
    new_turns = np.clip(turns, seen_turns, once_round)
    hands = _on_clocks(np.array([0, _HAND]), turns[:, None])
    shapes = {
        "clocks": _on_clocks(_RADIUS, np.linspace(0, once_round, 100)),
        "turns of training": _bands(np.zeros(4), seen_turns),
        "new turns": _bands(seen_turns, new_turns),
        "known hands": hands[~is_new],
        "new hands": hands[is_new],
    }
    for name, points in shapes.items():
        figure.update_traces({"visible": True, **_outline(points)}, {"name": name})

    figure.layout.yaxis3.domain = _CLOCKS
    labels = figure.select_annotations({"name": "period"})
    for label, period, hand_is_new in zip(labels, periods, is_new, strict=True):
        text = f"turns in {period:,.0f}"
        if hand_is_new:
            text += f"<br>{_red('new angle')}"
        label.update(text=text, visible=True)


def hide_clocks(figure: go.Figure) -> None:
    """Hide the clocks."""
    figure.layout.yaxis3.domain = _AWAY
    for name in ("clocks", "turns of training", "new turns", "known hands", "new hands"):
        figure.update_traces({"visible": False}, {"name": name})
    figure.update_annotations({"visible": False}, {"name": "period"})


def _add_region(figure: go.Figure, trained: int, tokens: int) -> None:
    """Shade what is longer than in training."""
    figure.add_shape(
        name="longer",
        type="rect",
        layer="below",
        x0=trained - 0.5,
        x1=tokens,
        y0=0,
        yref="paper",
        line_width=0,
        fillcolor=theme.SHADE,
    )
    middle_of_longer = (trained + tokens) / 2
    for text, middle in (
        ("seen in training", trained / 2),
        ("longer than in training", middle_of_longer),
    ):
        figure.add_annotation(
            name="region", text=text, x=middle, yref="paper", yanchor="bottom", showarrow=False
        )


def _add_curve(figure: go.Figure) -> None:
    """Add the curve, and a point at the distance."""
    figure.add_scatter(
        name="curve",
        mode="lines",
        line={"color": theme.BLUE, "width": 3},
        hovertemplate="%{x} back: %{customdata}<extra></extra>",
    )
    figure.add_scatter(
        name="distance", marker={"size": 13, "color": theme.ORANGE}, hoverinfo="skip"
    )


def _add_waves(
    figure: go.Figure, waves: NDArray[np.floating], new_waves: NDArray[np.bool_]
) -> None:
    """Add the barcode, a row per wave: gray, and red where training never showed the wave."""
    rows = np.arange(1, len(waves) + 1)
    parts = {"waves": (new_waves, _GRAYS), "new waves": (~new_waves, _REDS)}
    for name, (left_out, colors) in parts.items():
        figure.add_heatmap(
            name=name,
            y=rows,
            z=theme.with_gaps(waves.round(2), left_out),
            yaxis="y2",
            zmin=-1,
            zmax=1,
            colorscale=colors,
            showscale=False,
            ygap=1,
            hovertemplate="position %{x}<extra></extra>",
            hoverongaps=False,  # there, the other part answers
        )
    figure.add_scatter(
        name="waves now",
        yaxis="y2",
        mode="markers",
        marker={"size": 8, "symbol": "triangle-left", "color": RED},
        cliponaxis=False,
        hoverinfo="skip",
    )
    figure.add_shape(
        name="position",
        type="line",
        y0=0,
        y1=1,
        yref="y2 domain",
        line={"color": theme.BLUE, "width": 3},
    )
    figure.add_annotation(
        name="new waves",
        x=1,
        xref="paper",
        xanchor="right",
        xshift=_MARGIN["r"],
        y=1,
        yref="paper",
        yanchor="bottom",
        showarrow=False,
    )


def _add_clocks(figure: go.Figure) -> None:
    """Add four clocks: outlines, the angles that the hands went through, hands and labels."""
    lines = {"clocks": (theme.GRAY, 1), "known hands": (theme.BLUE, 5), "new hands": (RED, 5)}
    bands = {"turns of training": _SEEN_BAND, "new turns": _NEW_BAND}
    on_clocks = {"xaxis": "x2", "yaxis": "y3", "mode": "lines", "hoverinfo": "skip"}
    for name, color in bands.items():
        figure.add_scatter(
            name=name,
            fill="toself",
            fillcolor=color,
            line={"width": 0, "simplify": False},
            **on_clocks,
        )
    for name, (color, width) in lines.items():
        figure.add_scatter(
            name=name, line={"color": color, "width": width, "simplify": False}, **on_clocks
        )
    for clock in range(4):
        figure.add_annotation(
            name="period",
            x=clock,
            y=-0.49,
            yanchor="top",
            xref="x2",
            yref="y3",
            showarrow=False,
        )


def _on_clocks(radius: Any, turns: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Points on the four clocks, turned clockwise from noon: complex [clocks, points]."""
    centers = np.arange(4)[:, None]
    return centers + radius * np.exp(1j * (np.pi / 2 - turns))


def _bands(start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.complex128]:
    """The outline of a band per clock, from one angle to another: out along one edge, and back."""
    inner, outer = _BAND
    turns = np.linspace(start, end, 100, axis=1)
    there = _on_clocks(outer, turns)
    back = _on_clocks(inner, turns[:, ::-1])
    return np.concatenate([there, back], axis=1)


def _outline(points: NDArray[np.complex128]) -> dict[str, NDArray[np.float64]]:
    """The x and y of one line per clock, with gaps between them."""
    with_gaps = np.pad(points, ((0, 0), (0, 1)), constant_values=np.nan).ravel()
    return {"x": with_gaps.real, "y": with_gaps.imag}


def _red(text: str) -> str:
    """Text in red, also in an app, whose annotations have the color of the page."""
    return f'<span style="color:{RED}">{text}</span>'
