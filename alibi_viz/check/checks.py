"""Check slopes, biases and attention functions of any library."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from alibi_viz import arguments
from alibi_viz.check.call import Failures, Unusable, call, on_the_cpu, to_tensor, try_each
from alibi_viz.check.common_condition import with_condition
from alibi_viz.check.content import Content, check_outputs, name_content
from alibi_viz.check.explain import diagnose, wrong_observations
from alibi_viz.check.plan import (
    CONTIGUOUS,
    MEMORY_WORDS,
    NO_PADDING,
    NOT_CONTIGUOUS,
    SHORT,
    Call,
    Probe,
    attention_plan,
    bias_plan,
    calls_that_tell_apart,
)
from alibi_viz.check.probe import AttentionReader, Observation, read_bias
from alibi_viz.check.report import OUTSIDE, Finding, Report
from alibi_viz.check.rules import Expectation, Slopes
from alibi_viz.check.slope_rules import Group, Tolerance, name_slopes
from alibi_viz.check.wide_sweep import (
    BATCHES,
    FURTHER_HEAD_DIM,
    FURTHER_HEADS,
    Swept,
    attention_sweep,
    bias_sweep,
    describe,
    rounding_that_explains,
    sweep,
    wrong_gradients,
)
from alibi_viz.check.words import alternatives, count
from alibi_viz.slopes import SCHEMES, alibi_slopes

SLOPE_HEADS = range(1, 129)
# Tried by default, together with others that a function takes
USUAL_HEADS = (8, 12)
# Keys of a call in which the content of some can be compared with that of others
_FEWEST_KEYS = 3
# What weights look like that were rounded
_FINDINGS_OF_ROUNDING = {
    "colliding positions",
    "length cap",
    "right up to a distance, then a jump",
    "unknown fault",
    "wrong mask",
    OUTSIDE,
}
# The second is larger than the usual block, and a multiple of 8 only: kernels round to more.
HEAD_DIMS = (64, 104)
_Read = Callable[[Call], Sequence[Observation]]  # makes a call, and reads what it shows


def slopes(
    function: Callable[[int], Any],
    num_heads: Sequence[int] = SLOPE_HEADS,
    *,
    slopes: str | Callable[[int], Any] = "official",
    seconds: float = 60.0,
) -> Report:
    """Check a function that computes the slopes for a number of heads.

    Args:
        function: num_heads -> slopes, an array or list [heads]. Slopes of several devices must be
            joined.
        num_heads: head counts to try.
        slopes: the correct slopes: a scheme of `alibi_slopes`, or a function of num_heads.
        seconds: time limit of a call.

    Raises TypeError or ValueError for an invalid argument; whatever the function does becomes a
    finding.

    >>> from alibi_viz import check
    >>> def my_slopes(num_heads):
    ...     return [2 ** (-8 * head / num_heads) for head in range(num_heads)]
    >>> report = check.slopes(my_slopes)
    >>> report.ok, [finding.name for finding in report.findings]
    (False, ['first slope is 1'])
    """
    subject, num_heads, reference = _check_arguments(function, num_heads, slopes, seconds)
    relative_tolerance = 2e-6

    # Only the number of heads counts.
    calls = [Call(Probe(heads, SHORT, SHORT)) for heads in num_heads]

    def read(made: Call) -> Tensor:
        nonlocal relative_tolerance
        heads = made.probe.num_heads
        case = count(heads, "head")
        returned = call(function, heads, seconds=seconds, description=case)
        value, dtype = to_tensor(returned, case)
        if value.numel() != heads:
            shape = list(value.shape)
            raise Unusable("wrong shape", f"{case}: returned {shape}, expected [{heads}]")
        # As exact as the coarsest dtype that was returned
        relative_tolerance = max(relative_tolerance, torch.finfo(dtype).eps)
        return value.flatten()

    with on_the_cpu():
        slopes_by_call, failures = try_each(read, calls)
        findings = failures.findings(calls)
        if slopes_by_call:
            tolerance = Tolerance(relative_tolerance)
            expected = Expectation(reference)
            by_group = {
                Group(made.probe.num_heads): value for made, value in slopes_by_call.items()
            }
            findings += name_slopes(by_group, expected, tolerance, factors=False)
    return Report(subject, findings, tried=f"{count(len(calls), 'number')} of heads")


def bias(
    function: Callable[[int, int, int], Any],
    num_heads: Sequence[int] = USUAL_HEADS,
    *,
    causal: bool = True,
    decoding: bool = True,
    slopes: str | Callable[[int], Any] = "official",
    length: int = 300,
    seconds: float = 60.0,
) -> Report:
    """Check a function that computes the bias.

    A constant added to a row, a causal mask, rounding within the dtype, and extra heads without a
    bias are correct.

    Args:
        function: (num_heads, query_length, key_length) -> bias, broadcastable to [heads, query,
            key]; leading axes of size 1 are allowed. With fewer queries than keys, the queries are
            the last positions.
        num_heads: head counts to try. Use at least one that is not a power of two. By default, 8
            and 12, and some others if the function takes them.
        causal: whether it is for causal attention, where later keys don't matter. Otherwise it
            should be -m |i - j|.
        decoding: also call it with fewer queries than keys.
        slopes, seconds: as in `check.slopes`.
        length: the longest length to try, beside 16. With `decoding`, more than 512 keys get 16
            queries. Positions collide in bfloat16 from 256 on, in float16 from 2048.

    Raises as `check.slopes`.

    >>> import alibi_viz as av
    >>> def my_bias(num_heads, query_length, key_length):
    ...     return av.alibi_bias(av.alibi_slopes(num_heads), query_length, key_length, form="key")
    >>> av.check.bias(my_bias).ok
    True
    """
    flags = {"causal": causal, "decoding": decoding}
    subject, heads, reference = _check_arguments(
        function, num_heads, slopes, seconds, length, **flags
    )
    expected = Expectation(reference, causal)
    further = _further_heads(reference) if num_heads is USUAL_HEADS else []

    def read(made: Call) -> list[Observation]:
        return [read_bias(function, made, causal, seconds)]

    with on_the_cpu():
        calls = bias_sweep([*heads, *further], decoding=decoding, length=length)
        observations, failures = _observe(read, calls)
        calls = _without_refused(failures, calls, further)
        wrong = wrong_observations(observations, expected)
        tried = describe([seen.call for seen in observations])
        if not wrong and not failures.by_fault:
            return Report(subject, [], tried=tried)

        report = examine_bias(read, subject, bias_plan(heads, decoding, length), expected)
        if report.ok:
            wrong_calls = [*failures.calls, *(seen.call for seen in wrong)]
            right = [seen.call for seen in observations if seen not in wrong]
            few = _few(wrong_calls) + _few(right)
            report = examine_bias(read, subject, few, expected)
        if report.ok:
            findings = failures.findings(calls)
            if wrong:
                evidence = f"{wrong[0].call}: wrong once, but right when the call is made again"
                findings.append(Finding("random result", evidence))
            report = Report(subject, findings)
        if _may_be_rounding(report) and not failures.by_fault:
            for dtype in (torch.float16, torch.bfloat16):
                coarser = [seen.read_in(dtype) for seen in observations]
                if not wrong_observations(coarser, expected):
                    report = Report(subject, [], [_rounding_note(str(dtype)[6:])])
                    break
        return replace(report, tried=tried)


def attention(
    function: Callable[..., Any],
    layout: str = "bhld",
    causal: bool = True,
    *,
    num_heads: Sequence[int] = USUAL_HEADS,
    head_dim: int | Sequence[int] = HEAD_DIMS,
    group_size: int = 1,
    decoding: bool = True,
    padding: bool | str = False,
    slopes: str | Callable[[int], Any] = "official",
    scale: float | None = None,
    window: int | None = None,
    softcap: float | None = None,
    dtype: torch.dtype = torch.float32,
    convert: Callable[[Tensor], Any] = Tensor.detach,
    length: int = 300,
    seconds: float = 60.0,
) -> Report:
    """Check an attention function by its outputs alone.

    First about a hundred small calls with random content are compared with a reference: few keys
    and many, whole blocks, a few queries after a cache, other batches, heads and sizes of a head,
    inputs that are contiguous, transposed or slices, and with `padding` also a mask. Functions of
    torch get the gradients of three calls compared, too. If anything is wrong, further calls name
    the fault and the conditions under which it was seen.

    Args:
        function: (query, key, value) -> output. Adapt others with a lambda: where four query heads
            share a key, `lambda q, k, v: mine(q, k[:, ::4], v[:, ::4])` and `group_size=4`.
        layout: axes of arguments and output, such as "bhld" or "hld": b(atch), h(eads), l(ength), d
            (size of a head).
        causal: whether keys after a query are masked. Otherwise the bias should be -m |i - j|.
        num_heads, decoding, length: as in `check.bias`.
        head_dim: size of a head, or several. One that the function refuses is left out, which a
            note of the report says; the first one must work.
        group_size: how many neighboring heads share the key of their first; a divisor of every head
            count.
        padding: also call it as `function(query, key, value, mask)`, with padding on the "left", on
            the "right", or True for both; an encoder needs to take one of them only. The mask is
            bool [batch, key], True for a real token.
        slopes, seconds: as in `check.slopes`.
        scale: the factor of q . k by design, such as MPT's `softmax_scale`; not 0. 1 /
            sqrt(head_dim) by default.
        window: how many keys a query sees by design, with its own. FlashAttention's window (w, 0)
            shows w + 1.
        softcap: c, if the scaled content is c * tanh(content / c) by design, before the bias.
        dtype: dtype of the arguments. The function runs without the caller's autocast: enter it
            inside the function.
        convert: turns a torch tensor into what the function takes, such as `numpy.asarray`.

    A scale or a soft cap that was not declared, but explains all outputs, is a note of the report,
    not a fault.

    Raises as `check.slopes`.

    >>> import torch
    >>> import alibi_viz as av
    >>> def my_attention(query, key, value):
    ...     return av.alibi_attention(query, key, value, av.alibi_slopes(query.shape[1]))
    >>> av.check.attention(my_attention, num_heads=[12]).ok
    True
    >>> def without_bias(query, key, value):
    ...     attend = torch.nn.functional.scaled_dot_product_attention
    ...     return attend(query, key, value, is_causal=True)
    >>> report = av.check.attention(without_bias, decoding=False)
    >>> [finding.name for finding in report.findings]
    ['no bias']
    """
    flags = {"causal": causal, "decoding": decoding}
    subject, heads, reference = _check_arguments(
        function, num_heads, slopes, seconds, length, **flags
    )
    several = head_dim if isinstance(head_dim, Iterable) else [head_dim]
    head_dims = arguments.positive_integers("head_dim", several)
    arguments.check_integer("head_dim", max(head_dims), 1, 2**16)
    arguments.check_positive_integers(group_size=group_size)
    if any(number % group_size for number in heads):
        raise ValueError(f"group_size must divide every head count of {heads}, got {group_size}")
    _check_design(scale, window, softcap)
    if not callable(convert):
        raise TypeError(f"convert must be callable, got {convert!r}")
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point torch.dtype, got {dtype!r}")
    if not isinstance(layout, str):
        raise TypeError(f"layout must be a string such as 'bhld', got {layout!r}")
    if sorted(layout) not in (sorted("bhld"), sorted("hld")):
        raise ValueError(
            f"layout must contain each of b, h, l and d once (b is optional), got {layout!r}"
        )
    expected = Expectation(reference, causal, window=window, scale=scale, softcap=softcap)
    reader = AttentionReader(function, layout, dtype, convert, seconds)
    sides = _sides(padding)
    is_batched = "b" in layout
    further = _further_heads(reference, group_size) if num_heads is USUAL_HEADS else []
    further_size = [FURTHER_HEAD_DIM] if head_dim is HEAD_DIMS else []

    with on_the_cpu():
        calls = attention_sweep(
            [*heads, *further],
            [*head_dims, *further_size],
            decoding=decoding,
            length=length,
            sides=sides,
            batches=BATCHES if is_batched else (3,),
        )
        swept = sweep(reader, calls, expected, group_size)
        made = [*swept.samples, *swept.failures.calls]
        calls = _without_refused(swept.failures, made, further, further_size)
        notes = _drop_refused(swept.failures, calls)
        if padding is True and not causal:
            # Many encoders take lengths, so their padding is behind; any side will do.
            sides = tuple(swept.right_sides()) or sides
            swept = swept.without_padding_except(sides)
        tried = describe(list(swept.samples))
        if swept.ok:
            findings, gradients = _check_gradients(reader, swept, expected, group_size)
            return Report(subject, findings, notes, tried=f"{tried}; {gradients}")

        batches = (3, 1) if is_batched else (3,)
        plan = attention_plan(heads, decoding, length, head_dims, sides, batches=batches)
        report = examine_attention(reader, subject, plan, expected, group_size)
        if report.ok and not _tells_a_design(report):
            report = _examine_wrong(reader, subject, swept, expected, group_size)
        if _may_be_rounding(report):
            rounding = rounding_that_explains(swept, expected, group_size)
            if rounding is not None:
                report = Report(subject, [], [*notes, _rounding_note(rounding)])
        return replace(report, tried=tried)


def _check_gradients(
    reader: AttentionReader, swept: Swept, expected: Expectation, group_size: int
) -> tuple[list[Finding], str]:
    """The findings about the backward pass of a torch function, and in words what was tried."""
    takes_tensors = reader.convert is Tensor.detach and "b" in reader.layout
    can_differentiate = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    if not takes_tensors or not can_differentiate:
        return [], "no gradients"
    return wrong_gradients(reader, swept, expected, group_size)


def _further_heads(reference: Slopes, group_size: int = 1) -> list[int]:
    """Numbers of heads that are tried if the function takes them, and their slopes are known."""
    further = []
    for heads in FURTHER_HEADS:
        if heads % group_size:
            continue
        try:
            reference(heads)
        except Exception:  # the caller's own slopes may be known for some numbers of heads only
            continue
        further.append(heads)
    return further


def _without_refused(
    failures: Failures,
    calls: Sequence[Call],
    further_heads: Sequence[int],
    further_sizes: Sequence[int] = (),
) -> list[Call]:
    """The calls without those that need not work, of which none of a kind did.

    These are further numbers of heads, and further sizes of a head. Their failures are dropped.
    """
    failed = set(failures.calls)
    refused: set[Call] = set()
    for heads in further_heads:
        of_heads = {made for made in calls if made.probe.num_heads == heads}
        refused |= of_heads if of_heads <= failed else set()
    for size in further_sizes:
        of_size = {made for made in calls if made.head_dim == size}
        refused |= of_size if of_size <= failed else set()
    failures.drop(refused)
    return [made for made in calls if made not in refused]


def _tells_a_design(report: Report) -> bool:
    return any(note.startswith("Observed") for note in report.notes)


def _examine_wrong(
    reader: AttentionReader,
    subject: str,
    swept: Swept,
    expected: Expectation,
    group_size: int,
) -> Report:
    """Name what only the sweep has seen, by its own calls."""
    wrong = [*swept.failures.calls, *swept.wrong]
    right = [made for made in swept.samples if made not in swept.wrong]
    few = _few(wrong)
    # Is it the memory, or do these sizes come with such memory by chance?
    contiguous = [replace(made, memory=CONTIGUOUS) for made in few]
    calls = list(dict.fromkeys([*few, *contiguous, *_few(right)]))
    report = examine_attention(reader, subject, calls, expected, group_size)
    if not report.ok:
        return report
    if not swept.wrong:
        return Report(subject, swept.failures.findings([*wrong, *right]), report.notes)
    worst = max(swept.wrong, key=lambda made: swept.wrong[made])
    evidence = f"{worst}: for random inputs, the output is off by up to {swept.wrong[worst]:.3g}"
    if sweep(reader, [worst], expected, group_size).ok:
        evidence += ", but right when the call is made again"
        return Report(subject, [Finding("random result", evidence)], report.notes)
    evidence = with_condition(evidence, wrong, [*wrong, *right])
    return Report(subject, [Finding("unknown fault", evidence)], report.notes)


_FEW = 8


def _few(calls: Sequence[Call]) -> list[Call]:
    """The smallest calls, in which a fault is read faster and named as surely."""
    usual = [made for made in calls if not made.large]
    return sorted(usual, key=lambda made: made.probe.key_length)[:_FEW]


def _may_be_rounding(report: Report) -> bool:
    """Whether nothing but what rounding looks like was found."""
    names = {finding.name for finding in report.findings}
    is_explained = names <= {"colliding positions", "length cap"}
    return bool(names) and names <= _FINDINGS_OF_ROUNDING and not is_explained


def _rounding_note(dtype: str) -> str:
    return f"Right within the rounding of {dtype}: float32 would be more exact."


def _check_design(scale: Any, window: Any, softcap: Any) -> None:
    """Check the arguments that say what is by design."""
    if scale is not None:
        # The content is measured as a multiple of what this scale makes of it.
        arguments.check_number(
            "scale",
            scale,
            "a finite number other than 0",
            lambda number: 0 < abs(number) < math.inf,
        )
    if window is not None:
        arguments.check_positive_integers(window=window)
    if softcap is not None:
        arguments.check_positive("softcap", softcap)


def _sides(padding: object) -> tuple[str, ...]:
    """The sides of padding that are asked for."""
    message = f"padding must be True, False, 'left' or 'right', got {padding!r}"
    if not isinstance(padding, (bool, str)):
        raise TypeError(message)
    if padding is False:
        return ()
    if padding is True:
        return ("left", "right")
    if padding not in ("left", "right"):
        raise ValueError(message)
    return (padding,)


def _check_arguments(
    function: Any,
    num_heads: Any,
    slopes: str | Callable[[int], Any],
    seconds: Any,
    length: int = 1,
    **flags: bool,
) -> tuple[str, list[int], Slopes]:
    """The function's name, the head counts, and the correct slopes. Raises TypeError or
    ValueError."""
    if not callable(function):
        raise TypeError(f"function must be callable, got {function!r}")
    arguments.check_positive("seconds", seconds)
    arguments.check_positive_integers(length=length)
    for name, flag in flags.items():
        arguments.check_flag(name, flag)
    if not callable(slopes):
        arguments.check_choice("slopes", slopes, SCHEMES)

    @cache  # the search for a rule needs them hundreds of times
    def reference(heads: int) -> Tensor:
        if isinstance(slopes, str):
            return alibi_slopes(heads, slopes).double().cpu()
        return _correct_slopes(slopes, heads)

    several = num_heads if isinstance(num_heads, Iterable) else [num_heads]
    heads = arguments.positive_integers("num_heads", several)
    # Wrong slopes would blame the function, so they are refused before it is called.
    with on_the_cpu():
        for number in heads:
            reference(number)
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return str(name), heads, reference


def _correct_slopes(function: Callable[[int], Any], heads: int) -> Tensor:
    """The slopes that a caller's function declares correct: float64 [heads], on the CPU."""
    returned = function(heads)
    try:
        # With `nan`, numbers that aren't finite pass here; they have their own message below.
        value, _ = to_tensor(returned, "slopes", nan=True)
    except Unusable as error:
        raise TypeError(f"slopes({heads}) must return numbers, got {returned!r}") from error
    if value.shape != (heads,):
        raise ValueError(f"slopes({heads}) must return [{heads}], got shape {list(value.shape)}")
    if not value.isfinite().all():
        raise ValueError(f"slopes({heads}) must return finite numbers, got {value.tolist()}")
    return value


def examine_bias(read: _Read, subject: str, calls: Sequence[Call], expected: Expectation) -> Report:
    """Check the bias of a bias function, given a reader of its logits."""
    observations, failures = _observe(read, calls)
    findings = _name_length_cap(failures, calls)
    wrong = wrong_observations(observations, expected)
    faults, comparison = diagnose(observations, wrong, expected)
    findings += faults
    if wrong:
        random = _random_bias(read, wrong[0].call)
        if random is not None:
            findings = [random]
    return Report(subject, findings, comparison=comparison)


def examine_attention(
    reader: AttentionReader,
    subject: str,
    calls: Sequence[Call],
    expected: Expectation,
    group_size: int = 1,
) -> Report:
    """Check the bias, the scale of the content, and finally the output for random inputs."""
    observations, failures = _observe(reader.observe, calls)
    wrong = wrong_observations(observations, expected)
    wrong_calls = [*failures.calls, *(seen.call for seen in wrong)]
    further = calls_that_tell_apart(wrong_calls, calls)
    if further and "does not finish" not in failures.by_fault:
        calls = [*calls, *further]
        more, more_failures = _observe(reader.observe, further)
        observations += more
        failures.update(more_failures)
        wrong += wrong_observations(more, expected)
    notes = _drop_refused(failures, calls)
    findings = _name_length_cap(failures, calls)
    works = list(dict.fromkeys(seen.call for seen in observations))
    if "padding not masked" in failures.by_fault:
        # What else is wrong with padding may come from that.
        observations = _without_padding(observations)
        wrong = _without_padding(wrong)
    faults, comparison = diagnose(observations, wrong, expected)

    # A call that does not finish goes on, and may disturb others.
    hangs = "does not finish" in failures.by_fault
    content = Content(expected)
    if not hangs:
        content = name_content(reader, _readable_calls(observations, expected), expected)
        findings += content.findings
    findings += faults
    findings = _without_repeats(findings)
    if not findings:
        outputs = check_outputs(reader, works, content.expected, group_size)
        if outputs.findings and content.notes:
            # A strong soft cap looks like a scale: perhaps there is a cap alone.
            of_cap = check_outputs(reader, works, expected, group_size)
            if not of_cap.findings:
                outputs = of_cap
                content.notes.clear()
        findings += outputs.findings
        notes += outputs.notes
    notes += content.notes
    if findings and not hangs:
        random = _random_output(reader, calls[0])
        if random is not None:
            findings = [random]
    return Report(subject, findings, notes=notes, comparison=comparison)


def _random_bias(read: _Read, made: Call) -> Finding | None:
    """A finding if a call gives another bias each time it is made."""
    try:
        read(made)  # after which a function may remember what it needs
        (first,) = read(made)
        (second,) = read(made)
    except Unusable:
        return None
    difference = float((first.log_weights - second.log_weights).abs().max())
    return _random(made, "log weights", difference, first.precision.absolute)


def _random_output(reader: AttentionReader, made: Call) -> Finding | None:
    """A finding if a call gives another output each time it is made."""
    try:
        reader.output(made)  # after which a function may remember what it needs
        difference = float((reader.output(made) - reader.output(made)).abs().max())
    except Unusable:
        return None
    return _random(made, "outputs", difference, reader.precision.absolute)


def _random(made: Call, what: str, difference: float, tolerance: float) -> Finding | None:
    if not difference > tolerance:  # NaN is no difference
        return None
    evidence = (
        f"{made}: the same call made twice gives {what} that differ by up to {difference:.3g}"
    )
    return Finding("random result", evidence)


def _without_padding(observations: Sequence[Observation]) -> list[Observation]:
    return [seen for seen in observations if seen.call.padding == NO_PADDING]


def _without_repeats(findings: Sequence[Finding]) -> list[Finding]:
    """The first finding of each name; what the weights, the content and more show is joined."""
    by_name: dict[str, Finding] = {}
    for finding in findings:
        first = by_name.setdefault(finding.name, finding)
        if first is not finding and finding.name == "strides ignored":
            # Each shows it with some kinds of memory, and all of them are not contiguous.
            shown, _, _ = first.evidence.partition(" (only with")
            evidence = f"{shown} (only with {NOT_CONTIGUOUS})"
            by_name[finding.name] = replace(first, evidence=evidence)
    return list(by_name.values())


def _readable_calls(observations: Sequence[Observation], expected: Expectation) -> list[Call]:
    """The small calls in which content is measured.

    Of those with padding only the ones whose bias is right: otherwise a wrong mask would look like
    wrong content.
    """
    calls = []
    for seen in observations:
        if not seen.call.is_short or seen.probe.key_length < _FEWEST_KEYS:
            continue
        is_plain = seen.call.padding == NO_PADDING
        if is_plain or seen.agrees(expected.bias(seen.probe)):
            calls.append(seen.call)
    return list(dict.fromkeys(calls))


def _observe(read: _Read, calls: Sequence[Call]) -> tuple[list[Observation], Failures]:
    """The observations of all calls, and the calls that failed."""
    results, failures = try_each(read, calls)
    observations: list[Observation] = []
    for of_call in results.values():
        observations += of_call
    return observations, failures


def _drop_refused(failures: Failures, calls: Sequence[Call]) -> list[str]:
    """Drop errors of conditions that a function may refuse, and say in notes what was left out.

    These are inputs that are not contiguous, and a further size of a head if all calls with it
    fail. Other errors are faults, and then so are these.
    """
    errors = failures.by_fault.get("raises an error", {})
    refused_sizes = set()
    for head_dim in {made.head_dim for made in calls} - {calls[0].head_dim}:
        if all(made in errors for made in calls if made.head_dim == head_dim):
            refused_sizes.add(head_dim)
    for made in errors:
        is_contiguous = made.memory == CONTIGUOUS
        if is_contiguous and made.head_dim not in refused_sizes:
            return []

    failures.by_fault.pop("raises an error", None)
    notes = []
    for head_dim in sorted(refused_sizes):
        message = next(errors[made] for made in errors if made.head_dim == head_dim)
        notes.append(_refusal(f"head_dim {head_dim}", message))
    refused_views = [made for made in errors if made.head_dim not in refused_sizes]
    if refused_views:
        refused = {made.memory for made in refused_views}
        kinds = [words for memory, words in MEMORY_WORDS.items() if memory in refused]
        condition = f"some {alternatives(kinds)}"
        notes.append(_refusal(condition, errors[refused_views[0]]))
    return notes


def _refusal(condition: str, message: str) -> str:
    return f"Not checked with {condition}, which the function refuses ({message})."


def _name_length_cap(failures: Failures, calls: Sequence[Call]) -> list[Finding]:
    """Findings for the calls that failed: those of only the longest calls are a maximum length."""
    findings = failures.findings(calls)
    longest = max((made.probe.key_length, made.probe.query_length) for made in calls)
    failed = set(failures.calls)
    short_calls_work = all(made not in failed for made in calls if made.is_short)
    longest_calls_fail = all(
        made in failed
        for made in calls
        if (made.probe.key_length, made.probe.query_length) == longest
    )
    # Not only while decoding
    if short_calls_work and longest_calls_fail:
        for n, finding in enumerate(findings):
            if finding.name in ("raises an error", "wrong shape"):
                findings[n] = replace(finding, name="length cap")
    return findings
