"""Retention's exponential decay as a bias."""

import math

import torch
from torch import Tensor

from alibi_viz.models.positions.base import register
from alibi_viz.models.positions.relative import Relative

__all__ = ["Decay", "retention_slopes"]


def retention_slopes(num_heads: int) -> Tensor:
    """-ln(gamma) with gamma = 1 - 2^(-5 - h), h = 0, 1, ...: float32 [heads] (Sun et al. 2023, RetNet, equation 8).

    >>> retention_slopes(3)
    tensor([0.0317, 0.0157, 0.0078])
    """
    return torch.tensor([-math.log1p(-(2.0 ** (-5 - head))) for head in range(num_heads)])


@register("decay")
class Decay(Relative):
    """Bias d ln(gamma), RetNet's decay under a softmax: ALiBi with other slopes (Sun et al. 2023).

    RetNet itself multiplies by gamma^d and has no softmax. Adding d ln(gamma) to the logits multiplies the weights by
    gamma^d before they are normalized, which is the closest equivalent in a transformer.
    """

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__(num_heads)
        self.register_buffer("slopes", retention_slopes(num_heads), persistent=False)

    def curve(self, distance: Tensor) -> Tensor:
        return -self.slopes[:, None] * distance.float()
