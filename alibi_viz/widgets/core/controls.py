"""The controls of an app: how they are arranged, and how they are tied to its traits."""

import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import ipywidgets as widgets
from ipywidgets import HBox, Layout, VBox, Widget
from traitlets import TraitError, dlink

from alibi_viz.formatting import in_prose
from alibi_viz.widgets.core.traits import choices

FIT = {"width": "max-content"}  # the layout of a control that is as wide as its text
PLAY_INTERVAL = 100  # milliseconds between two steps of a slider that plays
BEHIND_LABEL = {"align_items": "center", "overflow": "visible"}  # of a row that starts with one


def button(
    text: str, icon: str, css: str, tip: str, action: Callable[[], object], **layout: Any
) -> widgets.Button:
    """A button that calls `action`, as wide as its text unless `layout` says otherwise."""
    made = widgets.Button(description=text, icon=icon, tooltip=tip, layout=layout or FIT)
    made.add_class(css)
    made.on_click(lambda _: action())
    return made


def fold(text: str, tip: str, *controls: Widget) -> tuple[widgets.ToggleButton, VBox]:
    """A button with the CSS class "s-more", and rows of controls that are shown while it is
    pressed."""
    made = widgets.ToggleButton(description=text, tooltip=tip, layout=FIT)
    made.add_class("s-more")
    folded = column(*controls)

    def caret(pressed: bool) -> str:
        return "caret-down" if pressed else "caret-right"

    def display(pressed: bool) -> str | None:
        return None if pressed else "none"

    dlink((made, "value"), (made, "icon"), caret)
    dlink((made, "value"), (folded.layout, "display"), display)
    return made, folded


def show(visible: object, *shown: Widget) -> None:
    """Show or hide widgets."""
    for widget in shown:
        widget.layout.display = None if visible else "none"


def below(widget: Widget) -> list[Widget]:
    """A widget and all widgets inside it."""
    found = [widget]
    for child in getattr(widget, "children", ()):
        found += below(child)
    return found


def row(*children: Widget) -> HBox:
    """Controls side by side, wrapping onto more lines where the page is narrow."""
    layout = Layout(
        flex_flow="row wrap", align_items="center", grid_gap="4px 20px", overflow="visible"
    )
    return HBox(children, layout=layout)


def column(*children: Widget) -> VBox:
    """Rows of controls below each other, as wide as the app."""
    return VBox(children, layout=Layout(width="100%", grid_gap="4px", overflow="visible"))


def labeled(label: str, *controls: Widget, label_width: str | None = None, **layout: Any) -> HBox:
    """Controls behind a visible label, which is their accessible name as well (see page.js)."""
    text = widgets.Label(label, layout=Layout(flex="none", width=label_width))
    return HBox([text, *controls], layout=Layout(**BEHIND_LABEL, **layout))


def nearest(stops: Sequence[float], value: float) -> float:
    """The number of `stops` that is nearest to a value.

    >>> from alibi_viz.widgets.core.controls import nearest
    >>> nearest([1, 2, 4, 8], 5)
    4
    """

    def distance(stop: float) -> float:
        return abs(stop - value)

    return min(stops, key=distance)


def _unchanged(value: Any) -> Any:
    return value


class LabeledSlider(HBox):  # type: ignore[misc]  # ipywidgets has no types
    """A slider and a text field for the same number, behind a visible label, and perhaps a button
    that plays it."""

    def __init__(
        self,
        label: str,
        slider: widgets.IntSlider | widgets.SelectionSlider,
        field: widgets.Text,
        play: widgets.Play | None = None,
    ) -> None:
        text = widgets.Label(label, layout=Layout(flex="none"))
        children = [text, slider, field] if play is None else [text, play, slider, field]
        super().__init__(children, layout=Layout(**BEHIND_LABEL))
        self.label = text
        self.slider = slider
        self.field = field


class Menu:
    """A drop-down menu for a trait of an app, with the values that the trait may take now.

    The widget knows only the text of each value.

    Args:
        app: has the trait.
        name: that of the trait.
        dropdown: the widget.
        texts: the text of some values; that of any other is its name, or the value itself.
        offered: returns the values in the menu.
    """

    def __init__(
        self,
        app: "Controls",
        name: str,
        dropdown: widgets.Dropdown,
        *,
        texts: Mapping[Any, str],
        offered: Callable[[], Iterable[Any]],
    ) -> None:
        self._app = app
        self._name = name
        self._dropdown = dropdown
        self._texts = texts
        self._offered = offered
        self._values: dict[str, Any] = {}  # {text: value} of what is in the menu
        self._is_updating = False

    def update(self, _: Any = None) -> None:
        """Offer what the trait may be now, and select what it is."""
        self._values = {self.text_of(value): value for value in self._offered()}
        options = tuple((text, text) for text in self._values)
        if self._dropdown.options == options:
            return
        self._is_updating = True
        with self._dropdown.hold_sync():  # one message
            self._dropdown.options = options
            self._dropdown.value = self.text_of(self._value_of_trait())
        self._is_updating = False

    def text_of(self, value: Any) -> str:
        """What the menu shows for a value."""
        if value in self._texts:
            return self._texts[value]
        # A law is a function, and the text of a race has a name.
        own_name = getattr(value, "__name__", None) or getattr(value, "name", None)
        return in_prose(str(own_name or value))

    def value_of(self, text: str) -> Any:
        """The value that the user has chosen."""
        if self._is_updating:
            # A menu with new options selects the first one, which is not the user's choice.
            return self._value_of_trait()
        return self._values[text]

    def _value_of_trait(self) -> Any:
        return getattr(self._app, self._name)


class Controls(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """The part of `App` that makes controls. Each control is found by its CSS class, such as
    "s-count"."""

    def link(
        self,
        control: Widget,
        name: str,
        read: Callable[[Any], Any] = lambda value: value,
        show: Callable[[Any], Any] = lambda value: value,
    ) -> Widget:
        """Tie `control.value` to a trait. `read` converts the control's value to the trait's,
        `show` the other way.

        Unlike `traitlets.link`, shows the error of a value that the app rejects, and the control's
        old value again.
        """

        def to_trait(change: Any) -> None:
            with self._lock:  # a change waits for the drawing of another
                if change.new == show(getattr(self, name)):
                    return  # the trait has just set the control
                self.attempt(lambda: setattr(self, name, read(change.new)))
                to_control()

        def to_control(_: Any = None) -> None:
            control.value = show(getattr(self, name))

        to_control()
        control.observe(to_trait, names="value")
        self.observe(to_control, names=name)
        return control

    def slider(
        self,
        name: str,
        label: str,
        css: str,
        tip: str,
        *,
        play: bool = False,
        width: str = "150px",
        stops: Sequence[int] = (),
    ) -> LabeledSlider:
        """A slider and a text field for an `Int`. The slider has the CSS class `css`, the field
        `css`-field.

        With `play`, a button with the CSS class `css`-play moves the slider to its end, step by
        step: for a number that tells a story in time. With `stops`, in ascending order, the slider
        and the button stop at these numbers only, all equally far apart, such as those of a
        logarithmic scale; the field takes any number.
        """
        trait = self.traits()[name]
        layout = Layout(width=width, margin="2px 2px 2px 10px")
        show: Callable[[Any], Any] = _unchanged
        if stops:
            slider = widgets.SelectionSlider(
                options=stops, readout=False, tooltip=tip, layout=layout
            )
            show = partial(nearest, stops)
        else:
            slider = widgets.IntSlider(
                min=trait.min, max=trait.max, readout=False, tooltip=tip, layout=layout
            )
        self.link(slider.add_class(css), name, show=show)
        field = self.field(name, f"{css}-field", "52px", f"{label}: {trait.min} to {trait.max}")
        button = self._play_button(name, f"{css}-play", stops) if play else None
        return LabeledSlider(label, slider, field, button)

    def _play_button(self, name: str, css: str, stops: Sequence[int]) -> widgets.Play:
        """A button that moves an `Int` to its end; page.js gives it a name and theme.css hides the
        other buttons of ipywidgets' `Play`."""
        trait = self.traits()[name]

        def read(step: int) -> int:
            return stops[step] if stops else step

        def show(value: int) -> int:
            return stops.index(nearest(stops, value)) if stops else value

        play = widgets.Play(
            min=0 if stops else trait.min,
            max=len(stops) - 1 if stops else trait.max,
            # A slow kernel skips steps: the page holds back a value until the kernel has answered,
            # and then sends the newest one.
            interval=PLAY_INTERVAL,
            show_repeat=False,
            tooltip="Play or pause: up to the end, at most ten steps a second",
            layout=Layout(width="26px", flex="none", margin="2px 0 2px 6px"),
        )
        play.add_class(css)
        return self.link(play, name, read, show)

    def handle(
        self, name: str, marks: Sequence[str], tip: str, read: Callable[[float], int] = round
    ) -> None:
        """Let a mark of the picture be dragged for an `Int` that has a slider.

        `marks` are the names of traces with one point, and of vertical lines; the one that the
        picture has can be dragged. `read` turns a place on the x axis into the number, which then
        stays within its limits.
        """
        trait = self.traits()[name]

        def move(place: float) -> None:
            number = min(max(read(place), trait.min), trait.max)
            with self._lock:
                self.attempt(lambda: self.set_trait(name, number))

        self.plot.add_handle(marks, tip, move)

    def field(self, name: str, css: str, width: str, tip: str) -> widgets.Text:
        """A text field for an `Int`. A number out of range shows an error message."""

        def read(text: str) -> Any:
            try:
                return int(text)
            except ValueError:
                return text  # for the trait to reject, with its own message

        field = widgets.Text(continuous_update=False, tooltip=tip, layout=Layout(width=width))
        field.add_class(css)
        return self.link(field, name, read, str)

    def menu(
        self,
        name: str,
        label: str,
        css: str,
        tip: str,
        texts: Mapping[Any, str] | None = None,
        *,
        offered: Callable[[], Iterable[Any]] | None = None,
        follows: str = "",
    ) -> widgets.Dropdown:
        """A menu for a trait.

        `texts` maps values to their text, by default the value itself. `offered` returns the values
        in the menu, by default the trait's `choices`.
        `follows` is a trait that changes the offer.
        """
        dropdown = widgets.Dropdown(
            description=label,
            tooltip=tip,
            style={"description_width": "initial"},  # as wide as the text
            layout=FIT,
        )
        dropdown.add_class(css)
        if offered is None:
            offered = partial(choices, self, name)

        menu = Menu(self, name, dropdown, texts=texts or {}, offered=offered)
        menu.update()
        self.observe(menu.update, names=[name, follows] if follows else name)
        return self.link(dropdown, name, menu.value_of, menu.text_of)

    def tabs(self, name: str, tip: str, tips: Callable[[str], str]) -> widgets.ToggleButtons:
        """One button per value of an `Enum`, with the CSS class "s-NAME". `tips` returns the
        tooltip of a button."""
        options = choices(self, name)
        tabs = widgets.ToggleButtons(
            options=[(in_prose(option), option) for option in options],
            tooltip=tip,
            tooltips=[tips(option) for option in options],
        )
        tabs.style.button_width = FIT["width"]
        tabs.add_class(f"s-{name}")
        return self.link(tabs, name)

    def checkbox(
        self, name: str, label: str, css: str, tip: str, **conversions: Any
    ) -> widgets.Checkbox:
        """A checkbox for a `Bool`, or for another trait with the `conversions` of `link`."""
        box = widgets.Checkbox(description=label, indent=False, tooltip=tip, layout=FIT)
        box.add_class(css)
        return self.link(box, name, **conversions)

    def boxes(
        self, name: str, options: Iterable[str], tips: Callable[[str], str]
    ) -> list[widgets.Checkbox]:
        """One checkbox per option of a `Tuple` of names, with its tooltip. "kerple-log" has the CSS
        class "s-kerple-log"."""

        def box(option: str) -> widgets.Checkbox:
            def read(checked: bool) -> list[str]:
                names = [other for other in getattr(self, name) if other != option]
                if checked:
                    names.append(option)
                return names

            def show(names: tuple[str, ...]) -> bool:
                return option in names

            css = f"s-{re.sub('[^a-zA-Z0-9]+', '-', option)}"
            return self.checkbox(name, in_prose(option), css, tips(option), read=read, show=show)

        return [box(option) for option in options]

    def reset_button(self, also: Callable[[], object] = lambda: None) -> widgets.Button:
        """A button, with the CSS class "s-reset", that sets every trait back to its value now, and
        calls `also`. It stands at the end of its row."""
        initial = self._state()  # in the order of their definition, because one may limit the next

        def reset() -> None:
            for widget in below(self):
                if isinstance(widget, widgets.Play):
                    widget.playing = False
            self.attempt(lambda: self.set_together(initial))
            also()

        tip = "Set everything back to how it was at the start"
        return button("Reset", "undo", "s-reset", tip, reset)

    def set_together(self, state: Mapping[str, Any]) -> None:
        """Set several traits and draw once, because one of them may be valid only with another."""
        with self._lock:
            with self.hold_trait_notifications():
                for name, value in state.items():
                    setattr(self, name, value)
            # Again, because one may have changed another: a new text deselects the query.
            for name, value in state.items():
                setattr(self, name, value)

    def say(self, message: str) -> None:
        """Show a message in the app, as plain text; an empty one removes it."""
        if message:
            message = f'<div class="alibi-error" role="alert">{html.escape(message)}</div>'
        self.message_line.value = message

    def ask(self, request: str) -> None:
        """Ask the user for something that is still missing, as plain text. It is no error."""
        self.message_line.value = (
            f'<div class="alibi-request" role="alert">{html.escape(request)}</div>'
        )

    def attempt(self, action: Callable[[], object]) -> None:
        """Call `action` for the user and show its error as a message."""
        self.say("")
        try:
            action()
        except (MemoryError, RuntimeError, TraitError, TypeError, ValueError) as error:
            self.say(str(error))
