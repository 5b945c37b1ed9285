"""PrecisionMicroscope: which keys get the same bias in a dtype, and the error of the attention
weights as a map."""

import numpy as np
import torch
from ipywidgets import Widget
from torch import Tensor

from alibi_viz.figures import precision_plot as picture
from alibi_viz.formatting import format_number, format_percent
from alibi_viz.measure.rounding import (
    DTYPES,
    FORMS,
    WeightErrors,
    groups,
    rounded_bias,
    weight_errors,
)
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.traits import ChoiceOf

SLOPE = 1 / 2  # of head 1 of 8, where the errors are the largest
LENGTH = 2048
NEAREST = 64  # keys on the left
_FORMULAS = {
    "key": "key, m j",
    "end": "end, m (j \N{MINUS SIGN} last)",
    "positions": "positions, \N{MINUS SIGN}m (i \N{MINUS SIGN} j), i and j rounded",
    "relative": "relative, \N{MINUS SIGN}m (i \N{MINUS SIGN} j)",
}


class PrecisionMicroscope(App):
    """What a dtype does to the bias of the steepest of 8 heads, for 2,048 tokens.

    On the left is the bias of one query for its 64 nearest keys: the exact line, and the numbers
    that the dtype has. Keys that share their bias with a neighbor are squares. On the right is the
    error of all attention weights, compared with those of the exact bias: the largest in each cell
    of a grid over queries and keys. See `alibi_viz.measure.rounding`.

    Traits:
        dtype: "bfloat16", "float16" or "float32".
        form: "key", "end", "positions" or "relative"; see `rounded_bias`.
        query: the query on the left: "last", or the one with the "largest error" of a weight.

    >>> from alibi_viz.widgets import PrecisionMicroscope
    >>> app = PrecisionMicroscope(form="relative")
    >>> print(app.caption)  # doctest: +ELLIPSIS
    Head 1 of 8, relative form in bfloat16: the 64 nearest keys ... have 64 different biases. ...
    """

    why = Why(
        "The larger a number, the fewer digits after the point a dtype can keep. Keys whose "
        "biases are rounded to the same number count as equally far away.",
        "10_for_implementers",
        "Round last",
    )
    dtype = ChoiceOf(tuple(DTYPES), "bfloat16")
    form = ChoiceOf(FORMS, "key")
    query = ChoiceOf(("last", "largest error"), "last")
    blank = staticmethod(picture.blank)

    def controls(self) -> list[Widget]:
        return [
            self.menu("dtype", "dtype", "s-dtype", "The number format of the bias"),
            self.menu("form", "form", "s-form", "How the bias is computed", _FORMULAS),
            self.menu(
                "query",
                "query on the left",
                "s-query",
                "The last query, or that with the largest error",
            ),
            self.reset_button(),
        ]

    def arrange(self) -> None:
        picture.arrange(self.figure, self.page_width)

    def draw(self) -> str:
        dtype = DTYPES[self.dtype]
        errors = weight_errors(SLOPE, LENGTH, dtype=dtype, form=self.form)
        query = LENGTH - 1
        if self.query == "largest error" and not errors.negligible:
            query = errors.query

        rows = rounded_bias(SLOPE, LENGTH, slice(query, query + 1), dtype=dtype, form=self.form)
        rounded = rows[0, : query + 1]
        sizes = [len(group) for group in groups(rounded)]
        is_shared = np.repeat(np.array(sizes) > 1, sizes)  # with a neighbor

        keys = range(query + 1)[-NEAREST:]
        nearest = rounded[-NEAREST:]
        picture.draw(
            self.figure,
            keys,
            exact=self._exact_bias(query)[-NEAREST:],
            rounded=nearest,
            shared=is_shared[-NEAREST:],
            errors=errors.cells,
            size=errors.size,
        )
        return (
            f"Head 1 of 8, {self.form} form in {self.dtype}: the {len(keys)} nearest keys of query "
            f"{query:,} have {len(groups(nearest))} different biases. {_largest_error(errors)}"
        )

    def _exact_bias(self, query: int) -> Tensor:
        """The bias of one query for its own key and all keys before it, float64 [key]."""
        keys = torch.arange(query + 1, dtype=torch.float64)
        if self.form == "key":
            return SLOPE * keys
        if self.form == "end":
            return SLOPE * (keys - (LENGTH - 1))
        return SLOPE * (keys - query)


def _largest_error(errors: WeightErrors) -> str:
    """Where the largest error of a weight is, in words."""
    if errors.negligible:
        return "No weight is wrong by more than 10^\N{MINUS SIGN}12."
    place = f"query {errors.query:,} and key {errors.key:,}"
    wrong = format_percent(errors.weight)
    right = format_percent(errors.exact)
    if wrong != right:  # in the digits that are shown
        place += f": {wrong} instead of {right}"
    return f"The largest error is {format_number(errors.largest)}, for {place}."
