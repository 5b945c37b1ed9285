"""Learned absolute positions, as in GPT-2."""

from torch import Tensor, nn

from alibi_viz.models.config import TransformerConfig
from alibi_viz.models.positions.base import Position, register

__all__ = ["Learned"]


@register("learned")
class Learned(Position):
    """One trained vector per position, added to the token vectors (Vaswani et al. 2017, table 3, row E; GPT-2).

    Raises ValueError beyond the end of the table: clamping or wrapping the positions would hide the problem.
    """

    is_relative = False

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.longest = max_length
        self.table = nn.Embedding(max_length, d_model)
        nn.init.normal_(self.table.weight, std=0.02)

    @classmethod
    def from_config(cls, config: TransformerConfig) -> "Learned":
        return cls(config.d_model, config.max_length)

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        end = start + tokens.shape[1]
        if not self.is_defined_at(end):
            raise ValueError(f"learned positions are not defined beyond max_length={self.longest}, got length {end}")
        return tokens + self.table.weight[start:end]
