"""The figure of the biases reads back: colors, hover texts, color bar, titles and size."""

from functools import cache

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alibi_viz import alibi_bias, alibi_slopes, causal_mask
from alibi_viz.bias import FORMS
from alibi_viz.figures import bias_plot as picture
from alibi_viz.figures import theme
from alibi_viz.figures.theme import WEIGHT_SCALE, ColorScale
from alibi_viz.figures.tile_grid import Grid
from tests.figures.reading import cell_colors, hovered, named_trace
from tests.rows import each_case

# Margins in pixels
LEFT = 56
RIGHT = 20
TOP = 48
BOTTOM = 42
HEIGHT = 416  # of every figure
PAD = 4  # pixels around the grid


def grid_of(tiles, page_width=880):
    width = page_width - LEFT - RIGHT - 2 * PAD
    height = HEIGHT - TOP - BOTTOM - 2 * PAD
    across = 8
    if tiles == 1:
        across = 1
    elif tiles <= 8:
        across = 4
    return Grid(tiles, width, height, across=across)


def bias_of(heads, length, form="relative"):
    """The bias of every head: [heads, length, length]."""
    return alibi_bias(alibi_slopes(heads), length, form=form).expand(-1, length, -1)


def masked_of(bias, *, causal=True):
    """Where the bias is -inf or the key is in the future: bool, of the shape of the bias."""
    masked = bias.isinf()
    if causal:
        masked = masked | ~causal_mask(bias.shape[-1])
    return masked


def bias_figure(count, length, form="relative", causal=True, /, **options):
    """The figure of so many heads."""
    bias = bias_of(count, length, form)
    return picture.bias_figure(bias, masked_of(bias, causal=causal), **options)


def relative_weights(bias, masked):
    """The weights at equal content, divided by the largest of their query."""
    softmax = bias.masked_fill(masked, float("-inf")).softmax(-1)
    return softmax / softmax.amax(-1, keepdim=True)


# Colors

HEADS = st.integers(1, 6)
LENGTHS = st.integers(2, 20)
A_FORM = st.sampled_from(FORMS)


def colors_of(figure, heads, length):
    """The color of every cell, uint8 [heads, query, key, 4]."""
    return cell_colors(figure.layout.images[0].source, grid_of(heads), length, length)


@settings(max_examples=8)
@given(HEADS, LENGTHS, A_FORM, st.sampled_from([*picture.SHOWS]))
def test_masked_cells_are_gray(heads, length, form, show):
    seen = colors_of(bias_figure(heads, length, form, show=show), heads, length)
    masked = masked_of(bias_of(heads, length, form)).numpy()
    assert (seen[masked] == theme.MASKED_RGBA).all()


@settings(max_examples=8)
@given(HEADS, LENGTHS, A_FORM, st.booleans())
def test_a_cell_has_the_color_of_its_bias(heads, length, form, causal):
    bias = bias_of(heads, length, form)
    visible = ~masked_of(bias, causal=causal).numpy()
    values = bias.numpy()[visible]
    scale = ColorScale.around_zero(float(values.min()), float(values.max()))
    figure = bias_figure(heads, length, form, causal, show="bias")
    seen = colors_of(figure, heads, length)[visible][:, :3]
    np.testing.assert_array_equal(seen, scale.palette[scale.indices(values)])


@settings(max_examples=8)
@given(HEADS, LENGTHS, A_FORM, st.booleans())
def test_a_cell_has_the_color_of_its_weight(heads, length, form, causal):
    bias = bias_of(heads, length, form)
    masked = masked_of(bias, causal=causal)
    visible = ~masked.numpy()
    weights = relative_weights(bias, masked).numpy()[visible]
    figure = bias_figure(heads, length, form, causal)
    seen = colors_of(figure, heads, length)[visible][:, :3].astype(int)
    expected = WEIGHT_SCALE.palette[WEIGHT_SCALE.indices(weights)].astype(int)
    # Rounding may move a weight by one of 253 colors.
    assert np.abs(seen - expected).max() <= 3


def test_a_row_that_all_queries_share_is_drawn_for_each():
    one_row = alibi_bias(alibi_slopes(2), 5, form="key")  # [heads, 1, key]
    masked = masked_of(bias_of(2, 5, "key"))
    drawn = picture.bias_figure(one_row, masked)
    assert drawn.to_json() == bias_figure(2, 5, "key").to_json()


@pytest.mark.parametrize("show", picture.SHOWS)
def test_the_color_bar_has_the_ticks_of_its_scale(show):
    bar = bias_figure(8, 64, show=show).layout.coloraxis.colorbar
    scale = WEIGHT_SCALE if show == "weight" else ColorScale.around_zero(-63 / 2, 0.0)
    wanted = scale.color_axis()["colorbar"]
    assert list(bar.tickvals) == wanted["tickvals"]
    assert list(bar.ticktext) == wanted["ticktext"]


# Hover texts

each_size = each_case(
    ("heads", "length", "form"),
    {
        "one cell": (1, 1, "relative"),
        "both directions": (3, 5, "split"),
        "more cells than texts": (8, 40, "relative"),
        "one head": (1, 100, "end"),
    },
)


@each_size
def test_every_cell_has_a_hover_text_of_itself_or_a_neighbor(heads, length, form):
    grid = grid_of(heads)
    found = hovered(bias_figure(heads, length, form), length, length, grid)
    assert len(found) == heads * length**2
    limit = picture.HOVER_ONE if heads == 1 else picture.HOVER_ALL
    step = grid.hover_step(length, limit)
    for (_, row, column), (query, key, *_) in found.items():
        assert abs(query - row) <= step / 2
        assert abs(key - column) <= step / 2


@each_size
def test_a_hover_text_gives_distance_bias_and_weight(heads, length, form):
    bias = bias_of(heads, length, form)
    masked = masked_of(bias)
    weights = relative_weights(bias, masked)
    found = hovered(bias_figure(heads, length, form), length, length, grid_of(heads))
    for (head, _, _), (query, key, distance, value, weight) in found.items():
        cell = (head - 1, query, key)
        assert distance == abs(query - key)
        assert weight == pytest.approx(weights[cell].item(), rel=1e-4, abs=1e-12)
        if masked[cell]:
            assert value == "masked"
        else:
            number = float(value.replace("\N{MINUS SIGN}", "-"))
            assert number == pytest.approx(bias[cell].item(), rel=5e-3)


# Size and labels

each_page = pytest.mark.parametrize(
    ("heads", "length", "page"), [(1, 1, 560), (5, 64, 1150), (32, 256, 880)]
)


@cache
def layout_of(heads, length, page):
    """The layout of a figure that no test changes."""
    return bias_figure(heads, length, page_width=page).layout


@each_page
def test_one_unit_is_one_pixel_so_tiles_are_square(heads, length, page):
    layout = layout_of(heads, length, page)
    left, right = layout.xaxis.range
    start, end = layout.xaxis.domain  # the profile of a single head takes the rest
    bottom, top = layout.yaxis.range  # query 0 is at the top
    assert right - left == pytest.approx((end - start) * (layout.width - LEFT - RIGHT))
    assert bottom - top == layout.height - TOP - BOTTOM


@each_page
def test_the_figure_is_as_wide_as_the_page_and_always_equally_high(heads, length, page):
    layout = layout_of(heads, length, page)
    assert layout.width == page
    assert layout.height == HEIGHT


@each_case(
    ("heads", "columns"),
    {
        "two": (2, 2),
        "eight in two rows": (8, 4),
        "nine": (9, 8),
        "twenty": (20, 8),
        "32 in four rows": (32, 8),
    },
)
def test_heads_stand_in_four_columns_and_more_than_eight_in_eight(heads, columns):
    places = named_trace(bias_figure(heads, 4), "titles").x
    assert len(set(places)) == columns


def test_the_tiles_of_32_heads_are_inside_the_axes():
    layout = layout_of(32, 256, 880)
    (image,) = layout.images
    assert image.sizex <= layout.xaxis.range[1]
    assert image.sizey <= layout.yaxis.range[0]


@pytest.mark.parametrize(("name", "direction"), [("xaxis", 0), ("yaxis", 1)])
def test_small_tiles_have_the_first_and_the_last_position_on_their_axes(name, direction):
    grid = grid_of(16)
    axis = bias_figure(16, 64).layout[name]
    start = grid.corners[0][direction]
    text_at = dict(zip(axis.tickvals, axis.ticktext, strict=True))
    half_a_cell = grid.side / 128
    assert text_at[start + half_a_cell] == "0"
    assert text_at[start + grid.side - half_a_cell] == "63"


def titles(count, /, **options):
    return list(named_trace(bias_figure(count, 8, **options), "titles").text)


def test_titles_give_the_slope_if_there_is_room():
    assert titles(2, slopes=["1/16", "1/256"]) == ["head 1, m = 1/16", "head 2, m = 1/256"]


def test_titles_of_small_tiles_are_short_and_keep_the_slope():
    assert titles(32, slopes=["1/256"] * 32)[-1] == "32: m=1/256"


def test_titles_of_small_tiles_with_long_slopes_are_the_shortest():
    assert titles(32, slopes=["0.00552"] * 32)[-1] == "32: 0.00552"


@pytest.mark.parametrize("heads", [[7, 2], np.array([7, 2])], ids=["list", "array"])
def test_heads_have_the_numbers_that_are_given(heads):
    assert titles(2, heads=heads) == ["head 7", "head 2"]


# The profile of a row


def test_the_profile_is_the_weights_of_the_last_row():
    profile = named_trace(bias_figure(1, 6), "profile")
    bias = bias_of(1, 6)
    expected = relative_weights(bias, masked_of(bias))[0, -1]
    np.testing.assert_allclose(profile.y.astype(float), expected, rtol=1e-6)
    assert list(profile.x) == [0, 1, 2, 3, 4, 5]


def test_the_profile_is_the_bias_if_that_is_shown():
    profile = named_trace(bias_figure(1, 6, show="bias"), "profile")
    np.testing.assert_allclose(profile.y.astype(float), bias_of(1, 6)[0, -1])


def test_the_profile_of_another_row_ends_at_its_query():
    figure = bias_figure(2, 6, page_width=1200, profile=(1, 3))
    weights = named_trace(figure, "profile").y
    assert np.isnan(weights[4:]).all()
    assert weights[3] == 1
    *_, title = figure.layout.annotations
    assert title.text.endswith("head 2, query 3")


@each_case(("heads", "row"), {"last row": (1, (0, 5)), "of another head": (2, (1, 3))})
def test_a_frame_marks_the_row_of_the_profile(heads, row):
    (frame,) = bias_figure(heads, 6, page_width=1200, profile=row).layout.shapes
    grid = grid_of(heads, 1200)
    tile, query = row
    left, top = grid.corners[tile]
    assert frame.y0 == pytest.approx(top + grid.side * query / 6)
    assert frame.y1 == pytest.approx(top + grid.side * (query + 1) / 6, abs=1.01)
    assert frame.x0 == left - 1


def test_a_single_key_is_a_point_of_the_profile():
    figure = bias_figure(1, 1)
    assert named_trace(figure, "profile").mode == "markers"
    assert figure.layout.xaxis2.tickvals == (0,)


@each_case(
    ("heads", "page_width"),
    {"eight heads": (8, 880), "narrow page": (1, 480)},
)
def test_there_is_no_profile_without_room(heads, page_width):
    figure = bias_figure(heads, 6, page_width=page_width)
    assert "profile" not in [trace.name for trace in figure.data]


# Bad arguments


@each_case(
    ("options", "message"),
    {
        "few heads": ({"heads": [5]}, "heads and slopes must have 2 entries"),
        "many heads": ({"heads": [5, 6, 7]}, "heads and slopes must have 2 entries"),
        "few slopes": ({"slopes": ["1/2"]}, "heads and slopes must have 2 entries"),
        "show": ({"show": "weights"}, "show must be one of"),
    },
)
def test_bad_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        bias_figure(2, 8, **options)


def test_mask_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"masked must fit .* = \[2, 8, 8\]"):
        picture.bias_figure(bias_of(2, 8), masked_of(bias_of(2, 9)))


@pytest.mark.parametrize("shape", [(2, 0, 0), (2, 3, 5)], ids=str)
def test_bias_that_is_empty_or_not_square_is_refused(shape):
    with pytest.raises(ValueError, match="and not empty, got shape"):
        picture.bias_figure(np.zeros(shape), False)


# Hover texts


def test_a_picture_without_hover_texts_is_otherwise_the_same():
    bias = bias_of(8, 64)
    whole = picture.bias_picture(bias, masked_of(bias))
    quick = picture.bias_picture(bias, masked_of(bias), hover=False)
    *traces, hover = go.Figure(whole).data
    assert hover.name == "tiles"
    assert go.Figure(quick) == go.Figure(traces, whole["layout"])
