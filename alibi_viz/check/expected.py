"""A right call of attention as its parts. A fault replaces some of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from alibi_viz.check.plan import Probe

Rows = slice | list[int]
ALL_ROWS = slice(None)


class Group(NamedTuple):
    """Calls that have the same slopes."""

    num_heads: int
    head_dim: int


Slopes = Callable[[int], Tensor]  # num_heads -> float64 [heads]


class Places:
    """The positions of the queries and keys of a call, as float64.

    Attributes:
        row: [query, 1], counted from the first query.
        query: [query, 1], counted from the first key.
        key: [1, key].
        cached: how many keys come before the first query.
    """

    def __init__(self, probe: Probe, rows: Rows = ALL_ROWS) -> None:
        self.probe = probe
        self.row = torch.arange(probe.query_length, dtype=torch.float64)[rows, None]
        self.key = torch.arange(probe.key_length, dtype=torch.float64)[None]
        self.cached = probe.key_length - probe.query_length
        self.query = self.row + self.cached

    @property
    def back(self) -> Tensor:
        """Steps from a query back to a key, [query, key]; negative for keys after the query."""
        return self.query - self.key


Part = Callable[[Places], Tensor]


def _steps_back(places: Places) -> Tensor:
    return places.back


def _every_key(places: Places) -> Tensor:
    return torch.ones_like(places.back, dtype=torch.bool)


def _past(places: Places) -> Tensor:
    return places.key <= places.query


def _unchanged(group: Group) -> float:
    return 1.0


def neighbors(heads: int, size: int) -> Tensor:
    """The key head of each head if neighbors share one: 0 0 0 3 3 3 for six heads in threes."""
    return torch.arange(heads) // size * size


@dataclass(frozen=True)
class Expected:
    """What a function should compute, or what a faulty one computes.

    Attributes:
        slopes: the correct slopes.
        causal: whether keys after the query are masked. Otherwise the bias is symmetric.
        window: how many keys a query sees, with its own; None for all.
        scale: the factor of q . k; None for 1 / sqrt(head_dim).
        softcap: c, if the content is c * tanh(content / c); None without such a cap.
        group_size: how many neighboring heads share a key.
        own_slopes: slopes that a faulty function has instead, [heads] for a group of calls.
        distance: what the slopes are multiplied by, [query, key] or [heads, query, key]; negative
            for keys after the query.
        ahead: what such a negative distance counts: `torch.abs` as much as one to an earlier key,
            `torch.relu` as 0.
        visible: the keys that a query sees, bool [query, key] or [heads, query, key].
        content: what q . k is multiplied by beside its scale.
        heads_read: the head [heads] whose keys each head reads, and that whose values.
    """

    slopes: Slopes
    causal: bool = True
    window: int | None = None
    scale: float | None = None
    softcap: float | None = None
    group_size: int = 1
    own_slopes: Callable[[Group], Tensor] | None = None
    distance: Part = _steps_back
    ahead: Callable[[Tensor], Tensor] = torch.abs
    visible: Part | None = None
    content: Callable[[Group], float] = _unchanged
    heads_read: Callable[[int], tuple[Tensor, Tensor]] | None = None

    def bias(self, probe: Probe, head_dim: int = 0, rows: Rows = ALL_ROWS) -> Tensor:
        """The bias with its mask, float64 [heads, query, key]."""
        slopes = self.slopes(probe.num_heads)
        if self.own_slopes is not None:
            slopes = self.own_slopes(Group(probe.num_heads, head_dim))
        return self.bias_of(slopes, Places(probe, rows))

    def bias_of(self, slopes: Tensor, places: Places) -> Tensor:
        """The bias for these slopes [heads] at some places."""
        distance = self.ahead(self.distance(places))
        bias = -slopes.double()[:, None, None] * distance
        return bias.masked_fill(~self._sees(places), -math.inf)

    def _sees(self, places: Places) -> Tensor:
        visible = self.visible or (_past if self.causal else _every_key)
        if self.window is None:
            return visible(places)
        return visible(places) & (places.back.abs() < self.window)

    def scaling(self, group: Group) -> float:
        """The factor of q . k."""
        scale = group.head_dim**-0.5 if self.scale is None else self.scale
        return scale * self.content(group)

    def weights(self, query: Tensor, key: Tensor) -> Tensor:
        """The weights, float64 [batch, heads, query, key], of queries and keys."""
        _, heads, queries, head_dim = query.shape
        scores = query @ key.mT * self.scaling(Group(heads, head_dim))
        bias = self.bias(Probe(heads, queries, key.shape[2]), head_dim)
        return (self.capped(scores) + bias).softmax(-1)

    @property
    def has_usual_scale(self) -> bool:
        """Whether no other scale was declared or observed."""
        return self.scale is None and self.content is _unchanged

    def capped(self, scores: Tensor) -> Tensor:
        """The content with the soft cap, if there is one."""
        if self.softcap is None:
            return scores
        return self.softcap * (scores / self.softcap).tanh()

    def output(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """The output, float64 [batch, heads, query, head_dim]: NaN for a query that sees no key."""
        keys_of, values_of = self.heads_that_are_read(query.shape[1])
        return self.weights(query, key[:, keys_of]) @ value[:, values_of]

    def heads_that_are_read(self, heads: int) -> tuple[Tensor, Tensor]:
        """The head [heads] whose keys each head reads, and that whose values."""
        if self.heads_read is not None:
            return self.heads_read(heads)
        return neighbors(heads, self.group_size), neighbors(heads, self.group_size)
