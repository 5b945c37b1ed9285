"""The table of faults of the bias: which parts of a right call each replaces.

An entry may have a number, such as the size of a window, that is read from weights. Any two entries
that replace different parts come together. To add a fault: an entry here, its words in faults.toml,
its source in gallery/exhibits.toml, and a test. Faults of slopes are in `slope_rules`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import torch
from torch import Tensor

from alibi_viz.check.expected import Expected, Places, Slopes
from alibi_viz.check.probe import Observation

Parts = Mapping[str, Any]  # of `Expected`, by their names
Seen = Sequence[Observation]


# The distance


def _from_the_first_query(places: Places) -> Tensor:
    # Such a cache holds no later keys of a row.
    return (places.row - places.key).abs()


def _from_the_last_key(places: Places) -> Tensor:
    from_the_end = places.key[:, -1:] - places.key
    return (places.query - from_the_end).abs()


def _square_root(places: Places) -> Tensor:
    return places.back.sign() * places.back.abs().sqrt()


def _share_of_the_length(places: Places) -> Tensor:
    return places.back / places.probe.key_length


def _capped(cap: int, places: Places) -> Tensor:
    return places.back.clamp(-cap, cap)


def _stairs(changes: Sequence[int], places: Places) -> Tensor:
    """How many of the changes lie between a query and a key."""
    distance = places.back.abs().contiguous()
    ends = torch.tensor(changes, dtype=torch.float64)
    return places.back.sign() * torch.searchsorted(ends, distance, right=True)


def _from_read_positions(positions: Mapping[Any, Tensor], places: Places) -> Tensor:
    query = positions[places.probe]
    row = places.row[:, 0].long()
    return (query[row, None] - places.key).abs()


def _to_read_positions(positions: Mapping[Any, Tensor], places: Places) -> Tensor:
    return (places.query - positions[places.probe]).abs()


def _without_zeros(slopes: Slopes, places: Places) -> Tensor:
    """The slopes, [heads, 1, 1]. A head with the slope 0 has no bias that could be rounded."""
    of_heads = slopes(places.probe.num_heads)[:, None, None]
    return of_heads.where(of_heads != 0, 1.0)


# Distances of positions, or of their products with slopes, that are rounded to half precision. They
# are correct up to a constant per row, which cancels in the softmax.


def _rounded_product(dtype: torch.dtype, slopes: Slopes, places: Places) -> Tensor:
    slope = _without_zeros(slopes, places)
    return -(slope * places.key).to(dtype).double() / slope


def _rounded_factors(dtype: torch.dtype, slopes: Slopes, places: Places) -> Tensor:
    slope = _without_zeros(slopes, places)
    return -(slope.to(dtype) * places.key.to(dtype)).double() / slope


def _rounded_product_from_the_end(dtype: torch.dtype, slopes: Slopes, places: Places) -> Tensor:
    slope = _without_zeros(slopes, places)
    from_the_end = places.key - places.key[:, -1:]
    return -(slope * from_the_end).to(dtype).double() / slope


def _rounded_positions(dtype: torch.dtype, slopes: Slopes, places: Places) -> Tensor:
    return (places.query.to(dtype).double() - places.key.to(dtype).double()).abs()


def _rounded_difference(dtype: torch.dtype, slopes: Slopes, places: Places) -> Tensor:
    return (places.query.to(dtype) - places.key.to(dtype)).double().abs()


# The keys that a query sees


def _everything(places: Places) -> Tensor:
    return torch.ones_like(places.back, dtype=torch.bool)


def _past(places: Places) -> Tensor:
    return places.key <= places.query


def _past_of_the_row(places: Places) -> Tensor:
    return places.key <= places.row


def _past_without_itself(places: Places) -> Tensor:
    return places.key < places.query


def _past_and_one_ahead(places: Places) -> Tensor:
    return places.key <= places.query + 1


def _past_of_new_keys(places: Places) -> Tensor:
    return (places.key >= places.cached) & _past(places)


def _first_keys(numbers: Mapping[int, Tensor], places: Places) -> Tensor:
    return places.key < numbers[places.probe.num_heads]


def _past_first_keys(numbers: Mapping[int, Tensor], places: Places) -> Tensor:
    return _past(places) & _first_keys(numbers, places)


def _steps_ahead(back: Tensor) -> Tensor:
    """The distance to later keys, and 0 for earlier ones."""
    return torch.relu(-back)


# Numbers that are read from weights. Each returns None if there is none.


def _longest(seen: Seen) -> Observation:
    return max(seen, key=lambda observation: observation.probe.key_length)


def _changes(observation: Observation) -> list[int]:
    """The distances at which the bias of the last query differs from that one key nearer."""
    by_distance = observation.log_weights[:, -1].flip(-1)
    largest_step = by_distance.diff(dim=-1).abs().amax(0)  # of all heads
    changes = (largest_step > observation.precision.absolute / 10).nonzero().flatten() + 1
    return [int(change) for change in changes]


def _cap(seen: Seen, expected: Expected) -> int | None:
    """The distance from which on the bias is constant."""
    changes = _changes(_longest(seen))
    largest_distance = _longest(seen).probe.key_length - 1
    return changes[-1] if changes and changes[-1] < largest_distance else None


def _steps(seen: Seen, expected: Expected) -> list[int] | None:
    """The distances at which the bias changes, if it doesn't at each."""
    changes = _changes(_longest(seen))
    is_usual = changes == list(range(1, len(changes) + 1))
    return changes if changes and not is_usual else None


def _window(seen: Seen, expected: Expected) -> int | None:
    observation = _longest(seen)
    widest = int(observation.visible.sum(-1).max())
    return widest if widest < observation.probe.key_length else None


def _declared_window(seen: Seen, expected: Expected) -> int | None:
    return expected.window


def _numbers_of_first_keys(seen: Seen, expected: Expected) -> dict[int, Tensor] | None:
    """How many of the first keys the last query sees, [heads, 1, 1], by the number of heads."""
    numbers: dict[int, Tensor] = {}
    for observation in seen:
        heads, _, keys = observation.probe
        last_key = (observation.visible * torch.arange(1.0, keys + 1)).amax(-1)[:, None, None]
        # Far keys of a steep head can't be seen, so some call may show less than another.
        numbers[heads] = last_key.maximum(numbers.get(heads, torch.zeros(1)))
    longest = _longest(seen).probe.key_length
    # A head that sees all keys may see any number.
    numbers = {heads: last.where(last < longest, math.inf) for heads, last in numbers.items()}
    is_limited = any(bool(last.isfinite().any()) for last in numbers.values())
    return numbers if is_limited else None


def _positions_of_queries(seen: Seen, expected: Expected) -> dict[Any, Tensor] | None:
    """The position that each query seems to have: that of the key with its largest weight."""
    positions = {}
    for observation in seen:
        positions[observation.probe] = observation.weights.mean(0).argmax(-1).double()
    if all(_is_in_order(probe, of_call) for probe, of_call in positions.items()):
        return None
    return positions


def _is_in_order(probe: Any, positions: Tensor) -> bool:
    return torch.equal(positions, Places(probe).query[:, 0])


def _positions_of_keys(seen: Seen, expected: Expected) -> dict[Any, Tensor] | None:
    """The position that each key seems to have: the larger its weight, the nearer it is."""
    positions = {}
    for observation in seen:
        flattest = int(expected.slopes(observation.probe.num_heads).abs().argmin())
        order = observation.log_weights[flattest, -1].argsort(stable=True)
        positions[observation.probe] = order.argsort().double()
    is_usual = [torch.equal(keys, Places(probe).key[0]) for probe, keys in positions.items()]
    return None if all(is_usual) else positions


@dataclass(frozen=True)
class Entry:
    """A fault, and the parts of a right call that it replaces.

    `parts` is a function of the number if there is one, and `observed` says the number in words.
    """

    fault: str
    parts: Any
    number: Callable[[Seen, Expected], Any] | None = None
    observed: str = ""


_CAP = "the bias is the same from distance {} on"
_STEPS = "the bias changes at distance {0[0]} for the first time"
_WINDOW = "a query sees at most {} keys"
# Distances without a sign say nothing about keys after the query.
_UNSIGNED: Parts = {"ahead": torch.abs}

# What a decoder and an encoder have in common
_FAULTS = [
    Entry("wrong corner of the cache", {"distance": _from_the_first_query, **_UNSIGNED}),
    Entry("square root of the distance", {"distance": _square_root}),
    Entry("bias divided by the length", {"distance": _share_of_the_length}),
    Entry("length cap", lambda cap: {"distance": partial(_capped, cap)}, _cap, _CAP),
    Entry("mirrored keys", {"distance": _from_the_last_key, **_UNSIGNED}),
    Entry("distance in steps", lambda steps: {"distance": partial(_stairs, steps)}, _steps, _STEPS),
    Entry("window", lambda _: {"window": None}, _declared_window, ""),
    Entry("window", lambda keys: {"window": keys}, _window, _WINDOW),
]
_FAULTS_OF_DECODERS = [
    Entry("future not masked", {"visible": _everything}),
    Entry("future not masked", {"visible": _everything, "ahead": torch.relu}),
    Entry("causal mask in the wrong corner", {"visible": _past_of_the_row}),
    Entry("query can't see itself", {"visible": _past_without_itself}),
    Entry("cache not read", {"visible": _past_of_new_keys}),
    Entry("one key ahead", {"visible": _past_and_one_ahead}),
    Entry("one key ahead", {"visible": _past_and_one_ahead, "ahead": torch.relu}),
    Entry("one key ahead", {"visible": _past_and_one_ahead, "ahead": torch.clone}),
    Entry("rewarded future", {"visible": _everything, "ahead": torch.clone}),
    Entry("rewarded past", {"visible": _everything, "ahead": torch.neg}),
    Entry(
        "first keys only",
        lambda numbers: {"visible": partial(_past_first_keys, numbers)},
        _numbers_of_first_keys,
    ),
]
_FAULTS_OF_ENCODERS = [
    Entry("only earlier keys", {"visible": _past}),
    Entry("one direction only", {"ahead": torch.relu}),
    Entry("one direction only", {"ahead": _steps_ahead}),
    Entry("rewarded future", {"ahead": torch.clone}),
    Entry("rewarded past", {"ahead": torch.neg}),
    Entry(
        "first keys only",
        lambda numbers: {"visible": partial(_first_keys, numbers)},
        _numbers_of_first_keys,
    ),
]


# What many faults look like, so these are tried last
_FAULTS_OF_PLACES = [
    Entry(
        "queries at other positions",
        lambda positions: {"distance": partial(_from_read_positions, positions), **_UNSIGNED},
        _positions_of_queries,
    ),
    Entry(
        "keys in another order",
        lambda positions: {"distance": partial(_to_read_positions, positions), **_UNSIGNED},
        _positions_of_keys,
    ),
]


def _correct_slopes(seen: Seen, expected: Expected) -> Slopes:
    return expected.slopes


def _rounded(way: Callable[..., Tensor], dtype: torch.dtype) -> Entry:
    def parts(slopes: Slopes) -> Parts:
        return {"distance": partial(way, dtype, slopes), "ahead": torch.clone}

    return Entry("colliding positions", parts, _correct_slopes)


_WAYS_TO_ROUND = (
    _rounded_product,
    _rounded_factors,
    _rounded_product_from_the_end,
    _rounded_positions,
    _rounded_difference,
)
_FAULTS_OF_ROUNDING = [
    _rounded(way, dtype) for dtype in (torch.bfloat16, torch.float16) for way in _WAYS_TO_ROUND
]


def rounded_to(dtype: torch.dtype, expected: Expected) -> Expected:
    """A right call whose slopes and positions are rounded to a dtype, as is their product."""
    return replace(expected, **_rounded(_rounded_factors, dtype).parts(expected.slopes))


class Case(NamedTuple):
    """Some faults together, and what a function with them computes."""

    faults: tuple[str, ...]
    observed: tuple[str, ...]  # what shows each, in words
    expected: Expected


def cases(seen: Seen, expected: Expected) -> Iterator[Case]:
    """What may explain these observations, the simplest first: no fault, one, and two."""
    yield Case((), (), expected)
    of_kind = _FAULTS_OF_DECODERS if expected.causal else _FAULTS_OF_ENCODERS
    read = []
    for entry in [*_FAULTS, *of_kind, *_FAULTS_OF_ROUNDING, *_FAULTS_OF_PLACES]:
        parts: Parts = entry.parts
        observed = ""
        if entry.number is not None:
            number = entry.number(seen, expected)
            if number is None:
                continue
            parts = entry.parts(number)
            observed = entry.observed.format(number)
        read.append((entry.fault, observed, parts))
    for fault, observed, parts in read:
        yield Case((fault,), (observed,), replace(expected, **parts))
    for (fault, observed, parts), (other, other_observed, other_parts) in combinations(read, 2):
        if fault != other and not parts.keys() & other_parts.keys():
            both = replace(expected, **parts, **other_parts)
            yield Case((fault, other), (observed, other_observed), both)
