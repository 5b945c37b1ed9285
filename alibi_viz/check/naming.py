"""Name what a sweep has detected.

The weights of a few wrong calls are read at equal content. Slopes are fitted to their last rows,
and the first case of the table of faults that gives all weights explains them. Whatever else is
wrong is tried with it, too; what it doesn't explain is named in a further round. What no formula
gives is asked again in another way (`relations`), or described by its weights (`one_matrix`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from alibi_viz.check.call import Failures, try_each
from alibi_viz.check.conditions import with_condition
from alibi_viz.check.content import heads_read, name_heads, read_content
from alibi_viz.check.detect import Sample, Sweep, rounding_that_explains
from alibi_viz.check.expected import Expected
from alibi_viz.check.explain import Explanation, explain_bias
from alibi_viz.check.one_matrix import describe_weights, worst_comparison
from alibi_viz.check.plan import SHORT, Call
from alibi_viz.check.probe import AttentionReader, Observation
from alibi_viz.check.relations import (
    random_answer,
    right_if_contiguous,
    right_in_parts,
    right_once_more,
)
from alibi_viz.check.report import NOT_AVERAGED, OUTSIDE, Comparison, Finding

_ROUNDS = 4
_FEWEST_KEYS = SHORT  # from which slopes can be read well
_MOST_READ = 8  # calls whose weights are read in a round


@dataclass
class Named:
    """What was found."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    comparison: Comparison | None = None


@dataclass
class Few:
    """A few wrong calls, and their weights at equal content."""

    calls: Sequence[Call]
    observations: dict[Call, Sequence[Observation]]
    unreadable: Failures  # the calls whose weights could not be read
    expected: Expected
    together: Explanation | None = None  # what explains their weights and their content

    @cached_property
    def seen(self) -> list[Observation]:
        return [one for of_call in self.observations.values() for one in of_call]

    @cached_property
    def bias(self) -> Explanation | None:
        """What explains the weights of all of them; None if no case of the table does."""
        return explain_bias(self.seen, self.expected) if self.seen else None


class Naming:
    """Names the wrong answers of a sweep, round by round.

    `reader` reads the weights of an attention function. Without one, the answers are weights.
    """

    def __init__(
        self,
        sweep: Sweep,
        wrong: Sequence[Call],
        expected: Expected,
        reader: AttentionReader | None = None,
    ) -> None:
        self.sweep = sweep
        self.expected = expected
        self.reader = reader
        self.wrong = list(wrong)
        self.unexplained = list(wrong)
        self.right = [call for call in sweep.answers if call not in wrong and not call.is_trivial]
        self.named = Named()

    def run(self) -> Named:
        """Name all that is wrong."""
        random = random_answer(self.sweep, self.wrong[0])
        if random is not None:
            return Named([random])
        once = right_once_more(self.sweep, self.wrong, self.expected)
        if once is not None:
            self._take(once)
        for _ in range(_ROUNDS):
            if not self.unexplained:
                break
            for explanation in self._explain(representatives(self.unexplained)):
                self._take(explanation)
        return self.named

    def _take(self, explanation: Explanation) -> None:
        """Note an explanation, and what it explains."""
        explained = list(explanation.calls)
        right = self.right
        if explanation.expected is not None:
            further = [call for call in self.unexplained if call not in explained]
            explained += [call for call in further if self._gives(explanation.expected, call)]
            right = [call for call in right if self._changes(explanation.expected, call)]
        self.unexplained = [call for call in self.unexplained if call not in explained]
        for finding in explanation.findings:
            name = finding.name
            evidence = finding.evidence
            if right and not explanation.says_when:
                name = _name_in_some_calls(name, explained, right)
                evidence = with_condition(evidence, explained, right)
            if name not in [found.name for found in self.named.findings]:
                self.named.findings.append(Finding(name, evidence))

    def _gives(self, faulty: Expected, call: Call) -> bool:
        """Whether a function with these faults gives the answer of a wrong call."""
        try:
            return self.sweep.answers[call].is_explained(faulty, self.expected)
        except KeyError:  # its slopes are not known for these sizes
            return True

    def _changes(self, faulty: Expected, call: Call) -> bool:
        """Whether these faults would change the answer of a right call."""
        try:
            return not self.sweep.answers[call].is_right(faulty)
        except KeyError:
            return True

    def _explain(self, calls: Sequence[Call]) -> Sequence[Explanation]:
        """Explanations of some wrong calls by the first way that has any."""
        few = self._read(calls)
        if "does not finish" in few.unreadable.by_fault:
            return [Explanation(few.unreadable.findings([]), None, self.unexplained)]
        ways = [
            self._by_a_formula,
            self._by_rounding,
            self._by_memory,
            self._by_what_reading_showed,
            self._by_parts,
            self._by_a_description,
        ]
        for way in ways:
            explanations = way(few)
            if explanations:
                return explanations
        return [self._unknown()]

    def _read(self, calls: Sequence[Call]) -> Few:
        observations, unreadable = try_each(self._weights, calls)
        readable = {call: seen for call, seen in observations.items() if seen}
        few = Few(calls, readable, unreadable, self.expected)
        wrong_weights = [one for one in few.seen if not one.is_right(self.expected)]
        if self.named.comparison is None and wrong_weights:
            self.named.comparison = worst_comparison(wrong_weights, self.expected)
        return few

    def _weights(self, call: Call) -> Sequence[Observation]:
        """The weights of a call, made after the call that was made before it."""
        answer = self.sweep.answers[call]
        if isinstance(answer, Observation):
            return [answer]
        if self.reader is None:
            return []
        before = self.sweep.call_before(call)
        if before is not None:
            try_each(self.sweep.ask, [before])
        return self.reader.observe(call)

    # The ways, in their order

    def _by_a_formula(self, few: Few) -> Sequence[Explanation]:
        """Faults of the table, of slopes and of the content that give all of the few calls."""
        if few.bias is None:
            return []
        few.together = self._with_content(few.bias, list(few.observations))
        if few.together is None or few.together.expected is None:
            return []
        return [few.together]

    def _by_rounding(self, few: Few) -> Sequence[Explanation]:
        """No fault, but a format with fewer bits."""
        answers = list(self.sweep.answers.values())
        rounding = rounding_that_explains(answers, self.wrong, self.expected)
        if rounding is None or self.sweep.failures.by_fault:
            return []
        note = f"Right within the rounding of {rounding}: float32 would be more exact."
        self.named.notes.append(note)
        return [Explanation([], None, self.unexplained)]

    def _by_memory(self, few: Few) -> Sequence[Explanation]:
        if self.reader is None:
            return []
        again = right_if_contiguous(self.sweep, self.unexplained, self.expected)
        return [] if again is None else [again]

    def _by_what_reading_showed(self, few: Few) -> Sequence[Explanation]:
        """Weights or content that cannot be read; of all calls, if most show it."""
        if few.together is not None:
            return [few.together]
        by_fault = few.unreadable.by_fault
        if not by_fault:
            return []
        if OUTSIDE in by_fault and (NOT_AVERAGED in by_fault or self.right):
            # A model has sinks in all calls, so this is none.
            of_sinks = by_fault.pop(OUTSIDE).items()
            sums = {call: text.partition(", as with")[0] for call, text in of_sinks}
            by_fault.setdefault(NOT_AVERAGED, sums)
        fault, messages = max(by_fault.items(), key=lambda item: len(item[1]))
        calls = list(messages)
        further = [call for call in self.unexplained if call not in calls]
        others, further_failures = try_each(self._weights, further[:_MOST_READ])
        calls += further_failures.by_fault.get(fault, {})
        if len(messages) > len(few.calls) / 2 or not others:
            calls = self.unexplained
        return [Explanation([Finding(fault, next(iter(messages.values())))], None, calls)]

    def _by_parts(self, few: Few) -> Sequence[Explanation]:
        if self.reader is None:
            return []
        again = right_in_parts(self.reader, self.sweep, self.unexplained, self.expected)
        return [] if again is None else [again]

    def _by_a_description(self, few: Few) -> Sequence[Explanation]:
        if few.bias is not None or not few.seen:
            return []
        finding = describe_weights(few.seen, self.expected)
        if finding is None:
            return []
        return [Explanation([finding], None, self.unexplained)]

    def _unknown(self) -> Explanation:
        def error(call: Call) -> float:
            return self.sweep.answers[call].error(self.expected)

        evidence = self._error(max(self.unexplained, key=error))
        if self.reader is not None and self.reader.dtype.itemsize == 2:
            evidence += f"; perhaps logits are rounded to {self.reader.dtype}"
        return Explanation([Finding("unknown fault", evidence)], None, self.unexplained)

    # Parts of these ways

    def _with_content(self, bias: Explanation, calls: Sequence[Call]) -> Explanation | None:
        """What explains some calls: what gives their weights at equal content, and what the
        function makes of other content. None if that doesn't give the outputs."""
        if self.reader is None:
            return bias if bias.findings else None
        assert bias.expected is not None  # the weights have a formula
        content = read_content(self.reader, self.sweep, calls, bias.expected)
        findings = [*content.findings, *bias.findings]
        if content.expected is None:
            return Explanation(findings, None, calls)
        gives = [call for call in calls if self._gives(content.expected, call)]
        if findings and gives:
            return Explanation(findings, content.expected, gives[:1])
        return self._with_other_heads(bias, calls[0])

    def _with_other_heads(self, bias: Explanation, call: Call) -> Explanation | None:
        sample = self.sweep.answers[call]
        assert isinstance(sample, Sample)
        assert bias.expected is not None
        read = heads_read(sample, bias.expected)
        if read is None:
            return None
        faulty = replace(bias.expected, heads_read=read)
        fault, words = name_heads(*read(call.probe.num_heads), self.expected.group_size)
        evidence = f"{self._error(call)}, but right if {words}"
        return Explanation([Finding(fault, evidence), *bias.findings], faulty, [call])

    def _error(self, call: Call) -> str:
        """The error of a call, in words."""
        error = self.sweep.answers[call].error(self.expected)
        if self.reader is None:
            return f"{call}: a weight is off by up to {error:.3g}"
        return f"{call}: for random inputs, the output is off by up to {error:.3g}"


def representatives(calls: Sequence[Call]) -> list[Call]:
    """A few of some calls, in which a fault is read fast and named surely: small ones of each
    number of heads and size of a head, with a cache and without, and the longest."""
    candidates = [call for call in calls if not call.is_padded] or list(calls)
    candidates = [call for call in candidates if not call.large] or candidates
    by_size = sorted(candidates, key=lambda call: call.probe.key_length)
    # One query tells little, and so do few keys.
    by_size.sort(key=lambda call: call.probe.query_length == 1)
    by_size.sort(key=lambda call: call.probe.key_length < _FEWEST_KEYS)
    groups = [
        lambda call: call.has_cache,
        lambda call: call.probe.query_length == 1,
        lambda call: (call.probe.num_heads, call.head_dim),
    ]
    chosen = [by_size[0]]
    longest = max(candidates, key=lambda call: (call.probe.key_length, call.probe.query_length))
    for group in groups:
        for kind in dict.fromkeys(group(call) for call in by_size):
            chosen.append(next(call for call in by_size if group(call) == kind))
    few = list(dict.fromkeys(chosen))[: _MOST_READ - 1]
    return list(dict.fromkeys([*few, longest]))


# Faults with a name of their own where only some calls have them, or only those with fewer queries
# than keys
_IN_SOME_CALLS = {"sign reversed": "sign reversed in one branch"}
_WHILE_DECODING = {
    "no bias": "no bias while decoding",
    "heads share a slope": "slopes of the key heads while decoding",
}


def _name_in_some_calls(fault: str, wrong: Sequence[Call], right: Sequence[Call]) -> str:
    """The name of a fault that these calls have, and others don't."""

    def decodes(call: Call) -> bool:
        return call.has_cache and call.probe.query_length == 1

    is_decoding = all(call.has_cache for call in wrong) and not any(map(decodes, right))
    if is_decoding:
        return {**_IN_SOME_CALLS, **_WHILE_DECODING}.get(fault, fault)
    return _IN_SOME_CALLS.get(fault, fault)
