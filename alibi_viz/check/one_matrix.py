"""Describe weights that no formula gives: what is right about them."""

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor

from alibi_viz.check.expected import Expected, Places
from alibi_viz.check.probe import Observation
from alibi_viz.check.report import Comparison, Finding

_FEWEST_RIGHT = 4  # keys: fewer agree by chance
_READABLE_SHARE = 0.1  # of the weight
_FUTURE = 1e-3  # a weight of later keys that counts
_CLEARLY = 3  # by so much more than the floor is a log weight that can't be missed
_MOST_RANGES = 3  # in words
_VISIBLE = 1e-3  # an error of a weight that a reader sees


def describe_weights(seen: Sequence[Observation], expected: Expected) -> Finding | None:
    """What the first description that fits says; None if none does."""
    for description in (_future, _other_keys):
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
