"""Measure what a dtype does to the bias of one head.

The slope itself is not rounded, and all content is equal, so the error of an attention weight is
that of the bias.
"""

import torch
from torch import Tensor

from alibi_viz.arguments import check_choice
from alibi_viz.bias import exact_dtype

FORMS = ("key", "end", "positions", "relative")


def rounded_bias(slope: float, length: int, *, dtype: torch.dtype, form: str) -> Tensor:
    """The bias of one head under a causal mask, in the numbers that `dtype` has.

    - "key": m j, rounded
    - "end": m (j - last), rounded
    - "positions": -m (i - j) from positions i and j that are rounded first
    - "relative": -m (i - j) from integer positions, rounded last, as `alibi_bias` does

    Args:
        slope: m.
        length: number of keys and of queries.
        dtype: a floating-point dtype.
        form: one of the above.

    Returns float64 [query, key], -inf where the key comes after the query. Raises ValueError for an
    unknown form.

    >>> import torch
    >>> from alibi_viz import precision
    >>> precision.rounded_bias(1.0, 260, dtype=torch.bfloat16, form="key")[258, -5:]
    tensor([255., 256., 256., 258., -inf], dtype=torch.float64)
    >>> precision.rounded_bias(1.0, 260, dtype=torch.bfloat16, form="relative")[258, -5:]
    tensor([-3., -2., -1.,  0., -inf], dtype=torch.float64)
    """
    check_choice("form", form, FORMS)
    keys = torch.arange(length, device="cpu")
    queries = keys[:, None]
    exact_slope = torch.tensor(slope, dtype=exact_dtype(dtype), device="cpu")
    if form == "key":
        bias = exact_slope * keys
    elif form == "end":
        bias = exact_slope * (keys - (length - 1))
    elif form == "positions":
        bias = slope * (keys.to(dtype).double() - queries.to(dtype).double())
    else:
        bias = exact_slope * (keys - queries)

    rounded = bias.to(dtype).double().expand(length, length)
    return rounded.masked_fill(keys > queries, -torch.inf)


def largest_error(slope: float, length: int, *, dtype: torch.dtype, form: str) -> float:
    """How far an attention weight of one head is at most from that of the exact bias.

    All queries and keys are compared, and all content is equal. The bias is rounded to `dtype`, and
    the softmax is in float64. Arguments as in `rounded_bias`.

    >>> import torch
    >>> from alibi_viz import precision
    >>> round(precision.largest_error(0.5, 2048, dtype=torch.bfloat16, form="key"), 3)
    0.491
    >>> precision.largest_error(0.5, 2048, dtype=torch.bfloat16, form="relative") < 1e-9
    True
    """
    weights = rounded_bias(slope, length, dtype=dtype, form=form).softmax(-1)
    exact = rounded_bias(slope, length, dtype=torch.float64, form="relative").softmax(-1)
    return float((weights - exact).abs().max())
