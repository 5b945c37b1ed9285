"""Content + bias = logits -> weights for one head, one query's weights, the same query in every head, and all heads.

    content   + bias      query: one row of weights
    = logits  -> weights  the same query in every head
    the weights of every head, as a grid of small matrices

Content, bias and logits share one color scale, so that they can be compared. The matrices show the keys at the
positions of the queries, and the right column all keys of the text; if they are more than `_MAX_BARS`, a bar or a cell
is the sum of the weights of several keys.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.attention import AttentionTrace
from alibi_viz.figures import matrices, theme
from alibi_viz.figures.color_scale import NUM_COLORS
from alibi_viz.figures.matrices import Grid, named_trace
from alibi_viz.figures.theme import as_array, update_changed, with_gaps
from alibi_viz.figures.tokens import full, label, literal, quoted

STEPS = ("content", "bias", "logits", "weights")
_PANELS = {"content": (1, 1), "bias": (1, 2), "bars": (1, 3), "logits": (2, 1), "weights": (2, 2), "heads": (2, 3)}
_HEATMAPS = (*STEPS, "heads")
_GRID = (3, 1)  # the row below, with all heads
_MAX_BARS = 64  # in a panel that is about 200 pixels wide
_MAX_HOVER = 4096  # cells with a hover text, in all small matrices together
_MAX_WEIGHT = 0.3  # upper end of the color scale of the weights; almost all weights are far below
_PALETTE = theme.rgb(theme.SEQUENTIAL, NUM_COLORS)
_FRAME_COLOR = "#D6368F"  # not in any of the color scales, and visible on both themes
_MINUS = "\N{MINUS SIGN}"
_SUM = "content %{customdata[0]} + bias %{customdata[1]} = logit %{customdata[2]} → weight %{customdata[3]}%"
# Pixels. The matrices are square unless the page is very wide or very narrow.
_MARGIN = {"l": 92, "r": 84, "t": 46, "b": 8}
_SIDES = (140, 230)  # the smallest and the largest height of a matrix
_ROW_GAP = 36  # between the two rows of panels, for two lines of a title
_GRID_GAP = 104  # between the panels and the grid: the tokens below the panels, a title, the numbers of the heads
_GRID_HEIGHT = 160
_TILE_TITLE = 18  # for the number of a head
_LABEL = 10  # from one label to the next
_COLUMN = 0.293  # the width of a panel, as a share of the plotting area

Floats = NDArray[np.float64]


def attention_figure(tokens: Sequence[str], trace: AttentionTrace, other: AttentionTrace, **options: Any) -> go.Figure:
    """An attention trace as a plain plotly figure. The arguments are those of `draw`.

    >>> from alibi_viz import figures
    >>> q = k = torch.zeros(1, 1, 2, 4)
    >>> trace, other = attention_trace(q, k, torch.ones(1)), attention_trace(q, k, None)
    >>> figures.attention_figure(["to", "be"], trace, other).data[3].z  # the weights; None is masked
    array([[1.0, None],
           [0.26894, 0.73106]], dtype=object)
    """
    figure = blank()
    draw(figure, tokens, trace, other, **options)
    return figure


def blank() -> go.Figure:
    """The figure without data: named traces in seven subplots, gray backgrounds, frames around the selection."""
    figure = theme.blank(600, hovermode="closest", showlegend=False, margin=_MARGIN, bargap=0.25)
    specs = [[{}, {}, {}], [{}, {}, {}], [{"colspan": 3}, None, None]]
    figure.set_subplots(3, 3, specs=specs, horizontal_spacing=(1 - 3 * _COLUMN) / 2)
    # ticklabeloverflow="allow" skips a search for labels outside the figure, which takes a third of the drawing time
    axis = {"showgrid": False, "tickfont_size": 10, "ticklen": 2, "ticklabeloverflow": "allow"}
    figure.update_xaxes(**axis, tickangle=-90, nticks=6, tickformat=",d")  # for positions, where `draw` sets no tokens
    figure.update_yaxes(**axis)
    figure.update_xaxes(showticklabels=False, row=1)
    figure.update_yaxes(showticklabels=False, col=2)
    figure.update_xaxes(visible=False, row=3)
    figure.update_yaxes(visible=False, row=3)
    figure.update_yaxes(tickformat=".0%", nticks=5, row=1, col=3)
    for name in _HEATMAPS:
        place = dict(zip(("row", "col"), _PANELS[name], strict=True))
        scale = "coloraxis2" if name in ("weights", "heads") else "coloraxis"
        figure.add_heatmap(name=name, coloraxis=scale, hoverongaps=True, **place)
        whole = {"xref": "x domain", "x0": 0, "x1": 1, "y0": 0, "y1": 1, **place}
        figure.add_shape(**whole, yref="y domain", layer="below", fillcolor=theme.MASKED, line_width=0)
        figure.add_shape(**whole, name=name, line={"color": _FRAME_COLOR, "width": 2})
    bars = dict(zip(("row", "col"), _PANELS["bars"], strict=True))
    gray = {"mode": "none", "fill": "tozeroy", "fillcolor": theme.MASKED, "line_shape": "hv", "hoverinfo": "skip"}
    figure.add_scatter(name="masked", **gray, **bars)
    figure.add_bar(name="bars", marker_color=theme.COLORS[0], **bars)
    diamond = {"symbol": "diamond-open", "color": theme.COLORS[1], "line": {"width": 1.5}}
    figure.add_scatter(name="other", mode="markers", marker=diamond, cliponaxis=False, **bars)
    template = f"head %{{z}}<br>query %{{customdata[4]}}<br>key %{{customdata[5]}}<br>{_SUM}"
    x, y = figure.get_subplot(*_GRID)
    matrices.add_grid(figure, template, x.plotly_name.replace("axis", ""), y.plotly_name.replace("axis", ""))
    frame = {"line_color": _FRAME_COLOR, "row": 3, "col": 1}
    figure.add_shape(name="query in the grid", type="path", path="M0,0Z", line_width=1, **frame)
    figure.add_shape(name="head in the grid", x0=0, x1=0, y0=0, y1=0, line_width=3, **frame)
    corner: dict[str, Any] = {"xref": "x domain", "xanchor": "left", "yref": "y domain", "yanchor": "bottom"}
    for row, column in (*_PANELS.values(), _GRID):  # titles; the last one has the numbers of the heads below it
        text = {"font_size": 12, "showarrow": False, "align": "left", "yshift": _TILE_TITLE if row == 3 else 0}
        figure.add_annotation(**corner, **text, x=0, y=1, row=row, col=column)
    bar = {"x": 1.01, "xanchor": "left", "ypad": 0, "thickness": 10, "outlinewidth": 0, "ticklen": 3}
    bar |= {"yanchor": "middle", "title": {"side": "right", "font": {"size": 12}}}
    figure.update_layout(coloraxis={"colorscale": theme.DIVERGING, "colorbar": bar})
    figure.update_layout(coloraxis2={"colorscale": theme.SEQUENTIAL, "cmin": 0, "cmax": _MAX_WEIGHT, "colorbar": bar})
    figure.layout.coloraxis.colorbar.title.text = "content, bias, logits"
    percent = {"tickvals": [0, _MAX_WEIGHT / 2, _MAX_WEIGHT], "ticktext": ["0%", "15%", "≥ 30%"]}
    figure.layout.coloraxis2.colorbar.update(percent, title_text="weight")
    return figure


def draw(
    figure: go.Figure,
    tokens: Sequence[str],
    trace: AttentionTrace,
    other: AttentionTrace,
    *,
    head: int = 0,
    query: int = -1,
    start: int = 0,
    names: tuple[str, str] = ("bias on", "bias off"),
    bias_name: str = "bias",
    page_width: int = 880,
) -> None:
    """Draw one text into a figure from `blank`, plain or live.

    Args:
        figure: the figure.
        tokens: [length], plain text; markup is shown as it is.
        trace: of one text, [1, heads, queries, length]; a cell whose logit is -inf is masked.
        other: the same text with another bias, at least the selected query; its weights are the diamonds.
        head, query: the selected head, and the position of the selected query; negative from the end.
        start: the position of the first query of the trace.
        names: the names of `trace` and `other` in the legend.
        bias_name: the title of the bias panel.
        page_width: pixels available for the figure; they decide its height and the number of labels.
    """
    _, heads, queries, length = trace.weights.shape
    head, query, shown = head % heads, query % length, range(start, start + queries)
    steps = [getattr(trace, name)[0] for name in STEPS]  # [heads, query, key]; more than five digits are never visible
    square = np.stack([as_array(step[..., start : start + queries]) for step in steps]).round(5)
    row = np.stack([as_array(step[:, query - start]) for step in steps]).round(5)  # [4, heads, key]
    others = as_array(other.weights[0, :, query - start if other.weights.shape[2] == queries else 0])  # [heads, key]
    size, masked = bin_size(length), np.isneginf(square[2])
    plot_width = max(page_width - _MARGIN["l"] - _MARGIN["r"], 1)
    width = _COLUMN * plot_width  # of a panel, which is as high where `_SIDES` allow
    side, narrow = min(max(width, _SIDES[0]), _SIDES[1]), width < _SIDES[0]
    with figure.batch_update():
        _place(figure, side)
        _label(figure, tokens, shown, heads=heads, query=query, sizes=(width, side))
        _draw_scale(figure, square[0][~masked])
        _draw_matrices(figure, tokens, square[:, head], shown, head=head, query=query)
        _draw_row(figure, tokens, row, others, query=query, head=head, other_name=names[1])
        _draw_grid(figure, tokens, square, shown, head=head, query=query, plot_width=plot_width)
        word = literal(f"query {query:,} {quoted(tokens[query], 16)}")
        every = "every head" if heads > 1 else "the only head"
        every = f"in {every}" if size == 1 or narrow else f"{every}, {size} keys per cell"
        titles = _titles(word, names, bias_name, every, masked=bool(masked.any()), narrow=narrow)
        for annotation, title in zip(figure.layout.annotations, titles, strict=True):
            update_changed(annotation, text=title)


def bin_size(length: int) -> int:
    """How many neighboring keys share a bar: one, unless the text is long; the last bar may have fewer.

    >>> bin_size(48), bin_size(4096)
    (1, 64)
    """
    return math.ceil(length / _MAX_BARS)


def _place(figure: go.Figure, side: float) -> None:
    """Set the height of the figure and of each row of panels; `side` is that of a matrix."""
    total = 2 * side + _ROW_GAP + _GRID_GAP + _GRID_HEIGHT
    update_changed(figure.layout, height=round(total) + _MARGIN["t"] + _MARGIN["b"])
    tops = 0, side + _ROW_GAP, 2 * side + _ROW_GAP + _GRID_GAP
    domains = [(1 - (top + side) / total, 1 - top / total) for top in tops[:2]] + [(0, _GRID_HEIGHT / total)]
    for row, column in (*_PANELS.values(), _GRID):
        update_changed(figure.get_subplot(row, column).yaxis, domain=domains[row - 1])
    for scale, (low, high) in zip((figure.layout.coloraxis, figure.layout.coloraxis2), domains, strict=False):
        update_changed(scale.colorbar, y=(low + high) / 2, len=high - low)


def _label(
    figure: go.Figure, tokens: Sequence[str], shown: range, *, heads: int, query: int, sizes: tuple[float, float]
) -> None:
    """Tokens on the axes, the selected query in bold; only every n-th token if a panel of these sizes has no more room.

    Below bars of several keys are positions instead of tokens.
    """
    room_across, room_down = (max(1, int(size / _LABEL)) for size in sizes)
    across, down = _spread(shown, room_across), _spread(shown, room_down, query)
    ends = [shown.start - 0.5, shown.stop - 0.5]
    bold = [f"<b>{label(tokens[at])}</b>" if at == query else label(tokens[at]) for at in down]
    for step in STEPS:
        x, y = figure.get_subplot(*_PANELS[step])
        update_changed(x, range=ends, tickvals=across, ticktext=[label(tokens[at]) for at in across])
        update_changed(y, range=ends[::-1], tickvals=down, ticktext=bold)
    every = _spread(range(len(tokens)), room_across) if bin_size(len(tokens)) == 1 else None
    words = None if every is None else [label(tokens[at]) for at in every]
    for panel in ("bars", "heads"):
        x = figure.get_subplot(*_PANELS[panel]).xaxis
        update_changed(x, range=[-0.5, len(tokens) - 0.5], tickvals=every, ticktext=words)
        update_changed(x, tickmode="auto" if every is None else "array")
    rows = [at + 1 for at in _spread(range(heads), 8)]
    update_changed(figure.get_subplot(*_PANELS["heads"]).yaxis, range=[heads + 0.5, 0.5], tickvals=rows)


def _draw_scale(figure: go.Figure, content: Floats) -> None:
    """The colors of content, bias and logits. They depend on all heads, so selecting a head keeps them."""
    limit = max(4, math.ceil(1.5 * float(np.abs(content).max())))
    ticks = [-limit, -limit / 2, 0, limit / 2, limit]
    labels = [f"≤ {-limit:g}", *(f"{tick:g}" for tick in ticks[1:-1]), f"≥ {limit:g}"]
    update_changed(figure.layout.coloraxis, cmin=-limit, cmax=limit)
    labels = [text.replace("-", _MINUS) for text in labels]
    update_changed(figure.layout.coloraxis.colorbar, tickvals=ticks, ticktext=labels)


def _draw_matrices(
    figure: go.Figure, tokens: Sequence[str], steps: Floats, shown: range, *, head: int, query: int
) -> None:
    """The four steps of one head, [4, query, key], with a frame around the selected query."""
    masked, custom = np.isneginf(steps[2]), _numbers(steps)
    pairs = _pairs(tokens, shown, [range(at, at + 1) for at in shown])
    template = f"head {head + 1}<br>%{{text}}<br>{_SUM}<extra></extra>"
    for name, values in zip(STEPS, steps, strict=True):
        trace = named_trace(figure, name).update(text=pairs, customdata=custom, hovertemplate=template)
        trace.update(z=with_gaps(values, masked), x0=shown.start, y0=shown.start)
        update_changed(_shape(figure, name), y0=query - 0.5, y1=query + 0.5)


def _draw_row(
    figure: go.Figure, tokens: Sequence[str], steps: Floats, others: Floats, *, query: int, head: int, other_name: str
) -> None:
    """The right column: the steps [4, heads, key] of the query, and its weights [heads, key] with another bias."""
    length, size = len(tokens), bin_size(len(tokens))
    starts = np.arange(0, length, size)
    weights, others = (np.add.reduceat(each, starts, axis=-1).round(5) for each in (steps[3], others))
    masked = np.logical_and.reduceat(np.isneginf(steps[2]), starts, axis=-1)
    z = with_gaps(weights, masked)
    (texts,) = _pairs(tokens, [query], [range(at, min(at + size, length)) for at in starts.tolist()])
    custom = _numbers(steps) if size == 1 else (100 * weights[..., None]).round(4)
    numbers = f"<br>{_SUM if size == 1 else 'weight %{customdata[0]}%'}<extra></extra>"
    centers, every = starts + (size - 1) / 2, np.broadcast_to(texts, z.shape)
    template = f"head %{{y}}<br>%{{text}}{numbers}"
    named_trace(figure, "heads").update(x=centers, y0=1, z=z, text=every, customdata=custom, hovertemplate=template)
    update_changed(_shape(figure, "heads"), y0=head + 0.5, y1=head + 1.5)
    bars, other = (named_trace(figure, name).update(x=centers, hovertext=texts) for name in ("bars", "other"))
    bars.update(y=z[head], customdata=custom[head], hovertemplate=f"%{{hovertext}}{numbers}")
    visible = np.where(masked[head] & (others[head] == 0), np.nan, others[head])  # the other bias may mask fewer keys
    template = f"%{{hovertext}}<br>weight {other_name} %{{y:.2%}}<extra></extra>"
    other.update(y=visible, marker_size=8 if size == 1 else 5, hovertemplate=template)
    top = 1.08 * max(weights.max(), others.max())  # of all heads, for a steady axis
    edges = np.append(starts, length) - 0.5
    named_trace(figure, "masked").update(x=edges, y=np.append(np.where(masked[head], top, 0), 0))
    update_changed(figure.get_subplot(*_PANELS["bars"]).yaxis, range=[0, top])


def _draw_grid(
    figure: go.Figure, tokens: Sequence[str], steps: Floats, shown: range, *, head: int, query: int, plot_width: int
) -> None:
    """The weights of every head, from steps [4, heads, query, key], with the query and the selected head framed."""
    _, heads, length, _ = steps.shape
    grid = Grid(heads, plot_width - 10, _GRID_HEIGHT - 10)
    visible = np.ix_(np.arange(heads), *2 * [grid.visible_cells(length)])
    colors = np.rint(np.minimum(steps[3][visible] / _MAX_WEIGHT, 1) * (NUM_COLORS - 1)).astype(np.uint8)
    titles = [f"head {number}" for number in range(1, heads + 1)]
    if len(titles[-1]) * matrices.LETTER > grid.side:
        titles = [title.removeprefix("head ") for title in titles]
    titles[head] = f"<b>{titles[head]}</b>"
    matrices.fill_grid(figure, grid, grid.png(colors, np.isneginf(steps[2][visible]), _PALETTE), titles)
    x, y = figure.get_subplot(*_GRID)
    ranges = matrices.grid_ranges(grid, plot_width)
    update_changed(x, range=ranges[0])
    update_changed(y, range=[ranges[1][1] + _GRID_HEIGHT, ranges[1][1]])
    side, cell = grid.side, grid.side / length
    height = max(cell, 3)  # at least 3 pixels
    top = (query - shown.start + 0.5) * cell - height / 2
    frames = [  # plotly has no relative commands
        f"M{x},{y + top:.2f}H{x + side}V{y + top + height:.2f}H{x}Z" for x, y in grid.corners.tolist()
    ]
    update_changed(_shape(figure, "query in the grid"), path="".join(frames))
    x0, y0 = grid.corners[head].tolist()
    update_changed(_shape(figure, "head in the grid"), x0=x0 - 2, x1=x0 + side + 2, y0=y0 - 2, y1=y0 + side + 2)
    positions = grid.hover_cells(length, _MAX_HOVER)
    custom = np.empty((heads, len(positions), len(positions), 6), dtype=object)
    custom[..., :4] = _numbers(steps[:, :, positions][..., positions])
    names = np.array([f"{at} “{label(tokens[at])}”" for at in (shown.start + positions).tolist()], dtype=object)
    custom[..., 4], custom[..., 5] = names[:, None], names
    matrices.fill_hover(figure, grid, length, custom, range(1, heads + 1))


def _titles(query: str, names: tuple[str, str], bias_name: str, every: str, *, masked: bool, narrow: bool) -> list[str]:
    """The title of each panel, shortened on a narrow page."""
    signs = zip((*theme.COLORS[:2], theme.MASKED), "■◇■", strict=True)
    bars, diamonds, gray = (f'<span style="color:{color}">{sign}</span>' for color, sign in signs)
    content = "content" if narrow else "content, q · k / √d"
    content += f"<br>{gray} masked" * masked
    selected = f"{query}<br>{bars} {names[0]}  {diamonds} {names[1]}"
    weights = "→  weights" if narrow else "→  softmax: weights"
    frame = f'<span style="color:{_FRAME_COLOR}">▭</span>'
    grid = f"weights of every head, {frame} {query}" + "; click a head to select it" * (not narrow)
    return [content, f"+  {bias_name}", selected, "=  logits", weights, every, grid]


def _shape(figure: go.Figure, name: str) -> Any:
    return next(figure.select_shapes({"name": name}))


def _numbers(steps: Floats) -> NDArray[np.object_]:
    """For the hover texts: content, bias, logit and weight in percent, [..., 4]."""
    masked = np.isneginf(steps[2])
    table = np.stack([*steps[:3], 100 * steps[3]], axis=-1).round(3).astype(object)
    table[masked, 1], table[masked, 2] = f"{_MINUS}∞ (masked)", f"{_MINUS}∞"
    return table


def _pairs(tokens: Sequence[str], queries: Sequence[int], keys: Sequence[range]) -> NDArray[np.object_]:
    """For the hover texts, [query, key]: the query, the key or the range of keys, and how far apart they are."""
    names = {at: f"{at} {full(tokens[at])}" for at in {*queries, *(each[0] for each in keys if len(each) == 1)}}

    def pair(query: int, key: range) -> str:
        near, far = sorted((abs(query - key[0]), abs(query - key[-1])))
        if len(key) == 1:
            return f"query {names[query]}<br>key {names[key[0]]}<br>distance {near}"
        near = 0 if query in key else near
        return f"query {names[query]}<br>keys {key[0]} to {key[-1]}<br>distance {near} to {far}"

    return np.array([[pair(query, key) for key in keys] for query in queries], dtype=object)


def _spread(positions: range, limit: int, keep: int | None = None) -> list[int]:
    """Every n-th position, about `limit` of them. `keep` is always one of them and replaces its neighbors.

    >>> _spread(range(10), 5), _spread(range(10), 5, keep=3)
    ([0, 2, 4, 6, 8], [0, 3, 6, 8])
    """
    step = math.ceil(len(positions) / limit)
    ticks = [at for at in positions[::step] if keep is None or abs(at - keep) >= step]
    return sorted(ticks if keep is None else [*ticks, keep])
