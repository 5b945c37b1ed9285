"""PrecisionMicroscope: which keys get the same bias in a dtype, and the error of the attention weights as a map."""

import plotly.graph_objects as go
import torch
from ipywidgets import Widget

from alibi_viz.figures import precision as picture
from alibi_viz.precision import CONTENTS, DTYPES, FORMS, groups, rounded_bias, weight_errors
from alibi_viz.slopes import alibi_slopes
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.traits import Choice, Count, HasHead, Head
from alibi_viz.widgets.precision.caption import FORMULAS, Row, describe

__all__ = ["PrecisionMicroscope"]

NEAREST = 64  # keys on the left


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
    Head 1 of 8, slope 1/2, 2,048 tokens, relative form, ... Its 64 nearest keys have 64 different biases. ...
    """

    why = Why(
        "The larger a number, the fewer digits after the point a dtype can keep. Keys whose biases are rounded to the "
        "same number count as equally far away.",
        "02_biases",
        "Three ways to write the same attention",
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
        queries = slice(query, query + 1)
        rounded = rounded_bias(slope, self.length, queries, dtype=dtype, form=self.form)[0, : query + 1]
        # Exact biases are -m (i - j), plus a constant of the query in the key and end forms.
        offset = {"key": query, "end": query - (self.length - 1)}.get(self.form, 0)
        exact = slope * (torch.arange(query + 1, dtype=torch.float64) - query + offset)
        runs = groups(rounded)
        shared = torch.zeros(query + 1, dtype=torch.bool)
        for run in runs:
            shared[run.start : run.stop] = len(run) > 1
        near = slice(-NEAREST, None)
        picture.draw(
            self.figure,
            range(query + 1)[near],
            exact[near],
            rounded[near],
            shared[near],
            cells=errors.cells,
            size=errors.size,
            length=self.length,
            query=query,
        )
        return describe(self, slope, Row(query, exact, rounded, runs, shared[near]), errors)
