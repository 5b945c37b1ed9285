"""The layout of the attention figure: six panels in two rows and three columns.

    content   + bias      query: one row of weights
    = logits  -> weights  the same query in every head

The matrices in the first two columns have the same keys on their x axes, and the panels in the third all keys of the
text. Matrices are square unless the page is very wide or very narrow.
"""

import plotly.graph_objects as go

from alibi_viz.figures import theme

__all__ = ["FRAMES", "MATRICES", "PAIR", "PANELS", "blank", "height", "is_narrow", "max_labels", "name"]

CONTENT, BIAS, LOGITS, WEIGHTS, HEADS, BARS, OTHER = range(7)  # the traces; BARS and OTHER share a panel
MATRICES = (CONTENT, BIAS, LOGITS, WEIGHTS)
PANELS = ((0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (2, 0))  # (column, row) of each panel, in the order of the traces
FRAMES = len(PANELS)  # index of the first frame: shapes are a background for every panel, then a frame per heatmap
PAIR = (
    "%{text}<br>content %{customdata[0]}<br>bias %{customdata[1]}<br>logit %{customdata[2]}"
    "<br>weight %{customdata[3]}%<extra></extra>"
)
_COLUMNS = ([0, 0.293], [0.328, 0.621], [0.707, 1])  # from the left, as fractions of the plotting area
_ROWS = ([0.54, 1], [0, 0.46])  # from the bottom
_MARGIN = {"l": 92, "r": 84, "t": 46, "b": 72}
_SIDES = (140, 250)  # pixels: the smallest and the largest height of a matrix
_LABEL = 10  # pixels from one label to the next
_FRAME_COLOR = "#D6368F"  # not in any of the color scales, and visible on both themes
_MAX_WEIGHT = 0.3  # upper end of the color scale of the weights; almost all weights are far below


def blank() -> go.Figure:
    """The figure without data: seven traces on six pairs of axes, gray backgrounds, and frames around the selection."""
    figure = theme.blank(height(880), hovermode="closest", showlegend=False, margin=_MARGIN)
    for panel, (column, row) in enumerate(PANELS):
        _add_axes(figure, panel, _COLUMNS[column], _ROWS[row], key_labels=row == 1, side_labels=column != 1)
    for panel in (CONTENT, BIAS, LOGITS, WEIGHTS, HEADS):
        scale = "coloraxis2" if panel in (WEIGHTS, HEADS) else "coloraxis"
        figure.add_heatmap(coloraxis=scale, hoverongaps=True, xaxis=name("x", panel), yaxis=name("y", panel))
        frame = {"x0": 0, "x1": 1, "xref": f"{name('x', panel)} domain", "yref": name("y", panel)}
        figure.add_shape(type="rect", y0=0, y1=1, line={"color": _FRAME_COLOR, "width": 2}, **frame)
    axes = {"xaxis": name("x", BARS), "yaxis": name("y", BARS)}
    figure.add_bar(marker={"color": theme.COLORS[0]}, hovertemplate=PAIR.replace("text", "hovertext"), **axes)
    diamond = {"symbol": "diamond-open", "color": theme.COLORS[1], "size": 8, "line": {"width": 1.5}}
    figure.add_scatter(mode="markers", marker=diamond, cliponaxis=False, **axes)
    figure.layout[name("yaxis", BARS)].update(tickformat=".0%", nticks=5)
    percent = {"tickvals": [0, _MAX_WEIGHT / 2, _MAX_WEIGHT], "ticktext": ["0%", "15%", "≥ 30%"]}
    weight = {"cmin": 0, "cmax": _MAX_WEIGHT, "colorscale": theme.SEQUENTIAL, "colorbar": _bar("weight", 1) | percent}
    signed = {"colorscale": theme.DIVERGING, "colorbar": _bar("content, bias, logits", 0)}
    return figure.update_layout(coloraxis=signed, coloraxis2=weight, bargap=0.25)


def height(page_width: int) -> int:
    """The height of the figure on a page of this width, in pixels."""
    return round(_side(page_width) / (_ROWS[0][1] - _ROWS[0][0])) + _MARGIN["t"] + _MARGIN["b"]


def max_labels(page_width: int) -> tuple[int, int]:
    """How many labels fit below a matrix and beside it, on a page of this width in pixels."""
    return max(1, int(_column_width(page_width) / _LABEL)), int(_side(page_width) / _LABEL)


def is_narrow(page_width: int) -> bool:
    """Whether long titles of two panels would overlap on a page of this width, in pixels."""
    return _column_width(page_width) < 140


def name(axis: str, panel: int) -> str:
    """plotly's name of a panel's axis: x, x2, ... or xaxis, xaxis2, ..."""
    return axis if panel == 0 else f"{axis}{panel + 1}"


def _column_width(page_width: int) -> float:
    return (_COLUMNS[0][1] - _COLUMNS[0][0]) * (page_width - _MARGIN["l"] - _MARGIN["r"])


def _side(page_width: int) -> float:
    return min(max(_column_width(page_width), _SIDES[0]), _SIDES[1])


def _add_axes(
    figure: go.Figure, panel: int, x: list[float], y: list[float], *, key_labels: bool, side_labels: bool
) -> None:
    """The axes of a panel, the gray background that shows through masked cells, and a title."""
    # ticklabeloverflow="allow" skips a search for labels outside the figure, which takes a third of the drawing time
    common = {"showgrid": False, "tickfont": {"size": 10}, "ticklen": 2, "ticklabeloverflow": "allow"}
    x_axis = {"domain": x, "anchor": name("y", panel), "tickangle": -90, "showticklabels": key_labels, **common}
    x_axis |= {"nticks": 6, "tickformat": ",d"}  # for positions, where `draw` sets no tokens
    y_axis = {"domain": y, "anchor": name("x", panel), "showticklabels": side_labels, **common}
    figure.update_layout({name("xaxis", panel): x_axis, name("yaxis", panel): y_axis})
    background = {"type": "rect", "xref": f"{name('x', panel)} domain", "x0": 0, "x1": 1, "y0": 0, "y1": 1}
    if panel == BARS:
        background = {"type": "path", "xref": name("x", panel), "path": "M0,0Z"}  # depends on the query
    style = {"yref": f"{name('y', panel)} domain", "layer": "below", "fillcolor": theme.MASKED, "line_width": 0}
    figure.add_shape(**background, **style)
    place = {"x": x[0], "y": y[1], "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
    figure.add_annotation(text="", font={"size": 12}, showarrow=False, align="left", **place)


def _bar(title: str, row: int) -> dict[str, object]:
    low, high = _ROWS[row]
    place = {"x": 1.01, "xanchor": "left", "y": (low + high) / 2, "yanchor": "middle", "len": high - low, "ypad": 0}
    text = {"text": title, "side": "right", "font": {"size": 12}}
    return {**place, "thickness": 10, "outlinewidth": 0, "ticklen": 3, "title": text}
