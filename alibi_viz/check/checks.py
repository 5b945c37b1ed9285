"""Check slopes, biases and attention functions of any library."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from alibi_viz import arguments
from alibi_viz.attention import attention_trace
from alibi_viz.check.call import Unusable, call, to_tensor, try_each
from alibi_viz.check.explain import diagnose
from alibi_viz.check.probe import SHORT, AttentionReader, Observation, Probe, probes, read_bias
from alibi_viz.check.report import Finding, Report
from alibi_viz.check.rules import Expectation, Slopes
from alibi_viz.check.slope_rules import Tolerance, name_slopes
from alibi_viz.check.words import count
from alibi_viz.slopes import SCHEMES, alibi_slopes

SLOPE_HEADS = (*range(1, 33), 40, 48, 56, 64, 71, 96, 112, 128)
# What a check of a right function finds if it is called with swapped axes
_FINDINGS_OF_SWAPPED_AXES = {
    "batch rows mixed",
    "content depends on position",
    "does not finish",
    "no bias",
    "not a weighted average",
    "raises an error",
    "returns NaN",
    "unknown fault",
    "window",
    "wrong shape",
    "wrong type",
}
_PADDING = (3, 7, 0)  # tokens of padding in front of each sequence of a batch
_Read = Callable[[Probe], Observation]  # makes a call, and reads what it shows


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

    def read(heads: int) -> Tensor:
        nonlocal relative_tolerance
        case = count(heads, "head")
        returned = call(function, heads, seconds=seconds, description=case)
        value, dtype = to_tensor(returned, case)
        if value.numel() != heads:
            shape = list(value.shape)
            raise Unusable("wrong shape", f"{case}: returned {shape}, expected [{heads}]")
        # As exact as the coarsest dtype that was returned
        relative_tolerance = max(relative_tolerance, torch.finfo(dtype).eps)
        return value.flatten()

    with torch.device("cpu"):
        slopes_by_heads, findings = try_each(read, num_heads)
        if slopes_by_heads:
            tolerance = Tolerance(relative_tolerance)
            expected = Expectation(reference)
            findings += name_slopes(slopes_by_heads, expected, tolerance, factors=False)
    return Report(subject, findings)


def bias(
    function: Callable[[int, int, int], Any],
    num_heads: Sequence[int] = (8, 12),
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
        num_heads: head counts to try. Use at least one that is not a power of two.
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
    subject, num_heads, reference = _check_arguments(
        function, num_heads, slopes, seconds, length, **flags
    )
    calls = probes(num_heads, decoding, length)
    expected = Expectation(reference, causal)

    def run(read_dtype: torch.dtype = torch.float32) -> Report:
        read = partial(read_bias, function, causal=causal, seconds=seconds, read_dtype=read_dtype)
        return examine_bias(read, subject, calls, expected)

    with torch.device("cpu"):
        report = run()
        return _with_hint(report, partial(run, torch.bfloat16), advice="return that dtype")


def attention(
    function: Callable[..., Any],
    layout: str = "bhld",
    causal: bool = True,
    *,
    num_heads: Sequence[int] = (8, 12),
    head_dim: int = 64,
    group_size: int = 1,
    decoding: bool = True,
    padding: bool = False,
    slopes: str | Callable[[int], Any] = "official",
    dtype: torch.dtype = torch.float32,
    convert: Callable[[Tensor], Any] = Tensor.detach,
    length: int = 300,
    seconds: float = 60.0,
) -> Report:
    """Check an attention function by its outputs alone.

    Args:
        function: (query, key, value) -> output. Adapt others with a lambda: where four query heads
            share a key, `lambda q, k, v: mine(q, k[:, ::4], v[:, ::4])` and `group_size=4`.
        layout: axes of arguments and output, such as "bhld" or "hld": b(atch), h(eads), l(ength), d
            (size of a head).
        causal: whether keys after a query are masked. Otherwise the bias should be -m |i - j|.
        num_heads, decoding, length: as in `check.bias`.
        head_dim: size of a head.
        group_size: how many neighboring heads share the key of their first; a divisor of every head
            count.
        padding: also call it with padding in front, as `function(query, key, value, mask)`; the
            mask is bool [batch, key], True for a real token.
        slopes, seconds: as in `check.slopes`.
        dtype: dtype of the arguments. The function runs without the caller's autocast: enter it
            inside the function.
        convert: turns a torch tensor into what the function takes, such as `numpy.asarray`.

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
    flags = {"causal": causal, "decoding": decoding, "padding": padding}
    subject, num_heads, reference = _check_arguments(
        function, num_heads, slopes, seconds, length, **flags
    )
    arguments.check_integer("head_dim", head_dim, 1, 2**16)
    arguments.check_positive_integers(group_size=group_size)
    if any(heads % group_size for heads in num_heads):
        raise ValueError(
            f"group_size must divide every head count of {num_heads}, got {group_size}"
        )
    if not callable(convert):
        raise TypeError(f"convert must be callable, got {convert!r}")
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point torch.dtype, got {dtype!r}")
    if not isinstance(layout, str) or sorted(layout) not in (sorted("bhld"), sorted("hld")):
        raise ValueError(
            f"layout must contain each of b, h, l and d once (b is optional), got {layout!r}"
        )
    calls = probes(num_heads, decoding, length)
    expected = Expectation(reference, causal)

    def run(layout: str, calls: Sequence[Probe], read_dtype: torch.dtype = torch.float32) -> Report:
        reader = AttentionReader(function, layout, head_dim, dtype, convert, seconds, read_dtype)
        return examine_attention(reader, subject, calls, expected, group_size, padding=padding)

    with torch.device("cpu"):
        report = run(layout, calls)
        if report.ok or "does not finish" in _names(report):
            return report
        with_other_layout = _try_other_layouts(run, layout, calls, report)
        if with_other_layout is not None:
            return with_other_layout
        is_half_precision = dtype.itemsize == 2
        if is_half_precision:
            return report
        rerun = partial(run, layout, calls, torch.bfloat16)
        return _with_hint(report, rerun, advice="pass `dtype`")


def _try_other_layouts(
    run: Callable[[str, Sequence[Probe]], Report],
    layout: str,
    calls: Sequence[Probe],
    report: Report,
) -> Report | None:
    """The report with another order of the axes, if that explains more than `report`.

    None if no other order does.
    """
    orders = ["".join(axes) for axes in permutations(layout)]
    orders = [order for order in orders if order.index("d") == layout.index("d")]
    first_call = {order: run(order, calls[:1]) for order in orders}  # most orders fail it
    is_unclear = not _is_explained(first_call[layout]) and len(report.findings) > 1
    for order in sorted(orders, key=lambda order: len(first_call[order].findings)):
        if order == layout or not _is_explained(first_call[order]):
            continue
        other = run(order, calls)
        if not _is_explained(other):
            continue
        if other.ok or is_unclear:
            only_fault = f"the only fault is {other.findings[0].name}" if other.findings else ""
            result = only_fault or "it has no fault"
            evidence = f"with layout {order} instead of {layout}, {result}"
            return replace(other, findings=[Finding("wrong layout", evidence), *other.findings])
    return None


def _names(report: Report) -> set[str]:
    return {finding.name for finding in report.findings}


def _is_explained(report: Report) -> bool:
    """Whether there is at most one fault, and none that swapped axes look like."""
    return len(report.findings) < 2 and not _names(report) & _FINDINGS_OF_SWAPPED_AXES


def _with_hint(report: Report, rerun: Callable[[], Report], advice: str) -> Report:
    """Say if what no rule explains is right within the rounding of bfloat16.

    `rerun` makes the same check, but reads no more exactly than bfloat16.
    """
    names = _names(report)
    # The last two are found for some of the calls.
    of_rounding = {"unknown fault", "length cap", "colliding positions"}
    if "unknown fault" not in names or not names <= of_rounding:
        return report
    if not rerun().ok:
        return report
    evidence = report.findings[-1].evidence
    hint = f"right within the rounding of bfloat16: if it computes so, {advice}"
    return replace(report, findings=[Finding("unknown fault", f"{evidence}; {hint}")])


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

    def reference(heads: int) -> Tensor:
        if isinstance(slopes, str):
            value = alibi_slopes(heads, slopes)
        else:
            value = torch.as_tensor(slopes(heads)).detach()
        if value.shape != (heads,):
            raise ValueError(
                f"slopes({heads}) must return [{heads}], got shape {list(value.shape)}"
            )
        return value.double().cpu()

    several = num_heads if isinstance(num_heads, Iterable) else [num_heads]
    heads = arguments.positive_integers("num_heads", several)
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return str(name), heads, reference


def examine_bias(
    read: _Read, subject: str, calls: Sequence[Probe], expected: Expectation
) -> Report:
    """Check the bias of a bias function, given a reader of its logits."""
    results, findings = _observe_all(read, calls)
    faults, comparison = diagnose(list(results.values()), expected)
    return Report(subject, findings + faults, comparison=comparison)


def examine_attention(
    reader: AttentionReader,
    subject: str,
    calls: Sequence[Probe],
    expected: Expectation,
    group_size: int = 1,
    *,
    padding: bool = False,
) -> Report:
    """Check the bias, the scale of the content, padding, and finally the output for random
    inputs."""
    results, findings = _observe_all(reader.observe, calls)
    faults, comparison = diagnose(
        list(results.values()), replace(expected, head_dim=reader.head_dim)
    )
    # A call that does not finish goes on, and may disturb others.
    hangs = any(finding.name == "does not finish" for finding in findings)
    small_calls = []
    if not hangs:
        small_calls = [probe for probe in results if probe.key_length <= SHORT]

    factors, unreadable = try_each(reader.content_factor, small_calls)
    findings += unreadable if unreadable else _name_content(factors, reader)
    findings += faults

    if padding and not findings:
        check_padding = partial(_check_padding, reader, expected=expected)
        _, faults_of_padding = try_each(check_padding, small_calls[:1])
        for fault in faults_of_padding:
            findings.append(Finding(fault.name, f"with padding in front: {fault.evidence}"))
    if not findings:
        check_output = partial(_check_output, reader, expected=expected, group_size=group_size)
        _, faults_of_output = try_each(check_output, results)
        findings += faults_of_output
    return Report(subject, findings, comparison=comparison)


def _observe_all(
    read: _Read, calls: Sequence[Probe]
) -> tuple[dict[Probe, Observation], list[Finding]]:
    """The observations of all calls, and findings for those that failed."""
    results, findings = try_each(read, calls)
    longest = calls[-1]
    short_calls_work = all(probe in results for probe in calls if probe.key_length <= SHORT)
    if longest not in results and short_calls_work:
        # Only the longest calls fail, and not only while decoding: there is a maximum length.
        for n, finding in enumerate(findings):
            if finding.name in ("raises an error", "wrong shape"):
                findings[n] = replace(finding, name="length cap")
    return results, findings


def _name_content(factors: Mapping[Probe, float], reader: AttentionReader) -> list[Finding]:
    """Name the factors of q . k that were measured in each call."""
    tolerance = max(reader.precision.absolute, 4e-3)
    wrong = {probe: factor for probe, factor in factors.items() if abs(factor - 1) > tolerance}
    if not wrong:
        return []

    def are_all(predict: Callable[[Probe], float]) -> bool:
        return all(abs(factor / predict(probe) - 1) <= tolerance for probe, factor in wrong.items())

    if are_all(lambda probe: probe.num_heads**-0.5):
        name = "content too weak"
    elif are_all(lambda _: reader.head_dim**0.5):
        name = "content not scaled"
    else:
        name = "content multiplied"

    probe, factor = max(wrong.items(), key=lambda item: abs(item[1] - 1))
    evidence = f"with {probe} and head_dim {reader.head_dim}, q . k counts {factor:.4g} times"
    if len(wrong) < len(factors):
        evidence += f" (only with {'; '.join(map(str, wrong))})"
    return [Finding(name, evidence)]


def _check_padding(reader: AttentionReader, probe: Probe, expected: Expectation) -> None:
    """Raise Unusable if padding in front of a sequence changes the weights of its real tokens."""
    mask = torch.arange(probe.key_length) >= torch.tensor(_PADDING)[:, None]  # [batch, key]
    tolerance = 8 * reader.precision.absolute
    output = reader.output(probe, mask)  # [batch, heads, query, key]
    for padding, weights in zip(_PADDING, output, strict=True):
        of_real_queries = weights[:, padding:]
        on_padding = of_real_queries[..., :padding]
        on_real_keys = of_real_queries[..., padding:]
        if bool(on_real_keys.isnan().any()):
            raise Unusable("returns NaN", f"{probe}: weights of real tokens are NaN")
        if padding:
            largest = float(on_padding.max())
            if largest > tolerance:
                evidence = f"{probe}: padding gets a weight of up to {largest:.3g}"
                raise Unusable("padding not masked", evidence)
        sequence = Probe(probe.num_heads, *on_real_keys.shape[1:])
        correct = expected.bias(sequence).softmax(-1)
        difference = float((on_real_keys - correct).abs().max())
        if difference > tolerance:
            evidence = f"{probe}: a weight is off by {difference:.3g}"
            raise Unusable("padding changes the bias", evidence)


def _check_output(
    reader: AttentionReader, probe: Probe, expected: Expectation, group_size: int
) -> None:
    """Raise Unusable if the output for random inputs is wrong."""
    heads, query_length, key_length = probe
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(3, heads, query_length, reader.head_dim, generator=generator)
    key, value = torch.randn(2, 3, heads, key_length, reader.head_dim, generator=generator)
    output = reader(query, key, value)

    # As the function gets them
    query = query.to(reader.dtype).double()
    key = key.to(reader.dtype).double()
    value = value.to(reader.dtype).double()
    slopes = expected.slopes(heads)
    differences = {}  # by the number of heads that share a key
    for size in range(1, heads + 1):
        if heads % size:
            continue
        shared_key = key[:, ::size].repeat_interleave(size, dim=1)
        shared_value = value[:, ::size].repeat_interleave(size, dim=1)
        trace = attention_trace(query, shared_key, slopes, causal=expected.causal)
        correct = trace.weights @ shared_value
        differences[size] = float((output - correct).abs().max())

    tolerance = 4 * reader.precision.absolute
    difference = differences[group_size]
    if difference <= tolerance:  # False for NaN
        return
    evidence = f"{probe}: for random inputs, the output is off by up to {difference:.3g}"
    for size, of_size in differences.items():
        if of_size <= tolerance:
            right = f"right if heads share a key in groups of {size}"
            raise Unusable("wrong keys", f"{evidence}, but {right}")
    if reader.dtype.itemsize == 2:
        evidence += f"; perhaps logits are rounded to {reader.dtype}"
    raise Unusable("unknown fault", evidence)
