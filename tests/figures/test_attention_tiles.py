"""The small matrices below the attention figure show every head, with the same query framed in each."""

import base64
import io

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from PIL import Image

from alibi_viz import AttentionTrace, alibi_slopes, attention_trace
from alibi_viz.figures import attention_layout as layout
from alibi_viz.figures import theme
from alibi_viz.figures.atlas import Atlas
from alibi_viz.figures.attention import attention_figure
from alibi_viz.figures.attention import draw as draw_into
from alibi_viz.figures.attention_layout import HEAD_FRAME, MAX_WEIGHT, QUERY_FRAME, TILES, TITLES
from alibi_viz.lab.law_trace import trace_queries

LENGTH = 6
TOKENS = ["the", "cat", "<b>x</b>", "saw", "the", "cat"]
MINUS = "\N{MINUS SIGN}"


def trace(heads: int, length: int = LENGTH) -> AttentionTrace:
    query, key = torch.randn(2, 1, heads, length, 8, generator=torch.Generator().manual_seed(0))
    return attention_trace(query, key, alibi_slopes(heads))


def draw(steps: AttentionTrace, tokens: list[str] = TOKENS, **options: int) -> go.Figure:
    return attention_figure(tokens, steps, steps, **options)


def hover(figure: go.Figure, head: int, query: int, key: int) -> list[object]:
    """The numbers of a cell of a head, counted from 1."""
    cells = [cell for row in figure.data[TILES].customdata for cell in row if cell[6] == head]
    side = int(len(cells) ** 0.5)
    return list(cells[query * side + key])


def pixel(atlas: Atlas, head: int, query: int, key: int) -> tuple[int, int]:
    """The row and the column of the middle of a cell in the image, which has 1.5 pixels per pixel and a border of 2."""
    x, y = atlas.corner(head)
    row, column = (int(1.5 * (at + (cell + 0.5) / LENGTH * atlas.side)) + 2 for at, cell in ((y, query), (x, key)))
    return row, column


@pytest.mark.parametrize("page_width", [480, 690, 880, 1100])
@pytest.mark.parametrize("heads", [1, 4, 8, 12, 32])
def test_all_heads_fit_below_the_panels(heads: int, page_width: int) -> None:
    figure = draw(trace(heads), page_width=page_width)
    x, y, margin = figure.layout.xaxis7, figure.layout.yaxis7, figure.layout.margin
    width, height = page_width - margin.l - margin.r, figure.layout.height - margin.t - margin.b
    assert 0 < x.domain[1] <= 1
    assert y.domain[0] == 0
    below = min(figure.layout[layout.name("yaxis", panel)].domain[0] for panel in range(6))
    assert (below - y.domain[1]) * height == pytest.approx(104, abs=1), "room for labels and titles"
    assert x.range[1] - x.range[0] == pytest.approx(x.domain[1] * width, abs=1), "one unit is one pixel"
    assert y.range[0] - y.range[1] == pytest.approx(y.domain[1] * height, abs=1)
    assert len(figure.data[TITLES].text) == heads
    assert max(figure.data[TITLES].x) < width


def test_image_has_the_color_of_each_weight() -> None:
    steps = trace(4)
    figure, atlas = draw(steps), layout.tiles(880, 4)
    png = base64.b64decode(figure.layout.images[0].source.partition(",")[2])
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))
    palette = theme.rgb(theme.SEQUENTIAL, 253)
    for head, query, key in ((0, 5, 5), (2, 5, 0), (3, 4, 1)):
        share = min(steps.weights[0, head, query, key].item() / MAX_WEIGHT, 1)
        shown = pixels[pixel(atlas, head, query, key)]
        np.testing.assert_allclose(shown[:3], palette[round(share * 252)], atol=3)
    assert tuple(pixels[pixel(atlas, 1, 0, 5)]) == theme.MASKED_RGBA


def test_same_query_is_framed_in_every_tile_and_the_selected_head_has_a_frame() -> None:
    figure, atlas = draw(trace(4), head=2, query=3), layout.tiles(880, 4)
    rows = figure.layout.shapes[QUERY_FRAME].path.split("Z")[:-1]
    assert len(rows) == 4
    for tile, row in enumerate(rows):
        x, y = atlas.corner(tile)
        left, top = map(float, row.removeprefix("M").partition("H")[0].split(","))
        bottom = float(row.partition("V")[2].partition("H")[0])
        assert (left, top) == (x, pytest.approx(y + 3 / 6 * atlas.side, abs=0.01))
        assert bottom == pytest.approx(y + 4 / 6 * atlas.side, abs=0.01)
    frame, (x, y) = figure.layout.shapes[HEAD_FRAME], atlas.corner(2)
    assert (frame.x0, frame.y0, frame.x1) == (x - 2, y - 2, x + atlas.side + 2)
    assert figure.data[TITLES].text == ("head 1", "head 2", "<b>head 3</b>", "head 4")


def test_hover_text_gives_the_sum_of_a_cell() -> None:
    steps = trace(4)
    figure = draw(steps)
    expected = [array[0, 2, 5, 1].item() for array in (steps.content, steps.bias, steps.logits)]
    expected.append(100 * steps.weights[0, 2, 5, 1].item())
    *numbers, query, key, head = hover(figure, 3, 5, 1)
    assert numbers == pytest.approx(expected, abs=6e-4)
    assert (query, key, head) == ("5 “cat”", "1 “cat”", 3)
    assert hover(figure, 1, 0, 2)[1:6] == [f"{MINUS}∞ (masked)", f"{MINUS}∞", 0, "0 “the”", "2 “&lt;b&gt;x&lt;/b&gt;”"]
    template = figure.data[TILES].hovertemplate
    assert "content %{customdata[0]} + bias %{customdata[1]} = logit %{customdata[2]} → weight" in template


def test_z_is_the_head_and_gaps_are_empty() -> None:
    z = draw(trace(4)).data[TILES].z
    assert {value for row in z for value in row} == {None, 1, 2, 3, 4}


def test_many_heads_of_a_long_text_have_few_hover_cells_with_positions_in_the_text() -> None:
    tokens = [f"t{place}" for place in range(100)]
    vectors = torch.zeros(1, 32, 100, 2)
    curve = -alibi_slopes(32)[:, None] * torch.arange(100)
    part = trace_queries(vectors, vectors, curve, range(40, 88), causal=True)
    figure = draw(part, tokens, start=40, query=60)
    cells = [cell for row in figure.data[TILES].customdata for cell in row if cell[6] is not None]
    assert 32 * 25 <= len(cells) <= 4096
    for content, bias, *_, query, key, head in cells[:200]:
        distance = int(query.split()[0]) - int(key.split()[0])
        assert content == 0
        assert isinstance(bias, str) == (distance < 0)
        if distance >= 0:
            assert bias == pytest.approx(-alibi_slopes(32)[head - 1].item() * distance, abs=6e-4)
    assert figure.data[TITLES].text[:2] == ("<b>1</b>", "2"), "no room for the word"


def test_titles_and_frames_lie_within_the_axes() -> None:
    """plotly hides a text whose point is outside, and cuts shapes."""
    for head in (0, 7):
        figure = draw(trace(8), head=head)
        (left, right), (bottom, top) = figure.layout.xaxis7.range, figure.layout.yaxis7.range
        frame, titles = figure.layout.shapes[HEAD_FRAME], figure.data[TITLES]
        assert left <= min(titles.x) and top <= min(titles.y)
        assert left < frame.x0 - 1 and frame.x1 + 1 < right
        assert top < frame.y0 - 1 and frame.y1 + 1 < bottom


def test_selecting_a_head_or_a_query_sends_no_tile_again() -> None:
    steps = trace(4)
    figure = go.FigureWidget(draw(steps))
    sent: list[str] = []
    figure._send_update_msg = lambda restyle_data, relayout_data, trace_indexes=None, **_: sent.append(
        f"{trace_indexes} {list(relayout_data)}"
    )
    draw_into(figure, TOKENS, steps, steps, head=3, query=2)
    assert len(sent) == 1
    assert str(TILES) not in sent[0].partition("]")[0], "the hover texts"
    assert "images" not in sent[0] and "shapes" in sent[0]
