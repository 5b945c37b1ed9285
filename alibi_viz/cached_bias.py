"""Biases that are computed once: the module `AlibiBias`, and the one that layers share."""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import unpack_dual
from torch.nn.functional import pad

from alibi_viz.arguments import (
    can_be_read,
    check_choice,
    check_flag,
    check_integer,
    check_slopes,
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
    `.half()` doesn't round them. They are on the CPU as long as the module is on "meta".

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
        if slopes is None:
            with torch.device("cpu"):  # they have values also if the default device is "meta"
                slopes = alibi_slopes(num_heads, scheme)
        check_slopes("slopes", slopes)
        if len(slopes) != num_heads:
            raise ValueError(
                f"slopes must be [num_heads] = [{num_heads}], got shape {list(slopes.shape)}"
            )
        values = slopes.detach().to("cpu", torch.float32, copy=True)
        if total_heads is not None:
            total_heads = check_integer("total_heads", total_heads, num_heads, MAX_HEADS)
            values = pad(values, (0, total_heads - num_heads))
        check_choice("form", form, FORMS)
        check_flag("causal", causal)
        if causal and form != "relative":
            raise ValueError(f"causal=True needs form 'relative', got {form!r}")

        self.form = form
        self.causal = causal
        # The slopes are no buffer, which `.half()` would round. An empty buffer goes where the
        # module goes, and the slopes follow it.
        self._values = values  # on the CPU
        self._slopes = values  # on the device of the module
        self.register_buffer("_place", torch.empty(0), persistent=False)
        self._cache: dict[tuple[Any, ...], Tensor] = {}

    @property
    def slopes(self) -> Tensor:
        """float32 [heads], on the device of the module."""
        # The weights of a model on "meta" may be loaded with `assign=True`, which doesn't move it.
        device = self._values.device if self._place.is_meta else self._place.device
        if self._slopes.device != device:
            with torch.inference_mode(False):  # autograd can't use tensors of inference mode
                self._slopes = self._values.to(device)
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
        rows = _next_power_of_two(query_length)
        columns = _next_power_of_two(key_length)
        size = (rows, columns, dtype, self.slopes.device)
        if size not in self._cache:
            with torch.inference_mode(False):
                self._cache[size] = self._build(rows, columns, dtype)
        # The queries are the last keys, so slices end in the lower right corner; only "key" counts
        # from the first key.
        bias = self._cache[size]
        if columns != key_length:
            first_key = 0 if self.form == "key" else columns - key_length
            bias = bias.narrow(2, first_key, key_length)
        if rows != query_length:
            bias = bias.narrow(1, rows - query_length, query_length)
        return bias

    def _build(self, query_length: int, key_length: int, dtype: torch.dtype) -> Tensor:
        bias = alibi_bias(self.slopes, query_length, key_length, form=self.form, dtype=dtype)
        return mask_future(bias) if self.causal else bias

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles start with an empty cache."""
        return super().__getstate__() | {"_cache": {}}

    def extra_repr(self) -> str:
        return f"{len(self._values)} heads, form={self.form!r}, causal={self.causal}"


def _next_power_of_two(length: int) -> int:
    return 1 << max(length - 1, 0).bit_length()


def shared_bias(slopes: Tensor, *, causal: bool) -> AlibiBias | None:
    """Return the CPU `AlibiBias` that all layers with these slopes share.

    It is "relative" and masked if causal, otherwise "symmetric". Returns None for float64, and
    where reading the slopes would stall a GPU, break a graph or lose a derivative.
    """
    if slopes.dtype == torch.float64 or not can_be_read(slopes):
        return None
    if slopes.requires_grad and torch.is_grad_enabled():
        return None
    if unpack_dual(slopes).tangent is not None:
        return None
    return _shared_bias(tuple(slopes.tolist()), causal)


@lru_cache(maxsize=8)
def _shared_bias(slopes: tuple[float, ...], causal: bool) -> AlibiBias:
    form = "relative" if causal else "symmetric"
    # Independent of the mode and the device of the first caller.
    with torch.inference_mode(False), torch.device("cpu"):
        values = torch.tensor(slopes, dtype=torch.float32)
        return AlibiBias(len(slopes), slopes=values, form=form, causal=causal)
