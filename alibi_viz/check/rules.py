"""The rules that a bias may follow: how it depends on the distance, and which keys are visible.

A faulty bias has three independent parts: the slopes (see `slope_rules`), the distance that they
are multiplied by, and the keys that a query sees. To add a fault of the second kind, add a `Law` to
`LAWS`; to add one of the third, add a `View` to `CAUSAL_VIEWS` or `ENCODER_VIEWS`. Every
combination is tried.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise, product
from typing import NamedTuple

import torch
from torch import Tensor

from alibi_viz.check.plan import Probe
from alibi_viz.check.probe import Observation

_SMALLEST_STEP = 2  # tokens
Rows = slice | list[int]
ALL_ROWS = slice(None)
Slopes = Callable[[int], Tensor]  # num_heads -> float64 [heads]


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
    def of(cls, probe: Probe, rows: Rows = ALL_ROWS) -> "Places":
        """The places of a call, or of some of its queries."""
        row = torch.arange(probe.query_length, dtype=torch.float64)[rows, None]
        key = torch.arange(probe.key_length, dtype=torch.float64)[None]
        return cls(row, row + probe.key_length - probe.query_length, key)

    @cached_property
    def offset(self) -> Tensor:
        """Steps from a key to the query, [query, key]; negative for keys after the query."""
        return self.query - self.key


@dataclass(frozen=True)
class Clues:
    """What the weights of a function suggest about the rule that it follows.

    Attributes:
        slopes: the correct slopes, [heads, 1, 1].
        cap: the distance from which on the bias stays the same; None if it goes on.
        step: how many neighboring distances have the same bias; None if it differs for each.
        in_steps: the distance in steps of that size.
        block: how many neighboring positions count as one; None if they seem to count by
            themselves.
        bias_cap: the size from which on no bias grows; None if all go on.
        window: how many keys a query sees; None for all.
        last_key: how many of the first keys the last query sees, [heads, 1, 1]; None if it may see
            all.
    """

    slopes: Tensor
    cap: int | None = None
    step: int | None = None
    in_steps: "InSteps | None" = None
    block: int | None = None
    bias_cap: float | None = None
    window: int | None = None
    last_key: Tensor | None = None

    @classmethod
    def seen_in(cls, longest: Observation, observation: Observation, slopes: Slopes) -> "Clues":
        """The clues in the longest of several observations, and in one of them."""
        step, in_steps = _steps_seen_in(longest, _WAYS_TO_ROUND_STEPS)
        block, _ = _steps_seen_in(longest, [_between_blocks])
        clues = cls(
            slopes=slopes(observation.probe.num_heads)[:, None, None],
            cap=longest.cap,
            step=step,
            in_steps=in_steps,
            block=block,
            bias_cap=longest.bias_cap,
        )
        widest = int(longest.visible.sum(-1).max())
        if widest == longest.probe.key_length:  # some query sees all keys
            return clues
        return replace(clues, window=widest, last_key=observation.last_key[:, None, None])


# The distance in whole steps: of the positions of queries and keys, and the size of a step
InSteps = Callable[[Tensor, Tensor, int], Tensor]


def _rounded_down(query: Tensor, key: Tensor, step: int) -> Tensor:
    return ((query - key).abs() / step).floor()


def _rounded_up(query: Tensor, key: Tensor, step: int) -> Tensor:
    return ((query - key).abs() / step).ceil()


def _rounded_half_to_even(query: Tensor, key: Tensor, step: int) -> Tensor:
    return ((query - key).abs() / step).round()


def _rounded_half_up(query: Tensor, key: Tensor, step: int) -> Tensor:
    return ((query - key).abs() / step + 0.5).floor()


def _between_blocks(query: Tensor, key: Tensor, step: int) -> Tensor:
    """How many blocks of that many positions lie between a query and a key."""
    return ((query / step).floor() - (key / step).floor()).abs()


_WAYS_TO_ROUND_STEPS: list[InSteps] = [
    _rounded_down,
    _rounded_up,
    _rounded_half_to_even,
    _rounded_half_up,
]


def _steps_seen_in(
    longest: Observation, ways: Sequence[InSteps]
) -> tuple[int | None, InSteps | None]:
    """The size of the steps in which the bias of the last query changes, and the way they count.

    None if it does not change in steps.
    """
    changes = longest.changes
    if not changes:
        return None, None
    first = changes[0]
    # A first step is whole, half, or one key long.
    sizes = [first, 2 * first, 2 * (first - 1)]
    sizes += [after - before for before, after in pairwise(changes[:3])]
    sizes += [(after - first) // 2 for after in changes[2:3]]

    distance = torch.arange(longest.reach + 1, dtype=torch.float64)
    query = torch.tensor(longest.probe.key_length - 1.0)
    for size in dict.fromkeys(sizes):
        if size < _SMALLEST_STEP:
            continue
        for in_steps in ways:
            expected_changes = in_steps(query, query - distance, size).diff().nonzero() + 1
            if tuple(expected_changes.flatten().tolist()) == changes:
                return size, in_steps
    return None, None


class Law(NamedTuple):
    """What the slopes are multiplied by.

    `offset` gives [query, key] or [heads, query, key]. It is negative for keys after the query, and
    a view makes a distance of it. If not `is_signed`, it is a distance already.
    """

    fault: str  # "" for the distance of ALiBi
    offset: Callable[[Places, Clues], Tensor]
    needs: str = ""  # the clue that it reads, without which the law makes no sense
    observed: str = ""  # what that clue shows, in words
    is_signed: bool = True


class View(NamedTuple):
    """Which keys a query sees, and how the distance to those after it counts.

    `of_offset` makes a distance of the offset: `torch.abs` counts later keys as earlier ones,
    `torch.relu` as distance 0, `torch.clone` as negative distances, and `torch.neg` reverses both.
    """

    fault: str  # "" for the keys that ALiBi shows
    visible: Callable[[Places, Clues], Tensor]  # bool, broadcastable to [heads, query, key]
    of_offset: Callable[[Tensor], Tensor] = torch.abs
    needs: str = ""  # as in `Law`
    observed: str = ""


class Rule(NamedTuple):
    """A bias of -slope * distance, where visible."""

    law: Law
    view: View

    @property
    def faults(self) -> tuple[str, ...]:
        """The names of its faults; none for the correct rule."""
        return tuple(fault for fault in (self.law.fault, self.view.fault) if fault)

    def makes_sense(self, clues: Clues) -> bool:
        """Whether the clues that the rule needs were seen."""
        needed = [name for name in (self.law.needs, self.view.needs) if name]
        return all(getattr(clues, name) is not None for name in needed)

    def bias(self, slopes: Tensor, places: Places, clues: Clues) -> Tensor:
        """The bias for slopes [heads] at these places, float64 [heads, query, key]."""
        distance = self.law.offset(places, clues)
        if self.law.is_signed:
            distance = self.view.of_offset(distance)
        visible = self.view.visible(places, clues)
        bias = -slopes.double()[:, None, None] * distance
        return bias.masked_fill(~visible, -math.inf)


# The laws of distance


def _offset(places: Places, clues: Clues) -> Tensor:
    return places.offset


def _from_the_first_query(places: Places, clues: Clues) -> Tensor:
    # Such a cache holds no later keys of a row.
    return (places.row - places.key).abs()


def _square_root(places: Places, clues: Clues) -> Tensor:
    return places.offset.sign() * places.offset.abs().sqrt()


def _capped(places: Places, clues: Clues) -> Tensor:
    assert clues.cap is not None
    return places.offset.clamp(-clues.cap, clues.cap)


def _capped_bias(places: Places, clues: Clues) -> Tensor:
    assert clues.bias_cap is not None
    largest = clues.bias_cap / _nonzero(clues.slopes)
    return places.offset.sign() * places.offset.abs().minimum(largest)


def _from_the_last_key(places: Places, clues: Clues) -> Tensor:
    from_the_end = places.key[:, -1:] - places.key
    return (places.query - from_the_end).abs()


def _steps(places: Places, clues: Clues) -> Tensor:
    """How many whole steps away a key is."""
    assert clues.step is not None
    assert clues.in_steps is not None
    return places.offset.sign() * clues.in_steps(places.query, places.key, clues.step)


def _blocks(places: Places, clues: Clues) -> Tensor:
    assert clues.block is not None
    return places.offset.sign() * _between_blocks(places.query, places.key, clues.block)


def _steps_in_tokens(places: Places, clues: Clues) -> Tensor:
    assert clues.step is not None
    return clues.step * _steps(places, clues)


_CAP_OBSERVED = "the bias is the same from distance {cap} on"
_BIAS_CAP_OBSERVED = "no bias is larger than {bias_cap:.3g}"
_BLOCKS_OBSERVED = "{block} neighboring positions count as one"
_STEPS_OBSERVED = "the bias changes in steps of {step} tokens"
LAWS = [
    Law("", _offset),
    Law("wrong corner of the cache", _from_the_first_query, is_signed=False),
    Law("square root of the distance", _square_root),
    Law("length cap", _capped, needs="cap", observed=_CAP_OBSERVED),
    Law("length cap", _capped_bias, needs="bias_cap", observed=_BIAS_CAP_OBSERVED),
    Law("mirrored keys", _from_the_last_key, is_signed=False),
    Law("distance in steps", _steps, needs="step", observed=_STEPS_OBSERVED),
    Law("distance in steps", _blocks, needs="block", observed=_BLOCKS_OBSERVED),
    Law("distance in steps", _steps_in_tokens, needs="step", observed=_STEPS_OBSERVED),
]

# Laws in which positions, or their products with slopes, are rounded to half precision. They are
# correct up to a constant per row, which cancels in the softmax.


def _nonzero(slopes: Tensor) -> Tensor:
    """A head with the slope 0 has no products that could collide."""
    return slopes.where(slopes != 0, 1.0)


def _rounded_product(dtype: torch.dtype, places: Places, clues: Clues) -> Tensor:
    slopes = _nonzero(clues.slopes)
    return -(slopes * places.key).to(dtype).double() / slopes


def _rounded_factors(dtype: torch.dtype, places: Places, clues: Clues) -> Tensor:
    slopes = _nonzero(clues.slopes)
    return -(slopes.to(dtype) * places.key.to(dtype)).double() / slopes


def _rounded_product_from_the_end(dtype: torch.dtype, places: Places, clues: Clues) -> Tensor:
    slopes = _nonzero(clues.slopes)
    from_the_end = places.key - places.key[:, -1:]
    return -(slopes * from_the_end).to(dtype).double() / slopes


def _rounded_positions(dtype: torch.dtype, places: Places, clues: Clues) -> Tensor:
    return (places.query.to(dtype).double() - places.key.to(dtype).double()).abs()


def _rounded_difference(dtype: torch.dtype, places: Places, clues: Clues) -> Tensor:
    return (places.query.to(dtype) - places.key.to(dtype)).double().abs()


_WAYS_TO_ROUND = (
    _rounded_product,
    _rounded_factors,
    _rounded_product_from_the_end,
    _rounded_positions,
    _rounded_difference,
)
ROUNDED_LAWS = [
    Law("colliding positions", partial(way, dtype), is_signed=False)
    for dtype, way in product((torch.bfloat16, torch.float16), _WAYS_TO_ROUND)
]


# The keys that a query sees


def _everything(places: Places, clues: Clues) -> Tensor:
    return torch.ones_like(places.offset, dtype=torch.bool)


def _past(places: Places, clues: Clues) -> Tensor:
    return places.key <= places.query


def _past_of_the_row(places: Places, clues: Clues) -> Tensor:
    return places.key <= places.row


def _past_without_itself(places: Places, clues: Clues) -> Tensor:
    return places.key < places.query


def _past_and_one_ahead(places: Places, clues: Clues) -> Tensor:
    return places.key <= places.query + 1


def _past_of_new_keys(places: Places, clues: Clues) -> Tensor:
    cached = places.query - places.row  # how many keys the cache holds
    return (places.key >= cached) & _past(places, clues)


def _window(places: Places, clues: Clues) -> Tensor:
    assert clues.window is not None
    return places.offset.abs() < clues.window


def _first_keys(places: Places, clues: Clues) -> Tensor:
    assert clues.last_key is not None
    return places.key < clues.last_key


def _past_window(places: Places, clues: Clues) -> Tensor:
    return _past(places, clues) & _window(places, clues)


def _past_first_keys(places: Places, clues: Clues) -> Tensor:
    return _past(places, clues) & _first_keys(places, clues)


def _steps_ahead(offset: Tensor) -> Tensor:
    """The distance to later keys, and 0 for earlier ones."""
    return torch.relu(-offset)


_WINDOW_OBSERVED = "a query sees at most {window} keys"
CAUSAL_VIEWS = [
    View("", _past),
    View("future not masked", _everything),
    View("future not masked", _everything, torch.relu),
    View("causal mask in the wrong corner", _past_of_the_row),
    View("query can't see itself", _past_without_itself),
    View("cache not read", _past_of_new_keys),
    View("one key ahead", _past_and_one_ahead),
    View("one key ahead", _past_and_one_ahead, torch.relu),
    View("one key ahead", _past_and_one_ahead, torch.clone),
    View("rewarded future", _everything, torch.clone),
    View("rewarded past", _everything, torch.neg),
    View("window", _past_window, needs="window", observed=_WINDOW_OBSERVED),
    View("first keys only", _past_first_keys, needs="last_key"),
]
ENCODER_VIEWS = [
    View("", _everything),
    View("only earlier keys", _past),
    View("one direction only", _everything, torch.relu),
    View("one direction only", _everything, _steps_ahead),
    View("rewarded future", _everything, torch.clone),
    View("rewarded past", _everything, torch.neg),
    View("window", _window, needs="window", observed=_WINDOW_OBSERVED),
    View("first keys only", _first_keys, needs="last_key"),
]


def _all_rules(views: list[View]) -> list[Rule]:
    """All rules, the simplest first."""
    combined = [Rule(law, view) for law, view in product(LAWS, views)]
    combined.sort(key=lambda rule: len(rule.faults))
    correct_view = views[0]
    return combined + [Rule(law, correct_view) for law in ROUNDED_LAWS]


_CAUSAL_RULES = _all_rules(CAUSAL_VIEWS)
_ENCODER_RULES = _all_rules(ENCODER_VIEWS)


def rules(causal: bool) -> list[Rule]:
    """All rules for a decoder or an encoder: the correct one first, then the simplest."""
    return _CAUSAL_RULES if causal else _ENCODER_RULES


@dataclass(frozen=True)
class Expectation:
    """What the function should compute.

    Attributes:
        slopes: the correct slopes.
        causal: whether keys after the query should be masked. Otherwise the bias should be
            symmetric.
        window: how many keys a query should see, with its own; None for all.
        scale: the factor of q . k; None for factor * head_dim**exponent.
        factor, exponent: the usual ones, or those that were observed and may be by design.
        softcap: c, if the content should be c * tanh(content / c); None without such a cap.
    """

    slopes: Slopes
    causal: bool = True
    window: int | None = None
    scale: float | None = None
    factor: float = 1.0
    exponent: float = -0.5
    softcap: float | None = None

    def bias(self, probe: Probe, rows: Rows = ALL_ROWS) -> Tensor:
        """The correct bias with its mask, float64 [heads, query, key]."""
        places = Places.of(probe, rows)
        slopes = self.slopes(probe.num_heads)
        clues = Clues(slopes[:, None, None])
        return self.bias_of(rules(self.causal)[0], slopes, places, clues)

    def bias_of(self, rule: Rule, slopes: Tensor, places: Places, clues: Clues) -> Tensor:
        """The bias of a rule [heads, query, key], within the window if there should be one."""
        bias = rule.bias(slopes, places, clues)
        if self.window is None or rule.view.fault == "window":
            return bias
        return bias.masked_fill(places.offset.abs() >= self.window, -math.inf)

    def rules(self) -> list[Rule]:
        """The rules to try: with a window by design, also those that forget it."""
        possible = rules(self.causal)
        if self.window is None:
            return possible
        without_window = View("window", possible[0].view.visible)
        return possible + [Rule(law, without_window) for law in LAWS]

    def scaling(self, head_dim: int) -> float:
        """The correct factor of q . k."""
        if self.scale is not None:
            return self.scale
        return float(self.factor * head_dim**self.exponent)

    def weights(self, query: Tensor, key: Tensor) -> Tensor:
        """The correct weights, float64 [batch, heads, query, key], of queries and keys."""
        probe = Probe(query.shape[1], query.shape[2], key.shape[2])
        scores = self.capped(query @ key.mT * self.scaling(query.shape[3]))
        return (scores + self.bias(probe)).softmax(-1)

    def capped(self, scores: Tensor) -> Tensor:
        """The content with the soft cap, if there should be one."""
        if self.softcap is None:
            return scores
        return self.softcap * (scores / self.softcap).tanh()
