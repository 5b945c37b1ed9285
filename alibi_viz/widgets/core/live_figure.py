"""plotly's FigureWidget, made to survive a reload of the page and a second view; and how wide that page is."""

from copy import deepcopy
from typing import Any

import anywidget
import plotly.graph_objects as go
from plotly.basedatatypes import Undefined
from traitlets import Int

__all__ = ["LiveFigure", "PageWidth"]


class LiveFigure(go.FigureWidget):  # type: ignore[misc]  # plotly has no types
    """A FigureWidget without a tool bar, whose present state is what a newly opened page gets.

    plotly sends changes as messages and keeps the *first* state for pages opened later. Without this, a reload of the
    page shows the picture as it was when the app was made, beside controls that say something else.
    """

    def __init__(self, figure: go.Figure) -> None:
        super().__init__(figure)
        self._config = {"displayModeBar": False}

    def _send_update_msg(
        self, restyle_data: Any, relayout_data: Any, trace_indexes: Any = None, source_view_id: Any = None
    ) -> None:
        """Say of every trace in a change what each of the changed properties is.

        plotly leaves a gap where a property changes in some of the traces only. A drawn picture keeps what it has
        there, but the page's own copy of the figure, from which a second view is drawn, loses it.
        """
        for path, values in restyle_data.items():
            if isinstance(values, list):  # from a batch; plotly_update may give one value for all
                for at, trace in enumerate((trace_indexes or ())[: len(values)]):
                    if values[at] is Undefined:
                        values[at] = _held(self._data[trace], path)
        super()._send_update_msg(restyle_data, relayout_data, trace_indexes, source_view_id)

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> Any:
        if key is None and self._trait_values.get("_widget_data"):  # the whole state, of a figure that has one
            self._trait_values |= {"_widget_data": deepcopy(self._data), "_widget_layout": deepcopy(self._layout)}
        return super().get_state(key=key, drop_defaults=drop_defaults)


def _held(trace: Any, path: str) -> Any:
    """What stands at "marker.color" of a trace, None for nothing."""
    for name in path.split("."):
        trace = trace.get(name) if isinstance(trace, dict) else None
    return trace


class PageWidth(anywidget.AnyWidget):
    """Nothing to see: it tells the kernel how many pixels wide the app around it is, now and after every change.

    A FigureWidget is drawn before it is on the page and never learns how wide that is.
    """

    width = Int(0).tag(sync=True)

    _esm = """
    export default {
      render({ model, el }) {
        const observer = new ResizeObserver(([entry]) => {
          const width = Math.floor(entry.contentRect.width);
          if (width > 0 && width !== model.get("width")) {
            model.set("width", width);
            model.save_changes();
          }
        });
        requestAnimationFrame(() => observer.observe(el.closest(".alibi-app") ?? el));
        return () => observer.disconnect();
      },
    };
    """
