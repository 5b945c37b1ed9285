"""What all implementations of attention share: the arguments of a call, their checks, and the `Backend` record."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz.arguments import check_dropout, check_number, check_slopes, check_tensor
from alibi_viz.attention.key_statistics import KeyStatistics
from alibi_viz.bias import bias_from_positions, exact_dtype
from alibi_viz.distance import causal_mask

__all__ = ["AttentionInputs", "Backend", "autocast_dtype"]


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
    tolerance: float | None = None
    key_statistics: KeyStatistics | Callable[[], KeyStatistics] | None = None

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

    @property
    def slopes_need_gradients(self) -> bool:
        """Whether autograd records this call for the slopes."""
        return self.slopes is not None and self.slopes.requires_grad and torch.is_grad_enabled()

    @property
    def mask_dtype(self) -> torch.dtype:
        """The dtype of a bias that is passed to torch's fused attention as a float mask.

        Half precision would round the bias. Only the kernel for the CPU accepts a float32 mask beside such a query.
        """
        return exact_dtype(self.query.dtype) if self.query.is_cpu else self.query.dtype

    def key_positions(self) -> Tensor:
        """Positions of the keys, int64 [key] or [batch, key]; the last of them are those of the queries."""
        if self.positions is None:
            return torch.arange(self.key_length, device=self.key.device)
        return self.positions.long()

    def bias(self, dtype: torch.dtype) -> Tensor:
        """[1 or batch, heads, query, key]: computed in float32 or more, and cast last."""
        if self.slopes is None:
            return self.query.new_zeros(1, 1, self.query_length, self.key_length, dtype=dtype)
        keys = self.key_positions()
        queries = keys[..., self.key_length - self.query_length :]
        form = "relative" if self.causal else "symmetric"
        bias = bias_from_positions(self.slopes, queries, keys, form=form, dtype=dtype)
        return bias if bias.ndim == 4 else bias[None]

    def visible(self) -> Tensor:
        """True where a query may attend to a key: bool, broadcastable to [batch, heads, query, key]."""
        visible = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=self.query.device)
        if self.causal:
            visible = causal_mask(self.query_length, self.key_length, device=self.query.device)[None, None]
        if self.key_padding_mask is not None:
            visible = visible & self.key_padding_mask[:, None, None, :]
        return visible if self.attn_mask is None else visible & self.attn_mask

    def statistics(self) -> KeyStatistics:
        """The statistics of the keys and values: those given, or computed from the tensors."""
        given = self.key_statistics
        if given is None:
            return KeyStatistics.of(self.key, self.value)
        statistics = given() if callable(given) else given
        batch, heads, _, head_dim = self.key.shape
        got = list(statistics.center.shape), list(statistics.radius.shape)
        if got != (expected := ([batch, heads, 1, head_dim], [batch, heads])):
            raise ValueError(f"center and radius of key_statistics must be {expected} to match key, got {got}")
        return statistics

    def fused_attention(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        """Call torch's fused attention with the dropout, scale and head groups of these inputs."""
        options |= {"dropout_p": self.dropout, "scale": self.scaling, "enable_gqa": self.group_size > 1}
        if autocast_dtype(query) is None:
            return scaled_dot_product_attention(query, key, value, **options)
        # The tensors are cast already (`autocast`), and casting a float32 mask would round the bias.
        with torch.autocast(query.device.type, enabled=False):
            return scaled_dot_product_attention(query, key, value, **options)

    def autocast(self) -> "AttentionInputs":
        """Return these inputs with query, key and value cast as torch's fused attention does under autocast.

        `key_statistics` are those of the keys before rounding, so a cast drops them.
        """
        dtype = autocast_dtype(self.query)
        if dtype in (None, self.query.dtype):
            return self
        query, key, value = (tensor.to(dtype) for tensor in (self.query, self.key, self.value))
        return self._replace(query=query, key=key, value=value, key_statistics=None)

    def check(self) -> "AttentionInputs":
        """Return these inputs; raise TypeError or ValueError naming the tensor, its shape and the expected axes."""
        self._check_tensors()
        self._check_options()
        check_dropout(self.dropout)
        check_number("scale", self.scaling)
        if not math.isfinite(self.scaling):
            raise ValueError(f"scale must be a finite number, got {self.scale!r}")
        if self.tolerance is not None:
            check_number("tolerance", self.tolerance)
            if not 0 < self.tolerance < 1:
                raise ValueError(f"tolerance must be between 0 and 1, or None, got {self.tolerance!r}")
        given = self.key_statistics
        if not (given is None or isinstance(given, KeyStatistics) or callable(given)):
            got = type(given).__name__
            raise TypeError(f"key_statistics must be KeyStatistics or a function that returns them, got {got}")
        return self

    def _check_tensors(self) -> None:
        for name, tensor in (("query", self.query), ("key", self.key), ("value", self.value)):
            check_tensor(name, tensor, "floating-point", "[batch, heads, length, head_dim]", ndim=4)
            if tensor.dtype != self.query.dtype or tensor.device != self.query.device:
                raise TypeError(
                    f"{name} must have the dtype and device of query, {self.query.dtype} on {self.query.device}, "
                    f"got {tensor.dtype} on {tensor.device}"
                )
        batch, heads, query_length, head_dim = self.query.shape
        if heads < 1 or head_dim < 1:
            raise ValueError(f"query must have at least one head and one channel, got shape {list(self.query.shape)}")
        key_batch, key_heads, key_length, key_dim = self.key.shape
        if (key_batch, key_dim) != (batch, head_dim) or key_heads < 1 or heads % key_heads:
            raise ValueError(
                f"key must be [batch, heads, key, head_dim] = [{batch}, {heads} or a divisor of it, {key_length}, "
                f"{head_dim}] to match query, got {list(self.key.shape)}"
            )
        if self.value.shape != self.key.shape:
            raise ValueError(
                f"value must be [batch, heads, key, head_dim] = {list(self.key.shape)} to match key, "
                f"got {list(self.value.shape)}"
            )
        if query_length > key_length:
            raise ValueError(f"query length {query_length} must be at most the key length {key_length}")

    def _check_options(self) -> None:
        batch, heads, query_length, _ = self.query.shape
        padding_shape, mask_shape = [batch, self.key_length], [batch, heads, query_length, self.key_length]
        slopes, padding, mask, positions = self.slopes, self.key_padding_mask, self.attn_mask, self.positions
        if slopes is not None:
            check_slopes("slopes", slopes)
            if len(slopes) != heads:
                raise ValueError(f"slopes must be [heads] = [{heads}] to match query, got shape {list(slopes.shape)}")
        if padding is not None:
            check_tensor("key_padding_mask", padding, "bool", "[batch, key]")
            if list(padding.shape) != padding_shape:
                raise ValueError(f"key_padding_mask must be [batch, key] = {padding_shape}, got {list(padding.shape)}")
        if mask is not None:
            check_tensor("attn_mask", mask, "bool", "[batch, heads, query, key]")
            if mask.ndim != 4 or any(size not in (1, full) for size, full in zip(mask.shape, mask_shape, strict=True)):
                expected = f"[batch, heads, query, key] = {mask_shape}"
                raise ValueError(f"attn_mask must broadcast to {expected}, got {list(mask.shape)}")
        if positions is not None:
            check_tensor("positions", positions, "integer", "[key] or [batch, key]")
            if list(positions.shape) not in (padding_shape, padding_shape[1:]):
                expected = f"[key] = {padding_shape[1:]} or [batch, key] = {padding_shape}"
                raise ValueError(f"positions must be {expected}, got {list(positions.shape)}")
        named = {"slopes": slopes, "key_padding_mask": padding, "attn_mask": mask, "positions": positions}
        for name, tensor in named.items():
            if tensor is not None and not (tensor.is_cpu and self.query.is_cpu) and tensor.device != self.query.device:
                raise ValueError(f"{name} must be on the device of query, {self.query.device}, got {tensor.device}")


class Backend(NamedTuple):
    """An exact implementation of ALiBi attention."""

    name: str  # the `backend` argument of `alibi_attention` that selects it
    attend: Callable[[AttentionInputs], Tensor]  # computes the output, [batch, heads, query, head_dim]
    # why it cannot compute these inputs; None if it can
    unsupported_reason: Callable[[AttentionInputs], str | None] = lambda inputs: None
