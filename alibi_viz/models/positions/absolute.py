"""Absolute positions, added to the token vectors: sinusoidal and learned."""

import torch
from torch import Tensor, nn

from alibi_viz.models.positions.base import Position


class Sinusoidal(Position):
    """sin and cos of i * 10000^(-2k / d_model), added to even and odd channels.

    Source: Vaswani et al. 2017, section 3.5.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def table(self, positions: Tensor) -> Tensor:
        """float32 [length, d_model] for integer positions [length]."""
        even = torch.arange(0, self.d_model, 2, device=positions.device, dtype=torch.float64)
        frequency = 10000.0 ** (-even / self.d_model)
        angle = positions.double()[:, None] * frequency  # [length, ceil(d_model / 2)]
        pairs = torch.stack((angle.sin(), angle.cos()), dim=-1)
        return pairs.flatten(1)[:, : self.d_model].float()

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        return tokens + self.table(positions).to(tokens.dtype)


class Learned(Position):
    """One trained vector per position, added to the token vectors, as in GPT-2.

    Raises ValueError beyond the end of the table.

    Source: Vaswani et al. 2017, table 3, row E.
    """

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.longest = max_length
        self.table = nn.Embedding(max_length, d_model)
        nn.init.normal_(self.table.weight, std=0.02)

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        end = start + tokens.shape[1]
        if end > len(self.table.weight):
            raise ValueError(
                f"learned positions are not defined beyond max_length={self.longest}, got "
                f"length {end}"
            )
        return tokens + self.table.weight[start:end]
