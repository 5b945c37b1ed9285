"""The figure of an app, live in the page, which reports its width.

Both scripts are text, because anywidget keeps every widget whose script is a file, to reload it
when the file changes.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import anywidget
import plotly.graph_objects as go
from plotly.basedatatypes import Undefined
from traitlets import Bool, Float, Int, Unicode


@contextmanager
def _only_the_version_of_nbformat() -> Iterator[None]:
    """Let `import nbformat` give a module with nothing but its version, unless it is loaded.

    plotly's FigureWidget imports nbformat and reads nothing else of it. The whole module would take
    0.2 of the 0.7 seconds that the first app takes after torch. With jsonschema 4.25 or newer it
    would be 5 seconds more, for a parser of addresses that no app needs.
    """
    if "nbformat" in sys.modules:
        yield
        return
    stand_in = ModuleType("nbformat")
    try:
        stand_in.__dict__["__version__"] = metadata.version("nbformat")
    except metadata.PackageNotFoundError:
        yield
        return
    sys.modules["nbformat"] = stand_in
    try:
        yield
    finally:
        del sys.modules["nbformat"]


with _only_the_version_of_nbformat():
    # plotly loads it when it is first named.
    FigureWidget = go.FigureWidget


class PageWidget(anywidget.AnyWidget):
    """An invisible widget of an app or a guess: reports its size in pixels, tends its controls and
    brings a new app into view, see page.js."""

    width = Int(0).tag(sync=True)
    pixel_ratio = Float(0).tag(sync=True)  # pixels of the screen per pixel of the page; 0: unknown
    app = Unicode(help="the id of the app or the guess").tag(sync=True)
    is_new = Bool(True, help="whether no page has shown the app yet").tag(sync=True)
    _esm = Path(__file__).with_name("page.js").read_text(encoding="utf-8")


class LiveFigure(FigureWidget):  # type: ignore[misc, valid-type]  # plotly has no types
    """A FigureWidget without a tool bar whose current state, not its first one, is sent to newly
    opened pages.

    plotly sends changes as messages and keeps the *initial* state, which a reloaded page would
    show. What figure.js does on the page is said there.
    """

    _esm = Path(__file__).with_name("figure.js").read_text(encoding="utf-8")
    _plotly = Unicode(str(FigureWidget._esm)).tag(sync=True)  # the script of plotly itself

    def __init__(self, figure: go.Figure) -> None:
        self._held: list[dict[str, Any]] | None = None  # messages that wait, see `held`
        super().__init__(figure)
        self._config = {"displayModeBar": False}
        # plotly counts its views, without using the number. The page would report it even when the
        # figure is closed, which is an error.
        self._view_count = None
        self.add_class("alibi-figure")  # page.js describes it by the caption

    @contextmanager
    def held(self) -> Iterator[None]:
        """Send the changes of a `batch_update` inside when this block ends.

        What is sent in between, such as a caption, reaches the page first and is painted together
        with the figure. After the figure it would be painted a frame later, because plotly.js keeps
        the page busy.
        """
        if self._held is not None:  # inside another such block, which will send them
            yield
            return
        self._held = []
        try:
            yield
        finally:
            messages = self._held
            self._held = None
            for message in messages:
                self._send_changes(message)

    def _send_update_msg(
        self,
        restyle_data: Any,
        relayout_data: Any,
        trace_indexes: Any = None,
        source_view_id: Any = None,
    ) -> None:
        """Complete a message, and let the page draw only what has changed.

        - For each changed property, send its value in every trace of the batch. plotly leaves a gap
          for traces in which it has not changed, and the page's copy of the figure, from which a
          second view is drawn, loses their values.
        - Write "images[0].source". plotly.js does not know plotly.py's "images.0.source" and draws
            everything again.
        - If only the layout has changed, name a trace that does not exist. plotly.js takes an empty
          list for all traces and draws them again. For a missing trace it only logs a warning to
          the browser's console.
        """
        for path, values in restyle_data.items():
            if not isinstance(values, list):
                continue  # `plotly_update` may give one value for all traces
            for n, trace_index in enumerate((trace_indexes or ())[: len(values)]):
                if values[n] is Undefined:
                    values[n] = _property(self._data[trace_index], path)
        with_brackets = {}
        for path, value in relayout_data.items():
            with_brackets[re.sub(r"\.(\d+)", r"[\1]", path)] = value
        traces = trace_indexes if restyle_data else [-1]
        message = {
            "style_data": restyle_data,
            "layout_data": with_brackets,
            "style_traces": self._normalize_trace_indexes(traces),
            "source_view_id": source_view_id,
        }
        if self._held is None:
            self._send_changes(message)
        else:
            self._held.append(message)

    def _send_changes(self, message: dict[str, Any]) -> None:
        """Send changes to the page in one message.

        plotly's `_send_update_msg` takes four: each costs the kernel about 0.5 ms, and the page as
        much.
        """
        with self.hold_sync():
            self._last_trace_edit_id += 1
            self._last_layout_edit_id += 1
            # The numbers also make each message differ from the one before: the page only hears of
            # what is new.
            numbers = {
                "trace_edit_id": self._last_trace_edit_id,
                "layout_edit_id": self._last_layout_edit_id,
            }
            self._py2js_update = message | numbers

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> Any:
        is_whole_state = key is None
        if is_whole_state and self._trait_values.get("_widget_data"):
            self._trait_values |= {
                "_widget_data": deepcopy(self._data),
                "_widget_layout": deepcopy(self._layout),
            }
        state = super().get_state(key=key, drop_defaults=drop_defaults)
        if is_whole_state and "_py2js_update" in state:
            state["_py2js_update"] = None  # the last changes are in the figure already
        return state


def _property(trace: Any, path: str) -> Any:
    """The value at a path such as "marker.color" of a trace; None if it is not set."""
    for name in path.split("."):
        trace = trace.get(name) if isinstance(trace, dict) else None
    return trace
