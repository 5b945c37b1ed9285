"""BiasExplorer: the bias of every head, query and key, and what the softmax makes of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
import traitlets
from ipywidgets import Widget
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from traitlets import Bool, Enum, Int, Unicode, Union, validate

from alibi_viz import laws
from alibi_viz.bias import FORMS, alibi_bias, bias_from_positions
from alibi_viz.figures import theme
from alibi_viz.figures.bias_plot import bias_picture, weights_from_bias
from alibi_viz.figures.heatmap_grid import TILES
from alibi_viz.figures.theme import Picture
from alibi_viz.figures.tile_grid import DENSITY
from alibi_viz.formatting import format_number, format_percent, format_slope
from alibi_viz.models.positions.methods import Law, LawFunction, method_name
from alibi_viz.slopes import alibi_slopes
from alibi_viz.widgets.core.app import App, Drawn, Why
from alibi_viz.widgets.core.background import Debounce
from alibi_viz.widgets.core.controls import button, column, fold, row, show
from alibi_viz.widgets.core.own_methods import known_methods, remember_method
from alibi_viz.widgets.core.traits import (
    MAX_DRAWN_HEADS,
    BadValue,
    HasHead,
    raising_bad_value,
    short_repr,
)

LINEAR = "linear"  # the law of ALiBi itself
_LAW = "a name or a function law(distance, head, num_heads)"
_SHOWS = {"weight": "weight left", "bias": "bias"}
_FORMULAS = {
    "relative": "\N{MINUS SIGN}m (i \N{MINUS SIGN} j)",
    "key": "m j",
    "end": "m (j \N{MINUS SIGN} last)",
    "symmetric": "\N{MINUS SIGN}m |i \N{MINUS SIGN} j|",
    "split": (
        "\N{MINUS SIGN}m |i \N{MINUS SIGN} j|, half of the heads (rounded up) looking back, "
        "others ahead"
    ),
}


class BiasExplorer(HasHead, App):
    """The bias of each head as a tile of `length` queries x `length` keys, on one color scale for
    all heads.

    By default a tile shows what the softmax makes of the bias: e^bias, divided by its largest value
    among the keys that the query may see. This is the weight that distance leaves to a key whose
    content is as good as that of the most favored key: under a causal mask, the query's own
    position. Choose show="bias" for the bias itself.

    Beside the tiles is the row under the pointer as a curve. A click on a head enlarges it. Another
    click, or the button "all heads", shows all heads again.

    Traits:
        num_heads: 1 to 32, with official slopes.
        length: 1 to 256 tokens.
        show: "weight" or "bias".
        law: how the bias depends on the distance: "linear" for ALiBi, the name of another law of
            `alibi_viz.laws`, or your own function law(distance, head, num_heads).
        form: of ALiBi's bias, "relative", "key", "end", "symmetric" or "split"; see `alibi_bias`.
            Other laws have none.
        causal: whether keys after their query are masked.
        head: the enlarged head, 1 to num_heads, or None. Becomes None when `num_heads` falls below
            it.

    >>> from alibi_viz.widgets import BiasExplorer
    >>> app = BiasExplorer(num_heads=2, length=4)
    >>> print(app.caption)  # doctest: +ELLIPSIS
    2 heads, 4 x 4, ... At distance 3, head 1 leaves 83%, while head 2 still leaves 99%.
    >>> app.head = 3  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    BadValue: head must be one of 1, 2 or None, got 3
    """

    why = Why(
        "Up to a constant in each row, the bias depends only on the distance. With ALiBi, each "
        "step back multiplies the weight by the same factor, e^-slope: a steep head keeps a "
        "narrow band, a flat one a wide band.",
        "01_the_line",
        "The matrix",
    )
    num_heads = Int(8, min=1, max=MAX_DRAWN_HEADS)
    length = Int(64, min=1, max=256)
    show = Enum(tuple(_SHOWS), "weight")
    law = Union([Unicode(), traitlets.Callable()], default_value=LINEAR, help=_LAW)
    form = Enum(FORMS, "relative")
    causal = Bool(True)
    head = Int(None, allow_none=True).tag(choices="heads")

    def __init__(self, **state: Any) -> None:
        # The hover texts are added half a second after the last change.
        self._debounce = Debounce(0.5)
        # The (head, query) whose row is drawn beside the tiles; None for the last one of the middle
        self._row: tuple[int, int] | None = None
        super().__init__(**state)
        self.works.append(self._debounce)

    @validate("law")
    def _check_law(self, proposal: Any) -> str | LawFunction:
        """The name of a law of the library, or a function, which apps then offer."""
        law = proposal.value
        if isinstance(law, str):
            by_name = {_named_law(known)[0]: known for known in _all_laws()}
            if law not in by_name:
                names = ", ".join(by_name)
                raise BadValue(f"law must be one of {names}, or a function, got {short_repr(law)}")
            return by_name[law]
        if isinstance(law, type):
            raise BadValue(f"law must be {_LAW}, got {short_repr(law)}")

        name = method_name(law)
        if law is getattr(laws, name, None):
            return name
        if name == LINEAR:
            raise BadValue(
                f"a law of your own cannot be called {LINEAR!r}, which is ALiBi: choose another "
                "name"
            )
        with raising_bad_value():
            remember_method(law, self.num_heads)
        return law

    def clicked(self, trace: str, point: Mapping[str, Any]) -> None:
        """Enlarge the head, or show all heads again."""
        if trace == TILES:
            self.head = point["z"] if self.head is None else None

    def hovered(self, trace: str, point: Mapping[str, Any]) -> None:
        """Draw the row under the pointer beside the tiles."""
        if trace == TILES:
            query, *_ = point["custom"]
            self._row = (point["z"], query)
            self._add_hover()

    def _show_all_heads(self) -> None:
        self.head = None

    def controls(self) -> list[Widget]:
        heads = self.slider(
            "num_heads", "heads", "s-heads", "The number of attention heads", width="100px"
        )
        length = self.slider(
            "length",
            "length",
            "s-length",
            "The number of tokens: queries and keys",
            play=True,  # how the matrices grow
            width="100px",
        )
        show = self.menu(
            "show",
            "show",
            "s-show",
            "The weight that the bias leaves to each key at equal content, or the bias",
            _SHOWS,
        )
        causal = self.checkbox(
            "causal", "causal mask", "s-causal", "Mask the keys after each query"
        )

        law = self.menu(
            "law",
            "law",
            "s-law",
            "How the bias depends on the distance; linear is ALiBi",
            offered=_all_laws,
        )
        self._form_menu = self.menu(
            "form", "form", "s-form", "How ALiBi's bias is computed; see the caption"
        )
        head = self.menu(
            "head",
            "head",
            "s-head",
            "Or click a head to enlarge it",
            {None: "all"},
            follows="num_heads",
        )
        more, folded = fold(
            "More",
            "The law of distance, the form of the bias, the mask, and a single head",
            row(law, self._form_menu, head, causal),
        )
        self._back = button(
            "all heads", "arrow-left", "s-all", "Show all heads again", self._show_all_heads
        )
        first_row = row(heads, length, show, more, self.reset_button(), self._back)
        return [column(first_row, folded)]

    def draw(self) -> Drawn:
        heads = self._drawn_heads()
        bias, masked = self._drawn_bias()
        picture = self._picture(bias, masked, self.density, hover=False)
        self._debounce(self._add_hover)
        show(self.head is not None, self._back)
        self._form_menu.disabled = self.law != LINEAR

        end_queries = [0, -1]  # whose biases include those of all queries, see `_masked`
        end_bias = bias[:, end_queries]
        end_masked = masked[:, end_queries]
        if self.show == "bias":
            finding = _range_of_bias(end_bias, end_masked)
        else:
            finding = _weight_at_the_end(end_bias, end_masked, heads)
        caption = f"{self._subject()} {self.length} x {self.length}, {self._rule()}. {finding}"
        return Drawn(picture, caption)

    def _add_hover(self) -> None:
        """Show the same picture with hover texts."""
        with self._lock:
            self.plot.show(self._picture(*self._drawn_bias(), self.density, hover=True))

    @property
    def figure(self) -> go.Figure:
        """As in the app, with hover texts, and sharp even if this screen is not."""
        return theme.figure(self._picture(*self._drawn_bias(), DENSITY, hover=True))

    def _drawn_heads(self) -> range:
        """The numbers of the heads that are drawn."""
        if self.head is not None:
            return range(self.head, self.head + 1)
        return range(1, self.num_heads + 1)

    def _drawn_bias(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """The bias of the heads that are drawn, and where it is masked."""
        heads = self._drawn_heads()
        bias = self._bias()[heads.start - 1 : heads.stop - 1]
        return bias, self._masked(bias)

    def _picture(
        self,
        bias: NDArray[np.float32],
        masked: NDArray[np.bool_],
        density: float,
        *,
        hover: bool,
    ) -> Picture:
        """The heads that are drawn."""
        heads = self._drawn_heads()
        slopes = []
        if self.law == LINEAR:
            all_slopes = alibi_slopes(self.num_heads)
            slopes = [format_slope(all_slopes[head - 1]) for head in heads]
        return bias_picture(
            bias,
            masked,
            show=self.show,
            heads=heads,
            slopes=slopes,
            page_width=self.page_width,
            density=density,
            profile=self._drawn_row(),
            hover=hover,
        )

    def _drawn_row(self) -> tuple[int, int] | None:
        """The (tile, query) of the row that was under the pointer, unless it has gone since."""
        if self._row is None:
            return None
        head, query = self._row
        heads = self._drawn_heads()
        return (heads.index(head), query) if head in heads and query < self.length else None

    def _bias(self) -> NDArray[np.float32]:
        """The bias of every head, float32 [heads, query, key], as a view of a few rows.

        Computing two million cells with torch's threads is slow on a busy machine.
        """
        slopes = alibi_slopes(self.num_heads)
        length = self.length
        if self.law == LINEAR and self.form in ("key", "end"):
            same_for_every_query = alibi_bias(slopes, length, form=self.form)
            return same_for_every_query.expand(-1, length, -1).numpy()

        # The bias of the last query, for its keys and for as many keys ahead of it.
        if self.law == LINEAR:
            last_query = torch.tensor([length - 1])
            keys = torch.arange(2 * length - 1)
            last_row = bias_from_positions(slopes, last_query, keys, form=self.form)[:, 0]
        else:
            _, function = _named_law(self.law)
            curve = Law(function, self.num_heads).curve(torch.arange(length))  # [heads, distance]
            curve = curve + 0.0  # -0.0 becomes 0.0
            last_row = torch.cat((curve.flip(1), curve[:, 1:]), dim=1)

        # Each query's row is that of the query after it, shifted by a key.
        from_last_to_first = sliding_window_view(last_row.numpy(), length, axis=1)
        return from_last_to_first[:, ::-1]

    def _masked(self, bias: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Which cells are masked, by the causal mask or because their bias is -inf.

        Bool, of the shape of `bias`.
        """
        # In every form and law, the biases of the first and the last query include those of all
        # queries. So two queries tell whether all cells have to be read.
        hides_keys = np.isneginf(bias[:, [0, -1]]).any()
        masked = np.isneginf(bias) if hides_keys else np.zeros(bias.shape[1:], dtype=bool)
        if self.causal:
            masked = masked | ~np.tri(self.length, dtype=bool)
        return np.broadcast_to(masked, bias.shape)

    def _subject(self) -> str:
        """Which heads are drawn, for the caption."""
        if self.head is None:
            noun = "head" if self.num_heads == 1 else "heads"
            return f"{self.num_heads} {noun},"

        subject = f"Head {self.head} of {self.num_heads}"
        if self.law == LINEAR:
            slope = alibi_slopes(self.num_heads)[self.head - 1]
            subject += f", slope {format_slope(slope)}"
        return f"{subject}:"

    def _rule(self) -> str:
        """How the bias is computed, for the caption."""
        if self.law == LINEAR:
            return f"{self.form} form, {_FORMULAS[self.form]}"
        name, _ = _named_law(self.law)
        distance = "i \N{MINUS SIGN} j" if self.causal else "|i \N{MINUS SIGN} j|"
        return f"the bias is {name}(d), where d = {distance}"


def _all_laws() -> tuple[str | LawFunction, ...]:
    """The names of the library's laws, then all functions that an app was given."""
    own_laws = []
    for name, method in known_methods().items():
        if isinstance(method, str | type):
            continue  # a method of the library, or a subclass of Position
        if method is not getattr(laws, name, None):
            own_laws.append(method)
    return (*laws.__all__, *own_laws)


def _named_law(law: str | LawFunction) -> tuple[str, LawFunction]:
    """The name and the function of a law."""
    if isinstance(law, str):
        return law, getattr(laws, law)
    return method_name(law), law


def _range_of_bias(bias: NDArray[np.float32], masked: NDArray[np.bool_]) -> str:
    """The smallest and the largest bias that is not masked, in words."""
    visible = bias[~masked]
    lowest = format_number(visible.min())
    highest = format_number(visible.max())
    if lowest == highest:
        return f"The bias is {lowest} everywhere."
    return f"The bias ranges from {lowest} to {highest}."


def _weight_at_the_end(bias: NDArray[np.float32], masked: NDArray[np.bool_], heads: range) -> str:
    """How much weight the farthest key keeps in the steepest and the flattest head, in words.

    `bias` and `masked`, [heads, 2, key], are those of the first and the last query.
    """
    # In float64, because float32 has nothing below e^-104.
    weights = weights_from_bias(bias.astype(np.float64), masked)
    first_key_from_the_end = weights[:, -1, 0]
    last_key_from_the_start = weights[:, 0, -1]
    looks_ahead = masked[:, -1, 0]
    weight_left = np.where(looks_ahead, last_key_from_the_start, first_key_from_the_end)

    steepest = weight_left.argmin()
    flattest = weight_left.argmax()
    distance = bias.shape[-1] - 1
    text = (
        f"At distance {distance}, head {heads[steepest]} leaves "
        f"{format_percent(weight_left[steepest])}"
    )
    still_left = format_percent(weight_left[flattest])
    if format_percent(weight_left[steepest]) != still_left:
        text += f", while head {heads[flattest]} still leaves {still_left}"
    elif steepest != flattest:
        text += ", like all others"
    if (last_key_from_the_start > weight_left).any():
        text += "; keys ahead are favored"
    return f"{text}."
