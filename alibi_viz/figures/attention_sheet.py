"""The sheet of the attention picture: six panels on a grid of three rows and two columns.

All panels share their columns, the keys, so that a key stands at the same place in each.
"""

import plotly.graph_objects as go

from alibi_viz.figures import theme

__all__ = [
    "BARS",
    "BIAS",
    "CONTENT",
    "FRAMES",
    "HEADS",
    "LOGITS",
    "MATRICES",
    "OTHER",
    "PAIR",
    "PANELS",
    "WEIGHTS",
    "blank",
    "labels",
    "name",
]

CONTENT, BIAS, LOGITS, WEIGHTS, HEADS, BARS, OTHER = range(7)  # the traces; BARS and OTHER share a panel
MATRICES = (CONTENT, BIAS, LOGITS, WEIGHTS)
PANELS = ((0, 0), (1, 0), (0, 1), (1, 1), (1, 2), (0, 2))  # (column, row) of each panel, in the order of the traces
FRAMES = len(PANELS)  # shapes: a ground for every panel, then a frame for every heatmap
PAIR = (
    "%{text}<br>content %{customdata[0]}<br>bias %{customdata[1]}<br>logit %{customdata[2]}"
    "<br>weight %{customdata[3]}%<extra></extra>"
)
_COLUMNS, _ROWS = ([0, 0.47], [0.53, 1]), ([0.705, 1], [0.37, 0.665], [0, 0.21])  # from the left, from the bottom
_HEIGHT, _MARGIN = 740, {"l": 92, "r": 84, "t": 30, "b": 72}
_LABEL = 10  # pixels from one label to the next
_FRAME_COLOR = "#D6368F"  # a colour of none of the scales, plain on both themes
_MOST_WEIGHT = 0.3  # where the colours of the weights end: nearly all weights are far below


def blank() -> go.Figure:
    """The sheet: seven traces on six pairs of axes, grey grounds for masked cells, and frames around the choice."""
    figure = theme.blank(_HEIGHT, hovermode="closest", showlegend=False, margin=_MARGIN)
    for panel, (column, row) in enumerate(PANELS):
        _add_axes(figure, panel, _COLUMNS[column], _ROWS[row], across=row > 0, down=column == 0 or row == 2)
    for panel in (CONTENT, BIAS, LOGITS, WEIGHTS, HEADS):
        scale = "coloraxis2" if panel in (WEIGHTS, HEADS) else "coloraxis"
        figure.add_heatmap(coloraxis=scale, hoverongaps=True, xaxis=name("x", panel), yaxis=name("y", panel))
        frame = {"x0": 0, "x1": 1, "xref": f"{name('x', panel)} domain", "yref": name("y", panel)}
        figure.add_shape(type="rect", y0=0, y1=1, line={"color": _FRAME_COLOR, "width": 2}, **frame)
    axes = {"xaxis": name("x", BARS), "yaxis": name("y", BARS)}
    figure.add_bar(marker={"color": theme.COLORS[0]}, hovertemplate=PAIR.replace("text", "hovertext"), **axes)
    diamond = {"symbol": "diamond-open", "color": theme.COLORS[1], "size": 8, "line": {"width": 1.5}}
    figure.add_scatter(mode="markers", marker=diamond, cliponaxis=False, **axes)
    figure.layout[name("yaxis", BARS)].tickformat = ".0%"
    percent = {"tickvals": [0, _MOST_WEIGHT / 2, _MOST_WEIGHT], "ticktext": ["0%", "15%", "≥ 30%"]}
    weight = {"cmin": 0, "cmax": _MOST_WEIGHT, "colorscale": theme.SEQUENTIAL, "colorbar": _bar("weight", 1) | percent}
    signed = {"colorscale": theme.DIVERGING, "colorbar": _bar("content, bias, logits", 0)}
    return figure.update_layout(coloraxis=signed, coloraxis2=weight, bargap=0.25)


def _add_axes(figure: go.Figure, panel: int, x: list[float], y: list[float], *, across: bool, down: bool) -> None:
    """A panel's axes, with labels `across` and `down` or without; the grey behind masked cells; a title."""
    # "allow": to look for labels that leave the page takes the browser a third of the time of drawing, and none does
    common = {"showgrid": False, "tickfont": {"size": 10}, "ticklen": 2, "ticklabeloverflow": "allow"}
    x_axis = {"domain": x, "anchor": name("y", panel), "tickangle": -90, "showticklabels": across, **common}
    y_axis = {"domain": y, "anchor": name("x", panel), "showticklabels": down, **common}
    figure.update_layout({name("xaxis", panel): x_axis, name("yaxis", panel): y_axis})
    ground = {"xref": f"{name('x', panel)} domain", "x0": 0, "x1": 1, "yref": f"{name('y', panel)} domain"}
    if panel == BARS:
        ground |= {"xref": name("x", panel), "x1": 0}  # set by the query
    figure.add_shape(type="rect", y0=0, y1=1, **ground, layer="below", fillcolor=theme.MASKED, line_width=0)
    place = {
        "x": x[0],
        "y": y[1],
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "align": "left",
    }
    figure.add_annotation(text="", font={"size": 13}, showarrow=False, **place)


def name(axis: str, panel: int) -> str:
    """What plotly calls an axis of a panel: x, x2, ... or xaxis, xaxis2, ..."""
    return axis if panel == 0 else f"{axis}{panel + 1}"


def _bar(title: str, row: int) -> dict[str, object]:
    low, high = _ROWS[row]
    place = {"x": 1.01, "xanchor": "left", "y": (low + high) / 2, "yanchor": "middle", "len": high - low, "ypad": 0}
    words = {"text": title, "side": "right", "font": {"size": 12}}
    return {**place, "thickness": 10, "outlinewidth": 0, "ticklen": 3, "title": words}


def labels(page_width: int) -> tuple[int, int]:
    """How many labels fit under a panel and beside it, on a page of this width in pixels.

    >>> from alibi_viz.figures.attention_sheet import labels
    >>> labels(880), labels(600)
    ((33, 18), (19, 18))
    """
    across = _COLUMNS[0][1] * (page_width - _MARGIN["l"] - _MARGIN["r"])
    down = (1 - _ROWS[0][0]) * (_HEIGHT - _MARGIN["t"] - _MARGIN["b"])
    return max(1, int(across / _LABEL)), int(down / _LABEL)
