"""The base class of every app: state in traits, controls, one picture, a caption in words.

A subclass of `App` defines four things:

    class Doubling(App):
        # 1. "Why this picture?", with the lesson and its section
        why = Why("Each power is twice the one before.", "01_the_line", "A slope for each head")
        # 2. The state: each trait that the class defines, from traitlets. Where the choices change,
        #    its tag names the attribute that has them: `Unicode("e").tag(choices="letters")`
        count = Int(8, min=1, max=64)

        # 3. What the user moves: any widgets (see controls.py)
        def controls(self) -> list[Widget]:
            return [self.slider("count", "powers", "s-count", "How many powers of two to show")]

        # 4. The picture of the state, and its caption: at most two sentences, and more of them
        #    folded as `details`
        def draw(self) -> Drawn:
            powers = 2 ** np.arange(self.count)
            picture = figures.powers.powers_picture(powers)
            return Drawn(picture, f"{self.count} powers of two, the largest {powers[-1]}.")

Data flows one way: control -> trait -> `draw` -> picture and caption. So `app.count = 12` and the
slider do the same. A picture is a function of the state, see `theme.Picture`; `self.plot` compares
it with the one before and sends the page what has changed. It is as wide as the page.

- A value that a trait or `draw` rejects (ValueError, TypeError) changes nothing. In code it raises
  `BadValue`; a control shows a message and its old value again. So checks that involve several
  traits can live in `draw`. A check of one trait is a method with traitlets' `@validate`, which
  raises `BadValue`; traitlets doesn't call it for None where a trait allows None.
- What the reader does in the picture: the methods `clicked` and `hovered` are called for a point
  under the pointer, and `self.handle` in `controls` lets a mark be dragged.
- `draw` is called for every change, also of the page's width: an app keeps what takes long.
- Once `super().__init__` has returned, an app takes no name that it doesn't have yet, unless it
  starts with an underscore: `app.nheads = 3` would change nothing and say nothing.
"""

import html
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import plotly.graph_objects as go
from ipywidgets import HTML, Widget
from traitlets import List, TraitType, Unicode

from alibi_viz.figures import theme
from alibi_viz.figures.theme import Picture
from alibi_viz.figures.tile_grid import COARSE_DENSITY, DENSITY
from alibi_viz.files import write
from alibi_viz.models.positions.methods import method_name
from alibi_viz.widgets.core.controls import Controls, below, row, show
from alibi_viz.widgets.core.page import PageWidget
from alibi_viz.widgets.core.plot import Plot
from alibi_viz.widgets.core.traits import BadValue, short_repr, taken

# The page that `App.save` writes
SAVED = Path(__file__).with_name("saved.html").read_text(encoding="utf-8")


class Why(NamedTuple):
    """Why an app draws what it draws: one sentence, and where a lesson explains it."""

    sentence: str
    lesson: str  # the name of the notebook, without its suffix
    section: str

    def as_html(self) -> str:
        """The sentence and its place, folded."""
        number = int(self.lesson[:2])
        words = html.escape(f"{self.sentence} More in lesson {number}, “{self.section}”.")
        summary = "<summary>Why this picture?</summary>"
        return f'<details class="alibi-why">{summary}{words}</details>'


class Drawn(NamedTuple):
    """What an app shows in one state."""

    picture: Picture
    caption: str
    details: str = ""  # more about it, folded


class App(Controls):
    """Base class of the apps.

    Keyword arguments are the app's traits: `SlopeExplorer(num_heads=12)`, which is its repr. Every
    trait that a subclass defines belongs to the state: a change of it redraws the app.

    Attributes:
        why: shown below the caption.
        plot: the picture on the page.
        page_width: of the page in pixels, a guess until the page reports it.
        density: pixels that an image needs per pixel of the page, to be as sharp as the screen.
        min_width: in pixels, the least for plotly; on a narrower page the picture scrolls sideways.
            None if the picture isn't as wide as the page.
        below_figure: widgets between the picture and the caption, which `controls` may set.

    Raises BadValue for a value that a trait does not accept, and TypeError for a trait that the app
    does not have; AttributeError where one is set later.
    """

    caption = Unicode(help="what the figure shows, in words").tag(sync=False)
    details = Unicode(help="more about it, folded below the caption").tag(sync=False)
    works: List[Any] = List(
        help="what is stopped when the app is closed, such as a `Background` or a `Debounce`"
    )
    why: Why
    page_width = 880
    density = DENSITY
    min_width: int | None = 10
    below_figure: tuple[Widget, ...] = ()
    _has_all_names = False  # until `__init__` has returned
    _lock: Any = nullcontext()  # of an app whose `__init__` has raised, which is closed as well

    def __init__(self, **state: Any) -> None:
        self._lock = threading.RLock()  # JupyterLab may send changes of one control to two threads
        unknown = sorted(state.keys() - set(self.state_names()))
        if unknown:
            raise TypeError(self._has_no(", ".join(unknown)))
        # In the order of their definition, because one trait may depend on another
        in_order = {name: state[name] for name in self.state_names() if name in state}
        super().__init__(**in_order)

        self.page = PageWidget(app=self.model_id)
        self.plot = Plot(app=self.model_id, least_width=self.min_width)
        self.message_line = HTML()
        self.caption_line = HTML().add_class("alibi-caption")
        self.details_line = HTML()
        self.reason = HTML(self.why.as_html())
        self.controls_row = row(*self.controls()).add_class("alibi-controls")
        # The page comes before the picture, whose script may take the browser longer than anywidget
        # waits for others.
        self.children = [HTML(theme.STYLE), self.page, *self.body()]

        self._drawn: dict[str, Any] = {}  # the state that the picture shows
        try:
            self._redraw()
        except BaseException:
            self.close()  # otherwise ipywidgets would keep its widgets, and they the app
            raise

        self.page.observe(lambda _: self.fit(self.page.width, self.page.pixel_ratio), names="width")
        self.plot.clicks.register_callback(
            lambda trace, point: self.attempt(lambda: self.clicked(trace, point))
        )
        if type(self).hovered is not App.hovered:
            self.plot.reports_pointer = True
            self.plot.observe(self._on_pointer, names="pointed")
        self.add_class("alibi-app").observe(self._on_change, names=self.state_names())
        self._has_all_names = True

    def __setattr__(self, name: str, value: Any) -> None:
        """Word the error of a value that a trait doesn't take, and refuse a misspelled name.

        Nothing else would do that for every trait: traitlets calls a check of ours only after its
        own, and an object of Python takes any name.
        """
        if name in self.state_names():
            value = taken(self, name, value)
        elif self._has_all_names and not name.startswith("_") and not hasattr(self, name):
            raise AttributeError(self._has_no(name))
        super().__setattr__(name, value)

    def _has_no(self, name: str) -> str:
        return f"{type(self).__name__} has no {name}; it has {', '.join(self.state_names())}"

    # A subclass defines these.

    def controls(self) -> list[Widget]:
        """The controls, in reading order. They wrap where the page is narrow."""
        raise NotImplementedError

    def draw(self) -> Drawn:
        """The picture of the state, and its caption.

        Switches controls as well that the state leaves without an effect.
        """
        raise NotImplementedError

    def clicked(self, trace: str, point: Mapping[str, Any]) -> None:
        """A click on a point of the picture. By default, it does nothing.

        `point` has its x, y, z and index, which is [row, column] in a heatmap.
        """

    def hovered(self, trace: str, point: Mapping[str, Any]) -> None:
        """The pointer is over a point of the picture, which has its "custom" data as well."""

    def body(self) -> list[Widget]:
        """The parts of the app, from top to bottom."""
        return [
            self.controls_row,
            self.message_line,
            self.plot,
            *self.below_figure,
            self.caption_line,
            self.details_line,
            self.reason,
        ]

    # Every app offers these.

    @classmethod
    def state_names(cls) -> list[str]:
        """The names of the traits that say what the app shows, in the order of their definition.

        >>> from alibi_viz.widgets import SlopeExplorer
        >>> SlopeExplorer.state_names()
        ['num_heads', 'scheme', 'compare']
        """
        defined: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            if issubclass(base, App) and base is not App:
                defined |= vars(base)  # a trait that is defined anew keeps its place
        return [name for name, value in defined.items() if isinstance(value, TraitType)]

    def refresh(self) -> None:
        """Draw the current state, even if no trait has changed."""
        self._redraw()

    def fit(self, width: int, pixel_ratio: float = 0) -> None:
        """Draw a picture that is `width` pixels wide, but at least `min_width`.

        The page calls this when its width changes. `pixel_ratio` are the pixels of the screen per
        pixel of the page, 0 if unknown.
        """
        with self._lock:
            is_coarse = 0 < pixel_ratio <= 1
            self.density = COARSE_DENSITY if is_coarse else DENSITY
            self.page_width = max(width, self.min_width or 0)
            self._redraw()

    @property
    def figure(self) -> go.Figure:
        """The picture as a plotly figure of your own, on white: a change of it doesn't change the
        app."""
        return theme.figure(self.plot.picture)

    def save(self, path: str | Path) -> Path:
        """Write the figure to a file: `.html`, `.png`, `.svg` or `.pdf`.

        The `.html` has its words, works offline and has 5 MB. Raises ValueError for another suffix,
        and RuntimeError if there is no Chrome or Chromium to draw an image.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix == ".html":
            write(path, self._as_page())
        elif suffix in (".png", ".svg", ".pdf"):
            theme.save_images({path: self.figure})
        else:
            got = repr(suffix or "no suffix")
            raise ValueError(f"save writes .html, .png, .svg or .pdf, got {got} in {str(path)!r}")
        return path

    def _as_page(self) -> str:
        """The figure and its words as a page that needs no network."""
        plot = self.figure.to_html(
            full_html=False, include_plotlyjs=True, config={"displaylogo": False}
        )
        words = html.escape(f"{self.caption} {self.details}".strip())
        name = type(self).__name__
        return SAVED.format(title=name, ink=theme.INK, figure=plot, caption=words)

    def close(self) -> None:
        """Remove the app from the page, end its work in the background and free its memory.

        Afterwards, a changed trait draws nothing. ipywidgets keeps every widget until it is closed,
        and closes none of those inside another.
        """
        with self._lock:
            for work in self.works:
                work.stop()
            for widget in below(self)[1:]:
                style = getattr(widget, "style", None)
                layout = getattr(widget, "layout", None)
                for part in (widget, style, layout):
                    if isinstance(part, Widget):
                        part.close()
            self.layout.close()
            super().close()
            self.unobserve_all()

    @contextmanager
    def busy(self, words: str) -> Iterator[None]:
        """Say what is being done in place of the caption, and dim the figure, until the block ends.

        For what takes the kernel so long that the reader would wonder. If it fails, the caption is
        the old one again.
        """
        self.caption_line.value = html.escape(words)
        self.add_class("alibi-busy")
        try:
            yield
        except BaseException:
            self._show_words()
            raise
        finally:
            self.remove_class("alibi-busy")

    def _redraw(self) -> None:
        with self._lock:
            # Another thread may change the state while `draw` is at work, and then draws again.
            state = self._state()
            picture, self.caption, self.details = self.draw()
            if self.min_width is not None:
                picture["layout"]["width"] = self.page_width
            # The caption goes first, and the page paints both together. After the picture it would
            # be painted a frame later, because plotly.js keeps the page busy.
            self._show_words()
            self.plot.show(picture)
            self._drawn = state

    def _show_words(self) -> None:
        self.caption_line.value = html.escape(self.caption)
        words = html.escape(self.details)
        summary = "<summary>Details</summary>"
        self.details_line.value = f'<details class="alibi-details">{summary}{words}</details>'
        show(self.details, self.details_line)

    def _on_change(self, change: Any) -> None:
        if self._state() == self._drawn:
            return  # several traits were set at once, and the first notification has drawn them all
        try:
            self._redraw()
        except (MemoryError, RuntimeError, TypeError, ValueError) as error:
            # torch raises RuntimeError where there is too little memory.
            for name, value in self._drawn.items():
                self.set_trait(name, value)
            self._show_words()  # in place of what was said while the app was busy
            if isinstance(error, BadValue):
                raise
            raise BadValue(str(error)) from error

    def _on_pointer(self, change: Any) -> None:
        if change.new:
            self.attempt(lambda: self.hovered(change.new["trace"], change.new))

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.state_names()}

    def __repr__(self) -> str:
        parts = []
        for name, value in self._state().items():
            # A function, such as a law, is shown by its name.
            text = method_name(value) if callable(value) else short_repr(value, 60)
            parts.append(f"{name}={text}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        return {**bundle, "text/plain": repr(self)}  # ipywidgets would cut it
