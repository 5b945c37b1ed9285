"""Self-attention with any position method, and with ALiBi."""

from typing import Any

import torch
from torch import Tensor, nn

from alibi_viz import arguments
from alibi_viz.attention.inputs import autocast_dtype
from alibi_viz.models.cache import KeyValueCache, unchanged_on_error
from alibi_viz.models.positions import Position
from alibi_viz.models.positions.relative import Alibi


class SelfAttention(nn.Module):
    """Self-attention with a position method: [batch, length, d_model] to the same shape.

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
        arguments.check_instance("position", position, Position)
        position.check_causal(causal)
        # Not all methods know their number of heads. One for a single head would be broadcast.
        if position.num_heads is not None and position.num_heads != num_heads:
            raise ValueError(
                f"position must have num_heads={num_heads}, got one with {position.num_heads} heads"
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
        self.check_input(x)
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
        the end of `x` attend, and the output has only those. The `key_padding_mask` is bool [batch,
        length], True for a real token, and covers cached tokens too; only ALiBi takes one. Raises
        TypeError or ValueError when the input does not fit; the cache is then unchanged.
        """
        arguments.check_instance("cache", cache, KeyValueCache, type(None))
        if cache is not None and not self.causal:
            raise ValueError(
                "an encoder has no cache: each new token changes the output of all others"
            )
        if last is not None:
            arguments.check_positive_integers(last=last)
        if key_padding_mask is not None and not self.position.takes_alibi_options:
            name = type(self.position).__name__
            raise TypeError(
                f"key_padding_mask must be None, because only ALiBi takes one, not {name}"
            )

        query, key, value = self.heads(x)
        if last is not None:
            query = query[:, :, -last:]
        if cache is None:
            attended = self._attend(query, key, value, x=x, key_padding_mask=key_padding_mask)
        else:
            with unchanged_on_error([cache]):
                key, value, x = self._cached(cache, key, value, x)
                attended = self._attend(
                    query, key, value, x=x, key_padding_mask=key_padding_mask, cache=cache
                )
        joined = attended.transpose(1, 2).flatten(2)  # [batch, length, heads * head_dim]
        return self.output(joined)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        x: Tensor,
        key_padding_mask: Tensor | None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Attention with the position method: [batch, heads, length, head_dim]."""
        alibi_options: dict[str, Any] = {}
        if key_padding_mask is not None:
            alibi_options["key_padding_mask"] = key_padding_mask
        if cache is not None and self.position.takes_alibi_options:
            # A function, since only one way of attention needs the ball, and it takes time.
            alibi_options["key_ball"] = cache.key_ball
        return self.position.attend(
            query,
            key,
            value,
            causal=self.causal,
            dropout=self.dropout if self.training else 0.0,
            x=x,
            **alibi_options,
        )

    def _cached(
        self, cache: KeyValueCache, key: Tensor, value: Tensor, x: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Add keys and values to the cache, and return those of all tokens.

        They are cached before `transform`, since a rotation depends on their position only.
        """
        if self.position.reads_input:
            # A bias that reads the input needs that of earlier tokens, too.
            key, value, x = cache.append(key, value, x)
        else:
            key, value = cache.append(key, value)
        return key, value, x


class AlibiSelfAttention(SelfAttention):
    """Self-attention with ALiBi: [batch, length, d_model] to the same shape, at any length.

    Args:
        d_model, num_heads, options: as in `SelfAttention`; `options` are `num_key_heads`, `dropout`
            and `bias`.
        causal: True for a decoder, False for an encoder with bias -m |i - j|.
        scheme, slopes: slopes, as in `alibi_slopes`, or [num_heads].
        learned_slopes: make the slopes trainable.

    Call it with `x`, and optionally with a `KeyValueCache` and a `key_padding_mask`, as
    `SelfAttention`. The state dict has no slopes unless they are learned. Raises TypeError or
    ValueError when the sizes or an input do not fit.

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
        position = Alibi(num_heads, scheme=scheme, slopes=slopes, learned=learned_slopes)
        super().__init__(position, d_model, num_heads, causal=causal, **options)

    @property
    def slopes(self) -> Tensor:
        """float32 [heads]."""
        return self.position.slopes
