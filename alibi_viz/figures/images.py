"""Write figures as images for a paper."""

from collections.abc import Mapping
from pathlib import Path

import plotly.graph_objects as go
from plotly.io import write_images

from alibi_viz.figures import theme

_WIDTH = 900  # pixels
_PNG_SCALE = 2  # pixels of a PNG per pixel of the figure


def save_images(figures: Mapping[str | Path, go.Figure]) -> None:
    """Write figures to files on a white background, {path: figure}; the suffix is .svg, .pdf or .png.

    One browser draws them all, which is faster than one after the other. Raises ValueError for another suffix, and
    RuntimeError if there is no Chrome or Chromium.
    """
    from kaleido.errors import ChromeNotFoundError  # noqa: PLC0415  # slow to import, rarely needed

    names = ", ".join(Path(path).name for path in figures)
    suffixes = [Path(path).suffix.lower() for path in figures]
    if not {*suffixes} <= {".svg", ".pdf", ".png"}:
        raise ValueError(f"images must be .svg, .pdf or .png, got {names}")
    drawn = [theme.on_white(figure) for figure in figures.values()]
    scales = [_PNG_SCALE if suffix == ".png" else 1 for suffix in suffixes]
    try:
        write_images(fig=drawn, file=list(map(str, figures)), width=_WIDTH, scale=scales)
    except ChromeNotFoundError as error:
        message = f"no images are written ({names}), because they need Chrome or Chromium, and none was found"
        raise RuntimeError(message) from error
