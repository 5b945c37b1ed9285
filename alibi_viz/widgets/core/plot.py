"""The picture of an app on the page: a plotly figure that is drawn, changed in place, and dragged.

`Plot.show(picture)` compares a picture with the one that the page has, and sends what has changed.
plotly's own FigureWidget isn't used: each one brings plotly's script of 5 MB into the notebook, and
checks each property that is set, which takes longer than everything else.
"""

import base64
import gzip
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import numpy as np
from ipywidgets import CallbackDispatcher, Widget
from plotly.offline import get_plotlyjs
from traitlets import Bool, Bytes, Dict, Int, List, Unicode

from alibi_viz.figures.theme import Picture

# Shorter arrays are sent as numbers, which one can read in the messages of a notebook.
FEWEST_BINARY = 32
# The numbers that plotly.js reads as bytes, by NumPy's kind and size; others become one of them.
BINARY_TYPES = {"f4", "f8", "i1", "i2", "i4", "u1", "u2", "u4"}
SCRIPTS = ("handle.js", "saved_picture.js", "plot.js")


class PlotlyScript(Widget):  # type: ignore[misc]  # ipywidgets has no types
    """plotly's own script, once for all pictures of a kernel.

    A widget without a view, because a saved notebook keeps widgets: so its pictures are drawn
    without a kernel and without a network.
    """

    packed = Bytes(help="the script, compressed by gzip").tag(sync=True)
    _current: ClassVar["PlotlyScript | None"] = None

    @classmethod
    def current(cls) -> "PlotlyScript":
        """The script of this kernel. A new one if all widgets were closed."""
        if cls._current is None or cls._current.comm is None:
            script = get_plotlyjs().encode()
            cls._current = cls(packed=gzip.compress(script, compresslevel=5))
        return cls._current


class Plot(anywidget.AnyWidget):
    """A picture on the page, from `theme.picture`, and what the reader does with it; see plot.js.

    When JupyterLab saves the notebook, the page adds an image of the picture and the captions to
    the file, for those who read it without a kernel; see saved_picture.js.

    Attributes:
        clicks: functions that are called with the name of a trace and its point: its x, y, z, and
            its index, [row, column] in a heatmap.
        picture: what is shown; nobody changes it.
    """

    app = Unicode(help="the id of the app or the guess").tag(sync=True)
    script = Unicode(help="the id of the `PlotlyScript`").tag(sync=True)
    least_width = Int(
        None,
        allow_none=True,
        help="in pixels: the picture is as wide as the page, but at least so wide; None for the "
        "width that the picture has",
    ).tag(sync=True)
    whole = Dict(help="the picture, for a page that opens, and its number").tag(sync=True)
    change = Dict(None, allow_none=True, help="what the last `show` has changed").tag(sync=True)
    handles: List[Any] = List(help="marks that can be dragged, see `add_handle`").tag(sync=True)
    reports_pointer = Bool(False, help="whether `pointed` is wanted").tag(sync=True)
    pointed = Dict(None, allow_none=True, help="the point under the pointer").tag(sync=True)
    dragged = Dict(None, allow_none=True, help="a handle, and where it is").tag(sync=True)
    _esm = "\n".join(
        # As text, because anywidget keeps every widget whose script is a file, to reload it.
        Path(__file__).with_name(name).read_text(encoding="utf-8")
        for name in SCRIPTS
    )

    def __init__(self, **traits: Any) -> None:
        self.picture: Picture = {"data": [], "layout": {}}
        self._number = 0  # of pictures shown, by which a page finds out that it has missed one
        self.clicks = CallbackDispatcher()
        super().__init__(script=PlotlyScript.current().model_id, **traits)
        self.add_class("alibi-figure")  # page.js describes it by the caption
        self.on_msg(self._on_message)

    def show(self, picture: Picture) -> None:
        """Draw a picture in place of the one that the page has."""
        traces = _changes_of_traces(self.picture["data"], picture["data"])
        layout = dict(_changes(self.picture["layout"], picture["layout"]))
        self.picture = picture
        if traces is None or any(isinstance(value, dict) for value in layout.values()):
            self._send_whole()
        elif traces or layout:
            self._number += 1
            self.change = plain({"number": self._number, "traces": traces, "layout": layout})

    def add_handle(
        self, marks: Sequence[str], tip: str, move: Callable[[float], object], axis: str = "x"
    ) -> None:
        """Let the reader drag a mark: the only point of a trace, or a line.

        Args:
            marks: the names of traces and shapes; the one that the picture has can be dragged.
            tip: what a drag does.
            move: called with the place of the pointer, as a value of the axis. It moves the mark.
            axis: along which it is dragged, "x" or "y".
        """
        number = len(self.handles)
        self.handles = [*self.handles, {"marks": list(marks), "tip": tip, "axis": axis}]

        def on_drag(change: Any) -> None:
            if change.new and change.new["handle"] == number:
                move(change.new["place"])

        self.observe(on_drag, names="dragged")

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> Any:
        state = super().get_state(key=key, drop_defaults=drop_defaults)
        if key is None or "whole" in key:
            state["whole"] = plain({"number": self._number, **self.picture})
        if key is None:
            state["change"] = None  # the picture has it already
        return state

    def _send_whole(self) -> None:
        self._number += 1
        self.change = plain({"number": self._number, "whole": self.picture})

    def _on_message(self, _: Any, message: Mapping[str, Any], __: Any) -> None:
        if "click" in message:
            click = message["click"]
            self.clicks(click.pop("trace"), click)
        elif "missed" in message:
            self._send_whole()


def _changes_of_traces(
    shown: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, Any]] | None:
    """{number of a trace: {path: new value}} of the traces that differ.

    None if one has come or gone, or if an object of properties has: then plotly draws all anew.
    """
    kinds = [[(trace["type"], trace.get("name")) for trace in traces] for traces in (shown, wanted)]
    if kinds[0] != kinds[1]:
        return None
    changes = {}
    for number, (before, after) in enumerate(zip(shown, wanted, strict=True)):
        changed = dict(_changes(before, after))
        if any(isinstance(value, dict) for value in changed.values()):
            return None
        if changed:
            changes[str(number)] = changed
    return changes


def _changes(
    before: Mapping[str, Any], after: Mapping[str, Any], path: str = ""
) -> Iterator[tuple[str, Any]]:
    """The properties that differ: (path, new value), None for one that has gone.

    >>> from alibi_viz.widgets.core.plot import _changes
    >>> dict(_changes({"line": {"width": 1}, "x": [1]}, {"line": {"width": 2}, "x": [1]}))
    {'line.width': 2}
    """
    for name in dict.fromkeys([*before, *after]):
        old = before.get(name)
        new = after.get(name)
        place = f"{path}{name}"
        if old is new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _changes(old, new, f"{place}.")
        elif isinstance(old, dict):
            yield place, {}  # an object of properties has gone
        elif isinstance(old, list) and isinstance(new, list) and _are_objects(old, new):
            for number, (old_object, new_object) in enumerate(zip(old, new, strict=True)):
                yield from _changes(old_object, new_object, f"{place}[{number}].")
        elif not _are_equal(old, new):
            yield place, new


def _are_objects(old: list[Any], new: list[Any]) -> bool:
    """Whether both lists have as many objects of properties, such as annotations of a layout."""
    return len(old) == len(new) and all(isinstance(each, dict) for each in [*old, *new])


def _are_equal(old: Any, new: Any) -> bool:
    """Whether two values are the same, also arrays with gaps."""
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
        has_gaps = old.dtype.kind == "f" and new.dtype.kind == "f"
        return old.dtype == new.dtype and np.array_equal(old, new, equal_nan=has_gaps)
    return type(old) is type(new) and bool(old == new)


def plain(value: Any) -> Any:
    """A value of a figure as JSON has it; long arrays of numbers as plotly's binary text.

    >>> import numpy as np
    >>> from alibi_viz.widgets.core.plot import plain
    >>> plain({"x": np.array([1.0, np.nan])})
    {'x': [1.0, None]}
    >>> plain(np.zeros(100, np.float32))["dtype"]
    'f4'
    """
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return _plain_array(value)
    if isinstance(value, np.generic):
        value = value.item()
    is_gap = isinstance(value, float) and not math.isfinite(value)
    return None if is_gap else value


def _plain_array(array: np.ndarray) -> Any:
    if array.dtype == object:
        return array.tolist()  # texts, numbers, and None for gaps
    is_long = array.size >= FEWEST_BINARY and array.dtype.kind in "fiu"
    return _binary(array) if is_long else plain(array.tolist())


def _binary(array: np.ndarray) -> dict[str, Any]:
    """Numbers as plotly.js reads them fastest: their bytes in base64."""
    kind = f"{array.dtype.kind}{array.dtype.itemsize}"
    if kind not in BINARY_TYPES:
        kind = "f8"
    data = base64.b64encode(np.ascontiguousarray(array, dtype=f"<{kind}").tobytes()).decode()
    shape = {"shape": ", ".join(map(str, array.shape))} if array.ndim > 1 else {}
    return {"dtype": kind, "bdata": data, **shape}
