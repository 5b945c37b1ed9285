"""Describe weights that no rule explains: what is right about them, and where our knowledge ends.

The descriptions are tried in the order of `DESCRIPTIONS`; "unknown fault" is the last resort.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import Tensor

from alibi_viz.check.probe import Observation
from alibi_viz.check.report import OUTSIDE, Comparison, Finding
from alibi_viz.check.rules import Expectation, Places

_FEWEST_RIGHT = 4  # distances: fewer agree by chance
_READABLE_SHARE = 0.1  # of the weight
_MOST = 0.5  # a share of the weights
_FUTURE = 1e-3  # a weight of later keys that counts
# A distance in two dimensions needs a few rows of a few columns.
_NARROWEST_GRID = 2
_CLEARLY = 3  # by so much more than the floor is a log weight that can't be missed
_MOST_RANGES = 3  # in words
# Soft caps between which one is looked for: weaker ones can't be seen, stronger ones are not used
_STRONGEST_CAP = 2.0
_WEAKEST_CAP = 500.0
_CAP_STEPS = 30  # of the search

Description = Callable[[Sequence[Observation], Expectation], Finding | None]


def name_unexplained(
    unexplained: Sequence[Observation], faults_so_far: set[str], expected: Expectation
) -> Finding:
    """A name for the calls that no rule explains."""
    finding = describe(unexplained, expected, DESCRIPTIONS)
    if finding is not None:
        return finding
    compared = [_compare(observation, expected) for observation in unexplained]
    _, worst = max(compared, key=lambda item: item[0])
    are_long = all(not observation.call.is_short for observation in unexplained)
    if are_long and faults_so_far <= {"length cap", "future not masked"}:
        return Finding("length cap", str(worst))
    return Finding("unknown fault", str(worst))


def describe(
    unexplained: Sequence[Observation],
    expected: Expectation,
    descriptions: Sequence[Description],
) -> Finding | None:
    """What the first of the descriptions that fits says; None if none does."""
    for description in descriptions:
        finding = description(unexplained, expected)
        if finding is not None:
            return finding
    return None


def _compare(observation: Observation, expected: Expectation) -> tuple[float, Comparison]:
    """The largest difference of a weight in an observation, and where it is."""
    correct = expected.bias(observation.probe)
    difference, place = observation.largest_difference(correct)
    wanted = observation.normalize(correct).exp()
    return difference, Comparison(str(observation.call), wanted, observation.weights, place)


def _future(unexplained: Sequence[Observation], expected: Expectation) -> Finding | None:
    """Whether keys after the query have weight, and otherwise all is right."""
    if not expected.causal:
        return None
    heads_that_look_ahead: set[tuple[int, int]] = set()
    all_heads: set[tuple[int, int]] = set()
    for observation in unexplained:
        probe = observation.probe
        future = Places.of(probe).offset < 0
        if not bool(future.any()):
            return None
        among_past = observation.logits.masked_fill(future, -math.inf)
        past = Observation(observation.call, probe, among_past, observation.precision)
        # Where later keys have nearly all of the weight, the rest can't be read.
        share_of_past = observation.weights.masked_fill(future, 0.0).sum(-1, keepdim=True)
        correct = expected.bias(probe).masked_fill(share_of_past < _READABLE_SHARE, -math.inf)
        if not past.agrees(correct):
            return None
        weight_ahead = observation.weights.masked_fill(~future, 0.0).amax((-2, -1))
        for head, weight in enumerate(weight_ahead.tolist()):
            all_heads.add((probe.num_heads, head))
            if weight > _FUTURE:
                heads_that_look_ahead.add((probe.num_heads, head))
    if not heads_that_look_ahead:
        return None
    looking = sorted(heads_that_look_ahead)
    num_heads, head = looking[-1]
    evidence = f"head {head + 1} of {num_heads} sees keys after the query"
    if heads_that_look_ahead == all_heads:
        return Finding("future not masked", evidence)
    blind_heads, blind = min(all_heads - heads_that_look_ahead)
    evidence += f", but head {blind + 1} of {blind_heads} sees none"
    return Finding("mask too weak for some heads", evidence)


def _jump(unexplained: Sequence[Observation], expected: Expectation) -> Finding | None:
    """Whether the bias is right up to a distance, from which on it is not."""
    reach = None
    for observation in unexplained:
        right_up_to = _right_up_to(observation, expected)
        if right_up_to is None or reach not in (None, right_up_to):
            return None
        reach = right_up_to
    if reach is None:
        return None
    name = "right up to a distance, then a jump"
    return Finding(name, f"the bias is right up to a distance of {reach}, and wrong from there on")


def _right_up_to(observation: Observation, expected: Expectation) -> int | None:
    """The largest distance up to which all biases are right; None if that says nothing."""
    distance = Places.of(observation.probe).offset
    if expected.causal:
        distance = distance.where(distance >= 0, math.inf)
    distance = distance.abs().expand(observation.probe)

    correct = expected.bias(observation.probe)
    own = observation.probe.key_length - observation.probe.query_length
    # Relative to the query's own key, because all weights of a row change with the wrong ones
    logits = observation.logits - observation.logits.diagonal(own, -2, -1)[..., None]
    wanted = correct - correct.diagonal(own, -2, -1)[..., None]
    tolerance = observation.precision.absolute + observation.precision.relative * wanted.abs()
    is_readable = distance.isfinite() & (observation.log_weights > observation.precision.floor + 1)
    is_wrong = is_readable & ((logits - wanted).abs() > 2 * tolerance)
    if not bool(is_wrong.any()):
        return None
    first_wrong = int(distance[is_wrong].min())
    if first_wrong <= _FEWEST_RIGHT:
        return None
    # Nearly all of the bias beyond is wrong, not one key here and there.
    is_beyond = is_readable & (distance >= first_wrong)
    share_of_wrong = float(is_wrong[is_beyond].double().mean())
    return first_wrong - 1 if share_of_wrong > _MOST else None


def _other_keys(unexplained: Sequence[Observation], expected: Expectation) -> Finding | None:
    """Whether queries see other keys than they should, and the bias of those is right."""
    evidence = None
    for observation in sorted(unexplained, key=lambda seen: seen.probe.key_length):
        floor = observation.precision.floor
        correct = expected.bias(observation.probe)
        seen = observation.log_weights > floor + 1
        should_see = correct.isfinite().expand_as(seen)
        rightly_seen = seen & should_see
        if not _is_right_among(rightly_seen, observation, correct):
            return None

        too_many = seen & ~should_see
        is_future = Places.of(observation.probe).offset < 0
        if expected.causal and bool((too_many & is_future).any()):
            return None
        missing = ~seen & (observation.normalize(correct) > floor + _CLEARLY)
        wrong_keys = (missing | too_many).sum(-1)  # [heads, query]
        if not bool(wrong_keys.any()):
            return None
        if evidence is None:
            head, query = divmod(int(wrong_keys.argmax()), observation.probe.query_length)
            sees = _ranges(seen[head, query])
            expects = _ranges(should_see[head, query])
            evidence = f"query {query} of head {head + 1} sees {sees}, expected {expects}"
            evidence = f"with {observation.probe}, {evidence}"
    if evidence is None:
        return None
    return Finding("wrong mask" if expected.window is None else "window", evidence)


def _is_right_among(keys: Tensor, observation: Observation, correct: Tensor) -> bool:
    """Whether the weights among some keys, bool [heads, query, key], are right.

    No where each query of a head has so few that they are right by chance.
    """
    most_keys = keys.sum(-1).amax(-1)  # [heads]
    if int(most_keys.min()) < min(_FEWEST_RIGHT, observation.probe.key_length):
        return False
    logits = observation.logits.masked_fill(~keys, -math.inf)
    among = Observation(observation.call, observation.probe, logits, observation.precision)
    return among.agrees(correct.masked_fill(~keys, -math.inf))


def _ranges(is_seen: Tensor) -> str:
    """The keys that are seen, in words: "keys 0 to 3 and 172 to 299"."""
    keys = is_seen.nonzero().flatten().tolist()
    if not keys:
        return "no key"
    ranges = []
    first = keys[0]
    for key, following in pairwise([*keys, math.inf]):
        if following != key + 1:
            ranges.append(str(key) if first == key else f"{first} to {key}")
            first = following
    if len(ranges) > _MOST_RANGES:
        return f"{len(keys)} keys from {keys[0]} to {keys[-1]}"
    noun = "key" if len(keys) == 1 else "keys"
    return f"{noun} {' and '.join(ranges)}"


def _soft_cap(unexplained: Sequence[Observation], expected: Expectation) -> Finding | None:
    """Whether the sum of content and bias goes through a soft cap."""
    largest = max(unexplained, key=lambda seen: seen.probe.key_length)
    # The last query sees all distances. All rows would take as many times longer.
    last_row = [-1]
    correct = expected.bias(largest.probe, last_row)
    log_weights = largest.log_weights[:, last_row]

    def error(cap: float) -> float:
        capped = largest.normalize(_capped(correct, cap))
        return float((log_weights - capped).abs().max())

    cap = fit_cap(error)
    for observation in unexplained:
        if not observation.agrees(_capped(expected.bias(observation.probe), cap)):
            return None
    evidence = f"the bias looks as if a soft cap of about {cap:.3g} came after it"
    if expected.softcap is not None:
        evidence += "; `softcap=` is one before the bias is added"
    return Finding(OUTSIDE, evidence)


def fit_cap(error: Callable[[float], float]) -> float:
    """The soft cap with the smallest error, which grows on both sides of the right one."""
    low = math.log(_STRONGEST_CAP)
    high = math.log(_WEAKEST_CAP)
    for _ in range(_CAP_STEPS):  # ternary search
        third = (high - low) / 3
        if error(math.exp(low + third)) < error(math.exp(high - third)):
            high -= third
        else:
            low += third
    return math.exp((low + high) / 2)


def _capped(bias: Tensor, cap: float) -> Tensor:
    capped = cap * (bias / cap).tanh()
    return capped.masked_fill(bias.isneginf(), -math.inf)


def _one_side(unexplained: Sequence[Observation], expected: Expectation) -> Finding | None:
    """Whether in an encoder only the bias of keys before the query, or after it, is right."""
    if expected.causal:
        return None
    sides = {"before": True, "after": True}
    for observation in unexplained:
        correct = expected.bias(observation.probe)
        offset = Places.of(observation.probe).offset.expand_as(correct)
        sides["before"] &= _is_right_among(offset >= 0, observation, correct)
        sides["after"] &= _is_right_among(offset <= 0, observation, correct)
    _, evidence = _compare(unexplained[0], expected)
    for side, other in (("before", "after"), ("after", "before")):
        if sides[side]:
            words = f"the bias is right for keys {side} the query, but not for those {other} it"
            return Finding(OUTSIDE, f"{words}: {evidence}")
    return None


def _grid(unexplained: Sequence[Observation], expected: Expectation) -> Finding | None:
    """Whether distances are those of a grid, such as the patches of an image."""
    for observation in unexplained:
        is_large_enough = observation.call.is_short and observation.probe.query_length > 1
        width = _grid_width(observation) if is_large_enough else None
        if width is not None:
            return Finding(OUTSIDE, f"distances seem to be those of a grid, {width} keys wide")
    return None


def _grid_width(observation: Observation) -> int | None:
    places = Places.of(observation.probe)
    key = places.key
    query = places.query
    for width in range(_NARROWEST_GRID, observation.probe.key_length // 2 + 1):
        rows = ((query // width) - (key // width)).abs()
        columns = ((query % width) - (key % width)).abs()
        for distance in (rows + columns, (rows**2 + columns**2).sqrt(), rows.maximum(columns)):
            if _is_linear_in(distance, observation):
                return width
    return None


def _is_linear_in(distance: Tensor, observation: Observation) -> bool:
    """Whether each log weight is a constant of its row, minus a slope of its head times the
    distance."""
    is_seen = observation.log_weights > observation.precision.floor
    number = is_seen.sum(-1, keepdim=True).clamp(min=1)

    def centered(values: Tensor) -> Tensor:
        values = values.expand_as(is_seen).where(is_seen, 0.0)
        return (values - values.sum(-1, keepdim=True) / number).where(is_seen, 0.0)

    x = centered(-distance)
    y = centered(observation.log_weights)
    variance = (x * x).sum((-2, -1), keepdim=True)
    slopes = (x * y).sum((-2, -1), keepdim=True) / variance.clamp(min=1e-12)
    residual = (y - slopes * x).abs().max()
    has_bias = bool((slopes.abs() > 10 * observation.precision.absolute).any())
    return has_bias and float(residual) < 10 * observation.precision.absolute


def _other_law(unexplained: Sequence[Observation], expected: Expectation) -> Finding | None:
    """Whether each head's bias depends on the distance alone, by a law that is not ALiBi's."""
    with_several_queries = [seen for seen in unexplained if seen.probe.query_length > 1]
    if not with_several_queries:
        return None
    for observation in with_several_queries:
        if not _depends_on_distance(observation) or not _is_mostly_wrong(observation, expected):
            return None
    _, evidence = _compare(unexplained[0], expected)
    law = "the bias depends on the distance alone, but not in proportion, as a learned one may"
    return Finding(OUTSIDE, f"{law}: {evidence}")


def _is_mostly_wrong(observation: Observation, expected: Expectation) -> bool:
    correct = observation.normalize(expected.bias(observation.probe))
    difference = (observation.log_weights - correct).abs()
    is_seen = observation.log_weights > observation.precision.floor + 1
    is_wrong = difference > 10 * observation.precision.absolute
    return float(is_wrong[is_seen].double().mean()) > _MOST


def _depends_on_distance(observation: Observation) -> bool:
    """Whether neighboring keys differ by the same in every row, up to a shift."""
    steps = observation.log_weights.diff(dim=-1)  # [heads, query, key - 1]
    floor = observation.precision.floor + 1
    is_seen = observation.log_weights > floor
    both_seen = is_seen[..., 1:] & is_seen[..., :-1]
    # From one query to the next, everything moves by one key.
    shifted = steps[:, 1:, 1:] - steps[:, :-1, :-1]
    comparable = both_seen[:, 1:, 1:] & both_seen[:, :-1, :-1]
    if not bool(comparable.any()):
        return False
    return float(shifted[comparable].abs().max()) < 10 * observation.precision.absolute


# These explain every weight, so they may be tried before each call is explained by itself.
EXACT_DESCRIPTIONS: list[Description] = [_soft_cap, _other_keys, _one_side]
DESCRIPTIONS: list[Description] = [_future, _jump, *EXACT_DESCRIPTIONS, _grid, _other_law]
