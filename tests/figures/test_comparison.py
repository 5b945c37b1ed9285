import base64
import io
import re

import numpy as np
import torch
from PIL import Image

from alibi_viz import alibi_bias, alibi_slopes
from alibi_viz.bias import mask_future
from alibi_viz.figures import comparison_html


def pictures(html: str) -> list[Image.Image]:
    sources = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    return [Image.open(io.BytesIO(base64.b64decode(source))) for source in sources]


def weights(sign: int, length: int) -> torch.Tensor:
    return mask_future(sign * alibi_bias(alibi_slopes(8), length)).softmax(-1)


def test_pictures_show_both_weights_and_their_difference() -> None:
    html = comparison_html(weights(1, 16), weights(-1, 16), (0, 15, 0))
    wanted, got, difference = (np.asarray(picture.convert("L"), dtype=int) for picture in pictures(html))
    assert wanted.shape == got.shape == difference.shape == (16, 16)
    assert int(wanted[15].argmax()) == 15  # lighter is larger
    assert int(got[15].argmax()) == 0
    assert difference[15, 8] > difference[15, 0]  # white in the middle, darker at both ends
    assert difference[15, 8] > difference[15, 15]
    assert "head 1, queries 0 to 15 down, keys 0 to 15 across" in html
    assert "got minus wanted (-0.39 blue, 0.39 orange)" in html


def test_long_sequences_are_cropped_around_the_place() -> None:
    html = comparison_html(weights(1, 300), weights(-1, 300), (2, 200, 100))
    assert "head 3, queries 171 to 202 down, keys 71 to 102 across" in html
    assert all(picture.size == (32, 32) for picture in pictures(html))
    assert "head 1, queries 268 to 299 down" in comparison_html(weights(1, 300), weights(-1, 300), (0, 299, 0))
