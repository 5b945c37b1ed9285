"""Multi-head self-attention with any position method, and a ready-made module with ALiBi."""

from typing import Any

import torch
from torch import Tensor, nn

from alibi_viz.arguments import check_dropout, check_positive_integers
from alibi_viz.attention import AttentionTrace, attention_trace
from alibi_viz.attention.inputs import autocast_dtype
from alibi_viz.models.key_value_cache import KeyValueCache
from alibi_viz.models.positions import Alibi, Position

__all__ = ["AlibiSelfAttention", "SelfAttention"]


class SelfAttention(nn.Module):
    """Self-attention with a position method: [batch, length, d_model] to the same shape.

    Args:
        position: the position method.
        d_model: channels of the input, a multiple of `num_heads`.
        num_heads: number of query heads.
        num_key_heads: number of key and value heads, a divisor of `num_heads` and equal to it by default. With fewer,
            this is grouped-query attention.
        causal: True for a decoder, False for an encoder.
        dropout: probability of dropping an attention weight during training.
        bias: whether the projections have a bias term.

    Raises TypeError if `dropout` is not a number, and ValueError when the sizes do not fit, or for an encoder with a
    position method for decoders only.
    """

    def __init__(
        self,
        position: Position,
        d_model: int,
        num_heads: int,
        *,
        num_key_heads: int | None = None,
        causal: bool = True,
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        num_key_heads = num_heads if num_key_heads is None else num_key_heads
        check_positive_integers(d_model=d_model, num_heads=num_heads, num_key_heads=num_key_heads)
        if d_model % num_heads:
            raise ValueError(f"d_model must be a multiple of num_heads={num_heads}, got {d_model}")
        if num_heads % num_key_heads:
            raise ValueError(f"num_key_heads must be a divisor of num_heads={num_heads}, got {num_key_heads}")
        check_dropout(dropout)
        position.check_causal(causal)
        self.position = position
        self.d_model, self.causal, self.dropout = d_model, causal, dropout
        self.sizes = (num_heads, num_key_heads, num_key_heads)
        self.head_dim = d_model // num_heads
        self.qkv = nn.Linear(d_model, sum(self.sizes) * self.head_dim, bias=bias)
        self.output = nn.Linear(d_model, d_model, bias=bias)

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project `x` to queries [batch, heads, length, head_dim], keys and values [batch, key_heads, ...]."""
        weight = self.qkv.weight
        dtype = weight.dtype if isinstance(weight, Tensor) else torch.float32  # quantization makes it a method
        is_cast = isinstance(x, Tensor) and x.is_floating_point() and autocast_dtype(x) is not None
        if not isinstance(x, Tensor) or (x.dtype != dtype and not is_cast):
            got = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"x must be {dtype}, like the weights, [batch, length, d_model={self.d_model}], got {got}")
        if x.ndim != 3 or x.shape[-1] != self.d_model:
            raise ValueError(f"x must be [batch, length, d_model={self.d_model}], got shape {list(x.shape)}")
        heads = self.qkv(x).unflatten(-1, (sum(self.sizes), self.head_dim)).transpose(1, 2)
        query, key, value = heads.split(self.sizes, dim=1)
        return query, key, value

    def forward(
        self,
        x: Tensor,
        cache: KeyValueCache | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        last: int | None = None,
    ) -> Tensor:
        """Attend to the tokens of `x` and to cached tokens. The keys and values of `x` are added to the cache.

        With `last`, only that many positions at the end of `x` attend, and the output has only those.

        `key_padding_mask` is bool [batch, length], True for a real token, and covers all cached tokens too; only ALiBi
        takes one. Raises TypeError or ValueError when the input does not fit; the cache is then unchanged.
        """
        if cache is not None and not self.causal:
            raise ValueError("an encoder has no cache: each new token changes the output of all others")
        if key_padding_mask is not None and not isinstance(self.position, Alibi):
            raise TypeError(
                f"key_padding_mask must be None, because only ALiBi takes one, not {type(self.position).__name__}"
            )
        if last is not None:
            check_positive_integers(last=last)
        options: dict[str, Any] = {} if key_padding_mask is None else {"key_padding_mask": key_padding_mask}
        query, key, value = self.heads(x)
        query = query if last is None else query[:, :, -last:]
        length = 0 if cache is None else cache.length
        if cache is not None:
            # keys are cached before `transform`, since a rotation depends on their position only
            key, value, *inputs = cache.append(key, value, *([x] if self.position.reads_input else []))
            x = inputs[0] if inputs else x
            if self.position.uses_key_ball:
                options["key_ball"] = cache.key_ball
        dropout = self.dropout if self.training else 0.0
        try:
            attended = self.position.attend(query, key, value, causal=self.causal, dropout=dropout, x=x, **options)
        except (TypeError, ValueError):
            if cache is not None:
                cache.length = length
            raise
        return self.output(attended.transpose(1, 2).flatten(2))  # [batch, length, heads * head_dim]


class AlibiSelfAttention(SelfAttention):
    """Self-attention with ALiBi as its only position method: [batch, length, d_model] to the same shape, at any length.

    Args:
        d_model, num_heads, num_key_heads, dropout, bias: as in `SelfAttention`.
        causal: True for a decoder, False for an encoder with bias -m |i - j|.
        scheme: slopes, as in `alibi_slopes`.
        slopes: [num_heads], instead of a scheme.
        learned_slopes: make the slopes trainable.

    Call it with `x`, and optionally with a `KeyValueCache` and a `key_padding_mask` (bool [batch, length], True for a
    real token). Raises TypeError or ValueError when the sizes or an input do not fit.

    >>> attention = AlibiSelfAttention(64, num_heads=8, num_key_heads=2)
    >>> attention(torch.randn(4, 100, 64)).shape
    torch.Size([4, 100, 64])
    """

    position: Alibi

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
        position = Alibi(num_heads, causal=causal, scheme=scheme, slopes=slopes, learned=learned_slopes)
        super().__init__(
            position, d_model, num_heads, num_key_heads=num_key_heads, causal=causal, dropout=dropout, bias=bias
        )

    @property
    def slopes(self) -> Tensor:
        """float32 [heads]"""
        return self.position.slopes

    def trace(self, x: Tensor, *, key_padding_mask: Tensor | None = None) -> AttentionTrace:
        """Every step from content to weights, as `forward` computes them without dropout."""
        query, key, _ = self.heads(x)
        return attention_trace(query, key, self.slopes, causal=self.causal, key_padding_mask=key_padding_mask)
