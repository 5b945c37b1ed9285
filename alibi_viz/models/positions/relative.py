"""Base class of biases that depend on the distance d = i - j only: one curve over d for each head."""

import torch
from torch import Tensor

from alibi_viz.distance import right_aligned
from alibi_viz.models.config import TransformerConfig
from alibi_viz.models.positions.base import Position

__all__ = ["Relative"]


class Relative(Position):
    """A bias given by a curve over the distance |i - j|. Subclasses define `curve`."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    @classmethod
    def from_config(cls, config: TransformerConfig) -> "Relative":
        return cls(config.num_heads)

    def curve(self, distance: Tensor) -> Tensor:
        """float32 [heads, distances] for distances d >= 0, int64 [distances]."""
        raise NotImplementedError

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        right_aligned(query_length, key_length)  # raises if the lengths do not fit
        device = next(self.parameters(), torch.empty(0)).device if x is None else x.device
        if query_length == 0:
            return torch.zeros(self.num_heads, 0, key_length, device=device)
        # Every row of the bias is a slice of one long curve: from d = key_length - 1 down to 0, and up again for the
        # keys after the query. So we compute each distance once, and [heads, query, key] is a view of the curve, whose
        # slices start with the last row.
        distance = torch.arange(key_length - 1, -query_length, -1, device=device).abs()
        return self.curve(distance).unfold(1, key_length, 1).flip(1)
