"""A short transformer: pre-norm blocks, and a language model that writes text.

Everything about positions is in `positions`: a position method is a module that the model calls at
two places, `embed` before the first block, and its other methods in the attention of every block.
`LanguageModel.forward` checks its tokens, and `Transformer.forward` vectors and caches; in the
blocks, nothing is checked again.
"""

import math
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from alibi_viz import arguments
from alibi_viz.models.cache import KeyValueCache, unchanged_on_error
from alibi_viz.models.configuration import TransformerConfig
from alibi_viz.models.positions import Position
from alibi_viz.models.positions.methods import make_position
from alibi_viz.models.self_attention import SelfAttention

# At lower temperatures, the most likely token is taken. The smallest normal number of float32 is
# 1.2e-38; division by a smaller one may be division by zero.
_SMALLEST_TEMPERATURE = 1e-37


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, config: TransformerConfig, position: Position) -> None:
        super().__init__()
        width = config.d_model
        hidden = config.expansion_factor * width
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
        if last is not None:
            x = x[:, -last:]
        x = x + self.dropout(attended)
        return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))


class Transformer(nn.Module):
    """A stack of blocks: float [batch, length, d_model] to the same shape.

    Raises TypeError when the input is of another type, and ValueError when it has another shape, or
    no positions at its length.

    >>> import torch
    >>> import alibi_viz as av
    >>> av.Transformer(av.TransformerConfig())(torch.randn(8, 100, 256)).shape
    torch.Size([8, 100, 256])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        arguments.check_instance("config", config, TransformerConfig)
        self.config = config
        self.position = make_position(config.position, config)
        self.dropout = nn.Dropout(config.dropout)
        blocks = []
        for layer in range(config.num_layers):
            position = self.position
            if layer > 0 and position.reads_input:
                position = deepcopy(position)
            blocks.append(Block(config, position))
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(config.d_model)

    def new_cache(self) -> list[KeyValueCache]:
        """Empty caches, one per layer, to pass to every call while decoding.

        Raises ValueError for an encoder, and for a position method whose positions change as the
        text grows.
        """
        if not self.config.causal:
            raise ValueError(
                "an encoder has no cache, because each new token changes the output of all others: "
                "pass all tokens, or generate(..., use_cache=False)"
            )
        if not self.position.supports_cache:
            why = "new tokens move earlier ones: pass all tokens, or generate(..., use_cache=False)"
            raise ValueError(
                f"position method {self.config.method!r} supports no cache, because {why}"
            )
        return [KeyValueCache() for _ in self.blocks]

    def forward(
        self, x: Tensor, cache: list[KeyValueCache] | None = None, *, last: int | None = None
    ) -> Tensor:
        """Apply all blocks: [batch, length, d_model].

        With `last`, the output has only that many positions at the end, which is less work in the
        last block.
        """
        first_attention: Any = self.blocks[0].attention
        # Otherwise the positions or the first norm would fail, and name nothing.
        first_attention.check_input(x)
        if last is not None:
            arguments.check_positive_integers(last=last)
        caches = self._checked_caches(cache)

        tokens_before = caches[0].length if caches else 0
        x = self.dropout(self.position.embed(x, start=tokens_before))
        last_layer = len(self.blocks) - 1
        same_lengths = unchanged_on_error(caches) if caches else nullcontext()
        with same_lengths:
            for layer, block in enumerate(self.blocks):
                layer_cache = caches[layer] if caches else None
                # Only the last block can leave out positions: the others give it keys and values.
                x = block(x, layer_cache, last=last if layer == last_layer else None)
        return self.norm(x)

    def _checked_caches(self, cache: object) -> list[KeyValueCache]:
        """The list of caches, empty for None.

        Raises TypeError or ValueError for anything but a cache for each block.
        """
        if cache is None:
            return []
        expected = f"cache must be a list of {len(self.blocks)} caches, see new_cache"
        if not isinstance(cache, list):
            raise TypeError(f"{expected}, got {type(cache).__name__}")
        for layer_cache in cache:
            if not isinstance(layer_cache, KeyValueCache):
                raise TypeError(f"{expected}, got one with {type(layer_cache).__name__}")
        if len(cache) != len(self.blocks):
            raise ValueError(f"{expected}, got {len(cache)}")
        if not self.config.causal or not self.position.supports_cache:
            self.new_cache()  # says why there is none
        return cache


class LanguageModel(nn.Module):
    """Maps tokens to logits of the next token.

    Tokens are integers [batch, length], and logits [batch, length, vocabulary].

    Raises TypeError or ValueError when the tokens don't fit, or have no positions at their length.

    >>> import torch
    >>> import alibi_viz as av
    >>> config = av.TransformerConfig(num_layers=1, d_model=32, num_heads=4)
    >>> av.LanguageModel(config)(torch.zeros(2, 5, dtype=torch.long)).shape
    torch.Size([2, 5, 256])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        arguments.check_instance("config", config, TransformerConfig)
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d_model)
        nn.init.normal_(self.embedding.weight, std=0.5)  # on the scale of sinusoids, which have 0.7
        self.transformer = Transformer(config)
        self.head = nn.Linear(config.d_model, config.vocabulary, bias=False)

    def is_defined_at(self, length: int) -> bool:
        """Whether there are positions for so many tokens."""
        longest = self.transformer.position.longest
        return longest is None or length <= longest

    def forward(
        self, tokens: Tensor, cache: list[KeyValueCache] | None = None, *, last: int | None = None
    ) -> Tensor:
        """Logits of the next token: [batch, length, vocabulary].

        With `last`, only those of that many positions at the end.
        """
        arguments.check_tensor("tokens", tokens, "integer", "[batch, length]", ndim=2)
        tokens = tokens.long()  # nn.Embedding does not accept uint8
        self._check_range(tokens)
        return self.head(self.transformer(self.embedding(tokens), cache, last=last))

    def _check_range(self, tokens: Tensor) -> None:
        """Raise ValueError for a token beyond the vocabulary; the embedding would not name it."""
        is_readable = tokens.device.type == "cpu" and not torch.compiler.is_compiling()
        if not is_readable or tokens.numel() == 0:
            return
        largest_allowed = self.config.vocabulary - 1
        smallest, largest = tokens.aminmax()
        for token in (int(smallest), int(largest)):
            if not 0 <= token <= largest_allowed:
                raise ValueError(f"tokens must be between 0 and {largest_allowed}, got {token}")

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
                the same in evaluation mode. By default, if the model is a decoder whose position
                method supports it.
            generator: random number generator for sampling.

        Raises TypeError for arguments of another type, and ValueError when a value is out of range,
        when a logit is NaN, when a cache is asked for that an encoder or the position method
        doesn't support, or when more tokens must be read than have positions.

        >>> import torch
        >>> import alibi_viz as av
        >>> config = av.TransformerConfig(num_layers=1, d_model=32, num_heads=4)
        >>> model = av.LanguageModel(config).eval()
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
            "temperature",
            temperature,
            "a finite number of at least 0",
            lambda number: 0 <= number < math.inf,
        )
        if use_cache is None:
            use_cache = self.config.causal and self.transformer.position.supports_cache
        arguments.check_flag("use_cache", use_cache)
        cache = self.transformer.new_cache() if use_cache else None

        tokens = tokens.long()
        new = tokens  # those that are not in the cache
        for _ in range(new_tokens):
            unread = tokens if cache is None else new
            logits = self(unread, cache, last=1)[:, -1]
            if bool(logits.isnan().any()):  # argmax would choose one of them
                raise ValueError(
                    f"the model gives no number (NaN) after {tokens.shape[1]} tokens: its weights "
                    "are damaged, or its training has diverged"
                )
            if temperature > _SMALLEST_TEMPERATURE:
                # A shift changes no probability. With the largest logit at 0, a small temperature
                # cannot make one infinite.
                logits = logits - logits.amax(-1, keepdim=True)
                weights = (logits / temperature).softmax(-1)
                new = weights.multinomial(1, generator=generator)
            else:
                new = logits.argmax(-1, keepdim=True)
            tokens = torch.cat((tokens, new), dim=1)
        return tokens
