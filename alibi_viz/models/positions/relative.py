"""Biases that depend on the distance d = i - j only: a method is one curve over d for each head.

    alibi        -m d                                fixed slopes m, or learned ones
    decay        d ln(gamma)                         retention: ALiBi with other slopes
    kerple-log   -p ln(1 + a d)                      p and a learned; the tail is far lighter than a line
    sandwich     what a dot product of sinusoids gives, as a bias
    t5           a learned number a bucket; far buckets are wide

`Fire`, which also looks at i, stands in `fire.py`; the forget gate, which looks at the data, in `forget.py`.
"""

import math

import torch
from torch import Tensor, nn

from alibi_viz.distance import right_aligned
from alibi_viz.models.positions.base import Position
from alibi_viz.slopes import LearnedSlopes

__all__ = ["Decay", "KerpleLog", "LearnedAlibi", "Relative", "Sandwich", "T5Buckets", "retention_slopes"]


class Relative(Position):
    """A bias that is a curve over the distance. Keys ahead of the query, in an encoder, count with their |i - j|."""

    def curve(self, distance: Tensor) -> Tensor:
        """float32 [heads, distances] for distances d >= 0, int64 [distances]."""
        raise NotImplementedError

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        right_aligned(query_length, key_length)  # raises when the lengths do not fit
        device = next(self.parameters(), torch.empty(0)).device if x is None else x.device
        if query_length == 0:
            return torch.zeros(len(self.curve(torch.arange(1, device=device))), 0, key_length, device=device)
        # A row of the bias is a stretch of one long curve, from d = key_length - 1 down to 0 and up again ahead of the
        # query. So each distance is computed once, and [heads, query, key] is a view, read from the last row up.
        distance = torch.arange(key_length - 1, -query_length, -1, device=device).abs()
        return self.curve(distance).unfold(1, key_length, 1).flip(1)


class LearnedAlibi(Relative):
    """-m d with slopes that training may change; they start at `slopes`, [heads]."""

    def __init__(self, slopes: Tensor) -> None:
        super().__init__()
        self.learned = LearnedSlopes(slopes)

    @property
    def slopes(self) -> Tensor:
        """float32 [heads], as they are now."""
        return self.learned()

    def curve(self, distance: Tensor) -> Tensor:
        return -self.learned()[:, None] * distance.float()


def retention_slopes(num_heads: int) -> Tensor:
    """-ln(gamma) with gamma = 1 - 2^(-5 - h), h = 0, 1, ...: float32 [heads] (Sun et al. 2023, RetNet, equation 8).

    >>> retention_slopes(3)
    tensor([0.0317, 0.0157, 0.0078])
    """
    return torch.tensor([-math.log1p(-(2.0 ** (-5 - head))) for head in range(num_heads)])


class Decay(Relative):
    """d ln(gamma): retention's decay under a softmax, which makes it ALiBi with other slopes.

    RetNet itself multiplies by gamma^d and has no softmax. Adding d ln(gamma) to the logits does the same to the
    weights before they are normalised, which is the nearest thing that a transformer can do.
    """

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", retention_slopes(num_heads), persistent=False)

    def curve(self, distance: Tensor) -> Tensor:
        return -self.slopes[:, None] * distance.float()


class KerpleLog(Relative):
    """-p ln(1 + a d) with p and a learned for each head (Chi et al. 2022, KERPLE, equation 6).

    p starts uniform in (0, 2) and a in (0, 1); both are kept at 0.01 or more, as in the authors' code.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.rand(num_heads) * 2)
        self.a = nn.Parameter(torch.rand(num_heads))

    def curve(self, distance: Tensor) -> Tensor:
        p, a = self.p.clamp(min=0.01)[:, None], self.a.clamp(min=0.01)[:, None]
        return -p * torch.log1p(a * distance.float())


class Sandwich(Relative):
    """[sum over k = 1..64 of cos(d 10000^(-2k/128)) - 64] / (8h/H) for head h = 1..H (Chi et al. 2023, section 4.1).

    The sum is the dot product of two sinusoidal positions, d apart; minus 64 it is zero at d = 0. Nothing is learned.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    def curve(self, distance: Tensor) -> Tensor:
        k = torch.arange(1, 65, device=distance.device, dtype=torch.float64)
        waves = torch.cos(distance.double()[:, None] * 10000.0 ** (-2 * k / 128)).sum(-1) - 64  # [distances]
        head = torch.arange(1, self.num_heads + 1, device=distance.device, dtype=torch.float64)
        return (waves / (8 * head[:, None] / self.num_heads)).float()


class T5Buckets(Relative):
    """A learned number for each bucket of distances (Raffel et al. 2020, T5, section 2.1).

    With 32 buckets, distances below 16 have one each; beyond, buckets widen with the logarithm, and the last one takes
    everything from `max_distance` D on. Keep D at the training length or below: a bucket that training never fills
    stays at its random start. A D below 32 gets fewer buckets, D of them.
    """

    def __init__(self, num_heads: int, max_distance: int, num_buckets: int = 32) -> None:
        super().__init__()
        self.max_distance = max(max_distance, 2)
        self.num_buckets = min(num_buckets, self.max_distance)
        self.values = nn.Embedding(self.num_buckets, num_heads)
        nn.init.normal_(self.values.weight, std=0.02)

    def bucket(self, distance: Tensor) -> Tensor:
        """int64, the bucket of each distance d >= 0."""
        exact, last = self.num_buckets // 2, self.num_buckets - 1
        share = torch.log(distance.double().clamp(min=exact) / exact) / math.log(self.max_distance / exact)
        far = exact + (share * (self.num_buckets - exact) + 1e-9).long()  # 1e-9: ln 4 / ln 2 may come out below 2
        return torch.where(distance < exact, distance, far.clamp(max=last))

    def curve(self, distance: Tensor) -> Tensor:
        return self.values(self.bucket(distance)).T.float()
