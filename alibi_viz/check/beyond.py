"""Describe weights that no rule explains: what is right about them, and where our knowledge ends.

The descriptions are tried in the order of `DESCRIPTIONS`; "unknown fault" is the last resort.
"""

import math
from collections.abc import Callable, Sequence

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

Description = Callable[[Sequence[Observation], Expectation], Finding | None]


def name_unexplained(
    unexplained: Sequence[Observation], faults_so_far: set[str], expected: Expectation
) -> Finding:
    """A name for the calls that no rule explains."""
    for describe in DESCRIPTIONS:
        finding = describe(unexplained, expected)
        if finding is not None:
            return finding
    compared = [_compare(observation, expected) for observation in unexplained]
    _, worst = max(compared, key=lambda item: item[0])
    are_long = all(not observation.call.is_short for observation in unexplained)
    if are_long and faults_so_far <= {"length cap", "future not masked"}:
        return Finding("length cap", str(worst))
    return Finding("unknown fault", str(worst))


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


DESCRIPTIONS: list[Description] = [_future, _jump, _grid, _other_law]
