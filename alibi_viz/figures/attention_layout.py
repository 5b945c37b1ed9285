"""The layout of the attention figure: six panels in two rows and three columns, and one tile per head below them.

    content   + bias      query: one row of weights
    = logits  -> weights  the same query in every head
    the weights of every head, as small matrices

The matrices in the first two columns have the same keys on their x axes, and the panels in the third all keys of the
text. Matrices are square unless the page is very wide or very narrow. The tiles wrap onto as many rows as fill
`_STRIP` pixels best, so that 32 heads fit without scrolling.
"""

import plotly.graph_objects as go

from alibi_viz.figures import theme
from alibi_viz.figures.arrays import update_changed
from alibi_viz.figures.atlas import BORDER, Atlas

__all__ = [
    "FRAMES",
    "FRAME_COLOR",
    "MATRICES",
    "MAX_WEIGHT",
    "PAIR",
    "PANELS",
    "blank",
    "is_narrow",
    "max_labels",
    "name",
    "place",
    "tiles",
]

# The traces. BARS and OTHER share a panel; TILES and TITLES belong to the small matrices below.
CONTENT, BIAS, LOGITS, WEIGHTS, HEADS, BARS, OTHER, TILES, TITLES = range(9)
MATRICES = (CONTENT, BIAS, LOGITS, WEIGHTS)
PANELS = ((0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (2, 0))  # (column, row) of each panel, in the order of the traces
# The shapes: a background for every panel, a frame in each of the five heatmaps from FRAMES on, one around the query in
# all tiles, and one around the selected tile.
FRAMES = len(PANELS)
QUERY_FRAME, HEAD_FRAME = FRAMES + 5, FRAMES + 6
PAIR = (
    "%{text}<br>content %{customdata[0]} + bias %{customdata[1]} = logit %{customdata[2]}"
    " → weight %{customdata[3]}%<extra></extra>"
)
_COLUMNS = ([0, 0.293], [0.328, 0.621], [0.707, 1])  # from the left, as fractions of the plotting area
_ROWS = ([0.54, 1], [0, 0.46])  # from the bottom of the six panels
_MARGIN = {"l": 92, "r": 84, "t": 46, "b": 8}
_GAP = 104  # pixels between the panels and the tiles: the tokens below the panels, a title, the numbers of the heads
_TILE_TITLE = 18  # pixels of it for the numbers
_STRIP = 150  # pixels: the largest height of all tiles together
_PAD = 4  # pixels around all tiles, for the frame of a tile; plotly hides what lies outside the axes
_SIDES = (140, 230)  # pixels: the smallest and the largest height of a matrix
_LABEL = 10  # pixels from one label to the next
FRAME_COLOR = "#D6368F"  # not in any of the color scales, and visible on both themes
MAX_WEIGHT = 0.3  # upper end of the color scale of the weights; almost all weights are far below


def blank() -> go.Figure:
    """The figure without data: nine traces on seven pairs of axes, gray backgrounds, frames around the selection."""
    figure = theme.blank(600, hovermode="closest", showlegend=False, margin=_MARGIN)
    for panel, (column, row) in enumerate(PANELS):
        _add_axes(figure, panel, _COLUMNS[column], key_labels=row == 1, side_labels=column != 1)
    for panel in (CONTENT, BIAS, LOGITS, WEIGHTS, HEADS):
        scale = "coloraxis2" if panel in (WEIGHTS, HEADS) else "coloraxis"
        figure.add_heatmap(coloraxis=scale, hoverongaps=True, xaxis=name("x", panel), yaxis=name("y", panel))
        frame = {"x0": 0, "x1": 1, "xref": f"{name('x', panel)} domain", "yref": name("y", panel)}
        figure.add_shape(type="rect", y0=0, y1=1, line={"color": FRAME_COLOR, "width": 2}, **frame)
    axes = {"xaxis": name("x", BARS), "yaxis": name("y", BARS)}
    figure.add_bar(marker={"color": theme.COLORS[0]}, hovertemplate=PAIR.replace("text", "hovertext"), **axes)
    diamond = {"symbol": "diamond-open", "color": theme.COLORS[1], "size": 8, "line": {"width": 1.5}}
    figure.add_scatter(mode="markers", marker=diamond, cliponaxis=False, **axes)
    figure.layout[name("yaxis", BARS)].update(tickformat=".0%", nticks=5)
    percent = {"tickvals": [0, MAX_WEIGHT / 2, MAX_WEIGHT], "ticktext": ["0%", "15%", "≥ 30%"]}
    weight = {"cmin": 0, "cmax": MAX_WEIGHT, "colorscale": theme.SEQUENTIAL, "colorbar": _bar("weight") | percent}
    signed = {"colorscale": theme.DIVERGING, "colorbar": _bar("content, bias, logits")}
    figure.update_layout(coloraxis=signed, coloraxis2=weight, bargap=0.25)
    _add_tiles(figure)
    place(figure, 880, 1)
    return figure


def tiles(page_width: int, heads: int) -> Atlas:
    """The small matrices of all heads on a page of this width, in pixels."""
    return Atlas(heads, _plot_width(page_width) - 2 * _PAD, _STRIP)


def place(figure: go.Figure, page_width: int, heads: int) -> None:
    """Set the height of the figure, and put the panels and the tiles where they belong on a page of this width."""
    across, down = (extent + 2 * _PAD for extent in tiles(page_width, heads).extent)
    panels = _side(page_width) / (_ROWS[0][1] - _ROWS[0][0])
    total = panels + _GAP + down
    update_changed(figure.layout, height=round(total) + _MARGIN["t"] + _MARGIN["b"])
    rows = [[1 - (1 - end) * panels / total for end in row] for row in _ROWS]
    for panel, (_, row) in enumerate(PANELS):
        update_changed(figure.layout[name("yaxis", panel)], domain=rows[row])
        update_changed(figure.layout.annotations[panel], y=rows[row][1])
    for scale, (low, high) in zip((figure.layout.coloraxis, figure.layout.coloraxis2), rows, strict=True):
        update_changed(scale.colorbar, y=(low + high) / 2, len=high - low)
    x, y = (figure.layout[name(axis, len(PANELS))] for axis in ("xaxis", "yaxis"))
    update_changed(x, domain=[0, across / _plot_width(page_width)], range=[-_PAD, across - _PAD])
    update_changed(y, domain=[0, down / total], range=[down - _PAD, -_PAD])
    update_changed(figure.layout.annotations[len(PANELS)], y=(down + _TILE_TITLE) / total)
    size = {"sizex": across - 2 * (_PAD - BORDER), "sizey": down - 2 * (_PAD - BORDER)}
    update_changed(figure.layout.images[0], **size)


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
    return (_COLUMNS[0][1] - _COLUMNS[0][0]) * _plot_width(page_width)


def _plot_width(page_width: int) -> int:
    return max(page_width - _MARGIN["l"] - _MARGIN["r"], 1)


def _side(page_width: int) -> float:
    return min(max(_column_width(page_width), _SIDES[0]), _SIDES[1])


def _add_axes(figure: go.Figure, panel: int, x: list[float], *, key_labels: bool, side_labels: bool) -> None:
    """The axes of a panel, the gray background that shows through masked cells, and a title."""
    # ticklabeloverflow="allow" skips a search for labels outside the figure, which takes a third of the drawing time
    common = {"showgrid": False, "tickfont": {"size": 10}, "ticklen": 2, "ticklabeloverflow": "allow"}
    x_axis = {"domain": x, "anchor": name("y", panel), "tickangle": -90, "showticklabels": key_labels, **common}
    x_axis |= {"nticks": 6, "tickformat": ",d"}  # for positions, where `draw` sets no tokens
    y_axis = {"anchor": name("x", panel), "showticklabels": side_labels, **common}
    figure.update_layout({name("xaxis", panel): x_axis, name("yaxis", panel): y_axis})
    background = {"type": "rect", "xref": f"{name('x', panel)} domain", "x0": 0, "x1": 1, "y0": 0, "y1": 1}
    if panel == BARS:
        background = {"type": "path", "xref": name("x", panel), "path": "M0,0Z"}  # depends on the query
    style = {"yref": f"{name('y', panel)} domain", "layer": "below", "fillcolor": theme.MASKED, "line_width": 0}
    figure.add_shape(**background, **style)
    _add_title(figure, x[0])


def _add_title(figure: go.Figure, x: float) -> None:
    left = {"x": x, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
    figure.add_annotation(text="", font={"size": 12}, showarrow=False, align="left", **left)


def _add_tiles(figure: go.Figure) -> None:
    """An image of all heads, an invisible heatmap for its hover texts and clicks, their numbers, and two frames.

    One unit of the axes is one pixel, as in `Atlas`.
    """
    x, y = name("x", len(PANELS)), name("y", len(PANELS))
    figure.update_layout({name(axis, len(PANELS)): {"visible": False} for axis in ("xaxis", "yaxis")})
    pair = "head %{customdata[6]}<br>query %{customdata[4]}<br>key %{customdata[5]}"
    template = PAIR.replace("%{text}", pair)
    figure.add_heatmap(opacity=0, showscale=False, hoverongaps=False, hovertemplate=template, xaxis=x, yaxis=y)
    text = {"textposition": "top right", "textfont": {"size": 11}, "cliponaxis": False, "hoverinfo": "skip"}
    figure.add_scatter(mode="text", **text, xaxis=x, yaxis=y)
    figure.add_layout_image(xref=x, yref=y, x=-BORDER, y=-BORDER, sizing="stretch", layer="below")
    frame = {"xref": x, "yref": y, "line": {"color": FRAME_COLOR, "width": 1}}
    figure.add_shape(type="path", path="M0,0Z", **frame)
    figure.add_shape(type="rect", x0=0, x1=0, y0=0, y1=0, **frame | {"line": {"color": FRAME_COLOR, "width": 3}})
    _add_title(figure, 0)


def _bar(title: str) -> dict[str, object]:
    place = {"x": 1.01, "xanchor": "left", "yanchor": "middle", "ypad": 0}
    text = {"text": title, "side": "right", "font": {"size": 12}}
    return {**place, "thickness": 10, "outlinewidth": 0, "ticklen": 3, "title": text}
