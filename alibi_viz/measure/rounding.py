"""Measure what a dtype does to the bias of one head.

Which keys get the same bias, and what is the error of the attention weights? The slope itself is
not rounded, and all content is equal, so the error is that of the bias.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import max_pool2d

from alibi_viz.arguments import check_choice, check_integer
from alibi_viz.bias import exact_dtype

FORMS = ("key", "end", "positions", "relative")
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
# Errors in this ratio count as equal, so that the first of them is reported on every machine.
_TIE = 1 - 1e-9
# Along each side of `WeightErrors.cells`.
_MAX_CELLS = 64


class WeightErrors(NamedTuple):
    """How far the attention weights of one head are from the exact ones."""

    # [cell, cell], the largest error among the queries and keys of each cell; NaN where masked
    cells: NDArray[np.float64]
    size: int  # queries and keys per cell; the last cell of a row or a column may have fewer
    query: int  # the query of the largest error
    key: int  # its key
    weight: float  # the weight there
    exact: float  # the exact weight there

    @property
    def largest(self) -> float:
        """The largest error of a weight."""
        return abs(self.weight - self.exact)

    @property
    def negligible(self) -> bool:
        """Whether even the largest error is that of float64, so that its position means nothing."""
        return self.largest < 1e-12


def rounded_bias(
    slope: float, length: int, queries: slice = slice(None), *, dtype: torch.dtype, form: str
) -> Tensor:
    """The bias of one head under a causal mask, in the numbers that `dtype` has.

    - "key": m j, rounded
    - "end": m (j - last), rounded
    - "positions": -m (i - j) from positions i and j that are rounded first
    - "relative": -m (i - j) from integer positions, rounded last, as `alibi_bias` does

    Args:
        slope: m.
        length: number of keys and of queries.
        queries: which queries; all by default.
        dtype: a floating-point dtype.
        form: one of the above.

    Returns float64 [query, key], -inf where the key comes after the query. Raises TypeError or
    ValueError if `length` is not an integer of at least 1, and ValueError for an unknown form.

    >>> import torch
    >>> from alibi_viz.measure.rounding import rounded_bias
    >>> rounded_bias(1.0, 260, slice(258, 259), dtype=torch.bfloat16, form="key")[0, -5:]
    tensor([255., 256., 256., 258., -inf], dtype=torch.float64)
    >>> rounded_bias(1.0, 260, slice(258, 259), dtype=torch.bfloat16, form="relative")[0, -5:]
    tensor([-3., -2., -1.,  0., -inf], dtype=torch.float64)
    """
    check_integer("length", length, 1)
    check_choice("form", form, FORMS)
    keys = torch.arange(length, device="cpu")
    rows = keys[queries, None]
    exact_slope = torch.tensor(slope, dtype=exact_dtype(dtype), device="cpu")
    if form == "key":
        bias = exact_slope * keys
    elif form == "end":
        bias = exact_slope * (keys - (length - 1))
    elif form == "positions":
        bias = slope * (keys.to(dtype).double() - rows.to(dtype).double())
    else:
        bias = exact_slope * (keys - rows)

    rounded = bias.to(dtype).double().expand(len(rows), length)
    return rounded.masked_fill(keys > rows, -torch.inf)


def groups(bias: Tensor) -> list[range]:
    """Runs of neighboring keys with the same bias, without masked keys.

    `bias` is that of one query, [key].

    >>> import torch
    >>> from alibi_viz.measure.rounding import groups
    >>> groups(torch.tensor([0.0, 2.0, 2.0, 2.0, 4.0, -torch.inf]))
    [range(0, 1), range(1, 4), range(4, 5)]
    """
    visible = bias[bias > -torch.inf]
    _, sizes = visible.unique_consecutive(return_counts=True)
    runs = []
    start = 0
    for size in sizes.tolist():
        runs.append(range(start, start + size))
        start += size
    return runs


def weight_errors(slope: float, length: int, *, dtype: torch.dtype, form: str) -> WeightErrors:
    """Compare the attention weights of one head with those of the exact bias.

    All queries and keys are compared, and all content is equal. The bias is rounded to `dtype`, and
    the softmax is in float64. Arguments as in `rounded_bias`.

    >>> import torch
    >>> from alibi_viz.measure.rounding import weight_errors
    >>> errors = weight_errors(0.5, 2048, dtype=torch.bfloat16, form="key")
    >>> errors.query, errors.key, round(errors.weight, 3), round(errors.exact, 3)
    (1036, 1036, 0.884, 0.393)
    >>> weight_errors(0.5, 2048, dtype=torch.bfloat16, form="relative").largest < 1e-9
    True
    """
    weights = rounded_bias(slope, length, dtype=dtype, form=form).softmax(-1)
    exact = rounded_bias(slope, length, dtype=torch.float64, form="relative").softmax(-1)
    errors = (weights - exact).abs()

    is_largest = errors >= errors.max() * _TIE
    first = int(is_largest.int().argmax())
    query, key = divmod(first, length)

    size = math.ceil(length / _MAX_CELLS)
    cells = max_pool2d(errors[None], size, ceil_mode=True)[0].numpy()
    cells[np.triu_indices(len(cells), 1)] = np.nan  # keys after the query
    return WeightErrors(
        cells=cells,
        size=size,
        query=query,
        key=key,
        weight=float(weights[query, key]),
        exact=float(exact[query, key]),
    )
