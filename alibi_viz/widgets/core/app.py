"""What every app is: traits, controls, one figure, a caption in words.

An app is a subclass of `App` that says four things:

    class Doubling(App):
        '''Powers of two.'''

        count = Count(8, 1, 64)                       # 1. its state: traits (see traits.py)

        def blank(self) -> go.Figure:                 # 2. the sheet, made once, with all the traces it will ever need
            return figures.doubling.blank()

        def controls(self) -> list[Widget]:           # 3. what the user moves; any widget may be among them
            return [self.slider("count", "powers", "s-count", "How many powers of two to show")]

        def draw(self) -> str:                        # 4. arrays -> figure, in place; gives back the caption
            powers = 2 ** np.arange(self.count)       #    first compute (this may raise),
            figures.doubling.draw(self.figure, powers)  #  then draw (one batch_update inside)
            return f"{self.count} powers of two, the largest {powers[-1]}."

Data flows one way: control -> trait -> `draw` -> figure and caption. So `app.count = 12` and the slider do the same.

- `app.count = 0` raises `BadValue` (a TraitError and a ValueError) and changes nothing. The same value typed into a
  control is answered in the app's message line, and the control goes back to what holds.
- If `draw` raises ValueError or TypeError, the trait goes back to its old value, the app is as before, and the error
  is raised (in code) or shown (from a control). So a check that needs several traits may live in `draw`.
- `app.figure` is one FigureWidget for the app's whole life. The very first `draw` meets it as a plain figure, and
  `controls` comes before both; tie clicks on it after `super().__init__`.
- `app.refresh()` draws again, for data that is no trait.
- `app.say(text)` fills the message line, `app.say("")` empties it. Messages and captions are escaped: they are text.
- The page tells the app its width through `fit`; a picture whose *height* depends on it overrides that to draw again.
- `self.link(widget, "trait")` is the one way to tie a control to a trait. `slider`, `menu`, `checkbox` make the usual
  controls and link them; each control carries a CSS class ("s-count") by which browser tests find it.
- Where a picture or a trait names a head, heads count from 1, as in the paper: head h has slope 2^(-8h/H).
- `repr(app)` is `Doubling(count=8)`, the same in every run.
- `app.save("x.html")`, `app.save("x.png")`, `app.snapshot()` (a plain figure on white, for a notebook without kernel).
"""

import html
import reprlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from ipywidgets import HTML, Checkbox, Dropdown, HBox, IntSlider, Label, Layout, Text, VBox, Widget
from traitlets import TraitError, Unicode

from alibi_viz.figures import theme
from alibi_viz.widgets.core.live_figure import LiveFigure, PageWidth
from alibi_viz.widgets.core.traits import BadValue, Count

__all__ = ["App"]

_ROW = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 20px", "overflow": "visible"}
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body style="font-family: system-ui, sans-serif; color: {ink}; background: white; margin: 16px; max-width: 1100px">
<h1 style="font-size: 1.3em">{title}</h1>
{figure}
<p style="line-height: 1.5; max-width: 60em">{caption}</p>
</body></html>
"""


class App(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """State in traits, controls that change it, a figure that shows it, a caption that says it.

    Keyword arguments are the app's traits: `SlopeExplorer(num_heads=12)`. Raises BadValue for a bad value and
    TypeError for a trait that the app does not have.
    """

    caption = Unicode(help="what is now seen, in words").tag(sync=False)
    page_width = 880  # pixels, until a page says otherwise

    def __init__(self, **state: Any) -> None:
        unknown = sorted(state.keys() - self.class_traits(state=True).keys())
        if unknown:
            raise TypeError(f"{type(self).__name__} has no {', '.join(unknown)}; it has {', '.join(self._names())}")
        super().__init__(**state)
        self._lock = threading.RLock()  # JupyterLab may deliver the messages of two controls on two threads
        self._message, self._words = HTML(), HTML()
        controls = HBox(self.controls(), layout=Layout(**_ROW))
        self.figure = self.blank()
        self._drawn: dict[str, Any] = {}  # the state that the figure shows
        self.refresh()
        self.figure = LiveFigure(self.figure)  # goes to the page once, complete
        page = PageWidth()
        page.observe(lambda change: self.fit(change.new), names="width")
        self.children = [HTML(theme.STYLE), controls, self._message, self.figure, self._words, page]
        self.add_class("alibi-app")
        self.observe(self._changed, names=self._names())

    # What a subclass says.

    def blank(self) -> go.Figure:
        """The empty sheet."""
        raise NotImplementedError

    def controls(self) -> list[Widget]:
        """The controls, in reading order; they wrap when the window is narrow."""
        raise NotImplementedError

    def draw(self) -> str:
        """Put the state into `self.figure`, in place, and say in words what is now seen."""
        raise NotImplementedError

    # What an app does.

    def refresh(self) -> None:
        """Draw the present state, even when no trait has changed."""
        with self._lock:
            self.caption = self.draw()
            self._words.value = f'<div class="alibi-caption" aria-live="polite">{html.escape(self.caption)}</div>'
            self._drawn = self._state()

    def fit(self, width: int) -> None:
        """Make the picture as wide as the page has become, in pixels; the page calls it."""
        with self._lock:
            self.page_width = width
            self.figure.layout.width = width

    def say(self, message: str) -> None:
        """Show a message in the app, as text; an empty one clears the line."""
        self._message.value = f'<div class="alibi-error" role="alert">{html.escape(message)}</div>' if message else ""

    def snapshot(self) -> go.Figure:
        """The picture as a plain figure on white paper, the same in every run."""
        return theme.on_white(self.figure)

    def save(self, path: str | Path) -> Path:
        """Write the picture: `.html` (with its caption, works offline, about 5 MB) or `.png` (needs Chromium).

        Raises ValueError for another suffix and RuntimeError when no Chromium is found for a PNG.
        """
        path = Path(path)
        if path.suffix.lower() == ".html":
            figure = self.snapshot().to_html(full_html=False, include_plotlyjs=True, config={"displaylogo": False})
            title = type(self).__name__
            page = _PAGE.format(title=title, ink=theme.INK, figure=figure, caption=html.escape(self.caption))
            path.write_text(page, encoding="utf-8")
        elif path.suffix.lower() == ".png":
            from kaleido.errors import ChromeNotFoundError  # noqa: PLC0415  # slow, seldom needed

            try:
                self.snapshot().write_image(path, width=1000, height=self.figure.layout.height, scale=2)
            except ChromeNotFoundError as error:
                raise RuntimeError(
                    f"{path.name} needs Chrome or Chromium, and none was found: install it, or save as .html"
                ) from error
        else:
            raise ValueError(f"save writes .html or .png, got {path.suffix or 'no suffix'!r} in {str(path)!r}")
        return path

    # Controls.

    def slider(self, name: str, label: str, css: str, tip: str) -> HBox:
        """A slider and a text field for a `Count`. The slider cannot leave the range; the field says why it must not.

        The slider's class is `css`, the field's is `css`-field.
        """
        trait = self.traits()[name]
        assert isinstance(trait, Count), f"{name} is no Count"
        room = Layout(width="150px", margin="2px 2px 2px 10px")
        slider = IntSlider(min=trait.low, max=trait.high, readout=False, tooltip=tip, layout=room)
        field = Text(continuous_update=False, tooltip=f"{label}: {trait.info()}", layout=Layout(width="52px"))
        self.link(slider.add_class(css), name)
        self.link(field.add_class(f"{css}-field"), name, read=_whole, show=str)
        return HBox([Label(label), slider, field], layout=Layout(align_items="center", overflow="visible"))

    def menu(self, name: str, label: str, css: str, tip: str, words: dict[Any, str] | None = None) -> Dropdown:
        """A menu for a `Choice`; `words` says how a value reads in it."""
        values = self.traits()[name].values
        # A menu's own value is a position: ipywidgets takes the value None for "nothing chosen", and shows a blank.
        options = [((words or {}).get(value, str(value)), at) for at, value in enumerate(values)]
        style, layout = {"description_width": "initial"}, Layout(width="max-content")
        menu = Dropdown(options=options, description=label, tooltip=tip, style=style, layout=layout)
        self.link(menu.add_class(css), name, read=values.__getitem__, show=values.index)
        return menu

    def checkbox(self, name: str, label: str, css: str, tip: str) -> Checkbox:
        """A box to tick, for a `Flag`."""
        box = Checkbox(description=label, indent=False, tooltip=tip, layout=Layout(width="max-content"))
        self.link(box.add_class(css), name)
        return box

    def link(
        self,
        control: Widget,
        name: str,
        read: Callable[[Any], Any] = lambda value: value,
        show: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        """Tie `control.value` to the trait: `read` turns a control's value into the trait's, `show` the other way."""

        def to_trait(change: Any) -> None:
            if change.new == show(getattr(self, name)):
                return  # the control says what holds already: the trait moved it
            try:
                setattr(self, name, read(change.new))
                self.say("")
            except (TraitError, TypeError, ValueError) as error:
                self.say(str(error))
            to_control()

        def to_control(_: Any = None) -> None:
            control.value = show(getattr(self, name))

        to_control()
        control.observe(to_trait, names="value")
        self.observe(to_control, names=name)

    # How it hangs together.

    def _changed(self, change: Any) -> None:
        if self._state() == self._drawn:
            return  # several traits were set at once, and the first notice has drawn them all
        try:
            self.refresh()
        except (TypeError, ValueError) as error:
            for name, value in self._drawn.items():
                self.set_trait(name, value)
            raise error if isinstance(error, BadValue) else BadValue(str(error)) from error

    def _names(self) -> list[str]:
        """The names of the state, in the order of their definition."""
        known = self.class_traits(state=True)
        return [name for cls in reversed(type(self).__mro__) for name in vars(cls) if name in known]

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names()}

    def __repr__(self) -> str:
        state = ", ".join(f"{name}={_short.repr(value)}" for name, value in self._state().items())
        return f"{type(self).__name__}({state})"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        if isinstance(bundle, dict):
            bundle["text/plain"] = repr(self)  # ipywidgets would cut it at 110 characters
        return bundle


_short = reprlib.Repr()
_short.maxstring = 60


def _whole(text: str) -> int | str:
    """The integer that a text says; any other text is left for the trait to refuse by name."""
    try:
        return int(text)
    except ValueError:
        return text
