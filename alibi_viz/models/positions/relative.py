"""Biases computed from the distance d = i - j: ALiBi, and others that are one curve over d for each
head."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from alibi_viz.arguments import check_flag
from alibi_viz.attention import alibi_attention
from alibi_viz.bias import AlibiBias, alibi_bias, check_lengths, right_aligned
from alibi_viz.models.configuration import TransformerConfig
from alibi_viz.models.positions.base import Position
from alibi_viz.slopes import LearnedSlopes


class Alibi(Position):
    """Bias -m |i - j| with one slope m per head (Press et al. 2021): in a decoder, which masks j >
    i, -m (i - j).

    Args:
        num_heads: number of heads.
        learned: make the slopes trainable.
        options: `scheme` or `slopes`, as in `AlibiBias`.
    """

    uses_key_ball = True

    def __init_subclass__(cls) -> None:
        """A subclass that changes more than the slopes attends as any other method does."""
        super().__init_subclass__()
        changed = any(
            getattr(cls, name) is not getattr(Alibi, name)
            for name in ("bias", "transform", "weigh")
        )
        if changed and cls.attend is Alibi.attend:
            cls.attend, cls.uses_key_ball = Position.attend, False  # type: ignore[assignment, method-assign]

    def __init__(self, num_heads: int, *, learned: bool = False, **options: Any) -> None:
        super().__init__()
        check_flag("learned_slopes", learned)
        self.cached_bias = AlibiBias(num_heads, form="symmetric", **options)
        self.learned = LearnedSlopes(self.cached_bias.slopes) if learned else None

    @classmethod
    def from_config(cls, config: TransformerConfig) -> "Alibi":
        return cls(config.num_heads, slopes=config.slopes(), learned=config.learned_slopes)

    @property
    def slopes(self) -> Tensor:  # float32 [heads]
        return self.cached_bias.slopes if self.learned is None else self.learned()

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        if self.learned is None and type(self).slopes is Alibi.slopes:
            return self.cached_bias(query_length, key_length)
        return alibi_bias(self.slopes, query_length, key_length, form=self.cached_bias.form)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, *, x: Tensor | None = None, **options: Any
    ) -> Tensor:
        """As `Position.attend`; `options` are those of `alibi_attention`, such as
        `key_padding_mask`."""
        return alibi_attention(query, key, value, self.slopes, **options)


class Relative(Position):
    """A bias given by a curve over the distance |i - j|. Subclasses define `curve`."""

    config_fields: ClassVar[tuple[str, ...]] = ("num_heads",)

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    def curve(self, distance: Tensor) -> Tensor:
        """float32 [heads, distances] for distances d >= 0, int64 [distances]."""
        raise NotImplementedError

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        check_lengths(query_length, key_length)
        device = next(self.parameters(), torch.empty(0)).device if x is None else x.device
        if query_length == 0:
            return torch.zeros(self.num_heads, 0, key_length, device=device)
        # Each row of the bias is a slice of one curve, from d = key_length - 1 down to 0, and up
        # again for the keys after the query, so each distance is computed once. The first slice is
        # the last row.
        distance = torch.arange(key_length - 1, -query_length, -1, device=device).abs()
        return self.curve(distance).unfold(1, key_length, 1).flip(1)


class T5Buckets(Relative):
    """A learned bias per head and bucket of distances (T5, Raffel et al. 2020, section 2.1).

    There are 32 buckets. Each distance below 16 has its own; beyond, the width of a bucket grows
    with the distance. The last one begins below D (at 113 for D = 128) and has no end. D is a
    quarter of the training length, as T5's 128 for 512 tokens, so training fills all buckets (but
    one at a few lengths, such as 128). Below 32, there are D buckets.
    """

    config_fields = ("num_heads", "max_length")

    def __init__(self, num_heads: int, trained_length: int) -> None:
        super().__init__(num_heads)
        self.max_distance = max(trained_length // 4, 2)
        self.num_buckets = min(32, self.max_distance)
        self.values = nn.Embedding(self.num_buckets, num_heads)
        nn.init.normal_(self.values.weight, std=0.02)

    def bucket(self, distance: Tensor) -> Tensor:
        """int64, the bucket of each distance d >= 0."""
        exact, last = self.num_buckets // 2, self.num_buckets - 1
        fraction = torch.log(distance.double().clamp(min=exact) / exact) / math.log(
            self.max_distance / exact
        )
        far = (
            exact + (fraction * (self.num_buckets - exact) + 1e-9).long()
        )  # 1e-9: ln 4 / ln 2 can round to below 2
        return torch.where(distance < exact, distance, far.clamp(max=last))

    def curve(self, distance: Tensor) -> Tensor:
        return self.values(self.bucket(distance)).T.float()


class KerpleLog(Relative):
    """Bias -p ln(1 + a d) with p and a learned per head (KERPLE, Chi et al. 2022, equation 6).

    p starts uniform in (0, 2) and a in (0, 1); both are used as at least 0.01 and go on learning
    below. The authors' code sets the parameters themselves to 0.01 there.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__(num_heads)
        self.p = nn.Parameter(torch.rand(num_heads) * 2)
        self.a = nn.Parameter(torch.rand(num_heads))

    def curve(self, distance: Tensor) -> Tensor:
        p, a = (
            x.clamp(min=0.01).detach() + (x - x.detach())
            for x in (self.p[:, None], self.a[:, None])
        )
        return -p * torch.log1p(a * distance.float())


class Bam(Relative):
    """Bias -exp(a) (d + 1e-5)^b with a and b learned per head and layer (BAM, Bianchessi et al.
    2025).

    This is a generalized Gaussian prior of the position (arXiv 2505.22842): b = 1 is ALiBi with
    slope exp(a), b = 0 no positions, and a negative b attends to distant tokens. a and b start at
    zero, as in the authors' code, so training starts without positions. The scalable softmax of the
    paper is not part of this class.
    """

    is_per_layer = True

    def __init__(self, num_heads: int) -> None:
        super().__init__(num_heads)
        self.log_scale = nn.Parameter(torch.zeros(num_heads))  # theta_alpha in the paper
        self.shape = nn.Parameter(torch.zeros(num_heads))  # theta_beta

    def curve(self, distance: Tensor) -> Tensor:
        scale, shape = self.log_scale.float().exp()[:, None], self.shape.float()[:, None]
        return -scale * (distance.float() + 1e-5) ** shape


class Sandwich(Relative):
    """Bias [sum over k = 1..64 of cos(d 10000^(-2k/128)) - 64] / (8h/H) (Sandwich, Chi et al. 2023,
    section 4.1).

    Nothing is learned. The sum is the dot product of two sinusoidal positions at distance d. Heads
    are h = 1..H.
    """

    def curve(self, distance: Tensor) -> Tensor:
        k = torch.arange(1, 65, device=distance.device, dtype=torch.float64)
        total = (
            torch.cos(distance.double()[:, None] * 10000.0 ** (-2 * k / 128)).sum(-1) - 64
        )  # [distances]
        head = torch.arange(1, self.num_heads + 1, device=distance.device, dtype=torch.float64)
        return (total / (8 * head[:, None] / self.num_heads)).float()


class Fire(Position):
    """Bias MLP[ln(1 + c d) / ln(1 + c max(i, j, tau))], one output per head (FIRE, Li et al. 2024,
    section 3).

    All layers share it, as in the paper's variant FIRE-S. The paper's max(i, tau) is the same in a
    decoder, where j <= i. So the network's input is between 0 and 1 at any length, and longer texts
    produce no unseen inputs. c starts at 0.1 and tau at a quarter of the training length (512 for
    the paper's 2,048); both are learned.
    """

    config_fields = ("num_heads", "max_length")

    def __init__(self, num_heads: int, trained_length: int) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(0.1).log())  # of c, which must stay positive
        self.log_threshold = nn.Parameter(torch.tensor(max(trained_length / 4, 1.0)).log())
        self.network = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, num_heads))

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        queries, keys = right_aligned(query_length, key_length, device=self.log_scale.device)
        scale, threshold = self.log_scale.float().exp(), self.log_threshold.float().exp()
        distance = (queries[:, None] - keys).abs().float()
        largest = torch.maximum(torch.maximum(queries[:, None], keys).float(), threshold)
        ratio = torch.log1p(scale * distance) / torch.log1p(scale * largest)  # [query, key]
        return self.network(ratio[..., None].to(self.log_scale.dtype)).movedim(-1, 0)


class Decay(Relative):
    """Bias d ln(gamma), RetNet's decay under a softmax: ALiBi with other slopes (Sun et al. 2023).

    gamma = 1 - 2^(-5 - h) for the heads h = 0, 1, ... (equation 8), at RetNet's training length of
    2,048. For another length L, d is multiplied by 2048 / L, so that each head forgets over the
    same share of L. RetNet itself multiplies by gamma^d and has no softmax; here the weights are
    multiplied before they are normalized.
    """

    config_fields = ("num_heads", "max_length")

    def __init__(self, num_heads: int, trained_length: int = 2048) -> None:
        super().__init__(num_heads)
        slopes = [
            -math.log1p(-(2.0 ** (-5 - head))) * 2048 / trained_length for head in range(num_heads)
        ]
        self.slopes = torch.tensor(
            slopes, device="cpu"
        )  # no buffer, so they stay float32 in any model

    def curve(self, distance: Tensor) -> Tensor:
        return -self.slopes.to(distance.device)[:, None] * distance.float()
