"""Methods that add a bias: ALiBi, others that are a curve over the distance per head, and gates."""

import math
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from alibi_viz.arguments import check_flag
from alibi_viz.bias import alibi_bias, check_lengths, right_aligned
from alibi_viz.cached_bias import AlibiBias
from alibi_viz.models.positions.base import Position
from alibi_viz.slopes import LearnedSlopes


class Alibi(Position):
    """Bias -m |i - j| with one slope m per head (Press et al. 2021).

    In a decoder, which masks the keys j > i, this is -m (i - j).

    A subclass may change `slopes`. One that changes the bias, the queries and keys or the logits
    attends as any other method does.

    Args:
        num_heads: number of heads.
        scheme, slopes: as in `AlibiBias`.
        learned_slopes: make the slopes trainable.
    """

    def __init__(
        self,
        num_heads: int,
        *,
        scheme: str = "official",
        slopes: Tensor | None = None,
        learned_slopes: bool = False,
    ) -> None:
        super().__init__()
        check_flag("learned_slopes", learned_slopes)
        self.num_heads = num_heads
        self.cached_bias = AlibiBias(num_heads, scheme=scheme, form="symmetric", slopes=slopes)
        self.learned = LearnedSlopes(self.cached_bias.slopes) if learned_slopes else None

    @property
    def slopes(self) -> Tensor:  # float32 [heads]
        return self.cached_bias.slopes if self.learned is None else self.learned()

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        has_fixed_slopes = self.learned is None and type(self).slopes is Alibi.slopes
        if has_fixed_slopes:
            return self.cached_bias(query_length, key_length)
        return alibi_bias(self.slopes, query_length, key_length, form="symmetric")


def is_plain_alibi(position: Position) -> TypeGuard[Alibi]:
    """Whether `alibi_attention` with the method's slopes is all that it does."""
    if not isinstance(position, Alibi) or type(position).bias is not Alibi.bias:
        return False
    return not position.uses("rotate") and not position.uses("logits")


class Relative(Position):
    """A bias given by a curve over the distance |i - j|. Subclasses define `curve`."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    def curve(self, distance: Tensor) -> Tensor:
        """float32 [heads, distances] for distances d >= 0, int64 [distances]."""
        raise NotImplementedError

    @property
    def _device(self) -> torch.device:
        """That of the parameters; without any, the default device."""
        for parameter in self.parameters():
            return parameter.device
        return torch.empty(0).device

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        check_lengths(query_length, key_length)
        device = self._device if x is None else x.device
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

    def __init__(self, num_heads: int, max_length: int) -> None:
        super().__init__(num_heads)
        self.max_distance = max(max_length // 4, 2)
        self.num_buckets = min(32, self.max_distance)
        self.values = nn.Embedding(self.num_buckets, num_heads)
        nn.init.normal_(self.values.weight, std=0.02)

    def bucket(self, distance: Tensor) -> Tensor:
        """int64, the bucket of each distance d >= 0."""
        exact = self.num_buckets // 2  # buckets of one distance each
        last = self.num_buckets - 1
        times_exact = distance.double().clamp(min=exact) / exact
        fraction = torch.log(times_exact) / math.log(self.max_distance / exact)
        # ln 4 / ln 2 can round to below 2, therefore the 1e-9.
        far = exact + (fraction * (self.num_buckets - exact) + 1e-9).long()
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
        p = _at_least(0.01, self.p)[:, None]
        a = _at_least(0.01, self.a)[:, None]
        return -p * torch.log1p(a * distance.float())


def _at_least(smallest: float, parameter: Tensor) -> Tensor:
    """The parameter, but at least `smallest`, with the gradient as if it weren't clamped.

    This "straight-through" gradient lets a parameter that has become too small grow again.
    """
    clamped = parameter.clamp(min=smallest).detach()
    only_gradient = parameter - parameter.detach()  # 0
    return clamped + only_gradient


class Fire(Position):
    """Bias MLP[ln(1 + c d) / ln(1 + c max(i, j, tau))], one output per head (FIRE).

    All layers share it, as in the paper's variant FIRE-S. The paper's max(i, tau) is the same in a
    decoder, where j <= i. So the network's input is between 0 and 1 at any length, and longer texts
    produce no unseen inputs. c starts at 0.1 and tau at a quarter of the training length (512 for
    the paper's 2,048); both are learned.

    Source: Li et al. 2024, section 3.
    """

    def __init__(self, num_heads: int, max_length: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.log_scale = nn.Parameter(torch.tensor(0.1).log())  # of c, which must stay positive
        self.log_threshold = nn.Parameter(torch.tensor(max(max_length / 4, 1.0)).log())
        self.network = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, num_heads))

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        queries, keys = right_aligned(query_length, key_length, device=self.log_scale.device)
        scale = self.log_scale.float().exp()
        threshold = self.log_threshold.float().exp()
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

    def __init__(self, num_heads: int, max_length: int = 2048) -> None:
        super().__init__(num_heads)
        slopes = []
        for head in range(num_heads):
            log_gamma = math.log1p(-(2.0 ** (-5 - head)))
            slopes.append(-log_gamma * 2048 / max_length)
        self.slopes = torch.tensor(slopes, device="cpu")  # no buffer, so they stay float32

    def curve(self, distance: Tensor) -> Tensor:
        return -self.slopes.to(distance.device)[:, None] * distance.float()


class Forget(Position):
    """Sum of ln f_t over the tokens t from j + 1 to i, with a forget gate f_t (FoX).

    The gate f_t = sigmoid(w . x_t + b) reads the input x of the layer. With a constant gate f =
    e^-m the sum is -m (i - j), which is ALiBi. We start at exactly that (w = 0, and b from the
    slopes), so that every difference from ALiBi is learned from the data; the paper starts w at
    random. Each layer has its own gates. In an encoder, the sum runs over the tokens between i and
    j, in either direction.

    Source: Lin et al. 2025, equation 5.
    """

    reads_input = True

    def __init__(self, d_model: int, slopes: Tensor) -> None:
        super().__init__()
        self.num_heads = len(slopes)
        self.gate = nn.Linear(d_model, len(slopes))
        nn.init.zeros_(self.gate.weight)
        with torch.no_grad():  # sigmoid(b) = e^-m
            self.gate.bias.copy_(-torch.expm1(slopes.double()).log())

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        """float32 [batch, heads, query, key].

        Raises ValueError if x is None or does not cover every key.
        """
        if x is None or x.shape[1] != key_length:
            axes = f"[batch, key={key_length}, d_model]"
            got = "None" if x is None else f"shape {list(x.shape)}"
            raise ValueError(f"a forget gate reads the layer's input, {axes}, got {got}")
        # float64, because a bias between neighbors is a small difference of two long sums
        total = logsigmoid(self.gate(x)).double().cumsum(1).transpose(1, 2)  # [batch, heads, key]
        bias = total[:, :, key_length - query_length :, None] - total[:, :, None, :]
        return -bias.float().abs()
