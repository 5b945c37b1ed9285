"""A transformer to read in one sitting: pre-norm blocks, one fused projection to q, k and v, a GELU feed-forward.

Where its tokens are is the business of `positions`; nothing else here knows.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from alibi_viz.models.key_value_cache import KeyValueCache
from alibi_viz.models.positions import POSITIONS, Alibi, Learned, Position, Rotary, Sinusoidal
from alibi_viz.models.positions.fire import Fire
from alibi_viz.models.positions.forget import Forget
from alibi_viz.models.positions.relative import Decay, KerpleLog, LearnedAlibi, Sandwich, T5Buckets
from alibi_viz.slopes import SCHEMES, alibi_slopes

__all__ = ["Transformer", "TransformerConfig", "make_position"]


@dataclass(frozen=True)
class TransformerConfig:
    """All that a `Transformer` needs to know.

    Attributes:
        num_layers, d_model, num_heads: sizes; `d_model` is a multiple of `num_heads`.
        dropout: probability, on attention weights, on what each block adds, and on the token vectors.
        causal: True for a decoder, False for an encoder.
        position: one of `POSITIONS`: "alibi", "sinusoidal", "rotary", "learned", "none", "t5", "kerple-log",
            "sandwich", "fire", "decay" or "forget".
        scheme: slopes of alibi, as in `alibi_slopes`; a forget gate starts at them.
        slope_scale: multiplies these slopes.
        learned_slopes: let training change the slopes of alibi.
        max_length: the training length. Learned positions have that many rows and end there; the buckets of t5 and the
            threshold of fire are sized by it; no other method looks at it.
        expansion_factor: hidden width of the feed-forward layers over `d_model`.
        vocabulary: number of token ids, for a `LanguageModel` (256: bytes).

    Raises ValueError when a value does not fit.
    """

    num_layers: int = 6
    d_model: int = 256
    num_heads: int = 8
    dropout: float = 0.1
    causal: bool = True
    position: str = "alibi"
    scheme: str = "official"
    slope_scale: float = 1.0
    learned_slopes: bool = False
    max_length: int = 256
    expansion_factor: int = 4
    vocabulary: int = 256

    def __post_init__(self) -> None:
        for name in ("num_layers", "d_model", "num_heads", "max_length", "expansion_factor", "vocabulary"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number from 1 up, got {value!r}")
        if self.d_model % self.num_heads:
            raise ValueError(f"d_model={self.d_model} must be a multiple of num_heads={self.num_heads}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {self.dropout!r}")
        if self.position not in POSITIONS:
            raise ValueError(f"position must be one of {', '.join(POSITIONS)}, got {self.position!r}")
        if isinstance(self.slope_scale, bool) or not isinstance(self.slope_scale, int | float):
            raise ValueError(f"slope_scale must be a positive number, got {self.slope_scale!r}")
        if not (math.isfinite(self.slope_scale) and self.slope_scale > 0):
            raise ValueError(f"slope_scale must be a positive number, got {self.slope_scale!r}")
        if self.scheme not in SCHEMES:
            raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, got {self.scheme!r}")


def make_position(config: TransformerConfig) -> Position:  # noqa: PLR0911 - one line a method is the clearest
    """The position method that the configuration names."""
    heads = config.num_heads
    with torch.device("cpu"):  # slopes are known also where modules are made on the meta device, to be filled later
        slopes = config.slope_scale * alibi_slopes(heads, config.scheme)
    match config.position:
        case "alibi":
            return LearnedAlibi(slopes) if config.learned_slopes else Alibi(heads, causal=config.causal, slopes=slopes)
        case "sinusoidal":
            return Sinusoidal(config.d_model)
        case "rotary":
            return Rotary(config.d_model // heads)
        case "learned":
            return Learned(config.d_model, config.max_length)
        case "t5":
            return T5Buckets(heads, config.max_length)
        case "kerple-log":
            return KerpleLog(heads)
        case "sandwich":
            return Sandwich(heads)
        case "fire":
            return Fire(heads, threshold=config.max_length)
        case "decay":
            return Decay(heads)
        case "forget":
            return Forget(config.d_model, slopes)
    return Position()


class SelfAttention(nn.Module):
    """[batch, length, d_model] to the same, with a position method that all layers share."""

    def __init__(self, config: TransformerConfig, position: Position) -> None:
        super().__init__()
        self.num_heads, self.causal, self.dropout = config.num_heads, config.causal, config.dropout
        self.position = position
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.output = nn.Linear(config.d_model, config.d_model, bias=False)

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each [batch, heads, length, head_dim]."""
        batch, length, d_model = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.num_heads, d_model // self.num_heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each [batch, heads, length, head_dim]
        return query, key, value

    def forward(self, x: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        query, key, value = self.heads(x)
        if cache is not None:
            # keys are kept before `transform`: what a rotation does to them depends on nothing but their position
            key, value, *seen = cache.append(key, value, *([x] if self.position.reads_input else []))
            x = seen[0] if seen else x
        attended = self.position.attend(query, key, value, causal=self.causal, dropout=dropout, x=x)
        return self.output(attended.transpose(1, 2).flatten(2))  # [batch, length, heads * head_dim]


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, config: TransformerConfig, position: Position) -> None:
        super().__init__()
        hidden = config.expansion_factor * config.d_model
        self.norm_attention = nn.LayerNorm(config.d_model)
        self.attention = SelfAttention(config, position)
        self.norm_feed_forward = nn.LayerNorm(config.d_model)
        self.feed_forward = nn.Sequential(
            nn.Linear(config.d_model, hidden), nn.GELU(), nn.Linear(hidden, config.d_model)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        x = x + self.dropout(self.attention(self.norm_attention(x), cache))
        return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))


class Transformer(nn.Module):
    """A stack of blocks: float [batch, length, d_model] to the same shape, at any length.

    Raises ValueError when the input has another shape, or is longer than a learned table.

    >>> Transformer(TransformerConfig())(torch.randn(8, 100, 256)).shape
    torch.Size([8, 100, 256])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.position = make_position(config)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, self.position.for_layer(layer)) for layer in range(config.num_layers))
        self.norm = nn.LayerNorm(config.d_model)

    def new_cache(self) -> list[KeyValueCache]:
        """An empty cache, one part a layer, to give to every call of one decoding."""
        if not self.config.causal:
            raise ValueError("an encoder has no cache: each new token changes what all others see")
        return [KeyValueCache() for _ in self.blocks]

    def forward(self, x: Tensor, cache: list[KeyValueCache] | None = None) -> Tensor:
        if x.ndim != 3 or x.shape[-1] != self.config.d_model:
            raise ValueError(f"x must be [batch, length, d_model={self.config.d_model}], got shape {list(x.shape)}")
        layers = [None] * len(self.blocks) if cache is None else cache
        x = self.dropout(self.position.embed(x, start=layers[0].length if layers[0] else 0))
        for block, layer in zip(self.blocks, layers, strict=True):
            x = block(x, layer)
        return self.norm(x)
