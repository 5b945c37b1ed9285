"""Content + bias = logits -> weights for one head, the weights of one of its queries, and the
weights of all heads.

    content   + bias      query: one row of weights
    = logits  -> weights
    the weights of every head, as a grid of small matrices

Content, bias and logits share one color scale, so that they can be compared.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.attention import AttentionTrace
from alibi_viz.figures import matrices, theme
from alibi_viz.figures.matrices import Grid, named_trace
from alibi_viz.figures.theme import ColorScale, as_array, update_changed, with_gaps
from alibi_viz.figures.token_labels import label, literal, quoted

STEPS = ("content", "bias", "logits", "weights")
_PANELS = {
    "content": (1, 1),
    "bias": (1, 2),
    "bars": (1, 3),
    "logits": (2, 1),
    "weights": (2, 2),
    "grid": (3, 1),
}
_MAX_HOVER = 4096  # cells with a hover text, in all small matrices together
_WEIGHTS = ColorScale(0.0, 0.3, weights=True)  # almost all weights are far below
_FRAME_COLOR = "#D6368F"  # not in any of the color scales, and visible on both themes
_MINUS = "\N{MINUS SIGN}"
_PAIR = "head %{customdata[0]}<br>query %{customdata[1]}<br>key %{customdata[2]}<br>"
_SUM = (
    "content %{customdata[3]} + bias %{customdata[4]} = logit %{customdata[5]} → weight "
    "%{customdata[6]}%"
)
_HOVER = f"{_PAIR}{_SUM}<extra></extra>"
_MARGIN = {"l": 92, "r": 84, "t": 46, "b": 8}  # pixels, as all that follow
_SIDE = 206  # the height of a matrix, which makes it square on a page of the usual width
_GAPS = (
    36,
    104,
)  # below the first row, for a title of two lines, and above the grid, for tokens and two titles
_GRID_HEIGHT = 120  # eight heads in one row leave little of it empty
_TILE_TITLE = 18  # for the number of a head
_LABEL = 10  # from one label to the next
_COLUMN = 0.293  # the width of a panel, as a share of the plotting area

Floats = NDArray[np.float64]
Texts = NDArray[np.object_]


def blank() -> go.Figure:
    """The figure without data: named traces in six subplots, gray backgrounds, frames around the
    selection."""
    height = 2 * _SIDE + sum(_GAPS) + _GRID_HEIGHT
    high, low, side = 1 - _SIDE / height, 1 - (2 * _SIDE + _GAPS[0]) / height, _SIDE / height
    layout = {"hovermode": "closest", "showlegend": False, "margin": _MARGIN, "bargap": 0.25}
    figure = theme.blank(height=height + _MARGIN["t"] + _MARGIN["b"], **layout)
    specs = [[{}, {}, {"rowspan": 2}], [{}, {}, None], [{"colspan": 3}, None, None]]
    figure.set_subplots(3, 3, specs=specs, horizontal_spacing=(1 - 3 * _COLUMN) / 2)
    # ticklabeloverflow="allow" skips a search for labels outside the figure, which takes a third of
    # the drawing time
    axis = {"showgrid": False, "tickfont_size": 10, "ticklen": 2, "ticklabeloverflow": "allow"}
    figure.update_xaxes(**axis, tickangle=-90)
    for row, domain in ((1, [high, 1]), (2, [low, low + side]), (3, [0, _GRID_HEIGHT / height])):
        figure.update_yaxes(**axis, domain=domain, row=row)
    figure.update_yaxes(domain=[low, 1], tickformat=".0%", nticks=5, row=1, col=3)
    figure.update_yaxes(showticklabels=False, col=2)
    for name in ("content", "bias"):
        figure.get_subplot(*_PANELS[name]).xaxis.showticklabels = False
    grid = figure.get_subplot(*_PANELS["grid"])
    grid.xaxis.visible = False
    grid.yaxis.visible = False
    bar = {
        "x": 1.01,
        "yanchor": "bottom",
        "len": side,
        "ypad": 0,
        "thickness": 10,
        "tickfont_size": 10,
    }
    scales = (
        (theme.DIVERGING, high, "content,<br>bias,<br>logits"),
        (theme.SEQUENTIAL, low, "weight"),
    )
    for name, (colors, y, title) in zip(("coloraxis", "coloraxis2"), scales, strict=True):
        words = {"text": title, "side": "top", "font": {"size": 11}}
        figure.layout[name] = {
            "colorscale": colors,
            "colorbar": {**bar, "outlinewidth": 0, "y": y, "title": words},
        }
    percent = {"tickvals": [0, 0.15, _WEIGHTS.high], "ticktext": ["0%", "15%", "≥ 30%"]}
    figure.layout.coloraxis2.update(cmin=0, cmax=_WEIGHTS.high, colorbar=percent)
    frame = {"color": _FRAME_COLOR, "width": 2}
    for name in STEPS:
        place = dict(zip(("row", "col"), _PANELS[name], strict=True))
        scale = "coloraxis2" if name == "weights" else "coloraxis"
        figure.add_heatmap(
            name=name, coloraxis=scale, hoverongaps=True, hovertemplate=_HOVER, **place
        )
        whole = {"xref": "x domain", "x0": 0, "x1": 1, "y0": 0, "y1": 1, **place}
        figure.add_shape(
            **whole, yref="y domain", layer="below", fillcolor=theme.MASKED, line_width=0
        )
        figure.add_shape(**whole, name=name, line=frame)
    figure.add_bar(name="bars", marker_color=theme.COLORS[0], hovertemplate=_HOVER, row=1, col=3)
    diamond = {
        "symbol": "diamond-open",
        "size": 8,
        "color": theme.COLORS[1],
        "line": {"width": 1.5},
    }
    figure.add_scatter(name="other", mode="markers", marker=diamond, cliponaxis=False, row=1, col=3)
    matrices.add_grid(
        figure, _PAIR + _SUM, *(axis.plotly_name.replace("axis", "") for axis in grid)
    )
    figure.add_shape(
        name="query in the grid",
        type="path",
        path="M0,0Z",
        line={**frame, "width": 1},
        row=3,
        col=1,
    )
    figure.add_shape(name="head in the grid", line={**frame, "width": 3}, row=3, col=1)
    corner = {
        "xref": "x domain",
        "x": 0,
        "xanchor": "left",
        "yref": "y domain",
        "y": 1,
        "yanchor": "bottom",
    }
    for row, column in _PANELS.values():  # the title of the grid is above the numbers of the heads
        text = {
            "font_size": 12,
            "showarrow": False,
            "align": "left",
            "yshift": _TILE_TITLE if row == 3 else 0,
        }
        figure.add_annotation(**corner, **text, row=row, col=column)
    return figure


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
    head, query = head % heads, query % length
    # More than five digits are never visible: [4, heads, query, key] and [heads, query, key].
    steps = np.stack([as_array(getattr(trace, name)[0]) for name in STEPS]).round(5)
    others, masked = as_array(other.weights[0]).round(5), np.isneginf(steps[2])
    width = max(page_width - _MARGIN["l"] - _MARGIN["r"], 1)
    words = np.array(
        [f"{at} “{label(token, 40)}”" for at, token in enumerate(tokens)], dtype=object
    )
    (hover,) = _hover(steps[:, [head]], [head + 1], words)
    with figure.batch_update():
        _label(figure, tokens, query=query, room=max(1, int(_COLUMN * width / _LABEL)))
        _draw_matrices(figure, steps, hover, head=head, query=query)
        for name, weights in (("bars", steps[3]), ("other", others)):
            heights = with_gaps(weights[head, query], masked[head, query])
            named_trace(figure, name).update(
                x=np.arange(length), y=heights, customdata=hover[query]
            )
        template = f"key %{{customdata[2]}}<br>weight {names[1]} %{{y:.2%}}<extra></extra>"
        update_changed(named_trace(figure, "other"), hovertemplate=template)
        top = 1.08 * max(
            steps[3, :, query].max(), others[:, query].max()
        )  # of all heads, for a steady axis
        update_changed(figure.get_subplot(*_PANELS["bars"]).yaxis, range=[0, top])
        _draw_grid(figure, words, steps, head=head, query=query, width=width)
        signs = zip((*theme.COLORS[:2], theme.MASKED, _FRAME_COLOR), "■◇■▭", strict=True)
        bars, diamonds, gray, frame = (
            f'<span style="color:{color}">{sign}</span>' for color, sign in signs
        )
        word = literal(f"query {query:,} {quoted(tokens[query], 16)}")
        content = "content, q · k / √d"
        if masked.any():
            content += f"<br>{gray} masked"
        selected = f"{word}<br>{bars} {names[0]}  {diamonds} {names[1]}"
        grid = f"weights of every head, {frame} {word}; click a head to select it"
        titles = content, f"+  {bias_name}", selected, "=  logits", "→  softmax: weights", grid
        for annotation, title in zip(figure.layout.annotations, titles, strict=True):
            update_changed(annotation, text=title)


def _label(figure: go.Figure, tokens: Sequence[str], *, query: int, room: int) -> None:
    """Tokens on the axes, the selected query in bold; only every n-th one if there is room for no
    more than `room`."""
    across, down = _spread(len(tokens), room), _spread(len(tokens), _SIDE // _LABEL, query)
    ends, below = [-0.5, len(tokens) - 0.5], [label(tokens[at]) for at in across]
    bold = [f"<b>{label(tokens[at])}</b>" if at == query else label(tokens[at]) for at in down]
    for name in (*STEPS, "bars"):
        x, y = figure.get_subplot(*_PANELS[name])
        update_changed(x, range=ends, tickvals=across, ticktext=below)
        if name in STEPS:
            update_changed(y, range=ends[::-1], tickvals=down, ticktext=bold)


def _draw_matrices(
    figure: go.Figure, steps: Floats, hover: Texts, *, head: int, query: int
) -> None:
    """The four steps of one head, from [4, heads, query, key]. The colors depend on all heads, so
    they are steady."""
    masked = np.isneginf(steps[2])
    limit = max(4, math.ceil(1.5 * float(np.abs(steps[0][~masked]).max())))
    update_changed(figure.layout.coloraxis, cmin=-limit, cmax=limit)
    ticks = {"tickvals": [-limit, 0, limit], "ticktext": [f"≤ {_MINUS}{limit}", "0", f"≥ {limit}"]}
    update_changed(figure.layout.coloraxis.colorbar, **ticks)
    for name, values in zip(STEPS, steps[:, head], strict=True):
        named_trace(figure, name).update(z=with_gaps(values, masked[head]), customdata=hover)
        update_changed(_shape(figure, name), y0=query - 0.5, y1=query + 0.5)


def _draw_grid(
    figure: go.Figure, words: Texts, steps: Floats, *, head: int, query: int, width: int
) -> None:
    """The weights of every head, from steps [4, heads, query, key], with the query and the selected
    head framed."""
    _, heads, length, _ = steps.shape
    grid, numbers = Grid(heads, width - 10, _GRID_HEIGHT - 10), range(1, heads + 1)
    start = "head " if len(f"head {heads}") * matrices.LETTER <= grid.side else ""
    titles = [
        f"<b>{start}{number}</b>" if number == head + 1 else f"{start}{number}"
        for number in numbers
    ]
    png = grid.png(_WEIGHTS.indices(steps[3]), np.isneginf(steps[2]), _WEIGHTS.palette)
    matrices.fill_grid(figure, grid, png, titles)
    at = grid.hover_cells(length, _MAX_HOVER)
    matrices.fill_hover(
        figure, grid, length, _hover(steps[:, :, at][..., at], numbers, words[at]), numbers
    )
    across, down = grid.ranges(width)
    x, y = figure.get_subplot(*_PANELS["grid"])
    update_changed(x, range=across)
    update_changed(y, range=[down[1] + _GRID_HEIGHT, down[1]])
    side, height = grid.side, max(grid.side / length, 3)  # at least 3 pixels
    top = (query + 0.5) * side / length - height / 2
    # plotly has no relative commands
    frames = [
        f"M{x},{y + top:.2f}H{x + side}V{y + top + height:.2f}H{x}Z"
        for x, y in grid.corners.tolist()
    ]
    update_changed(_shape(figure, "query in the grid"), path="".join(frames))
    x0, y0 = grid.corners[head].tolist()
    update_changed(
        _shape(figure, "head in the grid"), x0=x0 - 2, x1=x0 + side + 2, y0=y0 - 2, y1=y0 + side + 2
    )


def _shape(figure: go.Figure, name: str) -> Any:
    return next(figure.select_shapes({"name": name}))


def _hover(steps: Floats, heads: Sequence[int], words: Texts) -> Texts:
    """The customdata of cells [4, heads, query, key], which is [heads, query, key, 7], see `_PAIR`
    and `_SUM`."""
    masked = np.isneginf(steps[2])
    cells = np.empty((*masked.shape, 7), dtype=object)
    cells[..., 0] = np.array(heads)[:, None, None]
    cells[..., 1] = words[:, None]  # of the query
    cells[..., 2] = words  # of the key
    cells[..., 3:] = np.moveaxis(steps, 0, -1).round(3)
    cells[..., 6] = (100 * steps[3]).round(3)
    cells[masked, 4] = f"{_MINUS}∞ (masked)"
    cells[masked, 5] = f"{_MINUS}∞"
    return cells


def _spread(length: int, limit: int, keep: int | None = None) -> list[int]:
    """Every n-th position, about `limit` of them. `keep` is always one of them and replaces its
    neighbors.

    >>> _spread(10, 5), _spread(10, 5, keep=3)
    ([0, 2, 4, 6, 8], [0, 3, 6, 8])
    """
    step = math.ceil(length / limit)
    ticks = [at for at in range(0, length, step) if keep is None or abs(at - keep) >= step]
    return sorted(ticks if keep is None else [*ticks, keep])
