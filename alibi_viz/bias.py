"""ALiBi biases: the numbers added to the logit of (query i, key j) before the softmax.

They are computed in float32 from integer positions and cast to the requested dtype last, because positions in half
precision would collide: bfloat16 cannot represent 257.
"""

import torch
from torch import Tensor

from alibi_viz.arguments import check_slopes, check_tensor
from alibi_viz.distance import causal_mask, grid_distance, right_aligned

__all__ = ["FORMS", "alibi_bias", "bias_from_positions", "exact_dtype", "grid_bias", "mask_future"]

FORMS = ("relative", "key", "end", "symmetric", "split")


def exact_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which to compute biases and sums for a floating-point dtype: float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def alibi_bias(
    slopes: Tensor,
    query_length: int,
    key_length: int | None = None,
    *,
    form: str = "relative",
    future_slopes: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Compute the ALiBi bias for every head, query i and key j. The queries are the *last* positions of the keys.

    - "relative": -m (i - j), for causal attention
    - "key": +m j, for causal attention; used by the authors' fairseq code
    - "end": m (j - last), for causal attention; used by MPT
    - "symmetric": -m |i - j|, for encoders
    - "split": -m |i - j| for encoders, where the first half of the heads (rounded up) attends only to earlier keys and
      the rest only to later ones; the other side is -inf

    The first three give the same causal attention weights: they differ by a constant per row, which cancels in the
    softmax. Without a causal mask, which no form includes (see `causal_mask`), they favor keys after the query.

    Args:
        slopes: floating point [heads], as returned by `alibi_slopes`.
        query_length: number of queries, 0 or more.
        key_length: number of keys, at least `query_length`, which is the default.
        form: one of the above.
        future_slopes: [heads], slopes for keys after the query; only with form "symmetric".
        dtype: dtype of the result. The arithmetic is float32, or float64 if `dtype` is.

    Returns [heads, query, key], or [heads, 1, key] for "key" and "end", which don't depend on the query. Raises
    TypeError if slopes or dtype are not floating point or a length is not an integer, and ValueError if the form is
    unknown or a shape or length does not fit.

    Source: Press et al. 2021, section 3 and figure 3.

    >>> alibi_bias(torch.tensor([1.0]), 3).long()
    tensor([[[ 0,  1,  2],
             [-1,  0,  1],
             [-2, -1,  0]]])
    >>> alibi_bias(torch.tensor([0.5]), 1, 4)  # one decoded token after three cached ones
    tensor([[[-1.5000, -1.0000, -0.5000,  0.0000]]])
    """
    check_slopes("slopes", slopes)
    queries, keys = right_aligned(query_length, key_length, device=slopes.device)
    return bias_from_positions(slopes, queries, keys, form=form, future_slopes=future_slopes, dtype=dtype)


def bias_from_positions(
    slopes: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    form: str = "relative",
    future_slopes: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Compute the bias for explicit positions: for left padding, packed documents or dropped tokens.

    Args:
        slopes: [heads].
        query_positions: integers [..., query]; leading axes such as a batch broadcast.
        key_positions: integers [..., key].
        form, future_slopes, dtype: as in `alibi_bias`. "end" counts from the largest key position.

    Returns [..., heads, query, key], or [..., heads, 1, key] for "key" and "end". Raises TypeError for positions that
    are not integers, ValueError for leading axes that don't broadcast, and the errors of `alibi_bias`.

    >>> bias_from_positions(torch.tensor([1.0]), torch.tensor([7]), torch.tensor([0, 5, 6]))
    tensor([[[-7., -2., -1.]]])
    """
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point torch.dtype, got {dtype!r}")
    _check_arguments(slopes, query_positions, key_positions, form, future_slopes)
    compute_dtype = exact_dtype(dtype)
    slope = slopes.to(compute_dtype)[:, None, None]  # [heads, 1, 1], to broadcast with [..., 1, query, key]
    # int64, because differences of uint8 would overflow
    keys = key_positions.long()[..., None, None, :]  # [..., 1, 1, key]
    if form == "key":
        offset = keys
    elif form == "end":
        offset = keys - keys.amax(-1, keepdim=True) if keys.shape[-1] else keys
    else:
        offset = keys - query_positions.long()[..., None, :, None]  # j - i, [..., 1, query, key]
    if form not in ("symmetric", "split"):
        return (slope * offset.to(compute_dtype)).to(dtype)
    if future_slopes is not None:
        slope = torch.where(offset > 0, future_slopes.to(compute_dtype)[:, None, None], slope)
    bias = -slope * offset.abs().to(compute_dtype) + 0.0  # + 0.0 turns -0.0 into 0.0
    if form == "split":
        looks_back = (torch.arange(len(slopes), device=slopes.device) < (len(slopes) + 1) // 2)[:, None, None]
        bias = bias.masked_fill(torch.where(looks_back, offset > 0, offset < 0), float("-inf"))
    return bias.to(dtype)


def mask_future(bias: Tensor) -> Tensor:
    """Set a bias [..., query, key] to -inf where the key comes after the query. The queries are the last positions.

    >>> mask_future(torch.zeros(2, 3))
    tensor([[0., 0., -inf],
            [0., 0., 0.]])
    """
    return bias.masked_fill(~causal_mask(*bias.shape[-2:], device=bias.device), float("-inf"))


def grid_bias(slopes: Tensor, height: int, width: int, metric: str = "manhattan") -> Tensor:
    """Compute ALiBi for images, -m times `grid_distance`: float32 [heads, patch, patch] for slopes [heads].

    Raises as `alibi_bias` and `grid_distance` do.

    >>> grid_bias(torch.tensor([1.0]), 1, 3)[0, 0].tolist()
    [0.0, -1.0, -2.0]
    """
    check_slopes("slopes", slopes)
    return -slopes.float()[:, None, None] * grid_distance(height, width, metric).to(slopes.device) + 0.0


def _check_arguments(slopes: Tensor, queries: Tensor, keys: Tensor, form: str, future_slopes: Tensor | None) -> None:
    check_slopes("slopes", slopes)
    for name, positions in (("query_positions", queries), ("key_positions", keys)):
        check_tensor(name, positions, "integer", "[..., length]")
        if positions.ndim == 0:
            raise ValueError(f"{name} must be [..., length], got a 0-dimensional tensor")
    batches = queries.shape[:-1], keys.shape[:-1]
    if any(a not in (1, b) and b != 1 for a, b in zip(*map(reversed, batches), strict=False)):
        raise ValueError(
            f"query_positions and key_positions must broadcast in all axes but the last, got shapes "
            f"{list(queries.shape)} and {list(keys.shape)}"
        )
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    if future_slopes is not None:
        check_slopes("future_slopes", future_slopes)
        if form != "symmetric" or future_slopes.shape != slopes.shape:
            raise ValueError(
                f"future_slopes need form 'symmetric' and the shape of slopes, {list(slopes.shape)}; "
                f"got form {form!r} and shape {list(future_slopes.shape)}"
            )
