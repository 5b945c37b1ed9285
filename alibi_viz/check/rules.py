"""Rules by which a bias may depend on positions: the correct one, and those of known faults."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from alibi_viz.check.probe import Probe

Slopes = Callable[[int], Tensor]  # num_heads -> float64 [heads]
Rows = slice | list[int]
_HALF = (torch.bfloat16, torch.float16)
ROUNDINGS = [
    (dtype, form) for dtype in _HALF for form in ("product", "factors", "from the end", "positions", "difference")
]


class Rule(NamedTuple):
    """A bias of -slope * distance, where visible. `faults` is empty for the correct rule."""

    faults: tuple[str, ...]
    distance: Tensor  # float64 [query, key]
    visible: Tensor  # bool [query, key] or [heads, query, key]

    def bias(self, slopes: Tensor, rows: Rows = slice(None)) -> Tensor:
        """The bias for slopes [heads] in these rows, float64 [heads, rows, key]."""
        return (-slopes.double()[:, None, None] * self.distance[rows]).masked_fill(
            ~self.visible[..., rows, :], -math.inf
        )


@dataclass(frozen=True)
class Expectation:
    """What the function should compute, and what helps to explain why it doesn't.

    Attributes:
        slopes: the correct slopes, a function of the number of heads.
        causal: whether keys after the query should be masked; otherwise the bias should be symmetric.
        head_dim: the size of one head, if known: it identifies a bias that was divided by its square root.
        content: for every head count, the factor of q . k that was measured, relative to the correct one.
    """

    slopes: Slopes
    causal: bool = True
    head_dim: int | None = None
    content: Mapping[int, float] | None = None

    def bias(self, probe: Probe) -> Tensor:
        """The correct bias with the causal mask, float64 [heads, query, key]."""
        return next(rules(probe, self.causal)).bias(self.slopes(probe.num_heads))


def rules(
    probe: Probe, causal: bool, cap: int | None = None, window: int | None = None, first: Tensor | None = None
) -> Iterator[Rule]:
    """All rules, those with the fewest faults first.

    `cap` is a distance beyond which the bias may be constant, and `window` one beyond which keys may be masked; `first`
    [heads] are numbers of keys after which all others may be masked.
    """
    row = torch.arange(probe.query_length, dtype=torch.float64)[:, None]
    key = torch.arange(probe.key_length, dtype=torch.float64)
    query = row + probe.key_length - probe.query_length
    offset = query - key  # [query, key], negative for keys after the query
    distances = {
        "": offset,
        "wrong corner of the cache": (row - key).abs(),
        "square root of the distance": offset.sign() * offset.abs().sqrt(),
        "logarithm of the distance": offset.sign() * offset.abs().log1p(),
    }
    if cap is not None:
        distances["length cap"] = offset.clamp(-cap, cap)
    everything, past = torch.ones_like(offset, dtype=torch.bool), key <= query
    # which keys are visible, and whether the distance to later ones counts as positive, zero or negative
    visible = past if causal else everything
    futures: list[tuple[str, Tensor, Callable[[Tensor], Tensor]]] = [("", visible, torch.abs)]
    if causal:
        futures += [
            ("future not masked", everything, torch.abs),
            ("future not masked", everything, torch.relu),
            ("causal mask in the wrong corner", key <= row, torch.abs),
            ("query can't see itself", key < query, torch.abs),
            ("one key ahead", key <= query + 1, torch.abs),
        ]
    else:
        futures.append(("only earlier keys", past, torch.abs))
    futures += [("rewarded future", everything, torch.clone), ("rewarded past", everything, torch.neg)]
    if window is not None:
        futures.append(("window", visible & (offset.abs() < window), torch.abs))
    if first is not None:
        futures.append(("first keys only", visible & (key < first[:, None, None]), torch.abs))
    combinations = [
        Rule(tuple(filter(None, (name, future))), sign(distance), shown)
        for (name, distance), (future, shown, sign) in itertools.product(distances.items(), futures)
    ]
    yield from sorted(combinations, key=lambda rule: len(rule.faults))


class Rounding(NamedTuple):
    """A bias with positions, or slope times position, rounded to `dtype`; `form` is one of those in `ROUNDINGS`."""

    probe: Probe
    slopes: Tensor  # [heads]
    causal: bool
    dtype: torch.dtype
    form: str

    def bias(self, factors: Tensor, rows: Rows = slice(None)) -> Tensor:
        """The bias times factors [heads], in these rows: float64 [heads, rows, key]."""
        slopes, dtype, key_length = self.slopes[:, None, None], self.dtype, self.probe.key_length
        query = torch.arange(key_length - self.probe.query_length, key_length)[rows, None]
        key = torch.arange(key_length)
        if self.form == "positions":
            bias = -slopes * (key.to(dtype).double() - query.to(dtype).double()).abs()
        elif self.form == "difference":
            bias = -slopes * (key.to(dtype) - query.to(dtype)).double().abs()
        elif self.form == "factors":
            bias = (slopes.to(dtype) * key.to(dtype)).double()
        else:
            bias = (slopes * (key - (key_length - 1 if self.form == "from the end" else 0))).to(dtype).double()
        bias = factors.double()[:, None, None] * bias.expand(-1, len(query), -1)
        return bias.masked_fill(key > query, -math.inf) if self.causal else bias
