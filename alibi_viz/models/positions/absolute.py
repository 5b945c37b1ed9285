"""Absolute positions, added to the token vectors: sinusoidal, randomized sinusoidal, and learned."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from alibi_viz.models.positions.base import Position


class Sinusoidal(Position):
    """sin and cos of i * 10000^(-2k / d_model) added to even and odd channels (Vaswani et al. 2017, section 3.5)."""

    config_fields: ClassVar[tuple[str, ...]] = ("d_model",)
    is_relative = False

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def table(self, positions: Tensor) -> Tensor:
        """float32 [length, d_model] for integer positions [length]."""
        even = torch.arange(0, self.d_model, 2, device=positions.device, dtype=torch.float64)
        angle = positions.double()[:, None] * 10000.0 ** (-even / self.d_model)  # [length, d_model / 2]
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, : self.d_model].float()

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        return tokens + self.table(torch.arange(start, start + tokens.shape[1], device=tokens.device)).to(tokens.dtype)


class Randomized(Sinusoidal):
    """Sinusoids of positions drawn at random from a range 16 times as long, in order (Ruoss et al. 2023).

    During training, each batch draws as many different positions as it has tokens and sorts them (arXiv 2305.16843).
    So training on short texts covers the positions of long ones. In evaluation, where the authors draw too, token i of
    n has the mean of the i-th smallest of n drawn positions, rounded down, so a model gives the same output each time.
    Each new token moves all others, so there is no cache for decoding.

    Raises ValueError for more tokens than positions.

    >>> position = Randomized(8, trained_length=6)
    >>> position.eval().positions(3), position.train().positions(96)[:4]
    (tensor([23, 47, 71]), tensor([0, 1, 2, 3]))
    """

    config_fields = ("d_model", "max_length")
    max_length: int
    supports_cache = False
    is_random = True

    def __init__(self, d_model: int, trained_length: int) -> None:
        super().__init__(d_model)
        self.max_length = 16 * trained_length

    def positions(self, length: int) -> Tensor:
        """int64 [length], increasing, on the CPU: drawn in training, and evenly spread in evaluation."""
        if not self.is_defined_at(length):
            raise ValueError(f"randomized positions are not defined beyond length {self.max_length}, got {length}")
        if self.training:  # on the CPU, so that equal seeds draw equal positions on all devices
            return torch.randperm(self.max_length, device="cpu")[:length].sort().values
        return (torch.arange(1, length + 1) * (self.max_length + 1)) // (length + 1) - 1

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        if start:
            raise ValueError(f"randomized positions depend on the length of the text, so start must be 0, got {start}")
        return tokens + self.table(self.positions(tokens.shape[1]).to(tokens.device)).to(tokens.dtype)


class Learned(Position):
    """One trained vector per position, added to the token vectors (Vaswani et al. 2017, table 3, row E; GPT-2).

    Raises ValueError beyond the end of the table.
    """

    config_fields = ("d_model", "max_length")
    is_relative = False

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.max_length = max_length
        self.table = nn.Embedding(max_length, d_model)
        nn.init.normal_(self.table.weight, std=0.02)

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        end = start + tokens.shape[1]
        if not self.is_defined_at(end):
            raise ValueError(f"learned positions are not defined beyond max_length={self.max_length}, got length {end}")
        return tokens + self.table.weight[start:end]
