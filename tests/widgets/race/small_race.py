"""A small race to drive without a browser, and helpers that read its app."""

import time
from collections.abc import Callable
from typing import Any

from ipywidgets import Widget

from alibi_viz.data.tales import write_tales
from alibi_viz.figures.curve_plot import COMMON_METHODS, MAX_METHODS
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.controls import below as controls

ENGLISH = write_tales(12_000, seed=9)[0]  # a text of the reader's own
# Seconds after which a test gives up waiting for a thread that takes about one, on a machine that
# may be busy with other things.
DEADLINE = 600


def control(app: Widget, css: str) -> Widget:
    """The control with a CSS class, as a browser test finds it."""
    return next(widget for widget in controls(app) if css in getattr(widget, "_dom_classes", ()))


def visible(widget: Widget) -> list[Widget]:
    """A widget and all inside it that are shown."""
    if not widget.has_trait("layout") or getattr(widget.layout, "display", None) == "none":
        return []
    return [widget, *(each for child in getattr(widget, "children", ()) for each in visible(child))]


def visible_controls(app: Widget) -> list[str]:
    """The CSS classes of the controls that are shown, in reading order."""
    return [
        css
        for widget in visible(app)
        if widget.has_trait("disabled")
        for css in widget._dom_classes
    ]


def message(app: App) -> str:
    return app._message.value


def small(**state: object) -> LengthLab:
    """An app whose race takes a second."""
    return LengthLab(**{"methods": ["alibi", "none"], "length": 8, "steps": 10} | state)


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"not in {DEADLINE} s: {what}"
        time.sleep(0.01)


def losses(app: LengthLab) -> dict[str, list[float]]:
    """{method: bits at each training step} of the latest seed."""
    return {
        method: own.tolist()
        for method, own in app._shown.losses.groupby("method", sort=False)["value"]
    }


def trace(app: LengthLab, kind: str, method: str) -> Any:
    """The trace of a method: its "mean", its "seeds", or its "losses" while training."""
    return app.figure.data[
        ["mean", "seeds", "losses"].index(kind) * MAX_METHODS + COMMON_METHODS.index(method)
    ]


def points(app: LengthLab, kind: str, method: str) -> dict[float, float]:
    drawn = trace(app, kind, method)
    return dict(zip(list(drawn.x), list(drawn.y), strict=True))


def trained(**state: object) -> LengthLab:
    """A small race that has ended."""
    app = small(**state)
    app.train().result(DEADLINE)
    return app


def wait_for_end(app: LengthLab) -> None:
    """Wait until the threads of the app have ended: one may start another."""
    while app.running:
        for work in app.works:
            work.join(DEADLINE)
            assert work.done(), f"not in {DEADLINE} s: the end of a race"


def stop(app: LengthLab) -> None:
    control(app, "s-stop").click()
    wait_for_end(app)


def open_tab(app: LengthLab, question: str) -> None:
    """Open a question, and wait for its measurements."""
    app.question = question
    wait_for_end(app)
