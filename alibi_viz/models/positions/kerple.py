"""KERPLE with the logarithmic kernel."""

import torch
from torch import Tensor, nn

from alibi_viz.models.positions.base import register
from alibi_viz.models.positions.relative import Relative

__all__ = ["KerpleLog"]


@register("kerple-log")
class KerpleLog(Relative):
    """Bias -p ln(1 + a d) with p and a learned per head (KERPLE, Chi et al. 2022, equation 6).

    It falls off far more slowly than a line. p starts uniform in (0, 2) and a in (0, 1); both are clamped to at least
    0.01, as in the authors' code.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__(num_heads)
        self.p = nn.Parameter(torch.rand(num_heads) * 2)
        self.a = nn.Parameter(torch.rand(num_heads))

    def curve(self, distance: Tensor) -> Tensor:
        p, a = self.p.clamp(min=0.01)[:, None], self.a.clamp(min=0.01)[:, None]
        return -p * torch.log1p(a * distance.float())
