"""Pictures of weights in HTML read back: their colors, their captions, and where they are from."""

import re

import numpy as np
import pytest
import torch

from alibi_viz import alibi_bias, alibi_slopes
from alibi_viz.bias import mask_future
from alibi_viz.figures import weights_html
from alibi_viz.figures.matrices_html import comparison_html
from alibi_viz.figures.theme import WEIGHT_SCALE
from tests.figures.reading import pixels
from tests.rows import each_case


def pictures(html):
    """The colors of each picture, [queries, keys, red green blue]."""
    sources = re.findall(r'src="([^"]+)"', html)
    return [pixels(source)[..., :3].astype(int) for source in sources]


def weights(sign, length):
    """The weights of eight heads at equal content; with the sign -1, distance attracts."""
    bias = sign * alibi_bias(alibi_slopes(8), length)
    return mask_future(bias).softmax(-1)


# What a report shows: the correct weights, those of the checked function, and their difference


@pytest.fixture(scope="module")
def reversed_sign():
    """The page of a function whose bias has the wrong sign, 16 tokens long."""
    return comparison_html(weights(1, 16), weights(-1, 16), (0, 15, 0))


def test_comparison_has_three_pictures_of_all_cells(reversed_sign):
    assert [picture.shape for picture in pictures(reversed_sign)] == [(16, 16, 3)] * 3


def test_larger_weight_is_lighter(reversed_sign):
    wanted, got, _ = pictures(reversed_sign)
    assert wanted[15].sum(axis=-1).argmax() == 15, "ALiBi's largest weight is the nearest"
    assert got[15].sum(axis=-1).argmax() == 0


def test_pictures_are_those_of_the_head_of_the_place():
    wanted = torch.zeros(3, 4, 4)
    wanted[2, 3, 1] = 1
    got = torch.zeros(3, 4, 4)
    got[2, 3, 2] = 1
    wanted_picture, got_picture, _ = pictures(comparison_html(wanted, got, (2, 3, 1)))
    assert wanted_picture[3].sum(axis=-1).argmax() == 1
    assert got_picture[3].sum(axis=-1).argmax() == 2


def test_difference_is_orange_where_more_is_got_and_blue_where_less(reversed_sign):
    _, _, difference = pictures(reversed_sign)
    red_of_farthest, _, blue_of_farthest = difference[15, 0]
    red_of_nearest, _, blue_of_nearest = difference[15, 15]
    assert red_of_farthest > blue_of_farthest
    assert red_of_nearest < blue_of_nearest


def test_difference_is_white_where_both_are_equal(reversed_sign):
    _, _, difference = pictures(reversed_sign)
    assert difference[15, 8].min() > 240


def test_captions_have_the_ends_of_both_scales(reversed_sign):
    """The largest weight is 1, that of the only key of the first query."""
    assert "wanted (0 to 1)" in reversed_sign
    assert "got (0 to 1)" in reversed_sign
    assert "got minus wanted (-0.39 blue, 0.39 orange)" in reversed_sign


def test_both_weights_have_the_scale_of_the_larger_ones():
    html = comparison_html(weights(1, 4) / 8, weights(1, 4) / 4, (0, 0, 0))
    assert "wanted (0 to 0.25)" in html
    assert "got (0 to 0.25)" in html


def test_scales_of_zeros_end_at_one():
    zeros = torch.zeros(1, 4, 4)
    html = comparison_html(zeros, zeros, (0, 0, 0))
    assert "wanted (0 to 1)" in html
    assert "(-1 blue, 1 orange)" in html


def test_text_says_what_is_shown(reversed_sign):
    assert "head 1, queries 0 to 15 down, keys 0 to 15 across" in reversed_sign


def test_frame_marks_the_place_in_each_picture(reversed_sign):
    """A cell has 14 of 224 pixels, and the frame starts one pixel before it."""
    assert reversed_sign.count("top:209px;left:-1px;width:14px;height:14px;") == 3


# Of long sequences, 32 queries and keys are shown


@each_case(
    ("place", "shown"),
    {
        "mostly what is before the place": (
            (2, 200, 100),
            "head 3, queries 171 to 202 down, keys 71 to 102 across",
        ),
        "counted from the end": (
            (-6, -100, -200),
            "head 3, queries 171 to 202 down, keys 71 to 102 across",
        ),
        "at the ends": ((0, 299, 0), "head 1, queries 268 to 299 down, keys 0 to 31 across"),
    },
)
def test_part_around_the_place_is_shown(place, shown):
    html = comparison_html(weights(1, 300), weights(-1, 300), place)
    assert shown in html
    assert [picture.shape for picture in pictures(html)] == [(32, 32, 3)] * 3


def test_frame_marks_the_place_in_its_part():
    """The place is in the row and the column with the index 29, of cells of 7 pixels."""
    html = comparison_html(weights(1, 300), weights(-1, 300), (2, 200, 100))
    assert "top:202px;left:202px" in html


# What a lesson shows: the weights of a reader's function


THREE_ROWS = torch.tensor([[0.1, 0.2, 0.0, 0.0], [0.4, 0.1, 0.2, 0.0], [0.0, 0.0, 0.0, 0.0]])


def test_weights_are_drawn_relative_to_the_largest_of_their_row():
    shares = np.array([[0.5, 1, 0, 0], [1, 0.25, 0.5, 0], [0, 0, 0, 0]])
    (picture,) = pictures(weights_html({"mine": THREE_ROWS}, "heads"))
    np.testing.assert_array_equal(picture, WEIGHT_SCALE.palette[WEIGHT_SCALE.indices(shares)])


def test_cells_are_square():
    html = weights_html({"mine": THREE_ROWS}, "heads")
    assert 'width="224" height="168"' in html, "three rows of four columns"


def test_every_entry_has_a_picture():
    html = weights_html({"mine": THREE_ROWS, "correct": THREE_ROWS}, "heads")
    captions = re.findall("<figcaption>(.*?)</figcaption>", html)
    assert captions == ["mine", "correct"]


@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3)])
def test_weights_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"weights must be \[rows, keys\] .* for 'mine'"):
        weights_html({"mine": torch.zeros(shape)}, rows="heads")


def test_captions_and_rows_are_escaped():
    html = weights_html({'<"x">': THREE_ROWS}, "<b>")
    assert "<figcaption>&lt;&quot;x&quot;&gt;</figcaption>" in html
    assert 'alt="&lt;&quot;x&quot;&gt;"' in html
    assert "&lt;b&gt; (down)" in html
