"""The weights of all heads in a strip, and below it how one head reads a text: the weights of one
query as bars, and on demand content + bias = logits -> weights for all queries.

    the weights of every head, as a strip of small matrices
    the bars of one query

With the matrices:

    the weights of every head, as a strip of small matrices
    content + bias = logits -> weights, and the bars of one query

Content, bias and logits share one color scale, so that they can be compared.
"""

import html
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.attention import AttentionTrace
from alibi_viz.figures import heatmap_grid, theme
from alibi_viz.figures.theme import ColorScale, as_array, named_trace, update_changed, with_gaps
from alibi_viz.figures.tile_grid import PAD, Grid
from alibi_viz.figures.token_labels import label, literal, quoted_token

Floats = NDArray[np.float64]
Texts = NDArray[np.object_]
# What is said of a (head, query, key), each from 0, when the pointer is on it
Describe = Callable[[int, int, int], str]


class Panel(NamedTuple):
    """The place of a subplot, counted from 1."""

    row: int
    col: int


STEPS = ("content", "bias", "logits", "weights")
COLUMNS = "columns"  # the trace that takes the pointer above a key of the bars
_PANELS = {
    "grid": Panel(1, 1),
    "content": Panel(2, 1),
    "bias": Panel(2, 2),
    "logits": Panel(2, 3),
    "weights": Panel(2, 4),
    "bars": Panel(2, 5),
}
# What stands to the right of a matrix
_SIGNS = {"content": "+", "bias": "=", "logits": "→"}

# Pixels
_MARGIN = {"l": 76, "r": 18, "t": 42, "b": 52}
_FLAT_LABELS = 24  # the lower margin below labels that are not turned
_GRID_HEIGHT = 64 + 2 * PAD
_TILE_TITLE = 17  # for the number of a head
_GAP_BELOW_GRID = 38  # for a title
_MAX_SIDE = 156  # of a matrix, so that the app fits a laptop
_BETWEEN_MATRICES = 26  # for a sign
_BEFORE_BARS = 50  # for their percentages
_LEAST_BARS = 120  # the width of the bars beside the matrices
_NARROW = 620  # on a narrower page, the bars are below the matrices
_BARS_BELOW = 120  # their height there
_ABOVE_BARS = 76  # for the labels of the matrices, and a title
_NO_HEADING = 460  # the width at which the color bars take the place of the heading
_LABEL = 10  # from one label to the next
_LETTER = 6.2  # of a label
_SCALE_OF_SUM = 140  # from the right edge to the color bar of content, bias and logits

_WEIGHTS = ColorScale(0.0, 0.3, weights=True)  # almost all weights are far below
_FRAME_COLOR = "#D6368F"  # not in any of the color scales, and visible on both themes
_MINUS = "\N{MINUS SIGN}"
_MAX_HOVER = 4096  # cells with a hover text, in all small matrices together
_HOVER = "%{customdata}<extra></extra>"


class Places(NamedTuple):
    """Where the panels stand, in pixels.

    Attributes:
        width: of the plotting area.
        side: of a matrix.
        left_of_bars: from the left edge of the plotting area.
        bottom: the height of the labels below.
        bars_below: the height of the bars below the matrices; 0 if they are beside them.
    """

    width: int
    side: int
    left_of_bars: int
    bottom: int
    bars_below: int = 0

    @classmethod
    def on_page(cls, page_width: int, tokens: Sequence[str], *, matrices: bool) -> "Places":
        """The panels of a page of this width, with the matrices or without them."""
        width = max(page_width - _MARGIN["l"] - _MARGIN["r"], 1)
        if page_width < _NARROW:
            side = (width - 3 * _BETWEEN_MATRICES) // 4
            return cls(width, max(side, 40), 0, _MARGIN["b"], _BARS_BELOW)
        gaps = 3 * _BETWEEN_MATRICES + _BEFORE_BARS
        side = (width - gaps - _LEAST_BARS) // 4
        side = min(max(side, 40), _MAX_SIDE)
        if matrices:
            # On a very narrow page, the bars end at the edge.
            left_of_bars = min(4 * side + gaps, width - 1)
            return cls(width, side, left_of_bars, _MARGIN["b"])
        is_flat = _has_room(tokens, len(tokens), width)
        return cls(width, side, 0, _FLAT_LABELS if is_flat else _MARGIN["b"])

    @property
    def figure_height(self) -> int:
        """The height of the figure, the same with the matrices and without them."""
        inside = _GRID_HEIGHT + _GAP_BELOW_GRID + self.side
        if self.bars_below:
            inside += _ABOVE_BARS + self.bars_below
        return _MARGIN["t"] + inside + _MARGIN["b"]

    @property
    def height(self) -> int:
        """The height of the plotting area."""
        return self.figure_height - _MARGIN["t"] - self.bottom

    @property
    def top_of_panels(self) -> float:
        """The upper end of the panels below the strip, a share of the plotting area."""
        return 1 - (_GRID_HEIGHT + _GAP_BELOW_GRID) / self.height

    @property
    def bottom_of_grid(self) -> float:
        """The lower end of the strip, a share of the plotting area."""
        return 1 - _GRID_HEIGHT / self.height

    def down(self, name: str, *, matrices: bool) -> list[float]:
        """Where the bars or a matrix start and end from bottom to top, shares of the plotting area.

        Without the matrices, the bars have the room of both.
        """
        top = self.top_of_panels
        if not matrices or not self.bars_below:
            return [0, top]
        if name == "bars":
            return [0, self.bars_below / self.height]
        return [top - self.side / self.height, top]

    def across(self, name: str) -> list[float]:
        """Where a panel starts and ends from left to right, shares of the plotting area."""
        if name == "grid":
            return [0, 1]
        if name == "bars":
            return [self.left_of_bars / self.width, 1]
        start = STEPS.index(name) * (self.side + _BETWEEN_MATRICES)
        # On a very narrow page, a matrix ends at the edge.
        end = min(start + self.side, self.width)
        return [min(start, end) / self.width, end / self.width]


def blank() -> go.Figure:
    """The figure without data: named traces in six subplots, gray backgrounds, frames around the
    selection."""
    figure = _subplots()
    _style_axes(figure)
    _add_color_bar(figure, "coloraxis", theme.DIVERGING, length=190)
    _add_color_bar(figure, "coloraxis2", theme.SEQUENTIAL, length=112)
    percent = {"tickvals": [0, 0.15, _WEIGHTS.high], "ticktext": ["0%", "weight", "≥ 30%"]}
    figure.layout.coloraxis2.update(cmin=0, cmax=_WEIGHTS.high, colorbar=percent)
    for name in STEPS:
        _add_matrix(figure, name)
    _add_bars(figure)
    _add_grid(figure)
    for name in _PANELS:
        _add_title(figure, name)
    for name, sign in _SIGNS.items():
        _add_sign(figure, name, sign)
    return figure


def _subplots() -> go.Figure:
    """The strip of heads, and below it four matrices and the bars."""
    figure = theme.blank(
        height=Places.on_page(880, [], matrices=False).figure_height,
        hovermode="closest",
        showlegend=False,
        margin=_MARGIN,
        barmode="overlay",
        bargap=0.25,
    )
    strip_over_all = [{"colspan": 5}, None, None, None, None]
    figure.set_subplots(2, 5, specs=[strip_over_all, [{}] * 5])
    return figure


def _style_axes(figure: go.Figure) -> None:
    # ticklabeloverflow="allow" skips a search for labels outside the figure, which takes a third of
    # the drawing time.
    axis = {"showgrid": False, "tickfont_size": 10, "ticklen": 2, "ticklabeloverflow": "allow"}
    figure.update_xaxes(**axis, tickangle=-90)
    figure.update_yaxes(**axis)
    # Tokens stand on the left and below only.
    for name in ("bias", "logits", "weights"):
        figure.get_subplot(*_PANELS[name]).yaxis.showticklabels = False
    _, shares = figure.get_subplot(*_PANELS["bars"])
    shares.update(tickformat=".0%", nticks=5, showgrid=True)
    for axis_of_grid in figure.get_subplot(*_PANELS["grid"]):
        axis_of_grid.visible = False


def _add_color_bar(figure: go.Figure, name: str, colors: Any, *, length: int) -> None:
    """A color axis with its bar, so many pixels long, above the right end of the strip."""
    figure.layout[name] = {
        "colorscale": colors,
        "colorbar": {
            **theme.COLOR_BAR,
            "orientation": "h",
            "thickness": 8,
            "ticks": "",
            "ticklen": 0,
            "x": 1,
            "xanchor": "right",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "ypad": 2,
            "lenmode": "pixels",
            "len": length,
            "tickfont_size": 10,
            "tickangle": 0,
        },
    }


def _add_matrix(figure: go.Figure, name: str) -> None:
    """A step: its heatmap on gray, and a frame for the selected query."""
    place = _PANELS[name]._asdict()
    figure.add_heatmap(
        name=name,
        coloraxis="coloraxis2" if name == "weights" else "coloraxis",
        hoverongaps=True,
        hovertemplate=_HOVER,
        **place,
    )
    across = {"xref": "x domain", "x0": 0, "x1": 1, "y0": 0, "y1": 1}
    figure.add_shape(
        **across,
        name=f"background of {name}",
        yref="y domain",
        layer="below",
        fillcolor=theme.MASKED,
        line_width=0,
        **place,
    )
    figure.add_shape(**across, name=name, line={"color": _FRAME_COLOR, "width": 2}, **place)


def _add_bars(figure: go.Figure) -> None:
    """The weights of the selected query: bars, and diamonds for those with the other bias.

    An invisible column over each key takes the pointer, because most bars are too low for it.
    """
    place = _PANELS["bars"]._asdict()
    figure.add_bar(name="bars", marker_color=theme.BLUE, hoverinfo="skip", **place)
    diamond = {
        "symbol": "diamond-open",
        "size": 8,
        "color": theme.ORANGE,
        "line": {"width": 1.5},
    }
    figure.add_scatter(
        name="other", mode="markers", marker=diamond, cliponaxis=False, hoverinfo="skip", **place
    )
    figure.add_bar(name=COLUMNS, opacity=0, width=1, hovertemplate=_HOVER, **place)


def _add_grid(figure: go.Figure) -> None:
    """The weights of all heads, and frames for the selected query and head."""
    place = _PANELS["grid"]._asdict()
    axes = figure.get_subplot(*_PANELS["grid"])
    x, y = (axis.plotly_name.replace("axis", "") for axis in axes)
    heatmap_grid.add_grid(figure, "%{customdata}", x, y)
    # plotly draws the color bar of the weights only for a trace that uses its colors.
    titles = named_trace(figure, heatmap_grid.TITLES)
    titles.marker.update(color=[0], coloraxis="coloraxis2")
    figure.add_shape(
        name="query in the grid",
        type="path",
        path="M0,0Z",
        line={"color": _FRAME_COLOR, "width": 1},
        **place,
    )
    figure.add_shape(name="head in the grid", line={"color": _FRAME_COLOR, "width": 3}, **place)


def _add_title(figure: go.Figure, name: str) -> None:
    """An empty title above the upper left corner of a panel; that of the grid is above the numbers
    of the heads."""
    figure.add_annotation(
        theme.TITLE,
        name=name,
        xref="x domain",
        yref="y domain",
        yshift=_TILE_TITLE if name == "grid" else 0,
        font_size=12,
        align="left",
        **_PANELS[name]._asdict(),
    )


def _add_sign(figure: go.Figure, name: str, sign: str) -> None:
    """What is done with a matrix, to the right of it."""
    figure.add_annotation(
        name=f"after {name}",
        text=sign,
        x=1,
        xref="x domain",
        xanchor="center",
        xshift=_BETWEEN_MATRICES / 2,
        y=0.5,
        yref="y domain",
        yanchor="middle",
        showarrow=False,
        font_size=20,
        **_PANELS[name]._asdict(),
    )


def draw(
    figure: go.Figure,
    tokens: Sequence[str],
    trace: AttentionTrace,
    other: AttentionTrace,
    *,
    describe: Describe,
    head: int = 0,
    query: int = -1,
    names: tuple[str, str] = ("bias on", "bias off"),
    bias_name: str = "bias",
    matrices: bool = True,
    page_width: int = 880,
) -> None:
    """Draw a text and its trace [1, heads, length, length] into a figure from `blank`, plain or
    live.

    A cell whose logit is -inf is masked. `other`, the same text with another bias, gives the
    diamonds, and `names` are those of both in the legend. `describe` gives the hover text of a
    cell. The selected head and query may be negative, from the end. `bias_name` is the title of the
    bias panel, `matrices` shows the four steps, and `page_width`, the pixels available, decides
    their size and the number of labels.
    """
    heads, length = trace.weights.shape[1:3]
    shown = _Shown.of(tokens, trace, describe=describe, head=head % heads, query=query % length)
    other_weights = as_array(other.weights[0]).round(_DIGITS)
    places = Places.on_page(page_width, tokens, matrices=matrices)
    hover = shown.hover_of_head()
    with figure.batch_update():
        _arrange(figure, places, matrices=matrices)
        _label_axes(figure, tokens, places, query=shown.query)
        _draw_matrices(figure, shown, hover, visible=matrices)
        _draw_bars(figure, shown, other_weights, hover[shown.query])
        _draw_grid(figure, shown, width=places.width)
        _draw_titles(figure, shown, places, names=names, bias_name=bias_name, matrices=matrices)


_DIGITS = 5  # after the point: more are never visible


class _Shown(NamedTuple):
    """What is drawn.

    Attributes:
        tokens: the text.
        describe: the hover text of a cell.
        steps: {step: float64 [heads, query, key]}.
        masked: bool [heads, query, key].
        head, query: the selected ones, from 0.
    """

    tokens: Sequence[str]
    describe: Describe
    steps: dict[str, Floats]
    masked: NDArray[np.bool_]
    head: int
    query: int

    @classmethod
    def of(
        cls,
        tokens: Sequence[str],
        trace: AttentionTrace,
        *,
        describe: Describe,
        head: int,
        query: int,
    ) -> "_Shown":
        steps = {name: as_array(getattr(trace, name)[0]).round(_DIGITS) for name in STEPS}
        return cls(
            tokens=tokens,
            describe=describe,
            steps=steps,
            masked=np.isneginf(steps["logits"]),
            head=head,
            query=query,
        )

    @property
    def word(self) -> str:
        """The selected query in words."""
        return literal(f"query {self.query:,} {quoted_token(self.tokens[self.query], 16)}")

    def hover_of_head(self) -> Texts:
        """The hover texts of all cells of the selected head: [query, key]."""
        length = len(self.tokens)
        texts = np.empty((length, length), dtype=object)
        for query, key in np.ndindex(length, length):
            texts[query, key] = literal(self.describe(self.head, query, key))
        return texts

    def hover_of_heads(self, places: Sequence[int]) -> Texts:
        """The hover texts of all heads between the tokens at some places: [heads, query, key]."""
        heads = len(self.masked)
        texts = np.empty((heads, len(places), len(places)), dtype=object)
        for head, row, column in np.ndindex(texts.shape):
            line = self.describe(head, places[row], places[column])
            texts[head, row, column] = literal(f"head {head + 1}: {line}")
        return texts


def _arrange(figure: go.Figure, places: Places, *, matrices: bool) -> None:
    """Put the panels in their places, and show or hide the matrices."""
    update_changed(figure.layout, height=places.figure_height)
    update_changed(figure.layout.margin, b=places.bottom)
    for name, panel in _PANELS.items():
        x, y = figure.get_subplot(*panel)
        if name == "grid":
            update_changed(y, domain=[places.bottom_of_grid, 1])
            continue
        update_changed(x, domain=places.across(name))
        update_changed(y, domain=places.down(name, matrices=matrices))

    update_changed(figure.layout.coloraxis, showscale=matrices)
    right = max(0, 1 - _SCALE_OF_SUM / places.width)
    update_changed(figure.layout.coloraxis.colorbar, x=right)
    for name in STEPS:
        for axis in figure.get_subplot(*_PANELS[name]):
            update_changed(axis, visible=matrices)
    belong_to_matrices = {*STEPS}
    belong_to_matrices |= {f"after {name}" for name in _SIGNS}
    belong_to_matrices |= {f"background of {name}" for name in STEPS}
    for mark in (*figure.layout.shapes, *figure.layout.annotations):
        if mark.name in belong_to_matrices:
            update_changed(mark, visible=matrices)


def _label_axes(figure: go.Figure, tokens: Sequence[str], places: Places, *, query: int) -> None:
    """Tokens on the axes, the selected query in bold; only every n-th one if there is not room for
    all."""

    def texts(positions: Sequence[int]) -> list[str]:
        labels = []
        for position in positions:
            text = label(tokens[position])
            labels.append(f"<b>{text}</b>" if position == query else text)
        return labels

    length = len(tokens)
    first = -0.5
    last = length - 0.5
    beside = _spread(length, places.side // _LABEL, keep=query)
    for name in (*STEPS, "bars"):
        x, y = figure.get_subplot(*_PANELS[name])
        start, end = places.across(name)
        pixels = round((end - start) * places.width)
        below = _spread(length, max(1, pixels // _LABEL), keep=query)
        is_flat = _has_room(tokens, len(below), pixels)
        update_changed(
            x,
            range=[first, last],
            tickvals=below,
            ticktext=texts(below),
            tickangle=0 if is_flat else -90,
        )
        if name in STEPS:
            update_changed(y, range=[last, first], tickvals=beside, ticktext=texts(beside))


def _has_room(tokens: Sequence[str], labels: int, pixels: float) -> bool:
    """Whether so many labels fit beside each other."""
    longest = max((len(html.unescape(label(token))) for token in tokens), default=0)
    return (longest + 1) * _LETTER * labels <= pixels


def _draw_matrices(figure: go.Figure, shown: _Shown, hover: Texts, *, visible: bool) -> None:
    """The four steps of the selected head. The colors depend on all heads, so they are steady."""
    if not visible:
        # On each change, a FigureWidget copies all data.
        for name in STEPS:
            update_changed(named_trace(figure, name), visible=False, z=None, customdata=None)
        return

    visible_content = shown.steps["content"][~shown.masked]
    limit = max(4, math.ceil(1.5 * float(np.abs(visible_content).max())))
    update_changed(figure.layout.coloraxis, cmin=-limit, cmax=limit)
    update_changed(
        figure.layout.coloraxis.colorbar,
        tickvals=[-limit, 0, limit],
        ticktext=[f"≤ {_MINUS}{limit}", "content, bias, logits", f"≥ {limit}"],
    )
    masked = shown.masked[shown.head]
    for name in STEPS:
        values = with_gaps(shown.steps[name][shown.head], masked)
        named_trace(figure, name).update(z=values, customdata=hover, visible=True)
        update_changed(_named_shape(figure, name), y0=shown.query - 0.5, y1=shown.query + 0.5)


def _draw_bars(figure: go.Figure, shown: _Shown, other_weights: Floats, hover: Texts) -> None:
    """The weights of the selected query, and those with the other bias."""
    weights = shown.steps["weights"]
    masked = shown.masked[shown.head, shown.query]
    keys = np.arange(len(shown.tokens))
    for name, of_all in (("bars", weights), ("other", other_weights)):
        named_trace(figure, name).update(
            x=keys, y=with_gaps(of_all[shown.head, shown.query], masked)
        )

    # Of all heads, for a steady axis
    largest = max(weights[:, shown.query].max(), other_weights[:, shown.query].max())
    top = 1.08 * largest
    update_changed(figure.get_subplot(*_PANELS["bars"]).yaxis, range=[0, top])
    named_trace(figure, COLUMNS).update(x=keys, y=np.full(len(keys), top), customdata=hover)


def _draw_titles(
    figure: go.Figure,
    shown: _Shown,
    places: Places,
    *,
    names: tuple[str, str],
    bias_name: str,
    matrices: bool,
) -> None:
    """The title of each panel, with the legend of its marks. Narrow panels have short ones."""
    is_narrow = places.bars_below > 0

    def mark(color: str, sign: str) -> str:
        return f'<span style="color:{color}">{sign}</span>'

    heads = "weights of every head; click one"
    if is_narrow:
        heads = "click a head"
    if matrices and places.width < _NO_HEADING:
        heads = ""  # beside two color bars
    if heads and shown.masked.any():
        heads += f"  {mark(theme.MASKED, '■')} masked"
    bars = f"{mark(theme.BLUE, '■')} {names[0]}  {mark(theme.ORANGE, '◇')} {names[1]}"
    if not matrices:
        frame = mark(_FRAME_COLOR, "▭")
        bars = f"weights of {frame} {shown.word} in head {shown.head + 1}:  {bars}"
    titles = {
        "grid": heads,
        "content": "content" if is_narrow else "content, q · k / √d",
        "bias": "bias" if is_narrow else bias_name,
        "logits": "logits",
        "weights": "weights" if is_narrow else "softmax: weights",
        "bars": bars,
    }
    for name, title in titles.items():
        update_changed(_named_annotation(figure, name), text=title)


def _draw_grid(figure: go.Figure, shown: _Shown, *, width: int) -> None:
    """The weights of every head, with the query and the selected head framed."""
    weights = shown.steps["weights"]
    heads = len(weights)
    grid = Grid(heads, width - 2 * PAD, _GRID_HEIGHT - 2 * PAD)
    png = grid.png(_WEIGHTS.indices(weights), shown.masked, _WEIGHTS.palette)
    heatmap_grid.fill_grid(figure, grid, png, _tile_titles(grid, heads, shown.head))

    length = len(shown.tokens)
    hover = shown.hover_of_heads(grid.hover_cells(length, _MAX_HOVER).tolist())
    head_numbers = range(1, heads + 1)
    step = grid.hover_step(length, _MAX_HOVER)
    heatmap_grid.fill_hover(figure, grid, length, hover, head_numbers, step=step)

    across, down = grid.ranges(width)
    x, y = figure.get_subplot(*_PANELS["grid"])
    update_changed(x, range=across)
    update_changed(y, range=[down[1] + _GRID_HEIGHT, down[1]])
    _frame_selection(figure, grid, shown)


def _tile_titles(grid: Grid, heads: int, selected: int) -> list[str]:
    """The numbers of the heads, the selected one in bold."""
    has_room = len(f"head {heads}") * heatmap_grid.LETTER <= grid.side
    start = "head " if has_room else ""
    titles = []
    for head in range(heads):
        title = f"{start}{head + 1}"
        titles.append(f"<b>{title}</b>" if head == selected else title)
    return titles


def _frame_selection(figure: go.Figure, grid: Grid, shown: _Shown) -> None:
    """Frame the selected query in every tile, and the tile of the selected head."""
    side = grid.side
    cell = side / len(shown.tokens)
    height = max(cell, 3)  # at least 3 pixels
    top = (shown.query + 0.5) * cell - height / 2
    frames = []
    for x, y in grid.corners.tolist():
        # plotly has no relative commands.
        upper = f"{y + top:.2f}"
        lower = f"{y + top + height:.2f}"
        frames.append(f"M{x},{upper}H{x + side}V{lower}H{x}Z")
    update_changed(_named_shape(figure, "query in the grid"), path="".join(frames))

    x, y = grid.corners[shown.head].tolist()
    update_changed(
        _named_shape(figure, "head in the grid"),
        x0=x - 2,
        x1=x + side + 2,
        y0=y - 2,
        y1=y + side + 2,
    )


def _named_shape(figure: go.Figure, name: str) -> Any:
    # plotly's own `select_shapes` takes 3 ms.
    return next(shape for shape in figure.layout.shapes if shape.name == name)


def _named_annotation(figure: go.Figure, name: str) -> Any:
    return next(title for title in figure.layout.annotations if title.name == name)


def _spread(length: int, limit: int, keep: int | None = None) -> list[int]:
    """Every n-th position, about `limit` of them. `keep` is always one of them and replaces its
    neighbors.

    >>> from alibi_viz.figures.attention_plot import _spread
    >>> _spread(10, 5), _spread(10, 5, keep=3)
    ([0, 2, 4, 6, 8], [0, 3, 6, 8])
    """
    step = math.ceil(length / limit)
    places = list(range(0, length, step))
    if keep is None:
        return places
    far_enough = [place for place in places if abs(place - keep) >= step]
    return sorted([*far_enough, keep])
