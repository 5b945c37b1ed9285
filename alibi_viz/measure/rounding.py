"""What a dtype does to the bias of one head: which keys get the same bias, and the error of the
attention weights.

The slope itself is not rounded, and all content is equal, so the error is that of the bias.
"""

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
_TIE = (
    1 - 1e-9
)  # errors in this ratio are equal, so that the first of them is reported on every machine
_MAX_CELLS = 64  # along each side of `WeightErrors.cells`


class WeightErrors(NamedTuple):
    """How far the attention weights of one head are from the exact ones."""

    cells: NDArray[
        np.float64
    ]  # [cell, cell], the largest error among so many queries and keys; NaN where masked
    size: int  # queries and keys per cell; the last cell of a row or a column may have fewer
    query: int  # the position of the largest error
    key: int
    weight: float  # the weight there, and the exact one
    exact: float

    @property
    def largest(self) -> float:  # error of a weight
        return abs(self.weight - self.exact)

    @property
    def negligible(self) -> bool:
        """Whether even the largest error is as small as those of float64, so that its position
        means nothing."""
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

    >>> rounded_bias(1.0, 260, slice(258, 259), dtype=torch.bfloat16, form="key")[0, -5:]
    tensor([255., 256., 256., 258., -inf], dtype=torch.float64)
    >>> rounded_bias(1.0, 260, slice(258, 259), dtype=torch.bfloat16, form="relative")[0, -5:]
    tensor([-3., -2., -1.,  0., -inf], dtype=torch.float64)
    """
    check_integer("length", length, 1)
    check_choice("form", form, FORMS)
    keys = torch.arange(length, device="cpu")
    rows = keys[queries, None]
    if form == "positions":
        bias = slope * (keys.to(dtype).double() - rows.to(dtype).double())
    else:
        origins: dict[str, int | Tensor] = {"key": 0, "end": length - 1, "relative": rows}
        bias = torch.tensor(slope, dtype=exact_dtype(dtype), device="cpu") * (keys - origins[form])
    return bias.to(dtype).double().expand(len(rows), length).masked_fill(keys > rows, -torch.inf)


def groups(bias: Tensor) -> list[range]:
    """Runs of neighboring keys with the same bias, from the bias [key] of one query; masked keys
    are left out.

    >>> groups(torch.tensor([0.0, 2.0, 2.0, 2.0, 4.0, -torch.inf]))
    [range(0, 1), range(1, 4), range(4, 5)]
    """
    _, sizes = bias[bias > -torch.inf].unique_consecutive(return_counts=True)
    return [
        range(int(end - size), int(end)) for end, size in zip(sizes.cumsum(0), sizes, strict=True)
    ]


def weight_errors(slope: float, length: int, *, dtype: torch.dtype, form: str) -> WeightErrors:
    """Compare the attention weights of one head with those of the exact bias, for all queries and
    keys.

    All content is equal. The bias is rounded to `dtype`, and the softmax is in float64. Arguments
    as in `rounded_bias`.

    >>> errors = weight_errors(0.5, 2048, dtype=torch.bfloat16, form="key")
    >>> errors.query, errors.key, round(errors.weight, 3), round(errors.exact, 3)
    (1036, 1036, 0.884, 0.393)
    >>> weight_errors(0.5, 2048, dtype=torch.bfloat16, form="relative").largest < 1e-9
    True
    """
    weights = rounded_bias(slope, length, dtype=dtype, form=form).softmax(-1)
    exact = rounded_bias(slope, length, dtype=torch.float64, form="relative").softmax(-1)
    error = (weights - exact).abs()
    query, key = divmod(int((error >= error.max() * _TIE).int().argmax()), length)
    size = -(-length // _MAX_CELLS)
    cells = max_pool2d(error[None], size, ceil_mode=True)[0].numpy()
    cells[np.triu_indices(len(cells), 1)] = np.nan
    return WeightErrors(
        cells, size, query, key, float(weights[query, key]), float(exact[query, key])
    )
