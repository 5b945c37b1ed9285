"""The rules that a bias may follow: how it depends on the distance, and which keys are visible.

A faulty bias has three independent parts: the slopes (see `slope_rules`), the distance that they
are multiplied by, and the keys that a query sees. To add a fault of the second kind, add a line to
`_distances`; to add one of the third, add a line to `_views`. Every combination is tried.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from alibi_viz.check.probe import Observation, Probe

Rows = slice | list[int]
ALL_ROWS = slice(None)
Slopes = Callable[[int], Tensor]  # num_heads -> float64 [heads]


class Rule(NamedTuple):
    """A bias of -slope * distance, where visible. `faults` is empty for the correct rule."""

    faults: tuple[str, ...]
    distance: Tensor  # float64 [query, key] or [heads, query, key]
    visible: Tensor  # bool [query, key] or [heads, query, key]

    def bias(self, slopes: Tensor, rows: Rows = ALL_ROWS) -> Tensor:
        """The bias for slopes [heads] in these rows, float64 [heads, rows, key]."""
        bias = -slopes.double()[:, None, None] * self.distance[..., rows, :]
        return bias.masked_fill(~self.visible[..., rows, :], -math.inf)


@dataclass(frozen=True)
class Expectation:
    """What the function should compute, and what helps to explain why it doesn't.

    Attributes:
        slopes: the correct slopes.
        causal: whether keys after the query should be masked. Otherwise the bias should be
            symmetric.
        head_dim: channels of one head, if known. They identify a bias that was divided by their
            square root.
    """

    slopes: Slopes
    causal: bool = True
    head_dim: int | None = None

    def bias(self, probe: Probe) -> Tensor:
        """The correct bias with the causal mask, float64 [heads, query, key]."""
        return correct_rule(Places.of(probe), self.causal).bias(self.slopes(probe.num_heads))


@dataclass(frozen=True)
class Places:
    """The positions of the queries and keys of a call, as float64.

    Attributes:
        row: [query, 1], counted from the first query.
        query: [query, 1], counted from the first key.
        key: [1, key].
    """

    row: Tensor
    query: Tensor
    key: Tensor

    @classmethod
    def of(cls, probe: Probe) -> "Places":
        row = torch.arange(probe.query_length, dtype=torch.float64)[:, None]
        key = torch.arange(probe.key_length, dtype=torch.float64)[None]
        return cls(row, row + probe.key_length - probe.query_length, key)

    @cached_property
    def offset(self) -> Tensor:
        """Steps from a key to the query, [query, key]; negative for keys after the query."""
        return self.query - self.key

    @property
    def everything(self) -> Tensor:
        return torch.ones_like(self.offset, dtype=torch.bool)

    @property
    def past(self) -> Tensor:
        return self.key <= self.query


@dataclass(frozen=True)
class Limits:
    """Where the biases or the keys of a function seem to end.

    Attributes:
        cap: the distance from which on the bias stays the same; None if it goes on.
        window: how many keys a query sees; None for all.
        last_key: [heads]: how many of the first keys the last query sees.
    """

    cap: int | None = None
    window: int | None = None
    last_key: Tensor | None = None

    @classmethod
    def seen_in(cls, longest: Observation, observation: Observation) -> "Limits":
        """The limits seen in the longest of several observations, and in one of them."""
        widest = int(longest.visible.sum(-1).max())
        window = widest if widest < longest.probe.key_length else None
        return cls(cap=longest.cap, window=window, last_key=observation.last_key)


NO_LIMITS = Limits()


class View(NamedTuple):
    """Which keys a query sees, and how the distance to those after it counts.

    `of_offset` makes a distance of the offset: `torch.abs` counts later keys as earlier ones,
    `torch.relu` as distance 0, `torch.clone` as negative distances, and `torch.neg` reverses both.
    """

    fault: str
    visible: Tensor  # bool [query, key] or [heads, query, key]
    of_offset: Callable[[Tensor], Tensor]


def correct_rule(places: Places, causal: bool) -> Rule:
    """The rule of ALiBi: the distance to each earlier key, and for an encoder also to later
    ones."""
    visible = places.past if causal else places.everything
    return Rule((), places.offset.abs(), visible)


def rules(probe: Probe, expected: Expectation, limits: Limits = NO_LIMITS) -> Iterator[Rule]:
    """All rules, the simplest first."""
    places = Places.of(probe)
    correct = correct_rule(places, expected.causal)
    yield correct

    faulty = []
    distances = _distances(places, limits)
    views = _views(places, expected.causal, limits)
    for (distance_fault, distance), view in product(distances.items(), views):
        faults = [fault for fault in (distance_fault, view.fault) if fault]
        if faults:
            faulty.append(Rule(tuple(faults), view.of_offset(distance), view.visible))
    yield from sorted(faulty, key=lambda rule: len(rule.faults))

    # A head with the slope 0 has no products that could collide.
    slopes = expected.slopes(probe.num_heads)[:, None, None]
    slopes = slopes.where(slopes != 0, 1.0)
    for distance in _rounded_distances(places, slopes):
        yield Rule(("colliding positions",), distance.expand(probe), correct.visible)


def _distances(places: Places, limits: Limits) -> dict[str, Tensor]:
    """Offsets by the name of the fault that makes them; "" are the correct ones."""
    offset = places.offset
    distances = {
        "": offset,
        "wrong corner of the cache": (places.row - places.key).abs(),
        "square root of the distance": offset.sign() * offset.abs().sqrt(),
    }
    if limits.cap is not None:
        distances["length cap"] = offset.clamp(-limits.cap, limits.cap)
    return distances


def _views(places: Places, causal: bool, limits: Limits) -> list[View]:
    """All views, the correct one first, with the name ""."""
    row = places.row
    query = places.query
    key = places.key
    everything = places.everything
    past = places.past
    correct = past if causal else everything
    views = [View("", correct, torch.abs)]
    if causal:
        views += [
            View("future not masked", everything, torch.abs),
            View("future not masked", everything, torch.relu),
            View("causal mask in the wrong corner", key <= row, torch.abs),
            View("query can't see itself", key < query, torch.abs),
            View("one key ahead", key <= query + 1, torch.abs),
            View("one key ahead", key <= query + 1, torch.relu),
            View("one key ahead", key <= query + 1, torch.clone),
        ]
    else:
        views += [
            View("only earlier keys", past, torch.abs),
            View("one direction only", everything, torch.relu),
            View("one direction only", everything, _steps_ahead),
        ]
    views += [
        View("rewarded future", everything, torch.clone),
        View("rewarded past", everything, torch.neg),
    ]
    if limits.window is not None and limits.last_key is not None:
        within_window = places.offset.abs() < limits.window
        among_first = key < limits.last_key[:, None, None]
        views += [
            View("window", correct & within_window, torch.abs),
            View("first keys only", correct & among_first, torch.abs),
        ]
    return views


def _steps_ahead(offset: Tensor) -> Tensor:
    """The distance to later keys, and 0 for earlier ones."""
    return torch.relu(-offset)


def _rounded_distances(places: Places, slopes: Tensor) -> Iterator[Tensor]:
    """Distances whose positions, or products with slopes, were rounded to half precision.

    They are correct up to a constant per row, which cancels in the softmax.
    """
    query = places.query
    key = places.key
    for dtype in (torch.bfloat16, torch.float16):
        yield -(slopes * key).to(dtype).double() / slopes
        yield -(slopes.to(dtype) * key.to(dtype)).double() / slopes
        yield -(slopes * (key - key[:, -1:])).to(dtype).double() / slopes
        yield (query.to(dtype).double() - key.to(dtype).double()).abs()
        yield (query.to(dtype) - key.to(dtype)).double().abs()
