"""PrecisionMicroscope: which keys get the same bias in a dtype, and the error of the attention weights as a map."""

import math

import numpy as np
import plotly.graph_objects as go
import torch
from ipywidgets import Widget
from torch import Tensor

from alibi_viz.figures import precision as picture
from alibi_viz.precision import CONTENTS, DTYPES, FORMS, WeightErrors, groups, rounded_bias, weight_errors
from alibi_viz.slopes import alibi_slopes
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.formatting import format_number, format_percent, format_slope
from alibi_viz.widgets.core.traits import Choice, Count, HasHead, Head

NEAREST = 64  # keys on the left
_MINUS = "\N{MINUS SIGN}"
FORMULAS = {
    "key": "m j",
    "end": f"m (j {_MINUS} last)",
    "positions": f"{_MINUS}m (i {_MINUS} j), i and j rounded",
    "relative": f"{_MINUS}m (i {_MINUS} j)",
}


class PrecisionMicroscope(HasHead, App):
    """What a dtype does to the bias of one head.

    On the left is the bias of one query for its 64 nearest keys: the exact line, and the numbers that the dtype has.
    Keys that share their bias with a neighbor are squares. On the right is the error of all attention weights, compared
    with those of the exact bias: the largest in each cell of a grid over queries and keys. See `alibi_viz.precision`.

    Traits:
        num_heads: 1 to 32, with official slopes.
        head: 1 to num_heads; becomes num_heads when that falls below it.
        length: 1 to 4,096 tokens.
        dtype: "bfloat16", "float16" or "float32".
        form: "key", "end", "positions" or "relative"; see `rounded_bias`.
        content: "equal" for every pair, or "random".
        query: the query on the left: "last", or the one with the "largest error" of a weight.

    >>> from alibi_viz.widgets import PrecisionMicroscope
    >>> app = PrecisionMicroscope(form="relative")
    >>> print(app.caption)  # doctest: +ELLIPSIS
    Head 1 of 8, slope 1/2, 2,048 tokens, ... The 64 nearest keys of query 2,047 have 64 different biases. ...
    """

    why = Why(
        "The larger a number, the fewer digits after the point a dtype can keep. Keys whose biases are rounded to the "
        "same number count as equally far away.",
        "12_for_implementers",
        "Equal weights are not equal numbers",
    )
    num_heads = Count(8, 1, 32)
    head = Head(1)
    length = Count(2048, 1, 4096)
    dtype = Choice("bfloat16", tuple(DTYPES))
    form = Choice("key", FORMS)
    content = Choice("equal", CONTENTS)
    query = Choice("last", ("last", "largest error"))

    def blank(self) -> go.Figure:
        return picture.blank()

    def controls(self) -> list[Widget]:
        forms = {form: f"{form}, {formula}" for form, formula in FORMULAS.items()}
        return [
            self.slider("num_heads", "heads", "s-heads", "The number of attention heads"),
            self.menu("head", "head", "s-head", "The head that is shown", follows="num_heads"),
            self.slider("length", "length", "s-length", "The number of tokens: queries and keys"),
            self.menu("dtype", "dtype", "s-dtype", "The number format of the bias and of its sum with the content"),
            self.menu("form", "form", "s-form", "How the bias is computed; see the caption", forms),
            self.menu("content", "content", "s-content", "q . k: 0 for every pair, or of random vectors"),
            self.menu("query", "query on the left", "s-query", "The last query, or that with the largest error"),
            self.reset_button(),
        ]

    def draw(self) -> str:
        slope, dtype = float(alibi_slopes(self.num_heads)[self.head - 1]), DTYPES[self.dtype]
        errors = weight_errors(slope, self.length, dtype=dtype, form=self.form, content=self.content)
        query = self.length - 1 if self.query == "last" or errors.negligible else errors.query
        near = slice(max(0, query + 1 - NEAREST), query + 1)
        row = slice(query, query + 1)
        rounded = rounded_bias(slope, self.length, row, dtype=dtype, form=self.form)[0, : query + 1]
        # Exact biases are -m (i - j), plus a constant of the query in the key and end forms.
        offset = {"key": query, "end": query - (self.length - 1)}.get(self.form, 0)
        exact = slope * (torch.arange(near.start, near.stop, dtype=torch.float64) - query + offset)
        sizes = [len(run) for run in groups(rounded)]
        shared = np.repeat(np.array(sizes) > 1, sizes)  # with a neighbor
        rounded = rounded[near]
        error_map = {"cells": errors.cells, "size": errors.size, "length": self.length}
        picture.draw(self.figure, range(near.start, near.stop), exact, rounded, shared[near], query=query, **error_map)
        return (
            f"Head {self.head} of {self.num_heads}, slope {format_slope(slope)}, {self.length:,} "
            f"token{'s' * (self.length > 1)}, {self.form} form, {FORMULAS[self.form]}, in {self.dtype}. "
            f"{self._nearest(query, slope, exact, len(groups(rounded)))} {_largest(errors)}"
        )

    def _nearest(self, query: int, slope: float, exact: Tensor, different: int) -> str:
        """How many different biases the nearest keys have, and why they are not all different."""
        if len(exact) == 1:
            return f"Query {query:,} sees only itself."
        text = f"The {len(exact)} nearest keys of query {query:,} have {different} different biases"
        numbers, value, step = "biases", abs(float(exact[-1])), slope
        if self.form == "positions":
            numbers, value, step = "positions", float(query), 1.0
        spacing = _spacing(value, self.dtype)
        if spacing > step:
            sizes = [format_slope(size) if size < 1 else format_number(size) for size in (spacing, step)]
            text += f", because {self.dtype} has only multiples of {sizes[0]} just below {format_number(value)}, while "
            text += f"neighboring {numbers} differ by {sizes[1]}"
        return f"{text}."


def _spacing(value: float, dtype: str) -> float:
    """The distance from a number to the next smaller one of a dtype.

    >>> _spacing(1023.5, "bfloat16"), _spacing(0.0, "bfloat16")
    (4.0, 0.0)
    """
    return float(torch.finfo(DTYPES[dtype]).eps) * 2.0 ** math.floor(math.log2(value)) if value else 0.0


def _largest(errors: WeightErrors) -> str:
    """The largest error of a weight, and where it is."""
    if errors.negligible:
        return f"No weight is wrong by more than 10^{_MINUS}12."
    wrong, right = format_percent(errors.weight), format_percent(errors.exact)
    instead = f": {wrong} instead of {right}" * (wrong != right)
    cells = f"; a cell shows the largest of {errors.size} x {errors.size}" * (errors.size > 1)
    return (
        f"The largest error of a weight is {format_number(errors.largest)}, "
        f"for query {errors.query:,} and key {errors.key:,}{instead}{cells}."
    )
