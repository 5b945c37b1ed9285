"""Rotary positions (RoPE), the rules that change them beyond the training length, and xPos.

At length L', with training length L and s = L' / L, and without the fine-tuning that pi was
designed for:

    pi    position interpolation: i -> i / s, between positions seen in training
          (Chen et al. 2023)
    ntk   base -> base s^(d / (d - 2)): fast pairs keep their angles, the slowest is stretched by s
          (bloc97 2023)
    yarn  interpolates slow pairs as pi, keeps fast ones, blends the rest, and sharpens attention
          (Peng et al. 2023)

A fourth rule scales nothing. It changes single pairs of query and key, those further apart than any
pair in training:

    rerope  relative angles stop growing at distance L - 1 (ReRoPE, Su 2023)
"""

import math

import torch
from torch import Tensor

from alibi_viz.arguments import check_choice, check_positive_integers
from alibi_viz.bias import right_aligned
from alibi_viz.models.positions.base import Position, scaled_products

SCALING_RULES = ("plain", "pi", "ntk", "yarn")
ROTARY_RULES = (*SCALING_RULES, "rerope")
BASE = 10000.0


def rotary_frequencies(head_dim: int, base: float = BASE) -> Tensor:
    """The angle per position of each pair of channels: base^(-2k / head_dim).

    Returns float64 [head_dim / 2].
    """
    even = torch.arange(0, head_dim, 2, dtype=torch.float64, device="cpu")
    return base ** (-even / head_dim)


class Rotary(Position):
    """Rotates pair k of each query and key by the angle i * base^(-2k / head_dim) (RoPE).

    The dot product q_i . k_j then depends on i - j only. Channels k and k + head_dim / 2 form a
    pair, as in GPT-NeoX and in transformers; in the paper and in Meta's LLaMA, neighbors do.

    Args:
        head_dim: number of channels per head, even.
        rotary_base: the base, by default that of the paper.
        frequencies: float64 [head_dim / 2], the angles per position of each pair, instead of those
            of the base.
        scale: multiplies queries and keys.

    Source: Su et al. 2021.
    """

    def __init__(
        self,
        head_dim: int,
        rotary_base: float = BASE,
        *,
        frequencies: Tensor | None = None,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(
                "rotary positions rotate pairs of channels, so head_dim must be even, got "
                f"{head_dim}"
            )
        self.head_dim = head_dim
        self.rotary_base = rotary_base
        self.scale = scale
        if frequencies is None:
            frequencies = rotary_frequencies(head_dim, rotary_base)
        self.frequencies = frequencies
        self._tables: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def turn(self, vectors: Tensor, positions: Tensor, end: int) -> Tensor:
        """[..., length, head_dim] rotated by their integer positions [length], all below `end`."""
        cos_table, sin_table = self._cos_sin(end, positions.device)
        cos = cos_table[positions]
        sin = sin_table[positions]
        first, second = vectors.float().chunk(2, dim=-1)
        rotated = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        return (rotated * self.scale).to(vectors.dtype)

    def rotate(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        end = key.shape[-2]
        query_positions, key_positions = right_aligned(query.shape[-2], end, device=query.device)
        return self.turn(query, query_positions, end), self.turn(key, key_positions, end)

    def _cos_sin(self, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Cosine and sine of the angles at positions 0, 1, ....

        Each is float32 [at least length, head_dim / 2].
        """
        if torch.compiler.is_compiling():
            # A cached table would need a graph for each of its lengths.
            return self._make_tables(length, device)
        tables = self._tables.get(device)
        if tables is None or len(tables[0]) < length:
            next_power_of_two = 1 << (length - 1).bit_length()
            tables = self._make_tables(next_power_of_two, device)
            self._tables[device] = tables
        return tables

    def _make_tables(self, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
        # float64: angles grow with the position, and float32 would round them
        angle = torch.arange(length, device=device).double()[:, None] * self.frequencies.to(device)
        return angle.cos().float(), angle.sin().float()


def yarn_frequencies(head_dim: int, trained_length: int, s: float, base: float = BASE) -> Tensor:
    """The frequencies of YaRN at `s` times the training length: float64 [head_dim / 2].

    Pairs that turn at least 32 times within the training length keep their frequency, pairs that
    turn at most once are slowed down by s, and a ramp blends the two for those between. The ramp is
    linear in the index of the pair and the fastest pair is always kept, as in the authors' code; in
    the paper (Peng et al. 2023, arXiv 2309.00071) it is linear in the number of turns. Below 202
    tokens no pair turns 32 times; there the ramp begins at the square root of the turns of the
    fastest pair, halfway to a single turn on the ramp's scale.
    """
    frequencies = rotary_frequencies(head_dim, base)
    most_turns = trained_length / math.tau  # of the fastest pair, within the training length

    def pair_that_turns(turns: float) -> float:
        """The index of the pair, not rounded, that turns so often within the training length."""
        return head_dim * math.log(most_turns / turns) / (2 * math.log(base))

    turns_of_kept = 32 if most_turns > 32 else math.sqrt(most_turns)
    first = max(math.floor(pair_that_turns(turns_of_kept)), 0)
    last = min(math.ceil(pair_that_turns(1)), head_dim - 1)
    index = torch.arange(head_dim // 2, dtype=torch.float64, device="cpu")
    ramp_width = max(last - first, 0.001)  # no division by zero for short lengths
    slowed = ((index - first) / ramp_width).clamp(0, 1)
    return frequencies * (1 - slowed) + frequencies / s * slowed


class ScaledRotary(Rotary):
    """Rotary positions that a rule scales when there are more keys than the training length.

    Raises ValueError for an unknown rule, a training length below 1, and `head_dim` 2 with "ntk".
    """

    def __init__(
        self, head_dim: int, rule: str, trained_length: int, rotary_base: float = BASE
    ) -> None:
        super().__init__(head_dim, rotary_base)
        check_choice("the rule of rotary positions", rule, SCALING_RULES)
        check_positive_integers(trained_length=trained_length)
        if rule == "ntk" and head_dim <= 2:
            raise ValueError(
                f"rule 'ntk' divides by head_dim - 2, so head_dim must be above 2, got {head_dim}"
            )
        self.rule = rule
        self.trained_length = trained_length

    def for_length(self, length: int) -> Rotary:
        """The rotary positions for this number of keys."""
        s = length / self.trained_length
        dim = self.head_dim
        if s <= 1 or self.rule == "plain":
            return self
        if self.rule == "pi":
            return Rotary(dim, frequencies=self.frequencies / s)
        if self.rule == "ntk":
            return Rotary(dim, self.rotary_base * s ** (dim / (dim - 2)))
        # The logits are multiplied by the square, which the paper calls 1 / t.
        return Rotary(
            dim,
            frequencies=yarn_frequencies(dim, self.trained_length, s, self.rotary_base),
            scale=0.1 * math.log(s) + 1,
        )

    def rotate(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return Rotary.rotate(self.for_length(key.shape[-2]), query, key)


class RectifiedRotary(Rotary):
    """Rotary positions whose relative angles stop growing at distance L - 1 (ReRoPE).

    Two tokens at a distance of L or more get the angles of distance L - 1, the largest in training.
    Up to the training length L, this is `Rotary`. Rotating each query and each key once, as
    `rotate` does, can't stop the angles. So `logits` computes a second product for far keys:
    every query rotated as if at position L - 1, every key as if at 0.

    Args:
        head_dim: number of channels per head, even.
        trained_length: the training length L.
        rotary_base: as in `Rotary`.

    Raises ValueError if `head_dim` is odd or the training length below 1.

    Source: Su 2023, https://kexue.fm/archives/9708, and `rerope_patch.py` in
    https://github.com/bojone/rerope. There, angles stop at the window w, which he chooses below the
    training length. Here they stop at the last distance of training. His factor log(i) / log(L)
    for queries beyond L is not part of this class.

    >>> import torch
    >>> from alibi_viz.models.positions.rotary import RectifiedRotary
    >>> same = torch.ones(1, 1, 6, 2)  # equal queries and keys, so only the angles differ
    >>> RectifiedRotary(2, trained_length=3).logits(same, same)[0, 0, 5]
    tensor([-0.5885, -0.5885, -0.5885, -0.5885,  0.7641,  1.4142])
    """

    def __init__(self, head_dim: int, trained_length: int, rotary_base: float = BASE) -> None:
        super().__init__(head_dim, rotary_base)
        check_positive_integers(trained_length=trained_length)
        self.trained_length = trained_length

    def logits(self, query: Tensor, key: Tensor, *, causal: bool = True) -> Tensor:
        queries, keys = right_aligned(query.shape[-2], key.shape[-2], device=query.device)
        distance = queries[:, None] - keys  # negative for later keys
        farthest = self.trained_length - 1

        logits = scaled_products(*self.rotate(query, key))
        earlier = scaled_products(self._rotated_to(farthest, query), key)
        logits = torch.where(distance > farthest, earlier, logits)
        if causal:
            return logits.masked_fill(distance < 0, -math.inf)

        later = scaled_products(query, self._rotated_to(farthest, key))
        return torch.where(distance < -farthest, later, logits)

    def _rotated_to(self, position: int, vectors: Tensor) -> Tensor:
        """All vectors [..., length, head_dim] rotated as if at this position."""
        positions = torch.full(vectors.shape[-2:-1], position, device=vectors.device)
        return self.turn(vectors, positions, end=position + 1)


def rotary_with_rule(
    head_dim: int, rule: str, trained_length: int, rotary_base: float = BASE
) -> Rotary:
    """Rotary positions that follow one of the `ROTARY_RULES` beyond the training length.

    Raises ValueError for an unknown rule, and as `ScaledRotary` and `RectifiedRotary`.
    """
    check_choice("the rule of rotary positions", rule, ROTARY_RULES)
    if rule == "rerope":
        return RectifiedRotary(head_dim, trained_length, rotary_base)
    return ScaledRotary(head_dim, rule, trained_length, rotary_base)


class Xpos(Rotary):
    """Rotary positions whose pair k is also multiplied by z_k^((i - j) / s), which decays (xPos).

    z_k = (2k / head_dim + 0.4) / 1.4 for the pairs k = 0, 1, ... of a head (Sun et al. 2022, arXiv
    2212.10554, and the authors' code in torchscale): queries are multiplied by z_k^(i / s) and keys
    by z_k^(-j / s). Fast pairs decay most. Decoders only, because the factor of a key after the
    query would grow. s is half the training length, as the authors' 512 for 1,024. The paper's
    blockwise causal attention is not part of this class.

    The positions in the exponents are counted from the middle of the text, which leaves all
    products as they are. Up to 64 s tokens, factors and products then fit into float32 and
    bfloat16, up to 4 s into float16; ValueError beyond.

    >>> import torch
    >>> from alibi_viz.models.positions.rotary import Xpos
    >>> Xpos(4).growth(torch.tensor([0, 512]))  # 0.4 / 1.4 for pair 0 and 0.9 / 1.4 for pair 1
    tensor([[1.0000, 1.0000, 1.0000, 1.0000],
            [0.2857, 0.6429, 0.2857, 0.6429]])
    """

    is_causal_only = True
    longest: int

    def __init__(self, head_dim: int, max_length: int = 1024) -> None:
        super().__init__(head_dim)
        self.scale_base = max_length / 2
        self.longest = 32 * max_length

    def rotate(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        queries, keys = right_aligned(query.shape[-2], key.shape[-2], device=query.device)
        limit = self.longest
        if query.dtype == torch.float16:
            limit //= 16
        end = len(keys)
        if end > limit:
            raise ValueError(
                f"xPos in {query.dtype} is not defined beyond {limit} tokens, got {end}"
            )
        middle = end // 2
        new_query = self.turn(query, queries, end) * self.growth(queries - middle)
        new_key = self.turn(key, keys, end) * self.growth(middle - keys)
        return new_query.to(query.dtype), new_key.to(key.dtype)

    def growth(self, positions: Tensor) -> Tensor:
        """z_k^(position / s) for both channels of each pair: float32 [positions, head_dim]."""
        pairs = torch.arange(0, self.head_dim, 2, device=positions.device, dtype=torch.float64)
        rate = ((pairs / self.head_dim + 0.4) / 1.4).log() / self.scale_base  # [head_dim / 2]
        return (positions[:, None] * rate).exp().float().repeat(1, 2)
