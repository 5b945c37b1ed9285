"""Biases that are computed once: the module `AlibiBias`, and the one that layers share."""

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
    outside_transforms,
    unwrapped,
)
from alibi_viz.bias import FORMS, alibi_bias, check_lengths, mask_future
from alibi_viz.slopes import MAX_HEADS, alibi_slopes


class AlibiBias(nn.Module):
    """Cached biases: `bias(query_length, key_length=None, *, dtype=torch.float32)`.

    A call has the arguments of `alibi_bias` and returns [heads, query, key], or [heads, 1, key] for
    the forms "key" and "end". It is a view of the cache: read it, don't write to it. Lengths are
    rounded up to powers of two, so growing inputs rebuild the cache only a few times, and smaller
    biases are slices of larger ones. Inside `torch.compile` nothing is cached, and one graph serves
    all lengths.

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
        self._cache: dict[torch.dtype, tuple[Tensor, ...]] = {}

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
        self._cache.clear()  # its biases are on the earlier device
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
        """A cached bias of at least this size on the device of the slopes, if there is one."""
        device = self.slopes.device
        for bias in self._cache.get(dtype, ()):
            is_here = bias.device == device
            if is_here and bias.shape[1] >= query_length and bias.shape[2] >= key_length:
                return bias
        return None

    def _grow(self, query_length: int, key_length: int, dtype: torch.dtype) -> Tensor:
        """Cache a bias of at least this size, and drop the cached ones that it contains."""
        rows = _next_power_of_two(query_length)
        columns = _next_power_of_two(key_length)
        with torch.inference_mode(False):  # autograd cannot use tensors created in inference mode
            bias = self._build(rows, columns, dtype)
        kept = []
        for cached in self._cache.get(dtype, ()):
            is_contained = cached.shape[1] <= rows and cached.shape[2] <= columns
            if not is_contained:
                kept.append(cached)
        self._cache[dtype] = (*kept, bias)
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
    with outside_transforms():
        values = tuple(slopes.tolist())
    return _shared_bias(values, causal)


@lru_cache(maxsize=8)
def _shared_bias(slopes: tuple[float, ...], causal: bool) -> AlibiBias:
    form = "relative" if causal else "symmetric"
    # Independent of the mode and the device of the first caller.
    with torch.inference_mode(False), torch.device("cpu"):
        values = torch.tensor(slopes, dtype=torch.float32)
        return AlibiBias(len(slopes), slopes=values, form=form, causal=causal)
