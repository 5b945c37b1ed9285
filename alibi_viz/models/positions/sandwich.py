"""Sandwich: the dot product of sinusoidal positions as a bias."""

import torch
from torch import Tensor

from alibi_viz.models.positions.base import register
from alibi_viz.models.positions.relative import Relative

__all__ = ["Sandwich"]


@register("sandwich")
class Sandwich(Relative):
    """Bias [sum over k = 1..64 of cos(d 10000^(-2k/128)) - 64] / (8h/H) (Sandwich, Chi et al. 2023, section 4.1).

    The sum is the dot product of two sinusoidal positions at distance d; minus 64, it is zero at d = 0. Heads are
    numbered h = 1..H. Nothing is learned.
    """

    def curve(self, distance: Tensor) -> Tensor:
        k = torch.arange(1, 65, device=distance.device, dtype=torch.float64)
        total = torch.cos(distance.double()[:, None] * 10000.0 ** (-2 * k / 128)).sum(-1) - 64  # [distances]
        head = torch.arange(1, self.num_heads + 1, device=distance.device, dtype=torch.float64)
        return (total / (8 * head[:, None] / self.num_heads)).float()
