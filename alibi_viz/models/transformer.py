"""A short transformer: key-value cache, self-attention, pre-norm blocks, and a language model that
writes text.

Everything about positions is in `positions`: a position method is a module that the model calls at
two places, `embed` before the first block and `attend` in every block.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from alibi_viz import arguments
from alibi_viz.attention import KeyBall
from alibi_viz.attention.inputs import autocast_dtype
from alibi_viz.memory import check_memory
from alibi_viz.models.configuration import POSITIONS, TransformerConfig
from alibi_viz.models.positions import Position
from alibi_viz.models.positions.relative import Alibi


class KeyValueCache:
    """Keys and values of one layer, each [..., length, channels]. The capacity grows by doubling.

    ALiBi needs nothing else: its bias counts back from the last key. Pad on the left, or padding
    counts as distance.

    `length` is the number of cached tokens. Set it to a smaller number to remove the last ones.

    >>> cache = KeyValueCache()
    >>> for _ in range(3):
    ...     keys, values = cache.append(torch.zeros(1, 8, 1, 32), torch.zeros(1, 8, 1, 32))
    >>> keys.shape, cache.length
    (torch.Size([1, 8, 3, 32]), 3)
    """

    def __init__(self) -> None:
        self.length = 0
        self._buffers: tuple[Tensor, ...] = ()
        self._ball: KeyBall | None = None
        self._measured = 0  # tokens that the ball includes

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Add the new tokens, and return the tensors of all tokens so far, one per argument, as
        views of the cache.

        Raises ValueError when the new tensors do not fit the cached ones, or when they require a
        gradient.
        """
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in new):
            raise ValueError(
                "a cache stores no gradients: decode under torch.no_grad() or "
                "torch.inference_mode()"
            )
        if not self.length:  # an empty cache takes any shapes
            self._buffers = tuple(tensor[..., :0, :] for tensor in new)
        if len(new) != len(self._buffers):
            raise ValueError(
                f"the cache stores {len(self._buffers)} tensors per token, got {len(new)}"
            )
        new_length = new[0].shape[-2]
        for buffer, tensor in zip(self._buffers, new, strict=True):
            expected = (
                [*buffer.shape[:-2], new_length, buffer.shape[-1]],
                buffer.dtype,
                buffer.device,
            )
            if (got := ([*tensor.shape], tensor.dtype, tensor.device)) != expected:
                expected_text, got_text = (
                    "{} of {} on {}".format(*each) for each in (expected, got)
                )
                raise ValueError(
                    f"tensors appended to the cache must be {expected_text}, got {got_text}"
                )
        self._measured = min(self._measured, self.length)  # tokens may have been removed
        end, capacity = self.length + new_length, self._buffers[0].shape[-2]
        if end > capacity:
            added = (1 << (end - 1).bit_length()) - capacity  # up to the next power of two
            with torch.inference_mode(
                False
            ):  # so that decoding can continue outside inference mode
                self._buffers = tuple(pad(buffer, (0, 0, 0, added)) for buffer in self._buffers)
        for buffer, tensor in zip(self._buffers, new, strict=True):
            buffer[..., self.length : end, :] = tensor
        self.length = end
        return tuple(buffer[..., :end, :] for buffer in self._buffers)

    def key_ball(self) -> KeyBall:
        """A ball around the cached keys, the `key_ball` of `alibi_attention`. Each token is read
        only once.

        The first two cached tensors must be keys and values. Raises ValueError if the cache is
        empty.
        """
        if not self.length:
            raise ValueError(
                "an empty cache has no ball of keys: append the keys and values of some tokens "
                "first"
            )
        if self._ball is None or self._measured < self.length:
            new = [buffer[..., self._measured : self.length, :] for buffer in self._buffers[:2]]
            self._ball = (
                self._ball.including(*new) if self._ball and self._measured else KeyBall.of(*new)
            )
            self._measured = self.length
        return self._ball


class SelfAttention(nn.Module):
    """Self-attention with a position method: [batch, length, d_model] to the same shape.

    Args:
        position: the position method.
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
        num_key_heads = num_heads if num_key_heads is None else num_key_heads
        arguments.check_positive_integers(
            d_model=d_model, num_heads=num_heads, num_key_heads=num_key_heads
        )
        check_memory("d_model", d_model, lambda width: 16 * width**2)  # four matrices
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
        self.position, self.d_model, self.causal, self.dropout = position, d_model, causal, dropout
        self.sizes = (num_heads, num_key_heads, num_key_heads)
        self.head_dim = d_model // num_heads
        self.qkv = nn.Linear(d_model, sum(self.sizes) * self.head_dim, bias=bias)
        self.output = nn.Linear(d_model, d_model, bias=bias)

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project `x` to queries [batch, heads, length, head_dim], keys and values [batch,
        key_heads, ...]."""
        axes, weight = f"[batch, length, d_model={self.d_model}]", self.qkv.weight
        arguments.check_tensor("x", x, "floating-point", axes, ndim=3)
        if x.shape[-1] != self.d_model:
            raise ValueError(f"x must be {axes}, got shape {list(x.shape)}")
        is_plain = (
            isinstance(weight, Tensor) and weight.is_floating_point()
        )  # not quantized, as a method or integers
        dtype = weight.dtype if is_plain else torch.float32
        if x.dtype != dtype and autocast_dtype(x) is None:
            raise TypeError(f"x must be {dtype}, like the weights, {axes}, got {x.dtype}")
        return (
            self.qkv(x)
            .unflatten(-1, (sum(self.sizes), self.head_dim))
            .transpose(1, 2)
            .split(self.sizes, dim=1)
        )

    def forward(
        self,
        x: Tensor,
        cache: KeyValueCache | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        last: int | None = None,
    ) -> Tensor:
        """Attend to the tokens of `x` and to cached tokens. The keys and values of `x` are added to
        the cache.

        With `last`, only that many positions at the end of `x` attend, and the output has only
        those. The `key_padding_mask` is bool [batch, length], True for a real token, and covers
        cached tokens too; only ALiBi takes one. Raises TypeError or ValueError when the input does
        not fit; the cache is then unchanged.
        """
        arguments.check_instance("cache", cache, KeyValueCache, type(None))
        if cache is not None and not self.causal:
            raise ValueError(
                "an encoder has no cache: each new token changes the output of all others"
            )
        arguments.check_positive_integers(last=1 if last is None else last)
        options: dict[str, Any] = {
            "causal": self.causal,
            "dropout": self.dropout if self.training else 0.0,
        }
        if key_padding_mask is not None:
            options["key_padding_mask"] = key_padding_mask
            if not self.position.uses_key_ball:
                name = type(self.position).__name__
                raise TypeError(
                    f"key_padding_mask must be None, because only ALiBi takes one, not {name}"
                )
        query, key, value = self.heads(x)
        query = query if last is None else query[:, :, -last:]
        length = 0 if cache is None else cache.length
        if cache is not None:
            # keys are cached before `transform`, since a rotation depends on their position only
            key, value, *inputs = cache.append(
                key, value, *([x] if self.position.reads_input else [])
            )
            x = inputs[0] if inputs else x
            options |= {"key_ball": cache.key_ball} if self.position.uses_key_ball else {}
        try:
            attended = self.position.attend(query, key, value, x=x, **options)
        except BaseException:  # also an interrupted cell
            if cache is not None:
                cache.length = length
            raise
        return self.output(attended.transpose(1, 2).flatten(2))  # [batch, length, heads * head_dim]


class AlibiSelfAttention(SelfAttention):
    """Self-attention with ALiBi as its only position method: [batch, length, d_model] to the same
    shape, at any length.

    Args:
        d_model, num_heads, options: as in `SelfAttention`; `options` are `num_key_heads`, `dropout`
            and `bias`.
        causal: True for a decoder, False for an encoder with bias -m |i - j|.
        scheme, slopes: slopes, as in `alibi_slopes`, or [num_heads].
        learned_slopes: make the slopes trainable.

    Call it with `x`, and optionally with a `KeyValueCache` and a `key_padding_mask`, as
    `SelfAttention`. The state dict has no slopes unless they are learned. Raises TypeError or
    ValueError when the sizes or an input do not fit.

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
        causal: bool = True,
        scheme: str = "official",
        slopes: Tensor | None = None,
        learned_slopes: bool = False,
        **options: Any,
    ) -> None:
        position = Alibi(num_heads, scheme=scheme, slopes=slopes, learned=learned_slopes)
        super().__init__(position, d_model, num_heads, causal=causal, **options)

    @property
    def slopes(self) -> Tensor:  # float32 [heads]
        return self.position.slopes


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, config: TransformerConfig, position: Position) -> None:
        super().__init__()
        width, hidden = config.d_model, config.expansion_factor * config.d_model
        self.norm_attention = nn.LayerNorm(width)
        self.attention = SelfAttention(
            position, width, config.num_heads, causal=config.causal, dropout=config.dropout
        )
        self.norm_feed_forward = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, cache: KeyValueCache | None = None, *, last: int | None = None
    ) -> Tensor:
        attended = self.attention(self.norm_attention(x), cache, last=last)
        x = (x if last is None else x[:, -last:]) + self.dropout(attended)
        return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))


class Transformer(nn.Module):
    """A stack of blocks: float [batch, length, d_model] to the same shape.

    Raises ValueError when the input has another shape, or has no positions at its length.

    >>> Transformer(TransformerConfig())(torch.randn(8, 100, 256)).shape
    torch.Size([8, 100, 256])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        arguments.check_instance("config", config, TransformerConfig)
        self.config = config
        self.position: Position = POSITIONS[config.position].from_config(config)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            Block(config, self.position.for_layer(layer)) for layer in range(config.num_layers)
        )
        self.norm = nn.LayerNorm(config.d_model)

    def new_cache(self) -> list[KeyValueCache]:
        """Empty caches, one per layer, to pass to every call while decoding.

        Raises ValueError for a position method whose positions change as the text grows.
        """
        if not self.position.supports_cache:
            why = "new tokens move earlier ones: pass all tokens, or generate(..., use_cache=False)"
            raise ValueError(
                f"position method {self.config.position!r} supports no cache, because {why}"
            )
        return [KeyValueCache() for _ in self.blocks]

    def forward(
        self, x: Tensor, cache: list[KeyValueCache] | None = None, *, last: int | None = None
    ) -> Tensor:
        """[batch, length, d_model], or only the `last` positions at the end: less work in the last
        block."""
        if x.ndim != 3 or x.shape[-1] != self.config.d_model:
            raise ValueError(
                f"x must be [batch, length, d_model={self.config.d_model}], got shape "
                f"{list(x.shape)}"
            )
        layers = [None] * len(self.blocks) if cache is None else cache
        if not isinstance(layers, list) or len(layers) != len(self.blocks):
            raise ValueError(
                f"cache must be a list of {len(self.blocks)} caches, see new_cache, got {cache!r}"
            )
        if cache is not None and not self.position.supports_cache:
            self.new_cache()  # says why there is none
        x = self.dropout(self.position.embed(x, start=layers[0].length if layers[0] else 0))
        lasts = [
            *[None] * (len(self.blocks) - 1),
            last,
        ]  # all blocks but the last need all positions
        lengths = [layer.length for layer in cache or ()]
        try:
            for block, layer, of_block in zip(self.blocks, layers, lasts, strict=True):
                x = block(x, layer, last=of_block)
        except (
            BaseException
        ):  # in a later block, or an interrupted cell: all caches keep one length
            for layer, length in zip(cache or (), lengths, strict=True):
                layer.length = length
            raise
        return self.norm(x)


class LanguageModel(nn.Module):
    """Maps token ids, integers [batch, length], to logits of the next token, [batch, length,
    vocabulary].

    Raises TypeError or ValueError when the tokens don't fit, or have no positions at their length.

    >>> config = TransformerConfig(num_layers=1, d_model=32, num_heads=4)
    >>> LanguageModel(config)(torch.zeros(2, 5, dtype=torch.long)).shape
    torch.Size([2, 5, 256])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        arguments.check_instance("config", config, TransformerConfig)
        self.config, self.embedding = config, nn.Embedding(config.vocabulary, config.d_model)
        nn.init.normal_(self.embedding.weight, std=0.5)  # on the scale of sinusoids, which have 0.7
        self.transformer = Transformer(config)
        self.head = nn.Linear(config.d_model, config.vocabulary, bias=False)

    def is_defined_at(self, length: int) -> bool:  # in tokens
        return self.transformer.position.is_defined_at(length)

    def forward(
        self, tokens: Tensor, cache: list[KeyValueCache] | None = None, *, last: int | None = None
    ) -> Tensor:
        """Logits of the next token: [batch, length, vocabulary], or only those of the `last`
        positions at the end."""
        arguments.check_tensor("tokens", tokens, "integer", "[batch, length]", ndim=2)
        tokens = tokens.long()  # nn.Embedding does not accept uint8
        if tokens.device.type == "cpu" and tokens.numel() and not torch.compiler.is_compiling():
            low, high = (
                int(end) for end in tokens.aminmax()
            )  # the embedding's error would not name the id
            if low < 0 or high >= self.config.vocabulary:
                got = low if low < 0 else high
                raise ValueError(
                    f"tokens must be between 0 and {self.config.vocabulary - 1}, got {got}"
                )
        return self.head(self.transformer(self.embedding(tokens), cache, last=last))

    @torch.no_grad()
    def generate(
        self,
        tokens: Tensor,
        new_tokens: int,
        *,
        temperature: float = 1.0,
        use_cache: bool | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Generate `new_tokens` tokens after the given ones: int64 [batch, length + new_tokens].

        Args:
            tokens: integers [batch, length], with at least one token.
            new_tokens: number of tokens to add, 0 or more.
            temperature: divides the logits before sampling; 0 takes the most likely token instead.
            use_cache: process each token once, instead of all tokens at each step. The result is
                the same. By default, if the position method supports it.
            generator: random number generator for sampling.

        Raises TypeError for arguments of another type, and ValueError when a value is out of range,
        when the position method or an encoder supports no cache, or when the text grows beyond the
        positions that are defined.

        >>> model = LanguageModel(TransformerConfig(num_layers=1, d_model=32, num_heads=4)).eval()
        >>> model.generate(torch.tensor([[72, 105]]), 5).shape
        torch.Size([1, 7])
        """
        arguments.check_tensor("tokens", tokens, "integer", "[batch, length]", ndim=2)
        if tokens.shape[1] < 1:
            raise ValueError(
                "tokens must be [batch, length] with at least one token, got shape "
                f"{list(tokens.shape)}"
            )
        arguments.check_integer("new_tokens", new_tokens, 0)
        arguments.check_number(
            "temperature", temperature, "a finite number of at least 0", lambda t: 0 <= t < math.inf
        )
        supports_cache = self.transformer.position.supports_cache
        cache = (
            self.transformer.new_cache()
            if (supports_cache if use_cache is None else use_cache)
            else None
        )
        tokens = new = tokens.long()
        for _ in range(new_tokens):
            logits = self(tokens if cache is None else new, cache, last=1)[
                :, -1
            ]  # [batch, vocabulary]
            if temperature > 1e-37:  # float32 would divide by 0
                logits = logits - logits.amax(
                    -1, keepdim=True
                )  # so that a small temperature cannot overflow
                new = (logits / temperature).softmax(-1).multinomial(1, generator=generator)
            else:
                new = logits.argmax(-1, keepdim=True)
            tokens = torch.cat((tokens, new), dim=1)
        return tokens
