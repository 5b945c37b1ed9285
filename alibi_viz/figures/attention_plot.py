"""Content + bias = logits -> weights for one head, the weights of one of its queries, and the
weights of all heads.

    content   + bias      query: one row of weights
    = logits  -> weights
    the weights of every head, as a grid of small matrices

Content, bias and logits share one color scale, so that they can be compared.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.attention import AttentionTrace
from alibi_viz.figures import heatmap_grid, theme
from alibi_viz.figures.theme import ColorScale, as_array, named_trace, update_changed, with_gaps
from alibi_viz.figures.tile_grid import Grid
from alibi_viz.figures.token_labels import label, literal, quoted_token

Floats = NDArray[np.float64]
Texts = NDArray[np.object_]


class Panel(NamedTuple):
    """The place of a subplot, counted from 1."""

    row: int
    col: int


STEPS = ("content", "bias", "logits", "weights")
# The panels are titled in this order.
_PANELS = {
    "content": Panel(1, 1),
    "bias": Panel(1, 2),
    "bars": Panel(1, 3),
    "logits": Panel(2, 1),
    "weights": Panel(2, 2),
    "grid": Panel(3, 1),
}

# Pixels
_MARGIN = {"l": 92, "r": 84, "t": 46, "b": 8}
_SIDE = 206  # the height of a matrix, which makes it square on a page of the usual width
_GAP_BELOW_FIRST_ROW = 36  # for a title of two lines
_GAP_ABOVE_GRID = 104  # for tokens and two titles
_GRID_HEIGHT = 120  # eight heads in one row leave little of it empty
_TILE_TITLE = 18  # for the number of a head
_LABEL = 10  # from one label to the next
_PLOT_HEIGHT = 2 * _SIDE + _GAP_BELOW_FIRST_ROW + _GAP_ABOVE_GRID + _GRID_HEIGHT

# Shares of the plotting area
_COLUMN = 0.293  # the width of a panel
_SIDE_SHARE = _SIDE / _PLOT_HEIGHT
_FIRST_ROW = 1 - _SIDE_SHARE  # its lower end
_SECOND_ROW = _FIRST_ROW - _GAP_BELOW_FIRST_ROW / _PLOT_HEIGHT - _SIDE_SHARE
_GRID_TOP = _GRID_HEIGHT / _PLOT_HEIGHT

_WEIGHTS = ColorScale(0.0, 0.3, weights=True)  # almost all weights are far below
_FRAME_COLOR = "#D6368F"  # not in any of the color scales, and visible on both themes
_MINUS = "\N{MINUS SIGN}"
_MAX_HOVER = 4096  # cells with a hover text, in all small matrices together

# What a cell says when the pointer is over it: the columns of its customdata, in this order
_HOVER_COLUMNS = ("head", "query", "key", *STEPS)
_COLUMN_OF = {name: column for column, name in enumerate(_HOVER_COLUMNS)}
_PAIR = "head %{customdata[0]}<br>query %{customdata[1]}<br>key %{customdata[2]}<br>"
_SUM = (
    "content %{customdata[3]} + bias %{customdata[4]} = logit %{customdata[5]} → weight "
    "%{customdata[6]}%"
)
_HOVER = f"{_PAIR}{_SUM}<extra></extra>"


def blank() -> go.Figure:
    """The figure without data: named traces in six subplots, gray backgrounds, frames around the
    selection."""
    figure = _subplots()
    _style_axes(figure)
    _add_color_bar(figure, "coloraxis", theme.DIVERGING, "content,<br>bias,<br>logits", _FIRST_ROW)
    _add_color_bar(figure, "coloraxis2", theme.SEQUENTIAL, "weight", _SECOND_ROW)
    percent = {"tickvals": [0, 0.15, _WEIGHTS.high], "ticktext": ["0%", "15%", "≥ 30%"]}
    figure.layout.coloraxis2.update(cmin=0, cmax=_WEIGHTS.high, colorbar=percent)
    for name in STEPS:
        _add_matrix(figure, name)
    _add_bars(figure)
    _add_grid(figure)
    for name in _PANELS:
        _add_title(figure, name)
    return figure


def _subplots() -> go.Figure:
    """Two rows of matrices with the bars beside them, and the grid below."""
    figure = theme.blank(
        height=_PLOT_HEIGHT + _MARGIN["t"] + _MARGIN["b"],
        hovermode="closest",
        showlegend=False,
        margin=_MARGIN,
        bargap=0.25,
    )
    specs = [
        [{}, {}, {"rowspan": 2}],
        [{}, {}, None],
        [{"colspan": 3}, None, None],
    ]
    figure.set_subplots(3, 3, specs=specs, horizontal_spacing=(1 - 3 * _COLUMN) / 2)
    return figure


def _style_axes(figure: go.Figure) -> None:
    # ticklabeloverflow="allow" skips a search for labels outside the figure, which takes a third of
    # the drawing time.
    axis = {"showgrid": False, "tickfont_size": 10, "ticklen": 2, "ticklabeloverflow": "allow"}
    figure.update_xaxes(**axis, tickangle=-90)
    figure.update_yaxes(**axis, domain=[_FIRST_ROW, 1], row=1)
    figure.update_yaxes(**axis, domain=[_SECOND_ROW, _SECOND_ROW + _SIDE_SHARE], row=2)
    figure.update_yaxes(**axis, domain=[0, _GRID_TOP], row=3)

    bars = _PANELS["bars"]
    figure.update_yaxes(
        domain=[_SECOND_ROW, 1], tickformat=".0%", nticks=5, row=bars.row, col=bars.col
    )
    # Tokens stand on the left and below only.
    figure.update_yaxes(showticklabels=False, col=2)
    for name in ("content", "bias"):
        figure.get_subplot(*_PANELS[name]).xaxis.showticklabels = False
    grid = figure.get_subplot(*_PANELS["grid"])
    grid.xaxis.visible = False
    grid.yaxis.visible = False


def _add_color_bar(figure: go.Figure, name: str, colors: Any, title: str, y: float) -> None:
    """A color axis with its bar beside a row of matrices, whose lower end is at y."""
    figure.layout[name] = {
        "colorscale": colors,
        "colorbar": {
            "x": 1.01,
            "y": y,
            "yanchor": "bottom",
            "len": _SIDE_SHARE,
            "ypad": 0,
            "thickness": 10,
            "outlinewidth": 0,
            "tickfont_size": 10,
            "title": {"text": title, "side": "top", "font": {"size": 11}},
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
        yref="y domain",
        layer="below",
        fillcolor=theme.MASKED,
        line_width=0,
        **place,
    )
    figure.add_shape(**across, name=name, line={"color": _FRAME_COLOR, "width": 2}, **place)


def _add_bars(figure: go.Figure) -> None:
    """The weights of the selected query: bars, and diamonds for those with the other bias."""
    place = _PANELS["bars"]._asdict()
    figure.add_bar(name="bars", marker_color=theme.BLUE, hovertemplate=_HOVER, **place)
    diamond = {
        "symbol": "diamond-open",
        "size": 8,
        "color": theme.ORANGE,
        "line": {"width": 1.5},
    }
    figure.add_scatter(name="other", mode="markers", marker=diamond, cliponaxis=False, **place)


def _add_grid(figure: go.Figure) -> None:
    """The weights of all heads, and frames for the selected query and head."""
    place = _PANELS["grid"]._asdict()
    axes = figure.get_subplot(*_PANELS["grid"])
    x, y = (axis.plotly_name.replace("axis", "") for axis in axes)
    heatmap_grid.add_grid(figure, _PAIR + _SUM, x, y)
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


def draw(
    figure: go.Figure,
    tokens: Sequence[str],
    trace: AttentionTrace,
    other: AttentionTrace,
    *,
    head: int = 0,
    query: int = -1,
    names: tuple[str, str] = ("bias on", "bias off"),
    bias_name: str = "bias",
    page_width: int = 880,
) -> None:
    """Draw a text and its trace [1, heads, length, length] into a figure from `blank`, plain or
    live.

    A cell whose logit is -inf is masked. `other`, the same text with another bias, gives the
    diamonds, and `names` are those of both in the legend. The selected head and query may be
    negative, from the end. `bias_name` is the title of the bias panel, and `page_width`, the pixels
    available, decides the number of labels.
    """
    heads, length = trace.weights.shape[1:3]
    shown = _Shown.of(tokens, trace, head=head % heads, query=query % length)
    other_weights = as_array(other.weights[0]).round(_DIGITS)
    width = max(page_width - _MARGIN["l"] - _MARGIN["r"], 1)
    hover = shown.hover_of_head()
    with figure.batch_update():
        _label_axes(figure, tokens, query=shown.query, width=width)
        _draw_matrices(figure, shown, hover)
        _draw_bars(figure, shown, other_weights, hover[shown.query], other_name=names[1])
        _draw_grid(figure, shown, width=width)
        _draw_titles(figure, shown, names=names, bias_name=bias_name)


_DIGITS = 5  # after the point: more are never visible


class _Shown(NamedTuple):
    """What is drawn.

    Attributes:
        tokens: the text.
        words: the place and the text of each token, for hover texts: [length].
        steps: {step: float64 [heads, query, key]}.
        masked: bool [heads, query, key].
        head, query: the selected ones, from 0.
    """

    tokens: Sequence[str]
    words: Texts
    steps: dict[str, Floats]
    masked: NDArray[np.bool_]
    head: int
    query: int

    @classmethod
    def of(cls, tokens: Sequence[str], trace: AttentionTrace, *, head: int, query: int) -> "_Shown":
        words = [f"{place} “{label(token, 40)}”" for place, token in enumerate(tokens)]
        steps = {name: as_array(getattr(trace, name)[0]).round(_DIGITS) for name in STEPS}
        return cls(
            tokens=tokens,
            words=np.array(words, dtype=object),
            steps=steps,
            masked=np.isneginf(steps["logits"]),
            head=head,
            query=query,
        )

    @property
    def word(self) -> str:
        """The selected query in words."""
        return literal(f"query {self.query:,} {quoted_token(self.tokens[self.query], 16)}")

    def hover(self, heads: Sequence[int], places: NDArray[np.int64]) -> Texts:
        """The customdata of the cells of some heads, from 0, between the tokens at some places:
        [heads, query, key, column]."""
        chosen = np.ix_(np.array(heads), places, places)
        masked = self.masked[chosen]
        cells = np.empty((*masked.shape, len(_HOVER_COLUMNS)), dtype=object)
        cells[..., _COLUMN_OF["head"]] = np.array(heads)[:, None, None] + 1
        cells[..., _COLUMN_OF["query"]] = self.words[places][:, None]
        cells[..., _COLUMN_OF["key"]] = self.words[places]
        for name in STEPS:
            cells[..., _COLUMN_OF[name]] = self.steps[name][chosen].round(3)
        percent = (100 * self.steps["weights"][chosen]).round(3)
        cells[..., _COLUMN_OF["weights"]] = percent
        cells[masked, _COLUMN_OF["bias"]] = f"{_MINUS}∞ (masked)"
        cells[masked, _COLUMN_OF["logits"]] = f"{_MINUS}∞"
        return cells

    def hover_of_head(self) -> Texts:
        """The customdata of all cells of the selected head: [query, key, column]."""
        everywhere = np.arange(len(self.tokens))
        (cells,) = self.hover([self.head], everywhere)
        return cells


def _label_axes(figure: go.Figure, tokens: Sequence[str], *, query: int, width: int) -> None:
    """Tokens on the axes, the selected query in bold; only every n-th one if there is not room for
    all."""
    room = max(1, int(_COLUMN * width / _LABEL))
    across = _spread(len(tokens), room)
    down = _spread(len(tokens), _SIDE // _LABEL, keep=query)
    below = [label(tokens[place]) for place in across]
    beside = []
    for place in down:
        text = label(tokens[place])
        beside.append(f"<b>{text}</b>" if place == query else text)

    first = -0.5
    last = len(tokens) - 0.5
    for name in (*STEPS, "bars"):
        x, y = figure.get_subplot(*_PANELS[name])
        update_changed(x, range=[first, last], tickvals=across, ticktext=below)
        if name in STEPS:
            update_changed(y, range=[last, first], tickvals=down, ticktext=beside)


def _draw_matrices(figure: go.Figure, shown: _Shown, hover: Texts) -> None:
    """The four steps of the selected head. The colors depend on all heads, so they are steady."""
    visible_content = shown.steps["content"][~shown.masked]
    limit = max(4, math.ceil(1.5 * float(np.abs(visible_content).max())))
    update_changed(figure.layout.coloraxis, cmin=-limit, cmax=limit)
    update_changed(
        figure.layout.coloraxis.colorbar,
        tickvals=[-limit, 0, limit],
        ticktext=[f"≤ {_MINUS}{limit}", "0", f"≥ {limit}"],
    )
    masked = shown.masked[shown.head]
    for name in STEPS:
        values = with_gaps(shown.steps[name][shown.head], masked)
        named_trace(figure, name).update(z=values, customdata=hover)
        update_changed(_named_shape(figure, name), y0=shown.query - 0.5, y1=shown.query + 0.5)


def _draw_bars(
    figure: go.Figure, shown: _Shown, other_weights: Floats, hover: Texts, *, other_name: str
) -> None:
    """The weights of the selected query, and those with the other bias."""
    weights = shown.steps["weights"]
    masked = shown.masked[shown.head, shown.query]
    for name, of_all in (("bars", weights), ("other", other_weights)):
        named_trace(figure, name).update(
            x=np.arange(len(shown.tokens)),
            y=with_gaps(of_all[shown.head, shown.query], masked),
            customdata=hover,
        )
    template = f"key %{{customdata[2]}}<br>weight {other_name} %{{y:.2%}}<extra></extra>"
    update_changed(named_trace(figure, "other"), hovertemplate=template)

    # Of all heads, for a steady axis
    largest = max(weights[:, shown.query].max(), other_weights[:, shown.query].max())
    update_changed(figure.get_subplot(*_PANELS["bars"]).yaxis, range=[0, 1.08 * largest])


def _draw_titles(
    figure: go.Figure, shown: _Shown, *, names: tuple[str, str], bias_name: str
) -> None:
    """The title of each panel, with the legend of its marks."""

    def mark(color: str, sign: str) -> str:
        return f'<span style="color:{color}">{sign}</span>'

    bars = mark(theme.BLUE, "■")
    diamonds = mark(theme.ORANGE, "◇")
    content = "content, q · k / √d"
    if shown.masked.any():
        content += f"<br>{mark(theme.MASKED, '■')} masked"
    frame = mark(_FRAME_COLOR, "▭")
    titles = {
        "content": content,
        "bias": f"+  {bias_name}",
        "bars": f"{shown.word}<br>{bars} {names[0]}  {diamonds} {names[1]}",
        "logits": "=  logits",
        "weights": "→  softmax: weights",
        "grid": f"weights of every head, {frame} {shown.word}; click a head to select it",
    }
    for name, title in titles.items():
        (annotation,) = figure.select_annotations({"name": name})
        update_changed(annotation, text=title)


def _draw_grid(figure: go.Figure, shown: _Shown, *, width: int) -> None:
    """The weights of every head, with the query and the selected head framed."""
    weights = shown.steps["weights"]
    heads = len(weights)
    grid = Grid(heads, width - 10, _GRID_HEIGHT - 10)
    png = grid.png(_WEIGHTS.indices(weights), shown.masked, _WEIGHTS.palette)
    heatmap_grid.fill_grid(figure, grid, png, _tile_titles(grid, heads, shown.head))

    length = len(shown.tokens)
    hover = shown.hover(range(heads), grid.hover_cells(length, _MAX_HOVER))
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
    return next(figure.select_shapes({"name": name}))


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
