"""Describe weights that no formula gives: what is right about them."""

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor

from alibi_viz.check.expected import Expected, Places
from alibi_viz.check.probe import Observation
from alibi_viz.check.report import OUTSIDE, Comparison, Finding

_FEWEST_RIGHT = 4  # distances: fewer agree by chance
_READABLE_SHARE = 0.1  # of the weight
_MOST = 0.5  # a share of the weights
_FUTURE = 1e-3  # a weight of later keys that counts
_CLEARLY = 3  # by so much more than the floor is a log weight that can't be missed
_MOST_RANGES = 3  # in words
_VISIBLE = 1e-3  # an error of a weight that a reader sees


def describe_weights(seen: Sequence[Observation], expected: Expected) -> Finding | None:
    """What the first description that fits says; None if none does."""
    for description in (_future, _jump, _other_keys, _other_law):
        finding = description(seen, expected)
        if finding is not None:
            return finding
    return None


def _future(seen: Sequence[Observation], expected: Expected) -> Finding | None:
    """Whether keys after the query have weight, and otherwise all is right."""
    if not expected.causal:
        return None
    heads_that_look_ahead: set[tuple[int, int]] = set()
    all_heads: set[tuple[int, int]] = set()
    for observation in seen:
        probe = observation.probe
        future = Places(probe).back < 0
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


def _jump(seen: Sequence[Observation], expected: Expected) -> Finding | None:
    """Whether the bias is right up to a distance, from which on it is not."""
    reach = None
    for observation in seen:
        right_up_to = _right_up_to(observation, expected)
        if right_up_to is None or reach not in (None, right_up_to):
            return None
        reach = right_up_to
    if reach is None:
        return None
    name = "right up to a distance, then a jump"
    return Finding(name, f"the bias is right up to a distance of {reach}, and wrong from there on")


def _right_up_to(observation: Observation, expected: Expected) -> int | None:
    """The largest distance up to which all biases are right; None if that says nothing."""
    distance = Places(observation.probe).back
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


def _other_keys(seen: Sequence[Observation], expected: Expected) -> Finding | None:
    """Whether queries see other keys than they should, and the bias of those is right."""
    evidence = None
    for observation in sorted(seen, key=lambda one: one.probe.key_length):
        floor = observation.precision.floor
        correct = expected.bias(observation.probe)
        sees = observation.log_weights > floor + 1
        should_see = correct.isfinite().expand_as(sees)
        rightly_seen = sees & should_see
        if not _is_right_among(rightly_seen, observation, correct):
            return None

        too_many = sees & ~should_see
        is_future = Places(observation.probe).back < 0
        if expected.causal and bool((too_many & is_future).any()):
            return None
        missing = ~sees & (observation.normalize(correct) > floor + _CLEARLY)
        wrong_keys = (missing | too_many).sum(-1)  # [heads, query]
        if not bool(wrong_keys.any()):
            return None
        if evidence is None:
            head, query = divmod(int(wrong_keys.argmax()), observation.probe.query_length)
            seen_keys = _ranges(sees[head, query])
            right_keys = _ranges(should_see[head, query])
            evidence = f"query {query} of head {head + 1} sees {seen_keys}, expected {right_keys}"
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


def _other_law(seen: Sequence[Observation], expected: Expected) -> Finding | None:
    """Whether each head's bias depends on the distance alone, by a law that is not ALiBi's."""
    with_several_queries = [
        observation for observation in seen if observation.probe.query_length > 1
    ]
    if not with_several_queries:
        return None
    for observation in with_several_queries:
        if not _depends_on_distance(observation) or not _is_mostly_wrong(observation, expected):
            return None
    law = "the bias depends on the distance alone, but not in proportion, as a learned one may"
    return Finding(OUTSIDE, f"{law}: {worst_comparison(seen, expected)}")


def _is_mostly_wrong(observation: Observation, expected: Expected) -> bool:
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


def worst_comparison(seen: Sequence[Observation], expected: Expected) -> Comparison:
    """The call whose weights differ most from the correct ones.

    A small call is preferred if it shows half of that difference.
    """
    differences = []
    visible = [observation for observation in seen if observation.error(expected) > _VISIBLE]
    for observation in visible or seen:
        bias = expected.bias(observation.probe)
        difference, place = observation.largest_difference(bias)
        differences.append((difference, place, observation))
    largest = max(difference for difference, _, _ in differences)
    telling = [entry for entry in differences if entry[0] >= largest / 2]

    def size(entry: tuple[float, tuple[int, int, int], Observation]) -> tuple[int, int]:
        probe = entry[2].probe
        return probe.key_length, -probe.query_length

    _, place, worst = min(telling, key=size)
    correct = worst.normalize(expected.bias(worst.probe)).exp()
    return Comparison(str(worst.probe), correct, worst.weights, place)
