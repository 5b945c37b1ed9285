"""The arguments of attention: their checks, and the bias and visibility mask computed from them."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from alibi_viz.bias import bias_from_positions
from alibi_viz.distance import causal_mask, is_integer
from alibi_viz.slopes import check_slopes

__all__ = ["AttentionInputs", "autocast_dtype"]


def autocast_dtype(tensor: Tensor) -> torch.dtype | None:
    """The dtype to which autocast casts a tensor before a matrix product; None if it keeps its dtype."""
    device_type = tensor.device.type
    try:
        enabled = torch.is_autocast_enabled(device_type)
    except RuntimeError:  # autocast does not exist on the meta device
        return None
    return torch.get_autocast_dtype(device_type) if enabled and tensor.dtype != torch.float64 else None


class AttentionInputs(NamedTuple):
    """The arguments of `alibi_attention`, which documents them."""

    query: Tensor
    key: Tensor
    value: Tensor
    slopes: Tensor | None
    causal: bool = True
    key_padding_mask: Tensor | None = None
    attn_mask: Tensor | None = None
    positions: Tensor | None = None
    scale: float | None = None
    dropout: float = 0.0

    @property
    def query_length(self) -> int:
        return self.query.shape[2]

    @property
    def key_length(self) -> int:
        return self.key.shape[2]

    @property
    def group_size(self) -> int:
        """Number of query heads that share a key head."""
        return self.query.shape[1] // self.key.shape[1]

    @property
    def scaling(self) -> float:
        """The factor of q . k: `scale`, or its default 1 / sqrt(head_dim)."""
        return 1 / math.sqrt(self.query.shape[-1]) if self.scale is None else self.scale

    @property
    def has_mask(self) -> bool:
        """Whether a padding or attention mask is given, so that a query may have no visible key."""
        return self.key_padding_mask is not None or self.attn_mask is not None

    @property
    def needs_gradients(self) -> bool:
        """Whether autograd records this call."""
        tensors = (self.query, self.key, self.value, self.slopes)
        return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)

    def key_positions(self) -> Tensor:
        """Positions of the keys, int64 [key] or [batch, key]; the last of them are those of the queries."""
        return (
            torch.arange(self.key_length, device=self.key.device) if self.positions is None else self.positions.long()
        )

    def bias(self) -> Tensor:
        """[1 or batch, heads, query, key] in the dtype of the query: computed in float32 and cast last."""
        if self.slopes is None:
            return self.query.new_zeros(1, 1, self.query_length, self.key_length)
        keys = self.key_positions()
        queries = keys[..., self.key_length - self.query_length :]
        form = "relative" if self.causal else "symmetric"
        bias = bias_from_positions(self.slopes, queries, keys, form=form, dtype=self.query.dtype)
        return bias if bias.ndim == 4 else bias[None]

    def visible(self) -> Tensor:
        """True where a query may attend to a key: bool, broadcastable to [batch, heads, query, key]."""
        visible = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=self.query.device)
        if self.causal:
            visible = causal_mask(self.query_length, self.key_length, device=self.query.device)[None, None]
        if self.key_padding_mask is not None:
            visible = visible & self.key_padding_mask[:, None, None, :]
        return visible if self.attn_mask is None else visible & self.attn_mask

    def autocast(self) -> "AttentionInputs":
        """Return these inputs with query, key and value cast as torch's fused attention does under autocast."""
        dtype = autocast_dtype(self.query)
        if dtype is None:
            return self
        return self._replace(query=self.query.to(dtype), key=self.key.to(dtype), value=self.value.to(dtype))

    def check(self) -> "AttentionInputs":
        """Return these inputs; raise TypeError or ValueError naming the tensor, its shape and the expected axes."""
        self._check_tensors()
        self._check_sizes()
        self._check_slopes()
        self._check_masks()
        for name, number in (("dropout", self.dropout), ("scale", self.scaling)):
            if isinstance(number, bool) or not isinstance(number, int | float | torch.SymFloat):
                raise TypeError(f"{name} must be a number, got {number!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {self.dropout!r}")
        if not math.isfinite(self.scaling):
            raise ValueError(f"scale must be a finite number, got {self.scale!r}")
        return self

    def _check_tensors(self) -> None:
        for name, tensor in (("query", self.query), ("key", self.key), ("value", self.value)):
            if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
                got = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
                raise TypeError(f"{name} must be a floating-point tensor [batch, heads, length, head_dim], got {got}")
            if tensor.ndim != 4:
                raise ValueError(f"{name} must be [batch, heads, length, head_dim], got shape {list(tensor.shape)}")
            if tensor.dtype != self.query.dtype or tensor.device != self.query.device:
                raise TypeError(
                    f"{name} must have the dtype and device of query, {self.query.dtype} on {self.query.device}, "
                    f"got {tensor.dtype} on {tensor.device}"
                )

    def _check_sizes(self) -> None:
        batch, heads, query_length, head_dim = self.query.shape
        if heads < 1 or head_dim < 1:
            raise ValueError(f"query must have at least one head and one channel, got shape {list(self.query.shape)}")
        key_heads, key_length = self.key.shape[1], self.key.shape[2]
        if [self.key.shape[0], self.key.shape[3]] != [batch, head_dim] or key_heads < 1 or heads % key_heads:
            raise ValueError(
                f"key must be [batch, heads, key, head_dim] = [{batch}, {heads} or a divisor of it, {key_length}, "
                f"{head_dim}] to match query, got {list(self.key.shape)}"
            )
        expected = [batch, key_heads, key_length, head_dim]
        if list(self.value.shape) != expected:
            raise ValueError(
                f"value must be [batch, heads, key, head_dim] = {expected} to match key, got {list(self.value.shape)}"
            )
        if query_length > key_length:
            raise ValueError(f"query length {query_length} must be at most the key length {key_length}")

    def _check_slopes(self) -> None:
        if self.slopes is None:
            return
        check_slopes("slopes", self.slopes)
        if len(self.slopes) != self.query.shape[1]:
            raise ValueError(
                f"slopes must be [heads] = [{self.query.shape[1]}] to match query, got shape {list(self.slopes.shape)}"
            )
        self._check_device("slopes", self.slopes)

    def _check_masks(self) -> None:
        expected = [self.query.shape[0], self.key_length]
        padding, mask, positions = self.key_padding_mask, self.attn_mask, self.positions
        if padding is not None:
            self._check_dtype("key_padding_mask", padding, "bool, True for a real token", _is_bool)
            if list(padding.shape) != expected:
                raise ValueError(f"key_padding_mask must be [batch, key] = {expected}, got {list(padding.shape)}")
        if mask is not None:
            self._check_dtype("attn_mask", mask, "bool, True where a query may attend", _is_bool)
            full = [*self.query.shape[:3], self.key_length]
            if mask.ndim != 4 or any(actual not in (1, size) for actual, size in zip(mask.shape, full, strict=True)):
                raise ValueError(
                    f"attn_mask must broadcast to [batch, heads, query, key] = {full}, got {list(mask.shape)}"
                )
        if positions is not None:
            self._check_dtype("positions", positions, "integers", is_integer)
            shape = list(positions.shape)
            if shape not in (expected, expected[1:]):
                raise ValueError(f"positions must be [key] = {expected[1:]} or [batch, key] = {expected}, got {shape}")

    def _check_device(self, name: str, tensor: Tensor) -> None:
        if not (tensor.is_cpu and self.query.is_cpu) and tensor.device != self.query.device:
            raise ValueError(f"{name} must be on the device of query, {self.query.device}, got {tensor.device}")

    def _check_dtype(self, name: str, tensor: Tensor, expected: str, fits: Callable[[torch.dtype], bool]) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} must be a tensor of {expected}, got {type(tensor).__name__}")
        if not fits(tensor.dtype):
            raise TypeError(f"{name} must be {expected}, got {tensor.dtype}")
        self._check_device(name, tensor)


def _is_bool(dtype: torch.dtype) -> bool:
    return dtype == torch.bool
