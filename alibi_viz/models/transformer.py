"""A short transformer: pre-norm blocks, a fused projection to queries, keys and values, and a GELU feed-forward.

Everything about positions is in `positions`.
"""

from torch import Tensor, nn

from alibi_viz.arguments import check_positive_integers
from alibi_viz.models.config import TransformerConfig
from alibi_viz.models.key_value_cache import KeyValueCache
from alibi_viz.models.positions import POSITIONS, Position
from alibi_viz.models.self_attention import SelfAttention

__all__ = ["Transformer"]


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, config: TransformerConfig, position: Position) -> None:
        super().__init__()
        width, hidden = config.d_model, config.expansion_factor * config.d_model
        self.norm_attention = nn.LayerNorm(width)
        self.attention = SelfAttention(position, width, config.num_heads, causal=config.causal, dropout=config.dropout)
        self.norm_feed_forward = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, cache: KeyValueCache | None = None, *, last: int | None = None) -> Tensor:
        attended = self.attention(self.norm_attention(x), cache, last=last)
        x = (x if last is None else x[:, -last:]) + self.dropout(attended)
        return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))


class Transformer(nn.Module):
    """A stack of blocks: float [batch, length, d_model] to the same shape, at any length.

    Raises ValueError when the input has another shape, or is longer than a table of learned positions.

    >>> Transformer(TransformerConfig())(torch.randn(8, 100, 256)).shape
    torch.Size([8, 100, 256])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.position: Position = POSITIONS[config.position].from_config(config)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, self.position.for_layer(layer)) for layer in range(config.num_layers))
        self.norm = nn.LayerNorm(config.d_model)

    def new_cache(self) -> list[KeyValueCache]:
        """Empty caches, one per layer, to pass to every call while decoding.

        Raises ValueError for a position method whose positions change as the text grows.
        """
        if not self.position.supports_cache:
            raise ValueError(
                f"position method {self.config.position!r} supports no cache, because each new token changes the "
                "positions of earlier tokens: call the model with all tokens, or generate(..., use_cache=False)"
            )
        return [KeyValueCache() for _ in self.blocks]

    def forward(self, x: Tensor, cache: list[KeyValueCache] | None = None, *, last: int | None = None) -> Tensor:
        """[batch, length, d_model], or only the `last` positions at the end: less work in the last block."""
        if last is not None:
            check_positive_integers(last=last)
        if x.ndim != 3 or x.shape[-1] != self.config.d_model:
            raise ValueError(f"x must be [batch, length, d_model={self.config.d_model}], got shape {list(x.shape)}")
        layers = [None] * len(self.blocks) if cache is None else cache
        x = self.dropout(self.position.embed(x, start=layers[0].length if layers[0] else 0))
        final = len(self.blocks) - 1  # the last block; those before it need all positions
        for number, (block, layer) in enumerate(zip(self.blocks, layers, strict=True)):
            x = block(x, layer, last=last if number == final else None)
        return self.norm(x)
