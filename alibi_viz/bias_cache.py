"""A cache of ALiBi biases: large biases are built once, and smaller ones are slices of them."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import unpack_dual
from torch.nn.functional import pad

from alibi_viz.arguments import check_slopes, unwrapped
from alibi_viz.bias import FORMS, alibi_bias, mask_future
from alibi_viz.distance import check_lengths
from alibi_viz.slopes import alibi_slopes

__all__ = ["AlibiBias", "shared_bias"]


class AlibiBias(nn.Module):
    """Cached biases: `bias(query_length, key_length) -> [total_heads, query, key]`.

    A call returns a view of the cache: read it, don't write to it. Lengths are rounded up to powers of two, so growing
    inputs rebuild the cache only a few times. A single query with many keys, as in decoding, builds a single row.
    Inside `torch.compile` nothing is cached, and one graph serves all lengths.

    The cache is not part of the state dict, of copies or of pickles. The slopes stay float32 through `.half()` and
    `.to(dtype)`.

    Args:
        num_heads: number of heads with a bias.
        total_heads: number of all heads, `num_heads` by default; additional heads get bias zero.
        scheme, bias_max: as in `alibi_slopes`.
        form: as in `alibi_bias`.
        causal: set the bias of keys after each query to -inf, so that the result is an attention mask; only with form
            "relative".
        slopes: [num_heads], used instead of a scheme.

    Raises TypeError and ValueError as `alibi_slopes` and `alibi_bias` do.

    >>> bias = AlibiBias(8)
    >>> bias(3, 5).shape
    torch.Size([8, 3, 5])
    """

    slopes: Tensor

    def __init__(
        self,
        num_heads: int,
        total_heads: int | None = None,
        *,
        scheme: str = "official",
        bias_max: float = 8.0,
        form: str = "relative",
        causal: bool = False,
        slopes: Tensor | None = None,
    ) -> None:
        super().__init__()
        with torch.device("cpu"):  # slopes have values even when the module is created on the meta device
            values = alibi_slopes(num_heads, scheme, bias_max=bias_max, total_heads=total_heads)
        if slopes is not None:
            check_slopes("slopes", slopes)
            if len(slopes) != num_heads:
                raise ValueError(f"slopes must be [num_heads] = [{num_heads}], got shape {list(slopes.shape)}")
            if slopes.is_meta:
                values = values.to("meta")
            values[:num_heads] = slopes.detach().to(values)
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
        if causal and form != "relative":
            raise ValueError(f"causal=True needs form 'relative', got {form!r}")
        self.form, self.causal, self.num_heads = form, causal, num_heads
        self._initial_slopes = values
        self.register_buffer("slopes", values.to(torch.get_default_device()), persistent=False)
        self._cache: dict[tuple[torch.device, torch.dtype], tuple[Tensor, ...]] = {}

    def forward(
        self, query_length: int, key_length: int | None = None, *, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        key_length = check_lengths(query_length, key_length)
        if torch.compiler.is_compiling():
            return self._build(query_length, key_length, dtype)
        if self.form in ("key", "end"):  # these forms have a single row for all queries
            query_length = 1
        for cached in self._cache.get((self.slopes.device, dtype), ()):
            _, rows, columns = cached.shape
            if rows >= query_length and columns >= key_length:
                break
        else:
            cached = self._grow(query_length, key_length, dtype)
            _, rows, columns = cached.shape
        # The queries are the last keys, so slices end in the lower right corner; only "key" counts from the first key.
        if columns != key_length:
            cached = cached.narrow(2, 0 if self.form == "key" else columns - key_length, key_length)
        return cached if rows == query_length else cached.narrow(1, rows - query_length, query_length)

    def _grow(self, query_length: int, key_length: int, dtype: torch.dtype) -> Tensor:
        """Build and cache a bias of at least this size, and drop the cached ones that it contains."""
        rows, columns = (1 << max(length - 1, 0).bit_length() for length in (query_length, key_length))
        with torch.inference_mode(False):  # autograd cannot use tensors created in inference mode
            bias = self._build(rows, columns, dtype)
        slot = self.slopes.device, dtype
        remaining = (old for old in self._cache.get(slot, ()) if old.shape[1] > rows or old.shape[2] > columns)
        self._cache[slot] = (*remaining, bias)
        return bias

    def _build(self, query_length: int, key_length: int, dtype: torch.dtype) -> Tensor:
        bias = alibi_bias(self.slopes[: self.num_heads], query_length, key_length, form=self.form, dtype=dtype)
        # Pad the bias with zeros. Zero slopes would differ in form "split", which masks keys whatever the slope is.
        bias = pad(bias, (0, 0, 0, 0, 0, len(self.slopes) - self.num_heads))
        return mask_future(bias) if self.causal else bias

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "AlibiBias":
        """Move the slopes to a new device but keep their dtype, and clear the cache."""
        exact = self._initial_slopes if self.slopes.is_meta else self.slopes
        super()._apply(fn, recurse)
        if exact.is_meta and not self.slopes.is_meta:
            raise ValueError("slopes were given on the meta device and have no values: create them on the CPU")
        self.slopes = exact.to(self.slopes.device)
        self._cache.clear()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles start with an empty cache."""
        return self.__dict__ | {"_cache": {}}

    def extra_repr(self) -> str:
        return f"{len(self.slopes)} heads, form={self.form!r}, causal={self.causal}"


def shared_bias(slopes: Tensor, *, causal: bool) -> AlibiBias | None:
    """Return the CPU `AlibiBias` that all layers with these slopes share: "relative" and masked, or "symmetric".

    It is found by the values of the slopes, in an LRU cache of eight. Returns None where reading them would stall a
    GPU, break a compiled graph or lose a derivative, and for float64, because `AlibiBias` stores float32.
    """
    if slopes.dtype == torch.float64 or not slopes.is_cpu or torch.compiler.is_compiling():
        return None
    has_gradient = slopes.requires_grad and torch.is_grad_enabled()
    if has_gradient or unwrapped(slopes) is not slopes or unpack_dual(slopes).tangent is not None:
        return None
    return _shared_bias(tuple(slopes.tolist()), causal)


@lru_cache(maxsize=8)
def _shared_bias(slopes: tuple[float, ...], causal: bool) -> AlibiBias:
    with torch.inference_mode(False), torch.device("cpu"):  # independent of the first caller's mode and device
        values = torch.tensor(slopes, dtype=torch.float32)
        return AlibiBias(len(slopes), slopes=values, form="relative" if causal else "symmetric", causal=causal)
