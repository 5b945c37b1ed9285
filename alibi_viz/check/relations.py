"""Ask a wrong call again in another way: what no formula gives may be right then."""

from collections.abc import Sequence
from dataclasses import replace

from alibi_viz.check.call import Unusable, try_each
from alibi_viz.check.detect import Sample, Sweep
from alibi_viz.check.expected import Expected
from alibi_viz.check.explain import Explanation
from alibi_viz.check.plan import CONTIGUOUS, MEMORY_WORDS, NO_PADDING, NOT_CONTIGUOUS, Call
from alibi_viz.check.probe import AttentionReader, Observation
from alibi_viz.check.report import Finding
from alibi_viz.check.words import alternatives

_MOST_CALLS = 8  # that are made again


def random_answer(sweep: Sweep, call: Call) -> Finding | None:
    """A finding if a call is answered in another way each time it is made."""
    try:
        sweep.ask(call)  # after which a function may remember what it needs
        first = sweep.ask(call)
        second = sweep.ask(call)
    except Unusable:
        return None
    if isinstance(first, Observation) and isinstance(second, Observation):
        difference = float((first.log_weights - second.log_weights).abs().max())
    else:
        assert isinstance(first, Sample)
        assert isinstance(second, Sample)
        difference = float((first.output - second.output).abs().max())
    if not difference > first.precision.absolute:  # NaN is no difference
        return None
    evidence = f"{call}: the same call made twice gives results that differ by up to"
    return Finding("random result", f"{evidence} {difference:.3g}")


def right_once_more(sweep: Sweep, wrong: Sequence[Call], expected: Expected) -> Explanation | None:
    """The calls that are right when made once more, after the same call as before."""
    right = []
    for call in wrong[:_MOST_CALLS]:
        before = sweep.call_before(call)
        if before is not None:
            try_each(sweep.ask, [before])
        if _is_right(sweep, call, expected):
            right.append(call)
        elif not right:  # the first one decides
            return None
    evidence = f"{right[0]}: wrong once, but right when the call is made again"
    return Explanation([Finding("random result", evidence)], None, right)


def right_if_contiguous(
    sweep: Sweep, wrong: Sequence[Call], expected: Expected
) -> Explanation | None:
    """The calls that are right with contiguous inputs."""
    by_size = sorted(wrong, key=lambda call: call.probe.key_length, reverse=True)
    first_of_kind = {call.memory: call for call in by_size if call.is_view}  # the smallest
    kinds = [
        memory
        for memory, call in first_of_kind.items()
        if _is_right(sweep, replace(call, memory=CONTIGUOUS), expected)
    ]
    if not kinds:
        return None
    calls = [call for call in wrong if call.memory in kinds]
    words = [MEMORY_WORDS[memory] for memory in MEMORY_WORDS if memory in kinds]
    of_all = len(kinds) == len(MEMORY_WORDS) - 1
    condition = NOT_CONTIGUOUS if of_all else alternatives(words)
    evidence = f"{_evidence(sweep, calls[0], expected)}, but right with contiguous inputs"
    finding = Finding("strides ignored", f"{evidence} (only with {condition})")
    return Explanation([finding], None, calls, says_when=True)


def right_in_parts(
    reader: AttentionReader, sweep: Sweep, wrong: Sequence[Call], expected: Expected
) -> Explanation | None:
    """The calls that are right for each sequence by itself, or without padding."""
    by_size = sorted(wrong, key=lambda call: call.probe.key_length)
    return _each_sequence_alone(reader, sweep, by_size, expected) or _without_padding(
        sweep, by_size, expected
    )


def _evidence(sweep: Sweep, call: Call, expected: Expected) -> str:
    error = sweep.answers[call].error(expected)
    return f"{call}: for random inputs, the output is off by up to {error:.3g}"


def _is_right(sweep: Sweep, call: Call, expected: Expected) -> bool:
    try:
        return sweep.ask(call).is_right(expected)
    except Unusable:
        return False


def _each_sequence_alone(
    reader: AttentionReader, sweep: Sweep, wrong: Sequence[Call], expected: Expected
) -> Explanation | None:
    calls = [call for call in wrong if call.batch > 1 and not call.is_padded]
    if not calls:
        return None
    sample = sweep.answers[calls[0]]
    assert isinstance(sample, Sample)
    alone = replace(sample.call, batch=1)
    for n in range(sample.call.batch):
        query = sample.query[n : n + 1]
        key = sample.key[n : n + 1]
        value = sample.value[n : n + 1]
        try:
            output = reader(query.float(), key.float(), value.float(), alone)
        except Unusable:
            return None
        of_one = Sample(alone, query, key, value, output, sample.precision)
        if not of_one.is_right(expected):
            return None
    evidence = f"{_evidence(sweep, sample.call, expected)}, but right for each sequence by itself"
    return Explanation([Finding("batch rows mixed", evidence)], None, calls)


def _without_padding(sweep: Sweep, wrong: Sequence[Call], expected: Expected) -> Explanation | None:
    calls = [call for call in wrong if call.is_padded]
    if not calls or not _is_right(sweep, replace(calls[0], padding=NO_PADDING), expected):
        return None
    evidence = f"{_evidence(sweep, calls[0], expected)}, but right without padding"
    return Explanation([Finding("padding changes the bias", evidence)], None, calls)
