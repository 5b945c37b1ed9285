"""ALiBi biases: the numbers added to the logit of query i and key j before the softmax.

Positions are integers, and biases are computed in float32 and cast to the requested dtype last,
because rounded positions would collide: bfloat16 cannot represent 257.
"""

import torch
from torch import Tensor

from alibi_viz.arguments import check_choice, check_integer, check_slopes, check_tensor

FORMS = ("relative", "key", "end", "symmetric", "split")
Device = torch.device | str | None


def exact_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype for biases and sums: float64 for float64, float32 for any other."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def check_lengths(query_length: int, key_length: int | None = None) -> int:
    """Return the key length, which defaults to the query length.

    Raises TypeError or ValueError if the lengths don't fit.
    """
    check_integer("query_length", query_length, 0)
    if key_length is None:
        return query_length
    check_integer("key_length", key_length, 0)
    if query_length > key_length:  # queries are the last positions of the keys
        raise ValueError(
            f"query_length must be at most key_length={key_length}, got {query_length}"
        )
    return key_length


def right_aligned(
    query_length: int, key_length: int | None = None, *, device: Device = None
) -> tuple[Tensor, Tensor]:
    """Positions of queries [query] and keys [key], int64. The queries are the last keys."""
    key_length = check_lengths(query_length, key_length)
    keys = torch.arange(key_length, device=device)
    return keys[key_length - query_length :], keys


def causal_mask(
    query_length: int, key_length: int | None = None, *, device: Device = None
) -> Tensor:
    """Whether query i may attend to key j, that is j <= i: bool [query, key].

    The queries are the last keys.

    Raises TypeError or ValueError for a length that is not an integer, is negative, or for more
    queries than keys.

    >>> import alibi_viz as av
    >>> av.causal_mask(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    queries, keys = right_aligned(query_length, key_length, device=device)
    return keys[None, :] <= queries[:, None]


def mask_future(bias: Tensor) -> Tensor:
    """Set a bias [..., query, key] to -inf where the key comes after the query."""
    query_length, key_length = bias.shape[-2:]
    is_visible = causal_mask(query_length, key_length, device=bias.device)
    return bias.masked_fill(~is_visible, float("-inf"))


def alibi_bias(
    slopes: Tensor,
    query_length: int,
    key_length: int | None = None,
    *,
    form: str = "relative",
    positions: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Compute the ALiBi bias for every head, query i and key j.

    The queries are the *last* positions of the keys.

    - "relative": -m (i - j), for causal attention
    - "key": +m j, for causal attention; used by the authors' fairseq code
    - "end": m (j - last), for causal attention; used by MPT
    - "symmetric": -m |i - j|, for encoders
    - "split": -m |i - j| for encoders, where the first half of the heads (rounded up) attends only
      to earlier keys and the rest only to later ones; the other side is -inf

    The first three give the same causal attention weights: they differ by a constant per row, which
    cancels in the softmax. Without a causal mask (see `causal_mask`), they favor keys after the
    query.

    Args:
        slopes: floating point [heads], as returned by `alibi_slopes`.
        query_length: number of queries, 0 or more.
        key_length: number of keys, at least `query_length`; by default that of `positions`, or
            `query_length`.
        form: one of the above.
        positions: integers [..., key], for dropped tokens; 0, 1, 2, ... by default. "end" counts
            from the largest. Packed documents need a mask, and no positions: if these restart,
            earlier documents are rewarded.
        dtype: dtype of the result. The arithmetic is float32, or float64 if `dtype` is.

    Returns [..., heads, query, key], or [..., heads, 1, key] for "key" and "end", which don't
    depend on the query. Raises TypeError for a wrong dtype or type, and ValueError for an unknown
    form or a wrong shape or length.

    Source: Press et al. 2021, section 3 and figure 3.

    >>> import torch
    >>> import alibi_viz as av
    >>> av.alibi_bias(torch.tensor([1.0]), 3).long()
    tensor([[[ 0,  1,  2],
             [-1,  0,  1],
             [-2, -1,  0]]])
    >>> # One decoded token after three
    >>> av.alibi_bias(torch.tensor([1.0]), 1, positions=torch.tensor([0, 5, 6, 7]))
    tensor([[[-7., -2., -1.,  0.]]])
    """
    check_slopes("slopes", slopes)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point torch.dtype, got {dtype!r}")
    check_choice("form", form, FORMS)
    if positions is None:
        queries, keys = right_aligned(query_length, key_length, device=slopes.device)
    else:
        _check_positions(positions, query_length, key_length)
        keys = positions
        queries = positions[..., positions.shape[-1] - query_length :]
    return bias_from_positions(slopes, queries, keys, form=form, dtype=dtype)


def _check_positions(positions: Tensor, query_length: int, key_length: int | None) -> None:
    check_tensor("positions", positions, "integer", "[..., key]")
    expected = "key"
    if key_length is not None:
        check_lengths(query_length, key_length)
        expected = f"key_length={key_length}"
    if positions.ndim == 0 or key_length not in (None, positions.shape[-1]):
        raise ValueError(f"positions must be [..., {expected}], got shape {list(positions.shape)}")
    check_lengths(query_length, positions.shape[-1])


def bias_from_positions(
    slopes: Tensor,
    queries: Tensor,
    keys: Tensor,
    *,
    form: str = "relative",
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """`alibi_bias` without checks, for positions of queries [..., query] and keys [..., key]."""
    slope = slopes.to(exact_dtype(dtype))[:, None, None]  # [heads, 1, 1]
    # int64, because differences of uint8 would overflow
    offset = keys.long()[..., None, None, :]  # [..., 1, 1, key]
    if form == "end" and keys.shape[-1]:
        offset = offset - offset.amax(-1, keepdim=True)
    elif form not in ("key", "end"):
        offset = offset - queries.long()[..., None, :, None]  # j - i, [..., 1, query, key]
    if form not in ("symmetric", "split"):
        return (slope * offset.to(slope.dtype)).to(dtype)

    bias = -slope * offset.abs().to(slope.dtype) + 0.0  # + 0.0 turns -0.0 into 0.0
    if form == "split":
        head = torch.arange(len(slopes), device=slopes.device)[:, None, None]
        looks_back = head < (len(slopes) + 1) // 2
        is_hidden = torch.where(looks_back, offset > 0, offset < 0)
        bias = bias.masked_fill(is_hidden, float("-inf"))
    return bias.to(dtype)
