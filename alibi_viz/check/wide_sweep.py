"""The sweep: about a hundred small calls with random content, compared with a reference.

It detects faults and names none. Libraries switch on many things: whole blocks or pages of keys, a
few new tokens after a cache, one sequence or several, how memory is laid out, what a cache holds
from the call before. So the sweep has a call for each of many sizes, and everything else changes
from call to call.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice

import torch
from torch import Tensor

from alibi_viz.check.call import Failures, Unusable
from alibi_viz.check.content import Sample, neighbors
from alibi_viz.check.plan import (
    CACHED,
    CONTIGUOUS,
    NO_PADDING,
    PACKED,
    PADDED_TOKENS,
    SHORT,
    STRIDED,
    TRANSPOSED,
    Call,
    Probe,
    usual_sizes,
)
from alibi_viz.check.probe import AttentionReader
from alibi_viz.check.report import Finding
from alibi_viz.check.rules import Expectation
from alibi_viz.check.words import count

# Keys of calls that have as many queries: few, and about the sizes of blocks
_ALL = (1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 80, 96, 100, 127)
_ALL_OF_MANY = (128, 129, 192, 256, 300)
# Keys that one new query meets
_ONE_QUERY = (2, 3, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129)
_ONE_QUERY_OF_MANY = (192, 255, 256, 257, 300)
# (queries, keys): drafts of a few tokens, and chunks of a prompt after a cache
_DRAFTS = ((2, 16), (3, 17), (4, 32), (5, 33), (5, 40), (6, 64), (7, 65), (8, 24), (8, 128))
_CHUNKS = ((16, 32), (16, 48), (17, 50), (32, 64), (32, 96), (33, 65), (48, 100), (64, 96))
_LONG_CHUNKS = ((64, 128), (63, 127), (100, 130), (128, 256), (130, 300))
# (queries, keys) of calls with padding
_PADDED = ((33, 33), (64, 64), (128, 128), (8, 24), (2, 33), (20, 100), (1, 64), (1, 128))
_LARGE_CONTENT = ((16, 16), (1, 33), (40, 40))
# So many calls whose output is off by so much end a sweep. Rounding is never as large.
_ENOUGH = 8
_CLEARLY = 0.1
_GRADIENTS = 3  # calls whose backward pass is compared
_REPEATED = 8  # calls that are made again at the end

# Numbers of heads and a size of a head that are tried if the function takes them
FURTHER_HEADS = (1, 3, 5, 16, 40)
FURTHER_HEAD_DIM = 16
# Cycles whose lengths have no common factor: every two values of two conditions meet.
BATCHES = (3, 1, 8, 2)
_HEADS_IN_A_CYCLE = 7
_HEAD_DIMS_IN_A_CYCLE = 3
_MEMORY = (CONTIGUOUS, TRANSPOSED, PACKED, CACHED, STRIDED)
_MOST_NUMBERS = 2**19  # of a call: weights, or its keys, so that a sweep takes half a second


def sizes(decoding: bool, length: int) -> list[tuple[int, int]]:
    """How many queries meet how many keys in the calls of a sweep, in a fixed mixed order."""
    chosen = usual_sizes(decoding, length)
    chosen += [(keys, keys) for keys in (*_ALL, *_ALL_OF_MANY)]
    if decoding:
        chosen += [(1, keys) for keys in (*_ONE_QUERY, *_ONE_QUERY_OF_MANY)]
        chosen += [*_DRAFTS, *_CHUNKS, *_LONG_CHUNKS]
    possible = [size for size in dict.fromkeys(chosen) if size[1] <= max(length, SHORT)]
    first, *others = possible
    random.Random(0).shuffle(others)
    return [first, *others]


def attention_sweep(
    num_heads: Sequence[int],
    head_dims: Sequence[int],
    *,
    decoding: bool,
    length: int,
    sides: Sequence[str] = (),
    batches: Sequence[int] = BATCHES,
    memory: Sequence[str] = _MEMORY,
) -> list[Call]:
    """The calls of a sweep of attention, in the order in which they are made.

    The order is fixed, because a function may remember what it was called with before.
    """
    heads_in_turn = list(islice(cycle(num_heads), _HEADS_IN_A_CYCLE))
    head_dims_in_turn = list(islice(cycle(head_dims), _HEAD_DIMS_IN_A_CYCLE))

    def call(n: int, queries: int, keys: int) -> Call:
        # The same number of heads twice, so that a cache is used for another size
        heads = heads_in_turn[n // 2 % len(heads_in_turn)]
        batch = batches[n % len(batches)]
        size = keys * max(queries, *head_dims)
        if batch * heads * size > _MOST_NUMBERS:
            batch = 1
        if heads * size > _MOST_NUMBERS:
            heads = num_heads[0]
        return Call(
            probe=Probe(heads, queries, keys),
            head_dim=head_dims_in_turn[n % len(head_dims_in_turn)],
            batch=batch,
            memory=memory[n % len(memory)],
        )

    calls = []
    for n, (queries, keys) in enumerate(sizes(decoding, length)):
        calls.append(call(n, queries, keys))
    # As models call: several sequences, all queries, and heads that were split off the last axis
    calls += [replace(calls[0], memory=kind) for kind in memory]
    for n, (queries, keys) in enumerate(_LARGE_CONTENT):
        if keys <= length and (decoding or queries == keys):
            calls.append(replace(call(n, queries, keys), large=True))
    for side in sides:
        for n, (queries, keys) in enumerate([*usual_sizes(decoding, length), *_PADDED]):
            has_a_real_query = side == "left" or queries > PADDED_TOKENS[0]
            if has_a_real_query and keys <= max(length, SHORT) and (decoding or queries == keys):
                padded = replace(call(n, queries, keys), padding=side)
                calls.append(padded)
                if padded.is_short:
                    calls += [replace(padded, batch=batch) for batch in batches[:2]]
    for heads in num_heads[_HEADS_IN_A_CYCLE:]:
        calls.append(Call(Probe(heads, SHORT, SHORT), head_dims[0], batches[0]))
    repeated = calls[_REPEATED - 1 :: -1]
    calls += [replace(made, after_longer=True) for made in repeated]
    return list(dict.fromkeys(calls))


def bias_sweep(num_heads: Sequence[int], *, decoding: bool, length: int) -> list[Call]:
    """The calls of a sweep of a bias function."""
    heads_in_turn = list(islice(cycle(num_heads), _HEADS_IN_A_CYCLE))
    calls = []
    for n, (queries, keys) in enumerate(sizes(decoding, length)):
        calls.append(Call(Probe(heads_in_turn[n // 2 % len(heads_in_turn)], queries, keys)))
    calls += [Call(Probe(heads, SHORT, SHORT)) for heads in num_heads[_HEADS_IN_A_CYCLE:]]
    repeated = calls[_REPEATED - 1 :: -1]
    return calls + [replace(made, after_longer=True) for made in repeated]


@dataclass
class Swept:
    """What came out of a sweep.

    Attributes:
        samples: the inputs and outputs of each call that returned an output.
        wrong: the largest error of each call whose output is wrong.
        failures: the calls that returned none.
    """

    samples: dict[Call, Sample]
    wrong: dict[Call, float]
    failures: Failures

    @property
    def ok(self) -> bool:
        return not self.wrong and not self.failures.by_fault

    def right_sides(self) -> list[str]:
        """The sides of padding with which every call is right."""
        wrong = {call.padding for call in (*self.wrong, *self.failures.calls)}
        sides = dict.fromkeys(call.padding for call in self.samples)
        return [side for side in sides if side != NO_PADDING and side not in wrong]

    def without_padding_except(self, sides: Sequence[str]) -> "Swept":
        """The same without the calls with padding on other sides."""
        kept = (NO_PADDING, *sides)
        failures = Failures()
        for fault, messages in self.failures.by_fault.items():
            for call, message in messages.items():
                if call.padding in kept:
                    failures.add(fault, call, message)
        return Swept(
            {call: sample for call, sample in self.samples.items() if call.padding in kept},
            {call: error for call, error in self.wrong.items() if call.padding in kept},
            failures,
        )


def sweep(
    reader: AttentionReader, calls: Sequence[Call], expected: Expectation, group_size: int = 1
) -> Swept:
    """Make each call, and compare its output with the reference.

    Enough calls that are clearly wrong without padding end the sweep: they are named by others.
    """
    swept = Swept({}, {}, Failures())
    clearly_wrong = 0
    for call in calls:
        try:
            sample = Sample.of(reader, call)
        except Unusable as error:
            swept.failures.add(error.fault, call, str(error))
            if error.fault == "does not finish":
                break
            continue
        swept.samples[call] = sample
        errors = sample.errors(expected, neighbors(call.probe.num_heads, group_size))
        is_right = errors <= error_bound(sample, expected, reader)  # False for NaN
        if not bool(is_right.all()):
            swept.wrong[call] = float(errors[~is_right].max())
            is_clear = not swept.wrong[call] < _CLEARLY  # also for NaN
            clearly_wrong += is_clear and call.padding == NO_PADDING
        if clearly_wrong == _ENOUGH:
            break
    return swept


def error_bound(sample: Sample, expected: Expectation, reader: AttentionReader) -> Tensor:
    """How far the output of each head may be off: float64 [heads].

    A logit is a sum of a product of head_dim terms and of a bias. Both are rounded in proportion to
    their size, some forms of the bias to that of the farthest key. An error of a logit changes the
    output by up to twice as much times the largest value.
    """
    heads, _, keys = sample.call.probe
    eps = torch.finfo(torch.float32).eps
    scaling = abs(expected.scaling(sample.call.head_dim))
    content = scaling * sample.query.norm(dim=-1).max() * sample.key.norm(dim=-1).max()
    bias = expected.slopes(heads).abs() * keys
    error_of_logits = eps * (2 * (content + bias) + sample.call.head_dim / 4 + 16)
    bound = 2 * sample.value.abs().max() * error_of_logits
    if reader.read_dtype == torch.float32:
        return bound
    return bound.clamp(min=4 * reader.precision.absolute)


def wrong_gradients(
    reader: AttentionReader, swept: Swept, expected: Expectation, group_size: int = 1
) -> tuple[list[Finding], str]:
    """Compare the backward pass in a few calls that were right.

    Returns a finding for a wrong gradient, and in words what was compared.
    """
    few = [call for call in swept.samples if call.is_plain and call.probe.key_length > 1]
    few = sorted(few, key=lambda call: abs(call.probe.key_length - SHORT))[:_GRADIENTS]
    for call in few:
        sample = swept.samples[call]
        generator = torch.Generator().manual_seed(1)
        of_output = torch.randn(sample.output.shape, generator=generator, dtype=torch.float64)
        try:
            observed = reader.gradients(sample.query, sample.key, sample.value, of_output)
        except Unusable as error:
            return [], f"no gradients, as the function raises ({error})"
        if observed is None:
            return [], "no gradients, as outputs have none"
        correct = _correct_gradients(sample, of_output, expected, group_size)
        names = ("query", "key", "value")
        for name, got, wanted in zip(names, observed, correct, strict=True):
            largest = float(wanted.abs().max())
            difference = float((got - wanted).abs().max())
            if not difference <= _gradient_tolerance(reader) * max(largest, 1.0):  # also for NaN
                evidence = f"{call}: the gradient of the {name} is off by up to {difference:.3g}"
                evidence += f", where the largest is {largest:.3g}; the output is right"
                return [Finding("wrong gradient", evidence)], "gradients"
    return [], f"the gradients of {count(len(few), 'call')}"


def _correct_gradients(
    sample: Sample, of_output: Tensor, expected: Expectation, group_size: int
) -> tuple[Tensor, ...]:
    """The gradients with respect to query, key and value, float64."""
    with torch.enable_grad():
        inputs = [x.clone().requires_grad_() for x in (sample.query, sample.key, sample.value)]
        query, key, value = inputs
        key_heads = neighbors(sample.call.probe.num_heads, group_size)
        output = expected.weights(query, key[:, key_heads]) @ value[:, key_heads]
        return torch.autograd.grad(output, inputs, of_output)


def _gradient_tolerance(reader: AttentionReader) -> float:
    """Relative to the largest gradient: a backward pass has a few products more than a forward."""
    return 1e-4 if reader.read_dtype == torch.float32 else 16 * reader.precision.absolute


# To how many bits these formats round the fraction of a float32
_FRACTIONS = {"TF32 or float16": 10, "bfloat16": 7}
_ALLOWED_ERRORS = 4  # times the error of the reference in that dtype
_NEARLY_ALL = 0.9


def rounding_that_explains(swept: Swept, expected: Expectation, group_size: int) -> str | None:
    """The format within whose rounding all outputs are right; None if there is none.

    The reference is computed again with inputs, weights and outputs rounded. Its own errors say
    which errors are allowed, call by call. An error that shows in some calls only is no rounding.
    """
    if swept.failures.by_fault:
        return None
    for name, bits in _FRACTIONS.items():
        visible = 0
        is_within = True
        for call, sample in swept.samples.items():
            key_heads = neighbors(call.probe.num_heads, group_size)
            own = sample.rounded(expected, key_heads, bits)
            error = sample.difference(expected, key_heads)
            is_within &= error <= _ALLOWED_ERRORS * own
            visible += call in swept.wrong
        if is_within and visible >= _NEARLY_ALL * len(swept.samples):
            return name
    return None


def describe(calls: Sequence[Call]) -> str:
    """What was tried, in words: the last line of a report."""
    if not calls:
        return "no call returned a result"
    keys = sorted({call.probe.key_length for call in calls})
    heads = sorted({call.probe.num_heads for call in calls})
    head_dims = sorted({call.head_dim for call in calls})
    parts = [
        f"{count(len(calls), 'call')} of {keys[0]} to {keys[-1]} keys",
        f"{_list(heads)} heads",
    ]
    if head_dims != [0]:
        parts.append(f"head_dim {_list(head_dims)}")
        parts.append(f"batches of up to {max(call.batch for call in calls)}")
    return ", ".join(parts)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
