"""The comparison of two matrices of weights reads back: both, their difference, and where they are
from."""

import re

import numpy as np
import torch

from alibi_viz import alibi_bias, alibi_slopes
from alibi_viz.bias import mask_future
from alibi_viz.figures import weights_html
from alibi_viz.figures.matrices_html import comparison_html
from alibi_viz.figures.theme import WEIGHT_SCALE
from tests.figures.reading import pixels


def pictures(html: str) -> list[np.ndarray]:
    """The colors of each picture, int64 [queries, keys, red green blue]."""
    return [pixels(source)[..., :3].astype(int) for source in re.findall(r'src="([^"]+)"', html)]


def weights(sign: int, length: int) -> torch.Tensor:
    return mask_future(sign * alibi_bias(alibi_slopes(8), length)).softmax(-1)


def test_pictures_show_both_weights_and_their_difference_or_shares_of_the_largest_of_a_row() -> (
    None
):
    html = comparison_html(weights(1, 16), weights(-1, 16), (0, 15, 0))
    wanted, got, difference = pictures(html)
    assert wanted.shape == got.shape == difference.shape == (16, 16, 3)
    assert (wanted[15].sum(-1).argmax(), got[15].sum(-1).argmax()) == (15, 0), "lighter is larger"
    (red, _, blue), (other_red, _, other_blue) = difference[15, [0, 15]]
    assert red > blue and other_red < other_blue, (
        "orange where more is got than wanted, blue where less"
    )
    assert difference[15, 8].min() > 240, "white where both are equal"
    assert "head 1, queries 0 to 15 down, keys 0 to 15 across" in html
    assert "got minus wanted (-0.39 blue, 0.39 orange)" in html
    assert html.count("top:209px;left:-1px;width:14px;height:14px;") == 3, (
        "each picture has 224 pixels"
    )
    assert "wanted (0 to 0.25)" in comparison_html(weights(1, 4) / 8, weights(1, 4) / 4, (0, 0, 0))
    assert "(-1 blue, 1 orange)" in comparison_html(*torch.zeros(2, 1, 4, 4), (0, 0, 0))
    table = torch.tensor([[0.1, 0.2, 0.0, 0.0], [0.4, 0.1, 0.2, 0.0], [0.0, 0.0, 0.0, 0.0]])
    html, shares = (
        weights_html({'<"x">': table}, "<b>"),
        np.array([[0.5, 1, 0, 0], [1, 0.25, 0.5, 0], [0, 0, 0, 0]]),
    )
    assert (pictures(html)[0] == WEIGHT_SCALE.palette[WEIGHT_SCALE.indices(shares)]).all()
    assert (
        html.count("&lt;&quot;x&quot;&gt;") == 2
        and 'width="224" height="168"' in html
        and "<b>" not in html
    )


def test_long_sequences_are_cropped_around_the_place() -> None:
    html = comparison_html(weights(1, 300), weights(-1, 300), (2, -100, 100))
    assert (
        "head 3, queries 171 to 202 down, keys 71 to 102 across" in html
        and "top:202px;left:202px" in html
    )
    assert all(picture.shape == (32, 32, 3) for picture in pictures(html))
    assert "head 1, queries 268 to 299 down" in comparison_html(
        weights(1, 300), weights(-1, 300), (0, 299, 0)
    )
