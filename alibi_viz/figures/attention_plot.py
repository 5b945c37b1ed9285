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
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from alibi_viz.arguments import check_instance
from alibi_viz.attention import AttentionTrace
from alibi_viz.figures import theme
from alibi_viz.figures.heatmap_grid import LETTER, grid_image, hover_trace, title_trace
from alibi_viz.figures.theme import ColorScale, Picture, as_array
from alibi_viz.figures.tile_grid import PAD, Grid
from alibi_viz.figures.token_labels import label, literal, quoted_token
from alibi_viz.formatting import format_fixed, format_percent

Floats = NDArray[np.float32]
# What is said of a (head, query, key), each from 0, when the pointer is on it
Describe = Callable[[int, int, int], str]

STEPS = ("content", "bias", "logits", "weights")
COLUMNS = "columns"  # the trace that takes the pointer above a key of the bars
# What stands to the right of a matrix
_SIGNS = {"content": "+", "bias": "=", "logits": "→"}
# The number of the axes of each panel: those of the content are x2 and y2
_AXES = {"grid": "", "content": "2", "bias": "3", "logits": "4", "weights": "5", "bars": "6"}

# Pixels
_MARGIN = {"l": 76, "r": 18, "t": 42, "b": 52}
_FLAT_LABELS = 24  # the lower margin below labels that are not turned
_GRID_HEIGHT = 64 + 2 * PAD
_TILE_TITLE = 17  # for the number of a head
_BESIDE_TILE = 12  # to the right of a tile, into which its title may reach
_GAP_BELOW_GRID = 30  # for a title
_MAX_SIDE = 132  # of a matrix, so that the app fits a laptop
_BETWEEN_MATRICES = 26  # for a sign
_BEFORE_BARS = 50  # for their percentages
_LEAST_BARS = 120  # the width of the bars beside the matrices
_NARROW = 620  # on a narrower page, the bars are below the matrices
_BARS_BELOW = 120  # their height there
_ABOVE_BARS = 76  # for the labels of the matrices, and a title
_NO_HEADING = 460  # the width at which the color bars take the place of the heading
_LABEL = 10  # from one label to the next
_BETWEEN_LABELS = 3  # at least, where they are not turned
_SCALE_OF_SUM = 156

_WEIGHTS = ColorScale(0.0, 0.3, weights=True)  # almost all weights are far below
_FRAME_COLOR = "#D6368F"  # not in any of the color scales, and visible on both themes
_MAX_HOVER = 4096  # cells with a hover text, in all small matrices together
_HOVER = "%{customdata}<extra></extra>"


def attention_figure(
    tokens: Sequence[str], trace: AttentionTrace, other: AttentionTrace, **options: Any
) -> go.Figure:
    """How heads read a text, as a plotly figure with hover texts.

    Args:
        tokens: the text, [length].
        trace: of the text, [1, heads, length, length].
        other: of the same text with other content or another bias, which the diamonds show. Above
            each small matrix stands the share of the weight that is elsewhere in it, the mean over
            the queries.
        options: `head` and `query`, the selected ones, from 0, or negative from the end: the first
            head and the last query by default; `matrices`: whether the four steps are shown, True
            by default; `names`: those of both traces in the legend; `bias_name`: the title of the
            bias; `page_width`: pixels available for the figure, 880 by default.

    Raises TypeError or ValueError for other tokens and traces, and IndexError for a head or a query
    that does not exist.

    >>> import torch
    >>> import alibi_viz as av
    >>> q = k = torch.zeros(1, 2, 3, 4)
    >>> biased, plain = (av.attention_trace(q, k, slopes) for slopes in (av.alibi_slopes(2), None))
    >>> figure = av.figures.attention_figure(["to", "be", "or"], biased, plain)
    """
    check_instance("tokens", tokens, Sequence)
    check_instance("trace", trace, AttentionTrace)
    check_instance("other", other, AttentionTrace)
    shape = list(trace.weights.shape)
    if shape[2:] != [len(tokens), len(tokens)] or shape != list(other.weights.shape):
        raise ValueError(
            "trace and other must be [1, heads, length, length] with length tokens, got "
            f"{shape}, {list(other.weights.shape)} and {len(tokens)} tokens"
        )
    describe = sums_in_words(tokens, trace)
    return theme.figure(attention_picture(tokens, trace, other, describe, **options))


def attention_picture(
    tokens: Sequence[str],
    trace: AttentionTrace,
    other: AttentionTrace,
    describe: Describe,
    *,
    head: int = 0,
    query: int = -1,
    matrices: bool = True,
    names: tuple[str, str] = ("content and bias", "bias alone"),
    bias_name: str = "bias",
    page_width: int = 880,
) -> Picture:
    """How heads read a text; the arguments are those of `attention_figure`, and `sums_in_words` of
    the trace.

    A cell whose logit is -inf is masked.
    """
    heads, length = trace.weights.shape[1:3]
    shown = _Shown(
        tokens=tokens,
        steps={step: as_array(getattr(trace, step)[0], np.float32) for step in STEPS},
        other=as_array(other.weights[0], np.float32),
        head=range(heads)[head],
        query=range(length)[query],
        describe=describe,
    )
    page = _page(page_width, tokens, matrices=matrices)
    picture = theme.picture(
        [],
        width=page_width,
        height=_MARGIN["t"] + page.height + page.labels,
        margin=_MARGIN | {"b": page.labels},
        hovermode="closest",
        showlegend=False,
        barmode="overlay",
        bargap=0.25,
        annotations=[],
        shapes=[],
    )
    _add_grid(picture, page, shown, has_heading=not matrices or page.width >= _NO_HEADING)
    if matrices:
        _add_matrices(picture, page, shown, bias_name)
    _add_bars(picture, page, shown, names, has_heading=not matrices)
    return picture


class _Shown(NamedTuple):
    """What is drawn.

    Attributes:
        tokens: the text.
        steps: {step: float32 [heads, query, key]}.
        other: the weights with the other bias, float32 [heads, query, key].
        head, query: the selected ones, from 0.
        describe: the hover text of a head, a query and a key.
    """

    tokens: Sequence[str]
    steps: dict[str, Floats]
    other: Floats
    head: int
    query: int
    describe: Describe

    @property
    def masked(self) -> NDArray[np.bool_]:
        """The cells that are masked, [heads, query, key]."""
        return np.isneginf(self.steps["logits"])


class _Panel(NamedTuple):
    """The place of a panel, in pixels from the upper left corner of the plotting area."""

    left: int
    top: int
    right: int
    bottom: int


class _Page(NamedTuple):
    """Where the panels stand. Sizes are in pixels.

    Attributes:
        width, height: of the plotting area.
        labels: the height of the labels below it.
        is_narrow: whether the bars stand below the matrices.
        panels: {name: its place}.
    """

    width: int
    height: int
    labels: int
    is_narrow: bool
    panels: dict[str, _Panel]


def _page(page_width: int, tokens: Sequence[str], *, matrices: bool) -> _Page:
    """The page with the matrices or without them: the figure is equally high."""
    width = page_width - _MARGIN["l"] - _MARGIN["r"]
    is_narrow = page_width < _NARROW
    room = width if is_narrow else width - _BEFORE_BARS - _LEAST_BARS
    side = min((room - 3 * _BETWEEN_MATRICES) // 4, _MAX_SIDE)
    top = _GRID_HEIGHT + _GAP_BELOW_GRID
    height = top + side
    if is_narrow:
        height += _ABOVE_BARS + _BARS_BELOW
    # Letters stand upright below the matrices as well.
    labels = _MARGIN["b"] if max(map(len, tokens)) > 1 else _FLAT_LABELS

    panels = {"grid": _Panel(0, 0, width, _GRID_HEIGHT)}
    if matrices:
        for place, step in enumerate(STEPS):
            left = place * (side + _BETWEEN_MATRICES)
            panels[step] = _Panel(left, top, left + side, top + side)
        if is_narrow:
            panels["bars"] = _Panel(0, height - _BARS_BELOW, width, height)
        else:
            panels["bars"] = _Panel(left + side + _BEFORE_BARS, top, width, height)
    else:
        # The bars have the room of both, and that of labels that are not turned.
        if not is_narrow and _fits(tokens, len(tokens), width):
            height += labels - _FLAT_LABELS
            labels = _FLAT_LABELS
        panels["bars"] = _Panel(0, top, width, height)
    return _Page(width, height, labels, is_narrow, panels)


def _add_panel(
    picture: Picture,
    page: _Page,
    name: str,
    title: str,
    *,
    x: dict[str, Any],
    y: dict[str, Any],
    title_shift: int = 0,
) -> None:
    """Add the axes of a panel, with these properties, and a title above its upper left corner."""
    panel = page.panels[name]
    number = _AXES[name]
    # ticklabeloverflow="allow" skips a search for labels outside the figure, which takes a third of
    # the drawing time.
    axis = {
        "showgrid": False,
        "tickfont": {"size": 11},
        "ticklen": 2,
        "ticklabeloverflow": "allow",
    }
    across = [panel.left / page.width, panel.right / page.width]
    up = [1 - panel.bottom / page.height, 1 - panel.top / page.height]
    layout = picture["layout"]
    layout[f"xaxis{number}"] = {**axis, "anchor": f"y{number}", "domain": across, **x}
    layout[f"yaxis{number}"] = {**axis, "anchor": f"x{number}", "domain": up, **y}
    layout["annotations"].append(
        {
            **theme.TITLE,
            "name": name,
            "text": title,
            "xref": f"x{number} domain",
            "yref": f"y{number} domain",
            "yshift": title_shift,
            "font": {"size": 12},
            "align": "left",
        }
    )


def _add_grid(picture: Picture, page: _Page, shown: _Shown, *, has_heading: bool) -> None:
    """Add the weights of every head, with the query and the selected head framed."""
    weights = shown.steps["weights"]
    heads, length, _ = weights.shape
    heading = ""
    diamond = _mark(theme.ORANGE, "◇")
    if has_heading:
        heading = "click a head"
        if not page.is_narrow:
            heading = f"weights of every head, and the share moved from {diamond}; click one"
        if shown.masked.any():
            heading += f"  {_mark(theme.MASKED, '■')} masked"
    grid = Grid(heads, page.width - 2 * PAD, _GRID_HEIGHT - 2 * PAD)
    across, _ = grid.ranges(page.width)
    _add_panel(
        picture,
        page,
        "grid",
        heading,
        x={"visible": False, "range": across},
        y={"visible": False, "range": [_GRID_HEIGHT - PAD, -PAD]},  # down
        title_shift=_TILE_TITLE,
    )

    titles = title_trace(grid, _tile_titles(grid, share_moved(weights, shown.other), shown.head))
    # plotly draws the color bar of the weights only for a trace that uses its colors.
    titles["marker"] |= {"color": [0], "coloraxis": "coloraxis2"}
    places = grid.hover_cells(length, _MAX_HOVER).tolist()
    texts = np.empty((heads, len(places), len(places)), dtype=object)
    for head, row, column in np.ndindex(texts.shape):
        line = shown.describe(head, places[row], places[column])
        texts[head, row, column] = literal(f"head {head + 1}: {line}")
    hover = hover_trace(
        grid,
        length,
        texts,
        range(1, heads + 1),
        "%{customdata}",
        step=grid.hover_step(length, _MAX_HOVER),
    )
    picture["data"] += [titles, hover]

    layout = picture["layout"]
    layout["images"] = [
        grid_image(grid, grid.png(_WEIGHTS.indices(weights), shown.masked, _WEIGHTS.palette))
    ]
    layout["coloraxis2"] = _color_axis(
        theme.SEQUENTIAL,
        low=0,
        high=_WEIGHTS.high,
        labels={0: "0%", 0.15: "weight", _WEIGHTS.high: "≥ 30%"},
        bar={"len": 112, "x": 1, "xpad": 12},  # its last label is wider than it
    )
    layout["shapes"] += _selection(grid, shown)


def share_moved(weights: Floats, other: Floats) -> Floats:
    """The share of the weight of each head that `weights` and `other` give to different keys.

    The mean over the queries, [heads], of weights [heads, query, key].

    >>> import numpy as np
    >>> from alibi_viz.figures.attention_plot import share_moved
    >>> weights = np.array([[[1.0, 0.0], [0.5, 0.5]]], dtype=np.float32)
    >>> other = np.array([[[1.0, 0.0], [0.2, 0.8]]], dtype=np.float32)
    >>> [f"{share:.2f}" for share in share_moved(weights, other)]  # 0 and 0.3 in the two rows
    ['0.15']
    """
    # What one key gains another loses, so half of the differences is what moves.
    moved: Floats = np.abs(weights - other).sum(-1).mean(-1) / 2
    return moved


def _tile_titles(grid: Grid, moved: Floats, selected: int) -> list[str]:
    """The number of each head and the share of its weight that is elsewhere in the other trace.

    As many words as fit; the selected head in bold.
    """
    forms = ("head {head}: {share:.0%}", "{head}: {share:.0%}", "{head}")
    for form in forms:
        titles = [form.format(head=head, share=share) for head, share in enumerate(moved, start=1)]
        if max(map(len, titles)) * LETTER <= grid.side + _BESIDE_TILE:
            break
    titles[selected] = f"<b>{titles[selected]}</b>"
    return titles


def _selection(grid: Grid, shown: _Shown) -> list[dict[str, Any]]:
    """Frames around the selected query in every tile, and around the tile of the selected head."""
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
    x, y = grid.corners[shown.head].tolist()
    return [
        {
            "name": "query in the grid",
            "type": "path",
            "path": "".join(frames),
            "line": {"color": _FRAME_COLOR, "width": 1},
        },
        {
            "name": "head in the grid",
            "x0": x - 2,
            "x1": x + side + 2,
            "y0": y - 2,
            "y1": y + side + 2,
            "line": {"color": _FRAME_COLOR, "width": 3},
        },
    ]


def _add_matrices(picture: Picture, page: _Page, shown: _Shown, bias_name: str) -> None:
    """Add the four steps of the selected head. The colors depend on all heads, so they are
    steady."""
    length = len(shown.tokens)
    texts = [
        [literal(shown.describe(shown.head, query, key)) for key in range(length)]
        for query in range(length)
    ]
    titles = {
        "content": "content, q · k / √d",
        "bias": bias_name,
        "logits": "logits",
        "weights": "softmax: weights",
    }
    if page.is_narrow:
        titles = {step: step for step in STEPS}
    for step in STEPS:
        _add_matrix(picture, page, shown, step, title=titles[step], texts=texts)

    visible_content = shown.steps["content"][~shown.masked]
    limit = max(4, math.ceil(1.5 * float(np.abs(visible_content).max(initial=0))))
    picture["layout"]["coloraxis"] = _color_axis(
        theme.DIVERGING,
        low=-limit,
        high=limit,
        labels={
            -limit: f"≤ \N{MINUS SIGN}{limit}",
            0: "content, bias, logits",
            limit: f"≥ {limit}",
        },
        bar={"len": 166, "x": 1 - _SCALE_OF_SUM / page.width},
    )


def _add_matrix(
    picture: Picture, page: _Page, shown: _Shown, step: str, *, title: str, texts: list[list[str]]
) -> None:
    """Add a step on gray, with the selected query framed, and what is done with it."""
    panel = page.panels[step]
    below = _token_axis(shown, panel.right - panel.left)
    first, last = below["range"]
    beside = {
        **below,
        "range": [last, first],  # down
        "tickangle": 0,
        "showticklabels": step == STEPS[0],
    }
    _add_panel(picture, page, step, title, x=below, y=beside)

    number = _AXES[step]
    picture["data"].append(
        {
            "type": "heatmap",
            "name": step,
            "z": np.where(shown.masked, np.nan, shown.steps[step])[shown.head],
            "coloraxis": "coloraxis2" if step == "weights" else "coloraxis",
            "customdata": texts,
            "hoverongaps": True,
            "hovertemplate": _HOVER,
            "xaxis": f"x{number}",
            "yaxis": f"y{number}",
        }
    )
    across = {"xref": f"x{number} domain", "x0": 0, "x1": 1}
    background = {
        **across,
        "name": f"background of {step}",
        "yref": f"y{number} domain",
        "y0": 0,
        "y1": 1,
        "layer": "below",
        "fillcolor": theme.MASKED,
        "line": {"width": 0},
    }
    frame = {
        **across,
        "name": step,
        "yref": f"y{number}",
        "y0": shown.query - 0.5,
        "y1": shown.query + 0.5,
        "line": {"color": _FRAME_COLOR, "width": 2},
    }
    picture["layout"]["shapes"] += [background, frame]
    if step in _SIGNS:
        sign = {
            "name": f"after {step}",
            "text": _SIGNS[step],
            "x": 1,
            "xref": f"x{number} domain",
            "xanchor": "center",
            "xshift": _BETWEEN_MATRICES / 2,
            "y": 0.5,
            "yref": f"y{number} domain",
            "yanchor": "middle",
            "showarrow": False,
            "font": {"size": 20},
        }
        picture["layout"]["annotations"].append(sign)


def _add_bars(
    picture: Picture, page: _Page, shown: _Shown, names: tuple[str, str], *, has_heading: bool
) -> None:
    """Add the weights of the selected query: bars, and diamonds for those with the other bias.

    An invisible column over each key takes the pointer, because most bars are too low for it.
    """
    title = f"{_mark(theme.BLUE, '■')} {names[0]}  {_mark(theme.ORANGE, '◇')} {names[1]}"
    if has_heading:
        token = quoted_token(shown.tokens[shown.query], 16)
        word = literal(f"query {shown.query:,} {token}")
        title = f"weights of {_mark(_FRAME_COLOR, '▭')} {word} in head {shown.head + 1}:  {title}"
    weights = shown.steps["weights"][:, shown.query]
    other = shown.other[:, shown.query]
    top = 1.08 * float(max(weights.max(), other.max()))  # of all heads, for a steady axis
    panel = page.panels["bars"]
    _add_panel(
        picture,
        page,
        "bars",
        title,
        x=_token_axis(shown, panel.right - panel.left),
        y={"range": [0, top], "tickformat": ".0%", "nticks": 5, "showgrid": True},
    )

    keys = range(len(shown.tokens))
    masked = shown.masked[shown.head, shown.query]
    number = _AXES["bars"]
    axes = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
    bars = {
        **axes,
        "type": "bar",
        "name": "bars",
        "x": list(keys),
        "y": np.where(masked, np.nan, weights[shown.head]),
        "marker": {"color": theme.BLUE},
        "hoverinfo": "skip",
    }
    diamonds = {
        **axes,
        "type": "scatter",
        "name": "other",
        "mode": "markers",
        "x": list(keys),
        "y": np.where(masked, np.nan, other[shown.head]),
        "marker": {
            "symbol": "diamond-open",
            "size": 8,
            "color": theme.ORANGE,
            "line": {"width": 1.5},
        },
        "cliponaxis": False,
        "hoverinfo": "skip",
    }
    columns = {
        **axes,
        "type": "bar",
        "name": COLUMNS,
        "x": list(keys),
        "y": [top] * len(keys),
        "width": 1,
        "opacity": 0,
        "customdata": [literal(shown.describe(shown.head, shown.query, key)) for key in keys],
        "hovertemplate": _HOVER,
    }
    picture["data"] += [bars, diamonds, columns]


def _token_axis(shown: _Shown, pixels: int) -> dict[str, Any]:
    """Tokens at an axis of so many pixels, the selected query in bold; only every n-th one if there
    is not room for all."""
    length = len(shown.tokens)
    step = math.ceil(length / (pixels // _LABEL))
    # The query is always one of them, and takes the place of its neighbors.
    labeled = [place for place in range(0, length, step) if abs(place - shown.query) >= step]
    labeled = sorted([*labeled, shown.query])
    texts = {place: label(shown.tokens[place]) for place in labeled}
    texts[shown.query] = f"<b>{texts[shown.query]}</b>"
    return {
        "range": [-0.5, length - 0.5],
        "tickvals": labeled,
        "ticktext": list(texts.values()),
        "tickangle": 0 if _fits(shown.tokens, len(labeled), pixels) else -90,
    }


def _fits(tokens: Sequence[str], labels: int, pixels: int) -> bool:
    """Whether so many labels fit beside each other."""
    longest = max(len(html.unescape(label(token))) for token in tokens)
    return (longest * LETTER + _BETWEEN_LABELS) * labels <= pixels


def _color_axis(
    colors: Sequence[str],
    *,
    low: float,
    high: float,
    labels: dict[float, str],
    bar: dict[str, float],
) -> dict[str, Any]:
    """A color axis with these labels at its bar, which is above the right end of the strip."""
    return {
        "cmin": low,
        "cmax": high,
        "colorscale": [[place / (len(colors) - 1), color] for place, color in enumerate(colors)],
        "colorbar": {
            **theme.COLOR_BAR,
            "orientation": "h",
            "thickness": 8,
            "ticks": "",
            "ticklen": 0,
            "xanchor": "right",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "ypad": 2,
            "lenmode": "pixels",
            "tickfont": {"size": 11},
            "tickangle": 0,
            "tickvals": list(labels),
            "ticktext": list(labels.values()),
            **bar,
        },
    }


def _mark(color: str, sign: str) -> str:
    """A sign in a legend."""
    return f'<span style="color:{color}">{sign}</span>'


def sums_in_words(tokens: Sequence[str], trace: AttentionTrace) -> Describe:
    """A function of head, query and key, each from 0, that says how the weight comes about.

    >>> import torch
    >>> import alibi_viz as av
    >>> from alibi_viz.figures.attention_plot import sums_in_words
    >>> zeros = torch.zeros(1, 1, 3, 2)
    >>> trace = av.attention_trace(zeros, zeros, torch.tensor([1.0]))
    >>> describe = sums_in_words(["to", "be", "or"], trace)
    >>> describe(0, 2, 0).replace("\N{MINUS SIGN}", "-")
    '“or” → “to”, 2 back: 0.00 - 2.00 = -2.00 → 9.0%'
    """
    words = [quoted_token(token, 16) for token in tokens]
    has_bias = bool(trace.bias.any())
    content, bias, logits, weights = (getattr(trace, step)[0].tolist() for step in STEPS)

    @cache  # because an app that draws another head or query asks for most of them again
    def describe(head: int, query: int, key: int) -> str:
        distance = query - key
        steps = f"{-distance} ahead" if distance < 0 else f"{distance} back"
        pair = f"{words[query]} → {words[key]}, {steps}"
        logit = logits[head][query][key]
        if logit == -math.inf:
            return f"{pair}: masked"

        weight = format_percent(weights[head][query][key])
        terms = format_fixed(content[head][query][key], 2)
        if has_bias:
            bias_of_pair = bias[head][query][key]
            sign = "+" if bias_of_pair > 0 else "\N{MINUS SIGN}"
            terms += f" {sign} {format_fixed(abs(bias_of_pair), 2)} = {format_fixed(logit, 2)}"
        return f"{pair}: {terms} → {weight}"

    return describe
