"""Self-attention with any position method, and with ALiBi."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz import arguments
from alibi_viz.attention import dispatch
from alibi_viz.attention.inputs import AttentionInputs, autocast_dtype
from alibi_viz.bias import causal_mask
from alibi_viz.models.cache import KeyValueCache, unchanged_on_error
from alibi_viz.models.positions import Position
from alibi_viz.models.positions.biases import Alibi, is_plain_alibi


class SelfAttention(nn.Module):
    """Self-attention with a position method: [batch, length, d_model] to the same shape.

    This is the inside of a `Transformer`, which checks what it passes on; `AlibiSelfAttention`
    checks its inputs itself.

    Args:
        position: the position method, made for `num_heads` heads.
        d_model: channels of the input, a multiple of `num_heads`.
        num_heads: number of query heads.
        num_key_heads: number of key and value heads, a divisor of `num_heads`, by default equal to
            it.
        causal: True for a decoder, False for an encoder, which some position methods don't support.
        dropout: probability of dropping an attention weight during training.
        bias: whether the projections have a bias term.

    Raises TypeError or ValueError for arguments that do not fit.
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
        if num_key_heads is None:
            num_key_heads = num_heads
        arguments.check_positive_integers(
            d_model=d_model, num_heads=num_heads, num_key_heads=num_key_heads
        )
        if d_model % num_heads:
            raise ValueError(f"d_model must be a multiple of num_heads={num_heads}, got {d_model}")
        if num_heads % num_key_heads:
            raise ValueError(
                f"num_key_heads must be a divisor of num_heads={num_heads}, got {num_key_heads}"
            )
        arguments.check_dropout(dropout)
        arguments.check_flag("bias", bias)
        arguments.check_flag("causal", causal)
        arguments.check_instance("position", position, Position)
        if position.is_causal_only and not causal:
            raise ValueError(
                f"{type(position).__name__} is for decoders only: causal must be True, got False"
            )
        # Not all methods know their number of heads. One for a single head would be broadcast.
        heads_of_position = getattr(position, "num_heads", num_heads)
        if heads_of_position != num_heads:
            raise ValueError(
                f"position must have num_heads={num_heads}, got one with {heads_of_position} heads"
            )
        self.position = position
        self.d_model = d_model
        self.causal = causal
        self.dropout = dropout
        self.sizes = (num_heads, num_key_heads, num_key_heads)  # heads of query, key and value
        self.head_dim = d_model // num_heads
        self.qkv = nn.Linear(d_model, sum(self.sizes) * self.head_dim, bias=bias)
        self.output = nn.Linear(d_model, d_model, bias=bias)

    def check_input(self, x: Tensor) -> None:
        """Check for [batch, length, d_model] in the dtype of the weights, or one that is cast."""
        axes = f"[batch, length, d_model={self.d_model}]"
        arguments.check_tensor("x", x, "floating-point", axes, ndim=3)
        if x.shape[-1] != self.d_model:
            raise ValueError(f"x must be {axes}, got shape {list(x.shape)}")
        weight = self.qkv.weight
        # Quantized weights are a method or integers.
        is_quantized = not isinstance(weight, Tensor) or not weight.is_floating_point()
        dtype = torch.float32 if is_quantized else weight.dtype
        if x.dtype != dtype and autocast_dtype(x) is None:
            raise TypeError(f"x must be {dtype}, like the weights, {axes}, got {x.dtype}")

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project `x` to queries, keys and values.

        Queries are [batch, heads, length, head_dim], keys and values [batch, key_heads, ...].
        """
        heads = self.qkv(x).unflatten(-1, (sum(self.sizes), self.head_dim))
        query, key, value = heads.transpose(1, 2).split(self.sizes, dim=1)
        return query, key, value

    def forward(
        self,
        x: Tensor,
        cache: KeyValueCache | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        last: int | None = None,
    ) -> Tensor:
        """Attend to the tokens of `x` and to cached tokens.

        The keys and values of `x` are added to the cache. With `last`, only that many positions at
        the end of `x` attend, and the output has only those.
        """
        query, key, value = self.heads(x)
        if last is not None:
            query = query[:, :, -last:]

        # Keys are cached before they are rotated, since a rotation depends on their position only.
        if cache is not None and self.position.reads_input:
            key, value, x = cache.append(key, value, x)
        elif cache is not None:
            key, value = cache.append(key, value)

        attended = attend(
            self.position,
            query,
            key,
            value,
            causal=self.causal,
            dropout=self.dropout if self.training else 0.0,
            x=x,
            key_padding_mask=key_padding_mask,
            cache=cache,
        )
        joined = attended.transpose(1, 2).flatten(2)  # [batch, length, heads * head_dim]
        return self.output(joined)


def attend(
    position: Position,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = True,
    dropout: float = 0.0,
    x: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    cache: KeyValueCache | None = None,
) -> Tensor:
    """Attention with a position method: [batch, heads, query, head_dim].

    Key and value are [batch, key_heads, key, head_dim], and the queries are the last positions of
    the keys, which are those of the cache if there is one. `x` is as in `Position.bias`.
    """
    if is_plain_alibi(position):
        inputs = AttentionInputs(
            query,
            key,
            value,
            position.slopes.to(query.device),
            causal=causal,
            dropout=dropout,
            key_padding_mask=key_padding_mask,
            # A function, since only one way of attention needs the ball, and it takes time.
            key_ball=None if cache is None else cache.key_ball,
        )
        return dispatch.attend(inputs)
    if key_padding_mask is not None:
        name = type(position).__name__
        raise TypeError(f"key_padding_mask must be None, because only ALiBi takes one, not {name}")

    if position.uses("logits"):  # which no kernel of torch computes
        weights = position.weights(query, key, causal=causal, x=x).to(value.dtype)
        queries_per_key = query.shape[1] // key.shape[1]
        value = value.repeat_interleave(queries_per_key, dim=1)
        return nn.functional.dropout(weights, dropout) @ value

    query, key = position.rotate(query, key)
    query_length = query.shape[-2]
    key_length = key.shape[-2]
    mask = position.bias(query_length, key_length, x)
    is_causal = False
    if causal and mask is None and query_length == key_length:
        # torch aligns the first query with the first key, so it needs equal lengths.
        is_causal = True
    elif causal:
        visible = causal_mask(query_length, key_length, device=query.device)
        mask = visible if mask is None else mask.masked_fill(~visible, float("-inf"))
    if mask is not None and mask.is_floating_point():
        # torch's blockwise kernel on CPUs needs a mask with 4 axes. With 3, torch uses one that
        # stores all weights.
        if mask.ndim == 3:
            mask = mask[None]
        mask = mask.to(query.dtype)
    return scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=is_causal,
        enable_gqa=query.shape[1] != key.shape[1],
    )


class AlibiSelfAttention(SelfAttention):
    """Self-attention with ALiBi: [batch, length, d_model] to the same shape, at any length.

    Args:
        d_model, num_heads, options: as in `SelfAttention`; `options` are `num_key_heads`, `dropout`
            and `bias`.
        causal: True for a decoder, False for an encoder with bias -m |i - j|.
        scheme, slopes: slopes, as in `alibi_slopes`, or [num_heads].
        learned_slopes: make the slopes trainable.

    The state dict has no slopes unless they are learned. Raises TypeError or ValueError when the
    sizes or an input do not fit.

    >>> import torch
    >>> import alibi_viz as av
    >>> attention = av.AlibiSelfAttention(64, num_heads=8, num_key_heads=2)
    >>> attention(torch.randn(4, 100, 64)).shape
    torch.Size([4, 100, 64])
    """

    position: Alibi

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        causal: bool = True,
        scheme: str = "official",
        slopes: Tensor | None = None,
        learned_slopes: bool = False,
        **options: Any,
    ) -> None:
        position = Alibi(num_heads, scheme=scheme, slopes=slopes, learned_slopes=learned_slopes)
        super().__init__(position, d_model, num_heads, causal=causal, **options)

    @property
    def slopes(self) -> Tensor:
        """float32 [heads]."""
        return self.position.slopes

    def forward(
        self,
        x: Tensor,
        cache: KeyValueCache | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        last: int | None = None,
    ) -> Tensor:
        """Attend to the tokens of `x` and to cached tokens, as in `SelfAttention`.

        The `key_padding_mask` is bool [batch, length], True for a real token, and covers cached
        tokens too. If the input doesn't fit, the cache stays as it is.
        """
        self.check_input(x)
        arguments.check_instance("cache", cache, KeyValueCache, type(None))
        if cache is not None and not self.causal:
            raise ValueError(
                "an encoder has no cache: each new token changes the output of all others"
            )
        if last is not None:
            arguments.check_positive_integers(last=last)
        if key_padding_mask is not None:
            length = x.shape[1] if cache is None else cache.length + x.shape[1]
            axes = f"[batch, length] = {[len(x), length]}"
            arguments.check_tensor("key_padding_mask", key_padding_mask, "bool", axes)
            if key_padding_mask.shape != (len(x), length):
                raise ValueError(
                    f"key_padding_mask must be {axes}, got shape {list(key_padding_mask.shape)}"
                )
        with nullcontext() if cache is None else unchanged_on_error([cache]):
            return super().forward(x, cache, key_padding_mask=key_padding_mask, last=last)
