"""Rotary positions (RoPE), and the rules that scale them beyond the training length without more training.

At length L', with training length L and s = L' / L:

    pi    position interpolation: i -> i / s, so every angle was seen in training (Chen et al. 2023)
    ntk   base -> base s^(d / (d - 2)): fast pairs keep their angles, the slowest is stretched by s (bloc97 2023)

Position interpolation was designed for use with some fine-tuning at the new length; NTK scaling works without. Neither
is fine-tuned here.
"""

import torch
from torch import Tensor

from alibi_viz.arguments import check_positive_integers
from alibi_viz.distance import right_aligned
from alibi_viz.models.config import TransformerConfig
from alibi_viz.models.positions.base import Position

__all__ = ["ROTARY_RULES", "Rotary", "ScaledRotary"]

ROTARY_RULES = ("plain", "pi", "ntk")


class Rotary(Position):
    """Rotates pair k of each query and key by the angle i * 10000^(-2k / head_dim) (RoPE, Su et al. 2021).

    The dot product q_i . k_j then depends on i - j only. Channels k and k + head_dim / 2 form a pair, as in GPT-NeoX
    and LLaMA. `base` replaces the 10000, and positions are divided by `scaling_factor`.

    Raises ValueError when `head_dim` is odd.
    """

    def __init__(self, head_dim: int, *, base: float = 10000.0, scaling_factor: float = 1.0) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"rotary positions rotate pairs of channels, so head_dim must be even, got {head_dim}")
        self.head_dim, self.base, self.scaling_factor = head_dim, base, scaling_factor
        self._tables: dict[torch.device, tuple[Tensor, Tensor]] = {}

    @classmethod
    def from_config(cls, config: TransformerConfig) -> "Rotary":
        return cls(config.d_model // config.num_heads)

    def rotate(self, vectors: Tensor, positions: Tensor) -> Tensor:
        """[..., length, head_dim] rotated by their integer positions [length]."""
        cos, sin = self._cos_sin(positions)
        first, second = vectors.float().chunk(2, dim=-1)
        rotated = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        return rotated.to(vectors.dtype)

    def transform(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        query_positions, key_positions = right_aligned(query.shape[-2], key.shape[-2], device=query.device)
        return self.rotate(query, query_positions), self.rotate(key, key_positions)

    def _cos_sin(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine of the angles, each float32 [length, head_dim / 2]."""
        tables = self._tables.get(positions.device)
        length = int(positions[-1]) + 1 if len(positions) else 1
        if tables is None or len(tables[0]) < length:
            pair = torch.arange(0, self.head_dim, 2, device=positions.device, dtype=torch.float64)
            steps = torch.arange(1 << (length - 1).bit_length(), device=positions.device)
            # float64: angles grow with the position, and float32 would round them
            angle = steps.double()[:, None] / self.scaling_factor * self.base ** (-pair / self.head_dim)
            tables = self._tables[positions.device] = angle.cos().float(), angle.sin().float()
        return tables[0][positions], tables[1][positions]


class ScaledRotary(Rotary):
    """Rotary positions scaled by a rule when there are more keys than the training length, and plain otherwise.

    Raises ValueError for an unknown rule or a training length below 1.

    >>> rotary = ScaledRotary(8, "pi", trained_length=16)
    >>> rotary.for_length(16).scaling_factor, rotary.for_length(64).scaling_factor
    (1.0, 4.0)
    """

    def __init__(self, head_dim: int, rule: str, trained_length: int) -> None:
        super().__init__(head_dim)
        if rule not in ROTARY_RULES:
            raise ValueError(f"the rule of rotary positions must be one of {', '.join(ROTARY_RULES)}, got {rule!r}")
        check_positive_integers(trained_length=trained_length)
        if rule == "ntk" and head_dim <= 2:
            raise ValueError(f"rule 'ntk' divides by head_dim - 2, so head_dim must be above 2, got {head_dim}")
        self.rule, self.trained_length = rule, trained_length

    def for_length(self, length: int) -> Rotary:
        """The rotary positions for this number of keys."""
        s = max(1.0, length / self.trained_length)
        if self.rule == "pi":
            return Rotary(self.head_dim, base=self.base, scaling_factor=s)
        if self.rule == "ntk":
            return Rotary(self.head_dim, base=self.base * s ** (self.head_dim / (self.head_dim - 2)))
        return self

    def transform(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return Rotary.transform(self.for_length(key.shape[-2]), query, key)
