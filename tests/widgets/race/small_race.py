"""A small race to drive without a browser, and helpers that read its app."""

import re
from contextlib import contextmanager

from alibi_viz.data.tales import write_tales
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
    """Wait until the race of an app has ended, however it does."""
    (work,) = app.works
    work.join(DEADLINE)
    assert work.done(), f"a race has not ended within {DEADLINE} s"


def rows_of(*, steps, tests, methods):
    """How many rows a race hands out for so many steps of each method, and tests of its model."""
    rows_of_a_step = 1  # the training loss
    rows_of_a_test = len(TESTED_LENGTHS) + 1  # a loss at each length, and the gap
    return methods * (steps * rows_of_a_step + tests * rows_of_a_test)


@contextmanager
def unchanged(app):
    """An app whose race several tests look at: after a block, it has the traits that it had."""
    before = {name: getattr(app, name) for name in app.state_names()}
    yield app
    app.set_together(before)


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
    return app.message_line.value


def column_text(app, method):
    """What a model writes, as its column shows it."""
    return control(app, f"s-text-{method}").value


def bars(app):
    """{method: the step at which its bar stands}."""
    shown = "".join(str(getattr(widget, "value", "")) for widget in controls(app))
    found = re.findall(r'aria-label="(\w+)" aria-valuenow="(\d+)"', shown)
    return {method: int(step) for method, step in found}


def curve_of(app, method):
    """{length: loss} as drawn."""
    (trace,) = [trace for trace in app.figure.data if trace.legendgroup == method]
    return dict(zip(list(trace.x), list(trace.y), strict=True))
