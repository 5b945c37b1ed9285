"""A handle in the figure of an app: the reader drags a mark instead of moving its slider."""

from pathlib import Path
from typing import Any

import anywidget
from traitlets import Float, List, Unicode


class DragHandle(anywidget.AnyWidget):
    """A handle over a mark of the figure, which the pointer drags sideways; see handle.js.

    The mark is the only point of a trace, or a vertical line. The app moves it.
    """

    marks: List[Any] = List(help="the names of traces and shapes; the visible one moves").tag(
        sync=True
    )
    tip = Unicode(help="what a drag does").tag(sync=True)
    place = Float(help="where the pointer is, as a value of the x axis").tag(sync=True)
    _esm = Path(__file__).with_name("handle.js").read_text(encoding="utf-8")
