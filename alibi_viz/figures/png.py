"""Images as data URIs, for a figure or a page."""

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def png_source(pixels: NDArray[np.uint8], palette: bytes, **options: Any) -> str:
    """An image as a data URI, from rows of a palette, [height, width].

    `options` are Pillow's for PNG.
    """
    image = Image.fromarray(pixels, mode="P")
    image.putpalette(palette)
    file = io.BytesIO()
    image.save(file, "PNG", **options)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
