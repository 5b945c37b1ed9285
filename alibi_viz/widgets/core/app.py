"""The base class of every app: state in traits, controls, one figure, a caption in words.

A subclass of `App` defines five things:

    class Doubling(App):
        '''Powers of two.'''

        why = Why("Each power is twice the one before.", "01_slopes", "The rule")  # 1. "Why this picture?"
        count = Count(8, 1, 64)                       # 2. the state: traits (see traits.py)

        def blank(self) -> go.Figure:                 # 3. the empty figure with all the traces it will ever need
            return figures.doubling.blank()

        def controls(self) -> list[Widget]:           # 4. what the user moves: any widgets, arranged with layout.py
            return [self.slider("count", "powers", "s-count", "How many powers of two to show")]

        def draw(self) -> str:                        # 5. put the state into the figure, return the caption:
            powers = 2 ** np.arange(self.count)       #    at most two sentences, or (caption, details);
            figures.doubling.draw(self.figure, powers)  #  compute first (this may raise), then draw (one batch_update)
            return f"{self.count} powers of two, the largest {powers[-1]}."

Data flows one way: control -> trait -> `draw` -> figure and caption. So `app.count = 12` and the slider do the same.

- A value that a trait or `draw` rejects (ValueError, TypeError) changes nothing. In code it raises `BadValue`; a
  control shows a message and its old value again. So checks that involve several traits can live in `draw`.
- Once `super().__init__` has returned, `app.figure` is one FigureWidget that is never replaced: attach click handlers
  then. Before, `controls` is called without a figure, and the first `draw` gets the plain figure from `blank`.
- `self.link(widget, "trait")` ties any control to a trait. `slider`, `field`, `menu`, `tabs`, `checkbox` and `boxes`
  make the usual controls and link them. Browser tests find a control by its CSS class ("s-count").
- Heads are counted from 1 in traits and pictures, as in the paper: head h has slope 2^(-8h/H).
"""

import html
import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from ipywidgets import HTML, Checkbox, Dropdown, HBox, IntSlider, Layout, Text, ToggleButtons, VBox, Widget
from traitlets import TraitError, Unicode

from alibi_viz.figures import theme
from alibi_viz.widgets.core import files
from alibi_viz.widgets.core.layout import DESCRIBED, FIT, Details, labeled, row
from alibi_viz.widgets.core.live_figure import LiveFigure
from alibi_viz.widgets.core.page import CONTROLS, Page
from alibi_viz.widgets.core.traits import BadValue, short_repr
from alibi_viz.widgets.core.why import Why

__all__ = ["App"]


class App(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Base class of the apps. Keyword arguments are the app's traits: `SlopeExplorer(num_heads=12)`, which is its repr.

    Raises BadValue for a value that a trait does not accept and TypeError for a trait that the app does not have.
    """

    caption = Unicode(help="what the figure shows, in words").tag(sync=False)
    details = Unicode(help="more about it, folded below the caption").tag(sync=False)
    why: Why  # shown below the caption
    page_width = 880  # pixels, until the page reports its width
    max_tabs = 8  # buttons of `tabs`
    redraw_to_fit = False  # whether `draw` uses the width of the page, so that a new width needs a new drawing

    def __init__(self, **state: Any) -> None:
        unknown = sorted(state.keys() - self.class_traits(state=True).keys())
        if unknown:
            raise TypeError(f"{type(self).__name__} has no {', '.join(unknown)}; it has {', '.join(self._names())}")
        super().__init__(**state)
        self._lock = threading.RLock()  # JupyterLab may deliver the messages of two controls on two threads
        self._message, self._caption, self._details = HTML(), HTML().add_class("alibi-caption"), Details()
        controls = row(*self.controls()).add_class(CONTROLS)
        self.figure = self.blank()
        self._drawn: dict[str, Any] = {}  # the state that the figure shows
        self._redraw()
        self.figure = LiveFigure(self.figure)  # reaches the page once, already drawn
        page = Page()
        page.observe(lambda change: self.fit(change.new), names="width")
        words = [self._caption, self._details, HTML(self.why.as_html())]
        self.children = [HTML(theme.STYLE), controls, self._message, self.figure, *words, page]
        self.add_class("alibi-app").observe(self._on_change, names=self._names())

    # A subclass defines these.

    def blank(self) -> go.Figure:
        """The figure without data."""
        raise NotImplementedError

    def controls(self) -> list[Widget]:
        """The controls, in reading order. They wrap where the page is narrow."""
        raise NotImplementedError

    def draw(self) -> str | tuple[str, str]:
        """Put the state into `self.figure`, in place, and return the caption, or the caption and its details."""
        raise NotImplementedError

    # Every app offers these.

    def refresh(self) -> None:
        """Draw the current state, even if no trait has changed."""
        self._redraw()

    def _redraw(self) -> None:
        with self._lock:
            drawn = self.draw()
            self.caption, self.details = (drawn, "") if isinstance(drawn, str) else drawn
            self._caption.value = html.escape(self.caption)
            self._details.show(self.details)
            self._drawn = self._state()

    def fit(self, width: int) -> None:
        """Make the figure `width` pixels wide. The page calls this when its width changes."""
        with self._lock:
            self.page_width = width
            self.figure.layout.width = width
            if self.redraw_to_fit:
                self._redraw()

    def say(self, message: str) -> None:
        """Show a message in the app, as plain text; an empty one removes it."""
        self._message.value = f'<div class="alibi-error" role="alert">{html.escape(message)}</div>' if message else ""

    def attempt(self, action: Callable[[], object]) -> bool:
        """Call `action` for the user and show its error as a message. Returns whether there was none."""
        self.say("")
        try:
            action()
        except (RuntimeError, TraitError, TypeError, ValueError) as error:
            self.say(str(error))
            return False
        return True

    def snapshot(self) -> go.Figure:
        """The figure as a plain `go.Figure` on white, without random ids."""
        return theme.on_white(self.figure)

    def save(self, path: str | Path) -> Path:
        """Write the figure to `.html` (with its words, works offline, about 5 MB) or `.png` (needs Chromium).

        Raises ValueError for another suffix, and RuntimeError if there is no Chromium for a PNG or it drew nothing.
        """
        return files.save(self.snapshot(), Path(path), type(self).__name__, f"{self.caption} {self.details}".strip())

    # Controls.

    def slider(self, name: str, label: str, css: str, tip: str) -> HBox:
        """A slider and a text field for a `Count`. The slider has the CSS class `css`, the field `css`-field."""
        trait = self.traits()[name]
        layout = Layout(width="150px", margin="2px 2px 2px 10px")
        slider = IntSlider(min=trait.low, max=trait.high, readout=False, tooltip=tip, layout=layout)
        self.link(slider.add_class(css), name)
        return labeled(label, slider, self.field(name, f"{css}-field", "52px", f"{label}: {trait.info()}"))

    def field(self, name: str, css: str, width: str, tip: str) -> Text:
        """A text field for a `Number` or `Count`. A number out of range shows an error message."""
        trait = self.traits()[name]

        def read(text: str) -> Any:
            try:
                return trait.convert(text)
            except ValueError:
                return text  # for the trait to reject, with its own message

        field = Text(continuous_update=False, tooltip=tip, layout=Layout(width=width)).add_class(css)
        self.link(field, name, read, lambda value: f"{value:g}" if isinstance(value, float) else str(value))
        return field

    def menu(self, name: str, label: str, css: str, tip: str, texts: dict[Any, str] | None = None) -> Dropdown:
        """A menu for a `Choice`. `texts` maps values to their text in the menu; by default it is the value itself."""
        values = self.traits()[name].offered(self)
        # The menu's own value is an index: ipywidgets takes None for "nothing selected" and would show a blank.
        options = [((texts or {}).get(value, str(value)), index) for index, value in enumerate(values)]
        menu = Dropdown(options=options, description=label, tooltip=tip, style=DESCRIBED, layout=FIT).add_class(css)
        self.link(menu, name, read=values.__getitem__, show=values.index)
        return menu

    def tabs(self, name: str, tip: str, tips: Callable[[str], str]) -> ToggleButtons | Dropdown:
        """One button per value of a `Choice`, or a menu if they would need several rows. The CSS class is "s-NAME".

        `tip` is the tooltip of the menu, and `tips` returns that of a button.
        """
        options = self.traits()[name].offered(self)
        if len(options) > self.max_tabs:
            tabs = Dropdown(options=options, description=name, tooltip=tip, style=DESCRIBED, layout=FIT)
        else:
            style = {"button_width": FIT["width"]}
            tabs = ToggleButtons(options=options, tooltips=[tips(value) for value in options], style=style)
        self.link(tabs.add_class(f"s-{name}"), name)
        return tabs

    def checkbox(self, name: str, label: str, css: str, tip: str, **conversions: Any) -> Checkbox:
        """A checkbox for a `Flag`. `conversions` are those of `link`."""
        box = Checkbox(description=label, indent=False, tooltip=tip, layout=FIT).add_class(css)
        self.link(box, name, **conversions)
        return box

    def boxes(self, name: str, options: Iterable[str], tips: Callable[[str], str]) -> list[Checkbox]:
        """One checkbox per option of a `Names`, with its tooltip. "kerple-log" has the CSS class "s-kerple-log"."""

        def box(option: str) -> Checkbox:
            def read(checked: bool) -> list[str]:
                return [other for other in getattr(self, name) if other != option] + [option] * checked

            css = f"s-{re.sub('[^a-zA-Z0-9]+', '-', option)}"
            return self.checkbox(name, option, css, tips(option), read=read, show=lambda names: option in names)

        return [box(option) for option in options]

    def link(
        self,
        control: Widget,
        name: str,
        read: Callable[[Any], Any] = lambda value: value,
        show: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        """Tie `control.value` to a trait. `read` converts the control's value to the trait's, `show` the other way."""

        def to_trait(change: Any) -> None:
            if change.new != show(getattr(self, name)):  # else the trait has just set the control
                self.attempt(lambda: setattr(self, name, read(change.new)))
                to_control()

        def to_control(_: Any = None) -> None:
            control.value = show(getattr(self, name))

        to_control()
        control.observe(to_trait, names="value")
        self.observe(to_control, names=name)

    def _on_change(self, change: Any) -> None:
        if self._state() == self._drawn:
            return  # several traits were set at once, and the first notification has drawn them all
        try:
            self._redraw()
        except (TypeError, ValueError) as error:
            for name, value in self._drawn.items():
                self.set_trait(name, value)
            raise error if isinstance(error, BadValue) else BadValue(str(error)) from error

    def _names(self) -> list[str]:
        """The names of the state traits, in the order of their definition."""
        names = self.class_traits(state=True)
        return [name for cls in reversed(type(self).__mro__) for name in vars(cls) if name in names]

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names()}

    def __repr__(self) -> str:
        shown = {name: getattr(value, "__name__", "") or short_repr(value, 60) for name, value in self._state().items()}
        state = ", ".join(f"{name}={value}" for name, value in shown.items())
        return f"{type(self).__name__}({state})"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        if isinstance(bundle, dict):
            bundle["text/plain"] = repr(self)  # ipywidgets would cut it at 110 characters
        return bundle
