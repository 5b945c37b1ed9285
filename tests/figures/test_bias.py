"""The figure of the biases: pixels, hover texts, color bar and size."""

import numpy as np
import pytest
import torch

from alibi_viz import alibi_bias, alibi_slopes, causal_mask, figures
from alibi_viz.bias import FORMS
from alibi_viz.figures import bias as picture
from alibi_viz.figures import theme
from alibi_viz.figures.atlas import Atlas
from alibi_viz.figures.color_scale import SCALES, WEIGHT_SCALE, ColorScale
from tests.figures.test_atlas import decoded

HOVER, TITLES = range(2)
WIDTH = 880 - 56 - 20 - 2 * 2  # pixels for the tiles on a page of 880


def case(heads: int, length: int, form: str = "relative", causal: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Bias and mask, both [heads, length, length]."""
    bias = alibi_bias(alibi_slopes(heads), length, form=form).expand(-1, length, -1)
    masked = bias.isinf() | (~causal_mask(length) if causal else torch.zeros(length, length, dtype=torch.bool))
    return bias, masked


def pixel_of_each_cell(figure, tiles: int, length: int) -> np.ndarray:
    """The color of the center of every cell in the image, [heads, query, key, 4]."""
    image = figure.layout.images[0]
    pixels = decoded(image.source)
    atlas = Atlas(tiles, WIDTH)
    head, query, key = np.indices((tiles, length, length))
    left, top = np.array([atlas.corner(tile) for tile in range(tiles)])[head].transpose(3, 0, 1, 2)
    cell = atlas.side / length
    column = (left + (key + 0.5) * cell - image.x) / image.sizex * pixels.shape[1]
    row = (top + (query + 0.5) * cell - image.y) / image.sizey * pixels.shape[0]
    return pixels[row.astype(int), column.astype(int)]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_every_cell_has_the_color_of_its_bias(form, causal, scale):
    bias, masked = case(5, 9, form, causal)
    figure = picture.bias_figure(bias, masked, show="bias", scale=scale)
    pixels, hidden = pixel_of_each_cell(figure, 5, 9), masked.numpy()
    visible = bias[~masked].numpy()
    colors = ColorScale.around_zero(float(visible.min()), float(visible.max()), scale)
    assert (pixels[hidden] == theme.MASKED_RGBA).all()
    assert (pixels[~hidden][:, :3] == colors.palette[colors.indices(visible)]).all()
    assert (pixels[~hidden][:, 3] == 255).all()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_every_cell_has_the_color_of_its_relative_weight(form, causal):
    bias, masked = case(5, 9, form, causal)
    pixels, hidden = pixel_of_each_cell(picture.bias_figure(bias, masked), 5, 9), masked.numpy()
    softmax = bias.masked_fill(masked, float("-inf")).softmax(-1)
    weights = (softmax / softmax.amax(-1, keepdim=True)).numpy()[~hidden]
    expected = WEIGHT_SCALE.palette[WEIGHT_SCALE.indices(weights)].astype(int)
    assert (pixels[hidden] == theme.MASKED_RGBA).all()
    assert np.abs(pixels[~hidden][:, :3] - expected).max() <= 3  # rounding may differ by one of 253 colors


def test_causal_forms_with_equal_attention_weights_look_the_same():
    images = {form: picture.bias_figure(*case(4, 16, form)).layout.images[0].source for form in FORMS[:3]}
    assert len(set(images.values())) == 1
    assert picture.bias_figure(*case(4, 16, "key"), show="bias").layout.images[0].source != images["key"]


def test_weights_of_a_fully_masked_row_are_zero():
    bias, masked = np.zeros((1, 2, 2), dtype=np.float32), np.array([[True, True], [False, True]])
    assert picture.weights_from_bias(bias, masked).tolist() == [[[0, 0], [1, 0]]]


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
def test_hover_texts_give_bias_and_relative_weight(heads, length, form):
    bias, masked = case(heads, length, form)
    weights = bias.masked_fill(masked, float("-inf")).softmax(-1)
    weights = weights / weights.amax(-1, keepdim=True)
    figure = picture.bias_figure(bias, masked)
    trace = figure.data[HOVER]
    atlas = Atlas(heads, WIDTH)
    cell = atlas.side / length
    seen = set()
    for row, column in np.ndindex(*trace.z.shape):
        if trace.z[row][column] is None:
            continue
        head, query, key, distance, value, weight = trace.customdata[row][column]
        seen.add((head, query, key))
        left, top = atlas.corner(head - 1)
        assert trace.x[column] <= left + (key + 0.5) * cell <= trace.x[column + 1]  # the pointer is over this cell
        assert trace.y[row] <= top + (query + 0.5) * cell <= trace.y[row + 1]
        assert distance == abs(query - key)
        assert weight == pytest.approx(weights[head - 1, query, key].item(), rel=1e-4, abs=1e-12)
        if masked[head - 1, query, key]:
            assert value == "masked"
        else:
            assert np.float32(value) == bias[head - 1, query, key].item()
    assert len(seen) == heads * len(atlas.hover_cells(length, 65536 if heads == 1 else 2048)) ** 2
    assert (len(trace.x), len(trace.y)) == tuple(side + 1 for side in reversed(trace.z.shape))


def test_hover_template_names_every_value():
    template = picture.blank().data[HOVER].hovertemplate
    for at, name in enumerate(("head", "query", "key", "distance", "bias", "relative weight")):
        assert f"{name} %{{customdata[{at}]" in template


@pytest.mark.parametrize(("heads", "length"), [(1, 1), (1, 256), (2, 3), (5, 64), (12, 128), (32, 256)])
@pytest.mark.parametrize("page", [560, 880, 1150])
def test_tiles_are_square_and_the_figure_fits_the_page(heads, length, page):
    layout = picture.bias_figure(*case(heads, length), page_width=page).layout
    left, right = layout.xaxis.domain
    across = (layout.width - 56 - 20) * (right - left) / abs(np.subtract(*layout.xaxis.range))
    down = (layout.height - 58 - 46) / abs(np.subtract(*layout.yaxis.range))
    assert across == pytest.approx(down, rel=0.01)  # pixels per cell
    assert layout.width <= page
    assert layout.height <= 640
    bottom, top = layout.yaxis.range
    assert bottom > top  # query 0 is at the top


def test_ticks_label_the_first_and_last_position_of_every_column_and_row():
    figure = picture.bias_figure(*case(8, 64))
    atlas = Atlas(8, WIDTH)
    cell = atlas.side / 64
    for axis, tiles, pitch in (
        (figure.layout.xaxis, atlas.columns, atlas.pitch[0]),
        (figure.layout.yaxis, atlas.rows, atlas.pitch[1]),
    ):
        named = {place: word for place, word in zip(axis.tickvals, axis.ticktext, strict=True) if word}
        for tile in range(tiles):
            assert named[tile * pitch + 63.5 * cell] == "63"
        assert named[0.5 * cell] == "0"


def test_small_tiles_share_the_tick_labels_of_the_first():
    layout = picture.bias_figure(*case(16, 128)).layout
    assert list(layout.xaxis.ticktext) == list(layout.yaxis.ticktext) == ["0", "127"]
    assert max(layout.xaxis.tickvals) < Atlas(16, WIDTH).side


def test_titles_give_head_and_slope_and_omit_the_slope_in_small_tiles():
    slopes = [str(slope) for slope in alibi_slopes(32).tolist()]
    wide = picture.bias_figure(*case(2, 8), slopes=["1/16", "1/256"]).data[TITLES]
    assert list(wide.text) == ["head 1, m = 1/16", "head 2, m = 1/256"]
    narrow = picture.bias_figure(*case(32, 8), slopes=slopes).data[TITLES]
    assert list(narrow.text) == [f"head {head}" for head in range(1, 33)]
    one = picture.bias_figure(*case(1, 8), heads=[7])
    assert list(one.data[TITLES].text) == ["head 7"]
    assert one.data[HOVER].customdata[0][0][0] == 7


def test_legend_mentions_masked_cells_only_if_there_are_some():
    words = [picture.bias_figure(*case(2, 4, causal=causal)).layout.annotations[0].text for causal in (True, False)]
    assert "masked" in words[0] and theme.MASKED in words[0]
    assert "masked" not in words[1]


def test_color_bar_has_the_colors_of_the_image():
    bias, masked = case(4, 16)
    axis = picture.bias_figure(bias, masked, show="bias", scale="logarithmic").layout.coloraxis
    scale = ColorScale.around_zero(bias[~masked].min().item(), 0.0, "logarithmic")
    assert list(axis.colorbar.tickvals) == scale.fraction(scale.ticks()).tolist()
    assert axis.colorbar.ticktext[0] == f"{scale.low:.3g}".replace("-", "\N{MINUS SIGN}")
    assert picture.bias_figure(bias, masked).layout.coloraxis.colorbar.ticktext[-1] == "100%"
    assert picture.blank().data[TITLES].marker.coloraxis == "coloraxis"


def test_tensors_that_require_gradients_can_be_drawn():
    slopes = alibi_slopes(2).requires_grad_()
    figure = figures.bias_figure(alibi_bias(slopes, 3), ~causal_mask(3), show="bias")
    assert figure.data[HOVER].customdata[2, 0][4] == -2 / 16


def test_drawing_again_changes_the_figure_in_place_and_leaves_nothing_behind():
    figure = picture.bias_figure(*case(8, 64), show="bias", scale="logarithmic")
    traces = list(figure.data)
    picture.draw(figure, *case(2, 3))(figure)
    assert all(new is old for new, old in zip(figure.data, traces, strict=True))
    assert figure.to_json() == picture.bias_figure(*case(2, 3)).to_json()


def test_hover_texts_added_later_are_the_same():
    figure = picture.bias_figure(*case(8, 64))
    add_hover = picture.draw(figure, *case(2, 3))
    assert figure.data[HOVER].visible is False
    assert figure.data[HOVER].customdata is None
    add_hover(figure)
    assert figure == picture.bias_figure(*case(2, 3))


def test_a_longer_sequence_changes_only_the_image_and_the_tick_labels():
    drawn = {length: picture.blank() for length in (63, 64)}
    for length, figure in drawn.items():
        picture.draw(figure, *case(8, length))
    shorter, longer = (figure.to_dict() for figure in drawn.values())
    for figure in (shorter, longer):
        figure["layout"]["images"][0].pop("source")
        for axis in ("xaxis", "yaxis"):
            del figure["layout"][axis]["tickvals"], figure["layout"][axis]["ticktext"]
    assert str(shorter) == str(longer)
