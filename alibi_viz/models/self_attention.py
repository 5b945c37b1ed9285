"""Self-attention with linear biases as a module: projections, grouped heads, learned slopes, a cache."""

import torch
from torch import Tensor, nn

from alibi_viz.attention import AttentionTrace, alibi_attention, attention_trace
from alibi_viz.attention.inputs import autocast_dtype
from alibi_viz.bias_cache import AlibiBias
from alibi_viz.models.key_value_cache import KeyValueCache
from alibi_viz.slopes import LearnedSlopes

__all__ = ["AlibiSelfAttention"]


class AlibiSelfAttention(nn.Module):
    """Self-attention whose only sense of position is ALiBi: [batch, length, d_model] to the same, at any length.

    Args:
        d_model: channels of the input, a multiple of `num_heads`.
        num_heads: query heads.
        num_key_heads: heads of keys and values, a divisor of `num_heads`, for grouped-query attention; as many by
            default.
        causal: True for a decoder, False for an encoder with -m |i - j|.
        scheme: of the slopes, as in `alibi_slopes`.
        slopes: [num_heads], given instead of a scheme.
        learned_slopes: let training change them.
        dropout: probability with which an attention weight is dropped in training.
        bias: whether the projections add a constant.

    Raises ValueError when the sizes do not fit, and at a call ValueError or TypeError when the input does not; what a
    cache holds is then as before.

    >>> attention = AlibiSelfAttention(64, num_heads=8, num_key_heads=2)
    >>> attention(torch.randn(4, 100, 64)).shape
    torch.Size([4, 100, 64])
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_key_heads: int | None = None,
        causal: bool = True,
        scheme: str = "official",
        slopes: Tensor | None = None,
        learned_slopes: bool = False,
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        fixed = AlibiBias(num_heads, scheme=scheme, slopes=slopes)
        num_key_heads = num_heads if num_key_heads is None else num_key_heads
        for name, value, whole, part in (
            ("d_model must be a multiple of", d_model, d_model, num_heads),
            ("num_key_heads must be a divisor of", num_key_heads, num_heads, num_key_heads),
        ):
            if value < 1 or whole % part:
                raise ValueError(f"{name} num_heads={num_heads}, got {value}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {dropout!r}")
        self.d_model, self.causal, self.dropout = d_model, causal, dropout
        self.sizes = (num_heads, num_key_heads, num_key_heads)
        self.head_dim = d_model // num_heads
        self.alibi = LearnedSlopes(fixed.slopes) if learned_slopes else fixed
        self.project = nn.Linear(d_model, sum(self.sizes) * self.head_dim, bias=bias)
        self.output = nn.Linear(d_model, d_model, bias=bias)

    @property
    def slopes(self) -> Tensor:
        """float32 [heads]"""
        return self.alibi() if isinstance(self.alibi, LearnedSlopes) else self.alibi.slopes

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query [batch, heads, length, head_dim]; key and value [batch, key_heads, length, head_dim]."""
        weight = self.project.weight
        dtype = weight.dtype if isinstance(weight, Tensor) else torch.float32  # a method, once quantized
        casts = isinstance(x, Tensor) and x.is_floating_point() and autocast_dtype(x) is not None
        if not isinstance(x, Tensor) or (x.dtype != dtype and not casts):
            got = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(
                f"x must be {dtype}, as the weights are, [batch, length, d_model={self.d_model}], got {got}"
            )
        if x.ndim != 3 or x.shape[-1] != self.d_model:
            raise ValueError(f"x must be [batch, length, d_model={self.d_model}], got shape {list(x.shape)}")
        split = self.project(x).unflatten(-1, (sum(self.sizes), self.head_dim)).transpose(1, 2)
        query, key, value = split.split(self.sizes, dim=1)
        return query, key, value

    def forward(
        self, x: Tensor, *, key_padding_mask: Tensor | None = None, cache: KeyValueCache | None = None
    ) -> Tensor:
        """`key_padding_mask` is bool [batch, length], True for a real token; with a cache, of all tokens so far."""
        if cache is not None and not self.causal:
            raise ValueError("an encoder has no cache: each new token changes what all others see")
        dropout = self.dropout if self.training else 0.0
        query, key, value = self.heads(x)
        before = 0 if cache is None else cache.length
        if cache is not None:
            key, value = cache.append(key, value)
        try:
            attended = alibi_attention(
                query,
                key,
                value,
                self.slopes,
                causal=self.causal,
                key_padding_mask=key_padding_mask,
                dropout=dropout,
            )
        except (TypeError, ValueError):
            if cache is not None:
                cache.length = before  # what was refused is forgotten
            raise
        return self.output(attended.transpose(1, 2).flatten(2))  # [batch, length, heads * head_dim]

    def trace(self, x: Tensor, *, key_padding_mask: Tensor | None = None) -> AttentionTrace:
        """Every step from content to weights, as `forward` computes them without dropout."""
        query, key, _ = self.heads(x)
        return attention_trace(query, key, self.slopes, causal=self.causal, key_padding_mask=key_padding_mask)
