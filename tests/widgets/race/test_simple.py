"""The simple mode of LengthLab: guess, train, watch, read, and nothing else."""

from collections.abc import Iterator

from ipywidgets import HTML, Widget

from tests.widgets.race.small_race import small


def visible(widget: Widget) -> Iterator[Widget]:
    """What is shown of a widget."""
    if widget.has_trait("layout") and widget.layout.display != "none":
        yield widget
        for child in getattr(widget, "children", ()):
            yield from visible(child)


def names(app: Widget) -> set[str]:
    """The CSS classes of the visible controls."""
    return {css for widget in visible(app) if widget.has_trait("disabled") for css in widget._dom_classes}


def test_simple_mode_shows_only_guesses_train_and_stop() -> None:
    app = small(methods=["alibi", "none"], guesses={"alibi": None, "none": None}, simple=True)
    assert names(app) == {"s-guess-alibi", "s-guess-none", "s-train", "s-stop"}
    assert not any("Why this" in widget.value for widget in visible(app) if isinstance(widget, HTML))
    assert not any(label.visible for label in app.figure.layout.annotations if label.text.startswith("alibi"))
    assert app._details in visible(app)
    order = [app._caption, app._written, app._details]
    assert [widget for widget in app.children if widget in order] == order


def test_simple_mode_can_be_left_and_entered() -> None:
    app, full = small(simple=True), small()
    app.simple = False
    assert names(app) == names(full) > {"s-alibi", "s-length", "s-guess", "s-more", "s-question", "s-reset"}
    app._controls._more.value = True
    assert "s-seed" in names(app)
    app.simple = True
    assert names(app) == {"s-train", "s-stop"}
