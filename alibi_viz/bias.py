"""ALiBi biases: the numbers added to the logit of query i and key j before the softmax.

Positions are integers, and biases are computed in float32 and cast to the requested dtype last,
because rounded positions would collide: bfloat16 cannot represent 257.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import unpack_dual
from torch.nn.functional import pad

from alibi_viz.arguments import (
    check_choice,
    check_flag,
    check_integer,
    check_slopes,
    check_tensor,
    unwrapped,
)
from alibi_viz.slopes import MAX_HEADS, alibi_slopes

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


class AlibiBias(nn.Module):
    """Cached biases: `bias(query_length, key_length) -> [heads, query, key]`.

    A call returns a view of the cache: read it, don't write to it. Lengths are rounded up to powers
    of two, so growing inputs rebuild the cache only a few times, and smaller biases are slices of
    larger ones. Inside `torch.compile` nothing is cached, and one graph serves all lengths.

    Cache and slopes are in no state dict. The slopes are fixed: others can't be assigned, and
    `.half()` doesn't round them.

    Args:
        num_heads: number of heads with a bias.
        scheme, form: as in `alibi_slopes` and `alibi_bias`.
        causal: set the bias of keys after each query to -inf, for a mask; only with form
            "relative".
        slopes: [num_heads], used instead of a scheme.
        total_heads: number of all heads, by default `num_heads`. Those beyond `num_heads` have
            slope 0, so no bias (`total_heads` of zeta's `AlibiPositionalBias`). The bias is
            [total_heads, query, key]. `causal` and the form "split" mask all heads alike.

    Raises TypeError and ValueError as `alibi_slopes` and `alibi_bias` do, and ValueError if
    `total_heads` is less than `num_heads`.

    >>> import alibi_viz as av
    >>> bias = av.AlibiBias(8)
    >>> bias(3, 5).shape
    torch.Size([8, 3, 5])
    >>> av.AlibiBias(2, total_heads=3).slopes
    tensor([0.0625, 0.0039, 0.0000])
    """

    _place: Tensor

    def __init__(
        self,
        num_heads: int,
        *,
        scheme: str = "official",
        form: str = "relative",
        causal: bool = False,
        slopes: Tensor | None = None,
        total_heads: int | None = None,
    ) -> None:
        super().__init__()
        # Slopes have values even when the module is created on the meta device.
        with torch.device("cpu"):
            values = alibi_slopes(num_heads, scheme)
        if slopes is not None:
            check_slopes("slopes", slopes)
            if len(slopes) != num_heads:
                raise ValueError(
                    f"slopes must be [num_heads] = [{num_heads}], got shape {list(slopes.shape)}"
                )
            device = "meta" if slopes.is_meta else "cpu"
            values = slopes.detach().to(device, torch.float32, copy=True)
        if total_heads is not None:
            check_integer("total_heads", total_heads, num_heads, MAX_HEADS)
            values = pad(values, (0, total_heads - num_heads))
        check_choice("form", form, FORMS)
        check_flag("causal", causal)
        if causal and form != "relative":
            raise ValueError(f"causal=True needs form 'relative', got {form!r}")

        self.form = form
        self.causal = causal
        # The slopes are no buffer: `.half()` would round a buffer, and `to_empty` and transformers
        # would leave it without values. An empty buffer goes where the module goes, and the slopes
        # follow it when they are next read.
        self._given_slopes = values
        self._slopes = values
        self.register_buffer("_place", torch.empty(0), persistent=False)
        self.register_load_state_dict_post_hook(_leave_meta_device)
        self._cache: dict[tuple[torch.device, torch.dtype], tuple[Tensor, ...]] = {}

    @property
    def slopes(self) -> Tensor:
        """float32 [heads], on the device of the module.

        Raises ValueError where they have no values, because they were given on the meta device.
        """
        device = self._place.device
        if self._slopes.device == device:
            return self._slopes
        if self._given_slopes.is_meta:
            raise ValueError(
                "slopes were given on the meta device and have no values: create them on the CPU"
            )
        with torch.inference_mode(False):  # autograd cannot use tensors created in inference mode
            self._slopes = self._given_slopes.to(device)
        self._cache.clear()  # of biases on the earlier device
        return self._slopes

    def forward(
        self,
        query_length: int,
        key_length: int | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        key_length = check_lengths(query_length, key_length)
        if torch.compiler.is_compiling():
            return self._build(query_length, key_length, dtype)
        if self.form in ("key", "end"):  # these forms have a single row for all queries
            query_length = 1

        bias = self._cached(query_length, key_length, dtype)
        if bias is None:
            bias = self._grow(query_length, key_length, dtype)
        _, rows, columns = bias.shape
        # The queries are the last keys, so slices end in the lower right corner; only "key" counts
        # from the first key.
        if columns != key_length:
            first_key = 0 if self.form == "key" else columns - key_length
            bias = bias.narrow(2, first_key, key_length)
        if rows != query_length:
            bias = bias.narrow(1, rows - query_length, query_length)
        return bias

    def _cached(self, query_length: int, key_length: int, dtype: torch.dtype) -> Tensor | None:
        """A cached bias of at least this size, if there is one."""
        for bias in self._cache.get((self.slopes.device, dtype), ()):
            if bias.shape[1] >= query_length and bias.shape[2] >= key_length:
                return bias
        return None

    def _grow(self, query_length: int, key_length: int, dtype: torch.dtype) -> Tensor:
        """Cache a bias of at least this size, and drop the cached ones that it contains."""
        rows = _next_power_of_two(query_length)
        columns = _next_power_of_two(key_length)
        with torch.inference_mode(False):  # autograd cannot use tensors created in inference mode
            bias = self._build(rows, columns, dtype)
        key = (self.slopes.device, dtype)
        kept = []
        for cached in self._cache.get(key, ()):
            is_contained = cached.shape[1] <= rows and cached.shape[2] <= columns
            if not is_contained:
                kept.append(cached)
        self._cache[key] = (*kept, bias)
        return bias

    def _build(self, query_length: int, key_length: int, dtype: torch.dtype) -> Tensor:
        bias = alibi_bias(self.slopes, query_length, key_length, form=self.form, dtype=dtype)
        return mask_future(bias) if self.causal else bias

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles start with an empty cache."""
        return super().__getstate__() | {"_cache": {}}

    def extra_repr(self) -> str:
        return f"{len(self.slopes)} heads, form={self.form!r}, causal={self.causal}"


def _leave_meta_device(bias: AlibiBias, _keys: object) -> None:
    """Move to the default device when the model around a bias without a device loads its weights.

    `load_state_dict(..., assign=True)` replaces parameters that are on the meta device, but not
    what is in no state dict.
    """
    if bias._place.is_meta and not bias._given_slopes.is_meta:
        bias.to_empty(device=torch.get_default_device())


def _next_power_of_two(length: int) -> int:
    return 1 << max(length - 1, 0).bit_length()


def shared_bias(slopes: Tensor, *, causal: bool) -> AlibiBias | None:
    """Return the CPU `AlibiBias` that all layers with these slopes share.

    It is "relative" and masked if causal, otherwise "symmetric". Returns None for float64, and
    where reading the slopes would stall a GPU, break a graph or lose a derivative.
    """
    if slopes.dtype == torch.float64 or not slopes.is_cpu or torch.compiler.is_compiling():
        return None
    if slopes.requires_grad and torch.is_grad_enabled():
        return None
    is_wrapped = unwrapped(slopes) is not slopes
    if is_wrapped or unpack_dual(slopes).tangent is not None:
        return None
    return _shared_bias(tuple(slopes.tolist()), causal)


@lru_cache(maxsize=8)
def _shared_bias(slopes: tuple[float, ...], causal: bool) -> AlibiBias:
    form = "relative" if causal else "symmetric"
    # Independent of the mode and the device of the first caller.
    with torch.inference_mode(False), torch.device("cpu"):
        values = torch.tensor(slopes, dtype=torch.float32)
        return AlibiBias(len(slopes), slopes=values, form=form, causal=causal)
