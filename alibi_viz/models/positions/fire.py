"""FIRE: a small network that maps the relative distance of a key to a bias."""

import torch
from torch import Tensor, nn

from alibi_viz.distance import right_aligned
from alibi_viz.models.config import TransformerConfig
from alibi_viz.models.positions.base import Position, register

__all__ = ["Fire"]


@register("fire")
class Fire(Position):
    """Bias MLP[ln(1 + c d) / ln(1 + c max(i, tau))], one output per head (FIRE, Li et al. 2024, section 3).

    The network's input is between 0 and 1 at any length, so longer texts produce no unseen inputs. c starts at 0.1 and
    tau at the training length, and both are learned. The network is 1 -> 32 -> heads with a ReLU.
    """

    def __init__(self, num_heads: int, threshold: float) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(0.1).log())  # of c, which must stay positive
        self.log_threshold = nn.Parameter(torch.tensor(float(threshold)).log())
        self.network = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, num_heads))

    @classmethod
    def from_config(cls, config: TransformerConfig) -> "Fire":
        return cls(config.num_heads, threshold=config.max_length)

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        queries, keys = right_aligned(query_length, key_length, device=self.log_scale.device)
        scale, threshold = self.log_scale.float().exp(), self.log_threshold.float().exp()
        distance = (queries[:, None] - keys).abs().float()
        largest = torch.maximum(queries.float(), threshold)[:, None]
        ratio = torch.log1p(scale * distance) / torch.log1p(scale * largest)  # [query, key]
        return self.network(ratio[..., None].to(self.log_scale.dtype)).movedim(-1, 0)
