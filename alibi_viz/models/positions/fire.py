"""FIRE: a small network that maps how far a key is, as a share of how far it could be, to a bias."""

import torch
from torch import Tensor, nn

from alibi_viz.distance import right_aligned
from alibi_viz.models.positions.base import Position

__all__ = ["Fire"]


class Fire(Position):
    """MLP[ln(1 + c d) / ln(1 + c max(i, tau))], a number in to one a head out (Li et al. 2024, FIRE, section 3).

    The share is between 0 and 1 at any length, so the network is never asked about what it has not seen. c starts at
    0.1 and tau at the training length, and both are learned. The network is 1 -> 32 -> heads with a ReLU.
    """

    def __init__(self, num_heads: int, threshold: float) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(0.1).log())  # of c, which must stay positive
        self.log_threshold = nn.Parameter(torch.tensor(float(threshold)).log())
        self.network = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, num_heads))

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        queries, keys = right_aligned(query_length, key_length, device=self.log_scale.device)
        scale, threshold = self.log_scale.float().exp(), self.log_threshold.float().exp()
        distance = (queries[:, None] - keys).abs().float()
        furthest = torch.maximum(queries.float(), threshold)[:, None]
        share = torch.log1p(scale * distance) / torch.log1p(scale * furthest)  # [query, key]
        return self.network(share[..., None].to(self.log_scale.dtype)).movedim(-1, 0)
