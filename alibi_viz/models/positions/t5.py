"""T5's relative position buckets."""

import math

import torch
from torch import Tensor, nn

from alibi_viz.models.config import TransformerConfig
from alibi_viz.models.positions.base import register
from alibi_viz.models.positions.relative import Relative

__all__ = ["T5Buckets"]


@register("t5")
class T5Buckets(Relative):
    """A learned bias per head and bucket of distances (T5, Raffel et al. 2020, section 2.1).

    With 32 buckets, each distance below 16 has its own bucket; beyond, the width of a bucket grows with the distance,
    and the last one holds everything from `max_distance` D on. Keep D at or below the training length: a bucket that
    training never fills keeps its random initial value. If D is below 32, there are D buckets.
    """

    def __init__(self, num_heads: int, max_distance: int, num_buckets: int = 32) -> None:
        super().__init__(num_heads)
        self.max_distance = max(max_distance, 2)
        self.num_buckets = min(num_buckets, self.max_distance)
        self.values = nn.Embedding(self.num_buckets, num_heads)
        nn.init.normal_(self.values.weight, std=0.02)

    @classmethod
    def from_config(cls, config: TransformerConfig) -> "T5Buckets":
        return cls(config.num_heads, config.max_length)

    def bucket(self, distance: Tensor) -> Tensor:
        """int64, the bucket of each distance d >= 0."""
        exact, last = self.num_buckets // 2, self.num_buckets - 1
        share = torch.log(distance.double().clamp(min=exact) / exact) / math.log(self.max_distance / exact)
        far = exact + (share * (self.num_buckets - exact) + 1e-9).long()  # 1e-9: ln 4 / ln 2 can round to below 2
        return torch.where(distance < exact, distance, far.clamp(max=last))

    def curve(self, distance: Tensor) -> Tensor:
        return self.values(self.bucket(distance)).T.float()
