"""Check what a function makes of the content: its scale, and the output for random inputs."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from alibi_viz.check.beyond import fit_cap
from alibi_viz.check.call import Failures, Unusable, try_each
from alibi_viz.check.common_condition import fault_of_condition, with_condition
from alibi_viz.check.plan import NO_PADDING, Call, calls_that_tell_apart
from alibi_viz.check.probe import AttentionReader, real_keys
from alibi_viz.check.report import Finding
from alibi_viz.check.rules import Expectation

LARGE = 8.0  # times larger than usual is the content of a call that is called large
_COMPARED_QUERIES = 16  # the last ones tell which heads are read


@dataclass
class Content:
    """What was found about the content, and the expectation for further calls."""

    expected: Expectation
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def name_content(reader: AttentionReader, calls: Sequence[Call], expected: Expectation) -> Content:
    """Measure the factors of q . k, and name what is wrong with them."""
    tolerance = _tolerance(reader)
    relative, failures = _relative_factors(reader, calls, expected)
    if failures.by_fault:
        return Content(expected, failures.findings(calls))

    wrong = {call: factor for call, factor in relative.items() if abs(factor - 1) > tolerance}
    if not wrong:
        return Content(expected)
    if expected.scale is None:
        designed = _by_design(relative, wrong, expected, tolerance)
        if designed is not None:
            return designed
    return Content(expected, [_scale_finding(wrong, list(relative), tolerance)])


def _tolerance(reader: AttentionReader) -> float:
    """How far a factor of q . k may be from 1."""
    return max(reader.precision.absolute, 4e-3)


def _relative_factors(
    reader: AttentionReader, calls: Sequence[Call], expected: Expectation
) -> tuple[dict[Call, float], Failures]:
    """The factors of q . k relative to the correct ones, and the calls that failed."""
    factors, failures = try_each(reader.content_factor, calls)
    relative = {}
    for call, factor in factors.items():
        if math.isnan(factor):  # no query sees two keys, so content changes nothing
            continue
        score = expected.scaling(call.head_dim) * math.sqrt(call.head_dim)
        correct = float(expected.capped(torch.tensor(score, dtype=torch.float64)))
        relative[call] = factor / correct
    return relative, failures


def _scale_finding(wrong: Mapping[Call, float], calls: Sequence[Call], tolerance: float) -> Finding:
    """The fault of the wrong factors of q . k, of all calls."""
    call, factor = max(wrong.items(), key=lambda item: abs(item[1] - 1))
    evidence = f"with {call} and head_dim {call.head_dim}, q . k counts {factor:.4g} times"
    evidence = with_condition(evidence, list(wrong), calls)
    return Finding(_fault_of(wrong, tolerance), evidence)


def _are_all(
    factors: Mapping[Call, float], predict: Callable[[Call], float], tolerance: float
) -> bool:
    return all(abs(factor / predict(call) - 1) <= tolerance for call, factor in factors.items())


def _fault_of(factors: Mapping[Call, float], tolerance: float) -> str:
    """The name of the fault that gives these factors."""
    if _are_all(factors, lambda call: call.probe.num_heads**-0.5, tolerance):
        return "content too weak"
    if _are_all(factors, lambda call: call.head_dim**0.5, tolerance):
        return "content not scaled"
    has_several_sizes = len({call.head_dim for call in factors}) > 1
    if has_several_sizes and _are_all(factors, lambda call: call.head_dim**-0.5, tolerance):
        return "content scaled twice"
    return "content multiplied"


def _by_design(
    factors: Mapping[Call, float],
    wrong: Mapping[Call, float],
    expected: Expectation,
    tolerance: float,
) -> Content | None:
    """What to expect if a scale of all calls is by design, by all factors and the wrong ones.

    None if the calls have no scale in common, or that of a known mistake.
    """
    call, factor = next(iter(factors.items()))
    if factor <= 0 or _fault_of(wrong, tolerance) != "content multiplied":
        return None
    are_all_wrong = len(wrong) == len(factors)
    scale = factor * call.head_dim**-0.5
    if are_all_wrong and _are_all(factors, lambda call: scale * call.head_dim**0.5, tolerance):
        note = _scale_note(f"with {scale:.4g}", f"scale={scale:.4g}")
        return Content(replace(expected, scale=scale), notes=[note])
    if are_all_wrong and _are_all(factors, lambda _: factor, tolerance):
        note = _scale_note(f"with {factor:.4g} / sqrt(head_dim)", _SCALE_OF_ONE_SIZE)
        return Content(replace(expected, factor=factor), notes=[note])
    # As muP does; with one size of a head it would be a constant.
    numerator = factor * call.head_dim**0.5
    if _are_all(factors, lambda call: numerator * call.head_dim**-0.5, tolerance):
        note = _scale_note(f"with {numerator:.4g} / head_dim", _SCALE_OF_ONE_SIZE)
        return Content(replace(expected, factor=numerator, exponent=-1.0), notes=[note])
    return None


_SCALE_OF_ONE_SIZE = "`scale` and one `head_dim`"


def _scale_note(observed: str, argument: str) -> str:
    return (
        f"Observed: q . k is multiplied {observed}, where 1 / sqrt(head_dim) is usual. If that is "
        f"by design, as with muP, pass {argument}; all else was checked with it."
    )


def check_outputs(
    reader: AttentionReader, calls: Sequence[Call], expected: Expectation, group_size: int
) -> Content:
    """Compare the outputs for random inputs with the correct ones."""

    def check(call: Call) -> None:
        _check_output(reader, call, expected, group_size)

    _, failures = try_each(check, calls)
    if not failures.by_fault:
        return Content(expected)
    further = calls_that_tell_apart(failures.calls, calls)
    _, of_further = try_each(check, further)
    failures.update(of_further)
    calls = [*calls, *further]

    if set(failures.by_fault) == {"unknown fault"}:
        explained = _explain_outputs(reader, failures, calls, expected, group_size)
        if explained is not None:
            return explained

    fault = fault_of_condition(failures.calls, calls)
    if fault is None:
        return Content(expected, failures.findings(calls))
    messages = next(iter(failures.by_fault.values()))
    evidence = next(iter(messages.values()))
    return Content(expected, [Finding(fault, evidence)])


def _explain_outputs(
    reader: AttentionReader,
    failures: Failures,
    calls: Sequence[Call],
    expected: Expectation,
    group_size: int,
) -> Content | None:
    """A soft cap, or a scale in some calls, that explains the wrong outputs; None if none does."""
    if expected.softcap is None:
        capped = _with_fitted_cap(reader, failures.calls[0], expected, group_size)
        if capped is not None:
            with_cap = check_outputs(reader, calls, capped, group_size)
            if not with_cap.findings:
                return Content(capped, notes=[_cap_note(capped, failures.by_fault)])

    factors, unreadable = _relative_factors(reader, failures.calls, expected)
    tolerance = _tolerance(reader)
    are_all_wrong = all(abs(factor - 1) > tolerance for factor in factors.values())
    if unreadable.by_fault or not factors or not are_all_wrong:
        return None
    return Content(expected, [_scale_finding(factors, calls, tolerance)])


def _cap_note(capped: Expectation, failures: dict[str, dict[Call, str]]) -> str:
    evidence = next(iter(failures["unknown fault"].values()))
    return (
        "Observed: the bias is right, but something else changes the scores, as a soft cap of "
        f"about {capped.softcap:.3g} does ({evidence}). If that is by design, pass "
        f"softcap={capped.softcap:.3g}."
    )


@dataclass(frozen=True)
class Sample:
    """Random inputs and the function's output, float64 [batch, heads, length, head_dim]."""

    call: Call
    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor

    @classmethod
    def of(cls, reader: AttentionReader, call: Call) -> "Sample":
        heads, query_length, key_length = call.probe
        generator = torch.Generator().manual_seed(0)
        batch = call.batch
        query = torch.randn(batch, heads, query_length, call.head_dim, generator=generator)
        if call.large:
            query *= LARGE
        key, value = torch.randn(2, batch, heads, key_length, call.head_dim, generator=generator)
        output = reader(query, key, value, call)
        # The inputs as the function gets them
        query = query.to(reader.dtype).double()
        key = key.to(reader.dtype).double()
        value = value.to(reader.dtype).double()
        return cls(call, query, key, value, output)

    def errors(self, expected: Expectation, key_heads: Tensor) -> Tensor:
        """The largest error of the outputs of each head, for real tokens: float64 [heads].

        `key_heads`, [heads], has the key head that each head should read.
        """
        largest = torch.zeros(self.call.probe.num_heads, dtype=torch.float64)
        for query, key, value, output in self.sequences():
            correct = expected.weights(query, key[:, key_heads]) @ value[:, key_heads]
            error = (output - correct).abs().amax((0, 2, 3))
            largest = torch.maximum(largest, error)  # which keeps NaN
        return largest

    def difference(self, expected: Expectation, key_heads: Tensor) -> float:
        """The largest error of the outputs of real tokens."""
        return float(self.errors(expected, key_heads).max())

    def rounded(self, expected: Expectation, key_heads: Tensor, bits: int) -> float:
        """The largest error of the reference if inputs, weights and output are rounded.

        `bits` is the number of bits of a fraction.
        """
        largest = 0.0
        for query, key, value, _ in self.sequences():
            exact = expected.weights(query, key[:, key_heads]) @ value[:, key_heads]
            key = round_fraction(key, bits)[:, key_heads]  # noqa: PLW2901
            value = round_fraction(value, bits)[:, key_heads]  # noqa: PLW2901
            weights = round_fraction(expected.weights(round_fraction(query, bits), key), bits)
            output = round_fraction(weights @ value, bits)
            largest = max(largest, float((output - exact).abs().max()))
        return largest

    def sequences(self) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """The real tokens of each sequence that has a real query: query, key, value and output.

        Without padding, all sequences together.
        """
        if self.call.padding == NO_PADDING:
            yield self.query, self.key, self.value, self.output
            return
        for n, is_real in enumerate(real_keys(self.call)):
            queries = is_real[-self.call.probe.query_length :]
            if not bool(queries.any()):
                continue
            real = slice(n, n + 1)
            yield (
                self.query[real][:, :, queries],
                self.key[real][:, :, is_real],
                self.value[real][:, :, is_real],
                self.output[real][:, :, queries],
            )

    def heads_read(self, expected: Expectation, tolerance: float) -> tuple[Tensor, Tensor] | None:
        """The heads [heads] whose keys, and those whose values, explain the output of each head.

        None if the output of a head is not explained.
        """
        query, key, value, output = (tensor[:1] for tensor in next(self.sequences()))
        heads = self.call.probe.num_heads
        last_queries = slice(-_COMPARED_QUERIES, None)
        query = query[:, :, last_queries]
        output = output[:, :, last_queries]
        errors = torch.empty(heads, heads, heads, dtype=torch.float64)  # [key, value, head]
        for key_head in range(heads):
            weights = expected.weights(query, key[:, [key_head] * heads])
            for value_head in range(heads):
                error = (output - weights @ value[:, [value_head] * heads]).abs()
                errors[key_head, value_head] = error.amax((0, 2, 3))
        smallest, pair = errors.flatten(0, 1).min(0)
        if not bool((smallest <= tolerance).all()):
            return None
        return pair // heads, pair % heads


def round_fraction(values: Tensor, bits: int) -> Tensor:
    """The values, each rounded to a fraction of so many bits, as a dtype with fewer bits does."""
    fraction, exponent = torch.frexp(values)  # 0.5 <= |fraction| < 1
    scale = 2.0 ** (bits + 1)
    return torch.ldexp((fraction * scale).round() / scale, exponent)


def neighbors(heads: int, size: int) -> Tensor:
    """The key head of each head if neighbors share one: 0 0 0 3 3 3 for six heads in threes."""
    return torch.arange(heads) // size * size


def _in_turn(heads: int, size: int) -> Tensor:
    """The key head of each head if they take turns: 0 3 0 3 0 3 for six heads in threes."""
    return torch.arange(0, heads, size).repeat(size)


def _check_output(
    reader: AttentionReader, call: Call, expected: Expectation, group_size: int
) -> None:
    """Raise Unusable if the output for random inputs is wrong."""
    sample = Sample.of(reader, call)
    heads = call.probe.num_heads
    tolerance = 4 * reader.precision.absolute
    difference = sample.difference(expected, neighbors(heads, group_size))
    if difference <= tolerance:  # False for NaN
        return

    evidence = f"{call}: for random inputs, the output is off by up to {difference:.3g}"
    read = sample.heads_read(expected, tolerance)
    right_heads = neighbors(heads, group_size)
    if read is not None and not all(torch.equal(part, right_heads) for part in read):
        fault, right_if = _name_heads(*read, group_size)
        raise Unusable(fault, f"{evidence}, but right if {right_if}")
    if reader.dtype.itemsize == 2:
        evidence += f"; perhaps logits are rounded to {reader.dtype}"
    raise Unusable("unknown fault", evidence)


def _name_heads(key_heads: Tensor, value_heads: Tensor, group_size: int) -> tuple[str, str]:
    """The fault, and in words what heads read, if each reads these heads' keys and values."""
    heads = len(key_heads)
    different = (key_heads != value_heads).nonzero()
    if len(different) > 0:
        head = int(different[0])
        keys = f"the keys of head {int(key_heads[head]) + 1}"
        values = f"the values of head {int(value_heads[head]) + 1}"
        return "wrong keys", f"head {head + 1} reads {keys}, but {values}"
    for size in range(1, heads + 1):
        if heads % size:
            continue
        if torch.equal(key_heads, neighbors(heads, size)):
            return "wrong keys", f"heads share a key in groups of {size}"
        if torch.equal(key_heads, _in_turn(heads, size)):
            turns = f"heads take turns on {heads // size} key heads"
            return "key heads in another order", turns
    numbers = key_heads // group_size + 1
    listed = " ".join(str(number) for number in numbers.tolist())
    return "key heads in another order", f"heads read the key heads {listed}"


def _with_fitted_cap(
    reader: AttentionReader, call: Call, expected: Expectation, group_size: int
) -> Expectation | None:
    """The expectation with the soft cap that explains the output best; None if it doesn't."""
    sample = Sample.of(reader, call)
    key_heads = neighbors(call.probe.num_heads, group_size)

    def difference(cap: float) -> float:
        return sample.difference(replace(expected, softcap=cap), key_heads)

    cap = fit_cap(difference)
    if difference(cap) > 4 * reader.precision.absolute:
        return None
    return replace(expected, softcap=float(f"{cap:.3g}"))
