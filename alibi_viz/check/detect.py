"""Detect faults: make the calls of a sweep, and compare each answer with the right one.

Nothing is named here. What a call was answered stays, so that naming can try explanations on it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from alibi_viz.check.call import Failures, Unusable
from alibi_viz.check.expected import Expected, Group
from alibi_viz.check.plan import SHORT, Call
from alibi_viz.check.probe import AttentionReader, Observation, Precision, real_keys
from alibi_viz.check.report import Finding
from alibi_viz.check.words import count

LARGE = 8.0  # times larger than usual is the content of a call that is called large
# So many calls whose output is off by so much end a sweep. Rounding is never as large.
_ENOUGH = 8
_CLEARLY = 0.1
_EXPLAINED = 0.02  # of an error may be left by what explains it


@dataclass(frozen=True, eq=False)
class Sample:
    """Random inputs and the function's output, float64 [batch, heads, length, head_dim]."""

    call: Call
    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    precision: Precision

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
        return cls(call, query, key, value, output, reader.precision)

    def is_right(self, expected: Expected) -> bool:
        """Whether the output of each head is right within its rounding."""
        return bool((self.errors(expected) <= self.bound(expected)).all())  # False for NaN

    def error(self, expected: Expected) -> float:
        """The largest error of an output of a real token."""
        return float(self.errors(expected).max())

    def total_error(self, expected: Expected) -> float:
        """The sum of all errors, in which neither rounding nor a single wrong query counts much."""
        total = 0.0
        for query, key, value, output in self.sequences():
            total += float((output - expected.output(query, key, value)).abs().nansum())
        return total

    def errors(self, expected: Expected) -> Tensor:
        """The largest error of the outputs of each head, for real tokens: float64 [heads]."""
        largest = torch.zeros(self.call.probe.num_heads, dtype=torch.float64)
        for query, key, value, output in self.sequences():
            wanted = expected.output(query, key, value)
            # Where a faulty function sees no key, it may return anything.
            error = (output - wanted).abs().where(~wanted.isnan(), 0.0).amax((0, 2, 3))
            largest = torch.maximum(largest, error)  # which keeps NaN
        return largest

    def bound(self, expected: Expected) -> Tensor:
        """How far the output of each head may be off: float64 [heads].

        A logit is a sum of a product of head_dim terms and of a bias. Both are rounded in
        proportion to their size, some forms of the bias to that of the farthest key. An error of a
        logit changes the output by up to twice as much times the largest value.
        """
        heads, _, keys = self.call.probe
        head_dim = self.call.head_dim
        eps = torch.finfo(torch.float32).eps
        scaling = abs(expected.scaling(Group(heads, head_dim)))
        content = scaling * self.query.norm(dim=-1).max() * self.key.norm(dim=-1).max()
        bias = expected.slopes(heads).abs() * keys
        error_of_logits = eps * (2 * (content + bias) + head_dim / 4 + 16)
        bound = 2 * self.value.abs().max() * error_of_logits
        return bound if self.precision.is_of_float32 else bound.clamp(min=self._rounding)

    @property
    def _rounding(self) -> float:
        return 4 * self.precision.absolute

    def is_explained(self, faulty: Expected, right: Expected) -> bool:
        """Whether a faulty function that computes this gives the output, which is not right.

        Numbers that were read from weights leave a little of the error.
        """
        left = self.errors(faulty)
        allowed = 4 * self.bound(faulty) + _EXPLAINED * self.errors(right).nan_to_num(0.0).max()
        return bool((left <= allowed).all())

    def sequences(self) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """The real tokens of each sequence that has a real query: query, key, value and output.

        Without padding, all sequences together.
        """
        if not self.call.is_padded:
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


Answer = Sample | Observation


class Sweep:
    """The calls of a check, made one after the other.

    Attributes:
        calls: all calls in their order, and `left`, those that were not made yet.
        answers: what each call was answered.
        failures: the calls without an answer.
    """

    def __init__(self, ask: Callable[[Call], Answer], calls: Sequence[Call]) -> None:
        self.ask = ask
        self.calls = list(calls)
        self.left = list(calls)
        self.answers: dict[Call, Answer] = {}
        self.failures = Failures()

    def go_on(self, expected: Expected, enough: float = _ENOUGH) -> list[Call]:
        """Make the calls that are left, and return all that are wrong.

        It ends early if enough calls are clearly wrong without padding, which suffices to name
        them.
        """
        wrong = [call for call, answer in self.answers.items() if not answer.is_right(expected)]
        clearly_wrong = sum(self._is_clearly_wrong(call, expected) for call in wrong)
        while self.left and clearly_wrong < enough:
            call = self.left.pop(0)
            self.make(call)
            if call in self.answers and not self.answers[call].is_right(expected):
                wrong.append(call)
                clearly_wrong += self._is_clearly_wrong(call, expected)
        return wrong

    def make(self, call: Call) -> None:
        """Make a call, and note its answer or its failure."""
        try:
            self.answers[call] = self.ask(call)
        except Unusable as error:
            self.failures.add(call, error)
            if error.fault == "does not finish":
                self.left.clear()

    def _is_clearly_wrong(self, call: Call, expected: Expected) -> bool:
        error = self.answers[call].error(expected)
        return not call.is_padded and not error < _CLEARLY  # also for NaN

    def call_before(self, call: Call) -> Call | None:
        """The call that was made before this one, which a function may have remembered."""
        made = list(self.answers)
        place = made.index(call)
        return made[place - 1] if place else None


_GRADIENTS = 3  # calls whose backward pass is compared


def wrong_gradients(
    reader: AttentionReader, sweep: Sweep, expected: Expected
) -> tuple[list[Finding], str]:
    """Compare the backward pass in a few calls that were right.

    Returns a finding for a wrong gradient, and in words what was compared.
    """
    takes_tensors = reader.convert is Tensor.detach and "b" in reader.layout
    can_differentiate = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    if not takes_tensors or not can_differentiate:
        return [], "no gradients"
    samples = [answer for answer in sweep.answers.values() if isinstance(answer, Sample)]
    few = [
        sample for sample in samples if sample.call.is_plain and sample.call.probe.key_length > 1
    ]
    few.sort(key=lambda sample: abs(sample.call.probe.key_length - SHORT))
    few = few[:_GRADIENTS]
    for sample in few:
        generator = torch.Generator().manual_seed(1)
        of_output = torch.randn(sample.output.shape, generator=generator, dtype=torch.float64)
        try:
            observed = reader.gradients(sample.query, sample.key, sample.value, of_output)
        except Unusable as error:
            return [], f"no gradients, as the function raises ({error})"
        if observed is None:
            return [], "no gradients, as outputs have none"
        correct = _correct_gradients(sample, of_output, expected)
        names = ("query", "key", "value")
        for name, got, wanted in zip(names, observed, correct, strict=True):
            largest = float(wanted.abs().max())
            difference = float((got - wanted).abs().max())
            if not difference <= _gradient_tolerance(reader) * max(largest, 1.0):  # also for NaN
                evidence = f"{sample.call}: the gradient of the {name} is off by up to "
                evidence += f"{difference:.3g}, where the largest is {largest:.3g}; the output is "
                return [Finding("wrong gradient", f"{evidence}right")], "gradients"
    return [], f"the gradients of {count(len(few), 'call')}"


def _correct_gradients(sample: Sample, of_output: Tensor, expected: Expected) -> tuple[Tensor, ...]:
    """The gradients with respect to query, key and value, float64."""
    with torch.enable_grad():
        inputs = [x.clone().requires_grad_() for x in (sample.query, sample.key, sample.value)]
        return torch.autograd.grad(expected.output(*inputs), inputs, of_output)


def _gradient_tolerance(reader: AttentionReader) -> float:
    """Relative to the largest gradient: a backward pass has a few products more than a forward."""
    return 1e-4 if reader.precision.is_of_float32 else 16 * reader.precision.absolute


# To how many bits these formats round the fraction of a float32
_FRACTIONS = {"TF32 or float16": 10, "bfloat16": 7}
_ALLOWED_ERRORS = 4  # times the error of the reference in that dtype
_NEARLY_ALL = 0.9


def rounding_that_explains(
    answers: Sequence[Answer], wrong: Sequence[Call], expected: Expected
) -> str | None:
    """The format within whose rounding all answers are right; None if there is none.

    For outputs, the reference is computed again with inputs, weights and outputs rounded. Its own
    errors say which errors are allowed, call by call. An error that shows in some calls only is no
    rounding.
    """
    samples = [answer for answer in answers if isinstance(answer, Sample)]
    weights = [answer for answer in answers if isinstance(answer, Observation)]
    if samples and len(wrong) < _NEARLY_ALL * len(answers):
        return None
    for name, bits in _FRACTIONS.items() if samples else []:
        if all(_is_rounded(sample, expected, bits) for sample in samples):
            return name
    for dtype in (torch.float16, torch.bfloat16) if weights else []:
        if all(answer.read_in(dtype).is_right(expected) for answer in weights):
            return str(dtype).removeprefix("torch.")
    return None


def _is_rounded(sample: Sample, expected: Expected, bits: int) -> bool:
    """Whether the errors of an output are those of numbers with fractions of so many bits."""
    largest = 0.0
    for query, key, value, _ in sample.sequences():
        exact = expected.output(query, key, value)
        keys_of, values_of = expected.heads_that_are_read(query.shape[1])
        key_of_head = round_fraction(key[:, keys_of], bits)
        weights = expected.weights(round_fraction(query, bits), key_of_head)
        output = round_fraction(weights, bits) @ round_fraction(value[:, values_of], bits)
        largest = max(largest, float((round_fraction(output, bits) - exact).abs().max()))
    return sample.error(expected) <= _ALLOWED_ERRORS * largest


def round_fraction(values: Tensor, bits: int) -> Tensor:
    """The values, each rounded to a fraction of so many bits, as a dtype with fewer bits does."""
    fraction, exponent = torch.frexp(values)  # 0.5 <= |fraction| < 1
    scale = 2.0 ** (bits + 1)
    return torch.ldexp((fraction * scale).round() / scale, exponent)


def describe(calls: Sequence[Call], dtype: torch.dtype | None = None) -> str:
    """What was tried, in words: the last line of a report. A bias has no dtype of its inputs."""
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
    if dtype is not None:
        parts.append(str(dtype).removeprefix("torch."))
    return ", ".join(parts)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
