"""Rules by which a bias may depend on positions: the correct one, and those of known faults."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from alibi_viz.check.probe import Probe

Slopes = Callable[[int], Tensor]  # num_heads -> float64 [heads]
Rows = slice | list[int]


class Rule(NamedTuple):
    """A bias of -slope * distance, where visible. `faults` is empty for the correct rule."""

    faults: tuple[str, ...]
    distance: Tensor  # float64 [query, key] or [heads, query, key]
    visible: Tensor  # bool [query, key] or [heads, query, key]

    def bias(self, slopes: Tensor, rows: Rows = slice(None)) -> Tensor:
        """The bias for slopes [heads] in these rows, float64 [heads, rows, key]."""
        bias = -slopes.double()[:, None, None] * self.distance[..., rows, :]
        return bias.masked_fill(~self.visible[..., rows, :], -math.inf)


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
        return next(rules(probe, self)).bias(self.slopes(probe.num_heads))


def rules(
    probe: Probe,
    expected: Expectation,
    cap: int | None = None,
    window: int | None = None,
    last_key: Tensor | None = None,
) -> Iterator[Rule]:
    """All rules, those with the fewest faults first.

    `cap` is a distance beyond which the bias may be constant, and `window` one beyond which keys may be masked;
    `last_key` [heads] are numbers of keys after which all others may be masked.
    """
    row = torch.arange(probe.query_length, dtype=torch.float64)[:, None]
    key = torch.arange(probe.key_length, dtype=torch.float64)
    query = row + probe.key_length - probe.query_length
    offset = query - key  # [query, key], negative for keys after the query
    everything, past = torch.ones_like(offset, dtype=torch.bool), key <= query
    visible = past if expected.causal else everything
    yield Rule((), offset.abs(), visible)
    distances = {
        "": offset,
        "wrong corner of the cache": (row - key).abs(),
        "square root of the distance": offset.sign() * offset.abs().sqrt(),
        "logarithm of the distance": offset.sign() * offset.abs().log1p(),
    }
    if cap is not None:
        distances["length cap"] = offset.clamp(-cap, cap)
    # which keys are visible, and whether the distance to later ones counts as positive, zero or negative
    futures: list[tuple[str, Tensor, Callable[[Tensor], Tensor]]] = [("", visible, torch.abs)]
    if expected.causal:
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
    if window is not None and last_key is not None:
        futures.append(("window", visible & (offset.abs() < window), torch.abs))
        futures.append(("first keys only", visible & (key < last_key[:, None, None]), torch.abs))
    combinations = [
        Rule(tuple(filter(None, (name, future))), sign(distance), shown)
        for (name, distance), (future, shown, sign) in product(distances.items(), futures)
    ]
    yield from sorted(combinations[1:], key=lambda rule: len(rule.faults))
    slopes = expected.slopes(probe.num_heads)[:, None, None]
    for distance in _rounded_distances(query, key, slopes.where(slopes != 0, 1.0)):
        yield Rule(("colliding positions",), distance.expand(probe), visible)


def _rounded_distances(query: Tensor, key: Tensor, slopes: Tensor) -> Iterator[Tensor]:
    """Distances of positions, or of products of slopes and positions, that were rounded to half precision.

    A distance per head is up to a constant of the row, which changes no weight.
    """
    for dtype in (torch.bfloat16, torch.float16):
        yield -(slopes * key).to(dtype).double() / slopes
        yield -(slopes.to(dtype) * key.to(dtype)).double() / slopes
        yield -(slopes * (key - key[-1])).to(dtype).double() / slopes
        yield (query.to(dtype).double() - key.to(dtype).double()).abs()
        yield (query.to(dtype) - key.to(dtype)).double().abs()
