"""The bias as a module that remembers what it was asked for, and answers a smaller question with a slice of it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from alibi_viz.bias import FORMS, alibi_bias, check_slopes
from alibi_viz.distance import causal_mask, fitting_lengths
from alibi_viz.slopes import alibi_slopes

__all__ = ["AlibiBias"]


class AlibiBias(nn.Module):
    """The bias as a module that remembers: `bias(query_length, key_length) -> [total_heads, query, key]`.

    The largest bias asked for so far is kept for each device and dtype and grows by doubling, so a run with ever
    longer inputs builds it a handful of times. A smaller request is a slice of its *lower right* corner, where the
    queries are the last keys; the upper left corner would be another bias whenever there are more keys than queries.

    The cache is no part of the state dict, and the slopes stay float32 through `.half()` and `.to(dtype)`: a
    rounded slope is a different head. What a call gives is a view into the cache, to be read and not written. Inside
    `torch.compile` nothing is kept, and one graph serves all lengths.

    Args:
        num_heads: heads with a bias.
        total_heads: all heads; those beyond `num_heads` get bias zero. `num_heads` by default.
        scheme, bias_max: as in `alibi_slopes`.
        form: as in `alibi_bias`.
        causal: put -inf on the keys after each query, ready to be an attention mask; form "relative" only.
        slopes: [num_heads], given instead of a scheme.

    Raises TypeError and ValueError as `alibi_slopes` and `alibi_bias` do.

    >>> bias = AlibiBias(8)
    >>> bias(3, 5).shape
    torch.Size([8, 3, 5])
    >>> list(bias.state_dict())
    []
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
        with torch.device("cpu"):  # also where modules are made on the meta device, to be filled later
            values = alibi_slopes(num_heads, scheme, bias_max=bias_max, total_heads=total_heads)
        if slopes is not None:
            check_slopes("slopes", slopes)
            if len(slopes) != num_heads:
                raise ValueError(f"slopes must be [num_heads] = [{num_heads}], got shape {list(slopes.shape)}")
            if slopes.is_meta:  # then nobody knows what they are
                values = values.to("meta")
            values[:num_heads] = slopes.detach().to(values)
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
        if causal and form != "relative":
            raise ValueError(f"causal=True needs form 'relative', got {form!r}")
        self.form, self.causal, self.num_heads = form, causal, num_heads
        self._made_with = values
        self.register_buffer("slopes", values.to(torch.get_default_device()), persistent=False)
        self._cache: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    def forward(
        self, query_length: int, key_length: int | None = None, *, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        key_length = fitting_lengths(query_length, key_length)
        if torch.compiler.is_compiling():
            return self._build(query_length, key_length, dtype)
        slot = (self.slopes.device, dtype)
        known = self._cache.get(slot)
        if known is None or known.shape[-1] < key_length:
            size = 1 << max(key_length - 1, 0).bit_length()  # the next power of two
            with torch.inference_mode(False):  # what is kept must serve a later call that trains
                known = self._build(size, size, dtype)
            self._cache[slot] = known
        size = known.shape[-1]  # narrow is one operation, where slices in brackets are one an axis
        if self.form == "key":  # counts from the first key, so its slice starts there
            return known.narrow(2, 0, key_length)
        known = known.narrow(2, size - key_length, key_length)
        return known if self.form == "end" else known.narrow(1, size - query_length, query_length)

    def _build(self, query_length: int, key_length: int, dtype: torch.dtype) -> Tensor:
        biased, rest = self.slopes[: self.num_heads], len(self.slopes) - self.num_heads
        bias = alibi_bias(biased, query_length, key_length, form=self.form, dtype=dtype)
        bias = pad(bias, (0, 0, 0, 0, 0, rest))  # zeros; a form may treat its heads unlike, so the rest stays out
        if not self.causal:
            return bias
        return bias.masked_fill(~causal_mask(query_length, key_length, device=bias.device), float("-inf"))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "AlibiBias":
        """Follow a change of device but not of dtype, and drop what was cached for the old device."""
        exact = self._made_with if self.slopes.is_meta else self.slopes
        super()._apply(fn, recurse)
        if exact.is_meta and not self.slopes.is_meta:
            raise ValueError("the slopes were given on the meta device, so nobody knows them: make them on the CPU")
        self.slopes = exact.to(self.slopes.device)
        self._cache.clear()
        return self

    def extra_repr(self) -> str:
        return f"{len(self.slopes)} heads, form={self.form!r}, causal={self.causal}"
