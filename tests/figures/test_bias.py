"""The picture of the biases, read back: pixels, pointer, colour bar and page."""

import numpy as np
import pytest
import torch

from alibi_viz import alibi_bias, alibi_slopes, causal_mask
from alibi_viz.bias import FORMS
from alibi_viz.figures import bias as picture
from alibi_viz.figures import theme
from alibi_viz.figures.atlas import Atlas
from alibi_viz.figures.color_scale import SCALES, ColorScale
from tests.figures.test_atlas import decoded

IMAGE, FRAMES, HOVER, BAR, TITLES = range(5)


def case(heads: int, length: int, form: str = "relative", causal: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Bias and mask, both [heads, length, length]."""
    bias = alibi_bias(alibi_slopes(heads), length, form=form).expand(-1, length, -1)
    masked = bias.isinf() | (~causal_mask(length) if causal else torch.zeros(length, length, dtype=torch.bool))
    return bias, masked


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_every_pixel_has_the_colour_of_its_bias(form, causal, scale):
    bias, masked = case(5, 9, form, causal)
    figure = picture.bias_figure(bias, masked, scale=scale)
    image = figure.data[IMAGE]
    pixels = decoded(image.source)
    assert (image.x0 - image.dx / 2, image.y0 - image.dy / 2) == (0, 0)  # where the first cell begins
    assert image.dx == image.dy
    visible = bias[~masked]
    colors = ColorScale.around_zero(float(visible.min()), float(visible.max()), scale)
    atlas = Atlas(5, 9, 880 - 58 - 16)
    for head in range(5):
        left, top = atlas.corner(head)
        for query in range(9):
            for key in range(9):
                column = round((left + key + 0.5 - image.x0) / image.dx)
                row = round((top + query + 0.5 - image.y0) / image.dy)
                if masked[head, query, key]:
                    assert tuple(pixels[row, column]) == theme.MASKED_RGBA
                else:
                    index = colors.indices(bias[head, query, key].numpy()[None])[0]
                    assert pixels[row, column].tolist() == [*colors.palette[index].tolist(), 255]


@pytest.mark.parametrize(
    ("heads", "length", "form"),
    [
        (1, 1, "relative"),
        (3, 5, "split"),
        (8, 64, "relative"),
        (16, 128, "key"),
        (32, 256, "symmetric"),
        (1, 100, "end"),
    ],
)
def test_the_pointer_reads_the_librarys_own_numbers(heads, length, form):
    bias, masked = case(heads, length, form)
    figure = picture.bias_figure(bias, masked)
    trace = figure.data[HOVER]
    atlas = Atlas(heads, length, 880 - 58 - 16)
    seen = set()
    for row, column in np.ndindex(*trace.z.shape):
        if trace.z[row][column] is None:
            continue
        head, query, key, distance, value = trace.customdata[row][column]
        seen.add((head, query, key))
        left, top = atlas.corner(head - 1)
        assert trace.x[column] <= left + key + 0.5 <= trace.x[column + 1]  # the cell named is under the pointer
        assert trace.y[row] <= top + query + 0.5 <= trace.y[row + 1]
        assert distance == abs(query - key)
        if masked[head - 1, query, key]:
            assert value == "masked"
        else:
            assert np.float32(value) == bias[head - 1, query, key].item()
    assert len(seen) == heads * len(atlas.hover_cells(65536 if heads == 1 else 2048)) ** 2
    assert len(trace.x), len(trace.y) == tuple(side + 1 for side in reversed(trace.z.shape))


def test_the_hover_label_names_head_query_key_distance_and_bias():
    template = picture.blank().data[HOVER].hovertemplate
    for at, name in enumerate(("head", "query", "key", "distance", "bias")):
        assert f"{name} %{{customdata[{at}]}}" in template


@pytest.mark.parametrize(("heads", "length"), [(1, 1), (1, 256), (2, 3), (5, 64), (12, 128), (32, 256)])
@pytest.mark.parametrize("page", [560, 880, 1150])
def test_tiles_are_square_and_the_picture_fits_the_page(heads, length, page):
    layout = picture.bias_figure(*case(heads, length), page_width=page).layout
    left, right = layout.xaxis.domain
    across = (layout.width - 58 - 16) * (right - left) / abs(np.subtract(*layout.xaxis.range))
    down = (layout.height - 60 - 48) / abs(np.subtract(*layout.yaxis.range))
    assert across == pytest.approx(down, rel=0.01)  # pixels a cell
    assert layout.width <= page * 1.02
    assert layout.height <= 640
    bottom, top = layout.yaxis.range
    assert bottom > top  # query 0 is at the top


def test_ticks_name_the_first_and_the_last_position_of_every_column_and_row():
    figure = picture.bias_figure(*case(8, 64))
    atlas = Atlas(8, 64, 880 - 58 - 16)
    for axis, tiles, pitch in (
        (figure.layout.xaxis, atlas.columns, atlas.pitch[0]),
        (figure.layout.yaxis, atlas.rows, atlas.pitch[1]),
    ):
        named = {place: word for place, word in zip(axis.tickvals, axis.ticktext, strict=True) if word}
        for tile in range(tiles):
            assert named[tile * pitch + 63.5] == "63"
        assert named[0.5] == "0"


def test_titles_name_head_and_slope_and_drop_the_slope_where_there_is_no_room():
    slopes = [str(slope) for slope in alibi_slopes(32).tolist()]
    wide = picture.bias_figure(*case(2, 8), slopes=["1/16", "1/256"]).data[TITLES]
    assert list(wide.text) == ["head 1, m = 1/16", "head 2, m = 1/256"]
    narrow = picture.bias_figure(*case(32, 8), slopes=slopes).data[TITLES]
    assert list(narrow.text) == [f"head {head}" for head in range(1, 33)]
    one = picture.bias_figure(*case(1, 8), heads=[7])
    assert list(one.data[TITLES].text) == ["head 7"]
    assert one.data[HOVER].customdata[0][0][0] == 7


def test_the_legend_speaks_of_masked_cells_only_when_there_are_some():
    words = [picture.bias_figure(*case(2, 4, causal=causal)).layout.annotations[0].text for causal in (True, False)]
    assert "masked" in words[0] and theme.MASKED in words[0]
    assert "masked" not in words[1]


def test_the_colour_bar_is_that_of_the_image():
    bias, masked = case(4, 16)
    axis = picture.bias_figure(bias, masked, scale="logarithmic").layout.coloraxis
    scale = ColorScale.around_zero(bias[~masked].min().item(), 0.0, "logarithmic")
    assert list(axis.colorbar.tickvals) == scale.share(scale.ticks()).tolist()
    assert axis.colorbar.ticktext[0] == f"{scale.low:.3g}".replace("-", "\N{MINUS SIGN}")
    assert picture.blank().data[BAR].marker.coloraxis == "coloraxis"


def test_drawing_again_changes_the_figure_in_place():
    figure = picture.bias_figure(*case(8, 64))
    traces = list(figure.data)
    picture.draw(figure, *case(2, 3))
    assert all(new is old for new, old in zip(figure.data, traces, strict=True))
    assert figure.to_json() == picture.bias_figure(*case(2, 3)).to_json()  # nothing is left of what was there
