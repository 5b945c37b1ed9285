"""A small race to drive without a browser, and helpers that read its app."""

import re
from contextlib import contextmanager

from alibi_viz.data.tales import write_tales
from alibi_viz.figures.curve_plot import traces_by_slot
from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.core.controls import below as controls

ENGLISH = write_tales(12_000, seed=9)[0]  # a text of the reader's own
LENGTH = 8  # bytes in a training sequence
TESTED_LENGTHS = [8, 16, 32, 64, 128]
TARGETS = 128  # bytes predicted at a checkpoint: as many as the longest sequence has
DEADLINE = 600  # seconds until a test gives up waiting for an event: they decide nothing


# The race.


def small(**state):
    """An app whose race takes less than a second."""
    settings = {"methods": ["alibi", "none"], "length": LENGTH, "steps": 10, **state}
    return LengthLab(**settings)


def trained(**state):
    """A small race that has ended."""
    app = small(**state)
    app.train().result(DEADLINE)
    return app


def wait_for_end(app):
    """Wait until the threads of the app have ended: one may start another."""
    while app.running:
        for work in app.works:
            work.join(DEADLINE)
            assert work.done(), f"a race has not ended within {DEADLINE} s"


@contextmanager
def unchanged(app):
    """An app whose race several tests look at: after a block, it has the traits that it had."""
    before = {name: getattr(app, name) for name in app.state_names()}
    yield app
    app.set_together(before)
    wait_for_end(app)


def open_tab(app, question):
    """Open a question, and wait for its measurements."""
    app.question = question
    wait_for_end(app)


# What the app shows.


def control(app, css):
    """The control with a CSS class, as a browser test finds it."""
    for widget in controls(app):
        if css in getattr(widget, "_dom_classes", ()):
            return widget
    raise LookupError(f"there is no control {css!r}")


def visible(widget):
    """A widget and all inside it that are shown."""
    if not widget.has_trait("layout"):
        return []
    if getattr(widget.layout, "display", None) == "none":
        return []
    shown = [widget]
    for child in getattr(widget, "children", ()):
        shown += visible(child)
    return shown


def visible_controls(app):
    """The CSS classes of the controls that are shown, in reading order."""
    classes = []
    for widget in visible(app):
        if widget.has_trait("disabled"):
            classes += widget._dom_classes
    return classes


def message(app):
    return app._message.value


def losses(app):
    """{method: bits at each training step} of the latest seed."""
    by_method = app._shown.losses.groupby("method", sort=False)["value"]
    return {method: values.tolist() for method, values in by_method}


def trace(app, kind, method):
    """The trace of a method: its "mean", its "seeds", or its "training"."""
    slot = app._shown.slots.index(method)
    return getattr(traces_by_slot(app.figure)[slot], kind)


def points(app, kind, method):
    """{x: y} of a trace."""
    drawn = trace(app, kind, method)
    return dict(zip(list(drawn.x), list(drawn.y), strict=True))


def sentence_count(app):
    """How many sentences the caption has: at most two are allowed."""
    return len(re.split(r"(?<=\.) (?=[A-Z])", app.caption))
