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
from alibi_viz.check.call import Unusable, call, count, to_tensor, try_each
from alibi_viz.check.diagnose import Expectation, Slopes, diagnose, name_slopes
from alibi_viz.check.probe import SHORT, AttentionReader, Observation, Probe, probes, read_bias
from alibi_viz.check.report import Finding, Report
from alibi_viz.memory import check_memory
from alibi_viz.slopes import SCHEMES, alibi_slopes

SLOPE_HEADS = (*range(1, 33), 40, 48, 56, 64, 71, 96, 112, 128)
_OF_AXES = {
    "unknown fault",
    "no bias",
    "window",
    "wrong shape",
    "wrong type",
    "raises an error",
    "does not finish",
}
_OF_AXES |= {
    "returns NaN",
    "not a weighted average",
    "batch rows mixed",
    "content depends on position",
}
_PADDING = (3, 7, 0)  # tokens of padding in front of each sequence of a batch
_Read = Callable[[Probe], Observation]  # reads what a call shows


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
    >>> report = check.slopes(lambda num_heads: [2 ** (-8 * head / num_heads) for head in range(num_heads)])
    >>> report.ok, [finding.name for finding in report.findings]
    (False, ['first slope is 1'])
    """
    subject, num_heads, reference = _check_arguments(function, num_heads, slopes, seconds)
    eps = 2e-6  # grows to that of the coarsest dtype

    def read(heads: int) -> Tensor:
        nonlocal eps
        case = count(heads, "head")
        value, dtype = to_tensor(call(function, heads, seconds=seconds, description=case), case)
        if value.numel() != heads:
            raise Unusable(
                "wrong shape", f"{case}: returned {list(value.shape)}, expected [{heads}]"
            )
        eps = max(eps, torch.finfo(dtype).eps)
        return value.flatten()

    with torch.device("cpu"):
        got, findings = try_each(read, num_heads)
        return Report(
            subject,
            findings
            + (name_slopes(got, Expectation(reference), eps, factors=False) if got else []),
        )


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

    >>> from alibi_viz import check
    >>> check.bias(lambda heads, queries, keys: alibi_bias(alibi_slopes(heads), queries, keys, form="key")).ok
    True
    """
    flags = {"causal": causal, "decoding": decoding}
    subject, num_heads, reference = _check_arguments(
        function, num_heads, slopes, seconds, length, **flags
    )
    with torch.device("cpu"):

        def run(read_dtype: torch.dtype = torch.float32) -> Report:
            read = partial(
                read_bias, function, causal=causal, seconds=seconds, read_dtype=read_dtype
            )
            return examine_bias(
                read, subject, probes(num_heads, decoding, length), Expectation(reference, causal)
            )

        return _with_hint(run(), partial(run, torch.bfloat16), "return that dtype")


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

    >>> from alibi_viz import check
    >>> check.attention(lambda q, k, v: alibi_attention(q, k, v, alibi_slopes(q.shape[1])), num_heads=[12]).ok
    True
    >>> no_bias = torch.nn.functional.scaled_dot_product_attention
    >>> report = check.attention(lambda q, k, v: no_bias(q, k, v, is_causal=True), decoding=False)
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
    calls, expected = probes(num_heads, decoding, length), Expectation(reference, causal)

    def run(layout: str, calls: Sequence[Probe], read_dtype: torch.dtype = torch.float32) -> Report:
        reader = AttentionReader(function, layout, head_dim, dtype, convert, seconds, read_dtype)
        return examine_attention(reader, subject, calls, expected, group_size, padding=padding)

    with torch.device("cpu"):
        report = run(layout, calls)
        if report.ok or any(finding.name == "does not finish" for finding in report.findings):
            return report
        others = [
            order
            for order in map("".join, permutations(layout))
            if order.index("d") == layout.index("d")
        ]
        tried = {order: run(order, calls[:1]) for order in others}  # most orders fail this call
        for order in sorted(others, key=lambda order: len(tried[order].findings)):
            if (
                order != layout
                and _is_explained(tried[order])
                and _is_explained(again := run(order, calls))
            ):
                what = (
                    f"the only fault is {again.findings[0].name}"
                    if again.findings
                    else "it has no fault"
                )
                finding = Finding(
                    "wrong layout", f"with layout {order} instead of {layout}, {what}"
                )
                if again.ok or (not _is_explained(tried[layout]) and len(report.findings) > 1):
                    return replace(again, findings=[finding, *again.findings])
        rerun = partial(run, layout, calls, torch.bfloat16)
        return report if dtype.itemsize == 2 else _with_hint(report, rerun, "pass `dtype`")


def _is_explained(report: Report) -> bool:
    """Whether there is at most one fault, and none that swapped axes look like."""
    return len(report.findings) < 2 and not {finding.name for finding in report.findings} & _OF_AXES


def _with_hint(report: Report, rerun: Callable[[], Report], advice: str) -> Report:
    """Say if what no rule explains is right within the rounding of bfloat16, where `rerun` reads no
    more exactly."""
    names = {finding.name for finding in report.findings}
    possible = {
        "unknown fault",
        "length cap",
        "colliding positions",
    }  # the last two, for some of the calls
    if "unknown fault" not in names or not names <= possible or not rerun().ok:
        return report
    hint = (
        f"{report.findings[-1].evidence}; right within the rounding of bfloat16: if it "
        f"computes so, {advice}"
    )
    return replace(report, findings=[Finding("unknown fault", hint)])


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
        value = (
            alibi_slopes(heads, slopes)
            if isinstance(slopes, str)
            else torch.as_tensor(slopes(heads)).detach()
        )
        if value.shape != (heads,):
            raise ValueError(
                f"slopes({heads}) must return [{heads}], got shape {list(value.shape)}"
            )
        return value.double().cpu()

    heads = arguments.positive_integers(
        "num_heads", num_heads if isinstance(num_heads, Iterable) else [num_heads]
    )
    check_memory("num_heads", max(heads), lambda number: 32 * number * SHORT**2)
    return str(getattr(function, "__qualname__", None) or type(function).__name__), heads, reference


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
    hangs = any(
        finding.name == "does not finish" for finding in findings
    )  # that call goes on, and may disturb others
    small = [probe for probe in results if probe.key_length <= SHORT and not hangs]
    factors, unreadable = try_each(reader.content_factor, small)
    faults, comparison = diagnose(
        list(results.values()), replace(expected, head_dim=reader.head_dim)
    )
    findings += (unreadable or _name_content(factors, reader)) + faults
    if padding and not findings:
        padded = try_each(lambda probe: _check_padding(reader, probe, expected), small[:1])[1]
        findings += [
            Finding(each.name, f"with padding in front: {each.evidence}") for each in padded
        ]
    if not findings:
        findings += try_each(
            lambda probe: _check_output(reader, probe, expected, group_size), results
        )[1]
    return Report(subject, findings, comparison=comparison)


def _observe_all(
    read: _Read, calls: Sequence[Probe]
) -> tuple[dict[Probe, Observation], list[Finding]]:
    """The observations of all calls, and findings for those that failed."""
    results, findings = try_each(read, calls)
    # If only the longest calls fail, and not only while decoding, the function has a maximum
    # length.
    longest, short = calls[-1], [probe for probe in calls if probe.key_length <= SHORT]
    if longest not in results and all(probe in results for probe in short):
        capped = ("raises an error", "wrong shape")
        findings = [
            replace(each, name="length cap") if each.name in capped else each for each in findings
        ]
    return results, findings


def _name_content(factors: Mapping[Probe, float], reader: AttentionReader) -> list[Finding]:
    """Name the factors of q . k that were measured in each call."""
    tolerance = max(reader.precision.absolute, 4e-3)
    wrong = {probe: factor for probe, factor in factors.items() if abs(factor - 1) > tolerance}
    if not wrong:
        return []

    def are_all(predict: Callable[[Probe], float]) -> bool:
        return all(abs(factor / predict(probe) - 1) <= tolerance for probe, factor in wrong.items())

    is_weak, is_unscaled = (
        are_all(lambda probe: probe.num_heads**-0.5),
        are_all(lambda _: reader.head_dim**0.5),
    )
    name = (
        "content too weak"
        if is_weak
        else "content not scaled"
        if is_unscaled
        else "content multiplied"
    )
    probe, factor = max(wrong.items(), key=lambda item: abs(item[1] - 1))
    place = "" if len(wrong) == len(factors) else f" (only with {'; '.join(map(str, wrong))})"
    return [
        Finding(
            name,
            f"with {probe} and head_dim {reader.head_dim}, q . k counts {factor:.4g} times{place}",
        )
    ]


def _check_padding(reader: AttentionReader, probe: Probe, expected: Expectation) -> None:
    """Put padding in front of some sequences. Raise Unusable if the weights of their real tokens
    change."""
    mask = torch.arange(probe.key_length) >= torch.tensor(_PADDING)[:, None]  # [batch, key]
    tolerance = 8 * reader.precision.absolute
    for padding, weights in zip(
        _PADDING, reader.output(probe, mask), strict=True
    ):  # [heads, query, key]
        hidden, real = weights[:, padding:].split([padding, probe.key_length - padding], dim=-1)
        if bool(real.isnan().any()):
            raise Unusable("returns NaN", f"{probe}: weights of real tokens are NaN")
        if padding and (largest := float(hidden.max())) > tolerance:
            raise Unusable(
                "padding not masked", f"{probe}: padding gets a weight of up to {largest:.3g}"
            )
        correct = expected.bias(Probe(probe.num_heads, *real.shape[1:])).softmax(-1)
        if (difference := float((real - correct).abs().max())) > tolerance:
            raise Unusable(
                "padding changes the bias", f"{probe}: a weight is off by {difference:.3g}"
            )


def _check_output(
    reader: AttentionReader, probe: Probe, expected: Expectation, group_size: int
) -> None:
    """Raise Unusable if the output for random inputs is wrong."""
    heads, query_length, key_length = probe
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(3, heads, query_length, reader.head_dim, generator=generator)
    key, value = torch.randn(2, 3, heads, key_length, reader.head_dim, generator=generator)
    got = reader(query, key, value)
    query, key, value = (
        each.to(reader.dtype).double() for each in (query, key, value)
    )  # as the function gets them
    differences = {}
    for group in (group for group in range(1, heads + 1) if heads % group == 0):
        k, v = (each[:, ::group].repeat_interleave(group, dim=1) for each in (key, value))
        correct = (
            attention_trace(query, k, expected.slopes(heads), causal=expected.causal).weights @ v
        )
        differences[group] = float((got - correct).abs().max())
    tolerance = 4 * reader.precision.absolute
    if not differences[group_size] <= tolerance:
        evidence = (
            f"{probe}: for random inputs, the output is off by up to {differences[group_size]:.3g}"
        )
        if shared := [
            str(group) for group, difference in differences.items() if difference <= tolerance
        ]:
            raise Unusable(
                "wrong keys", f"{evidence}, but right if heads share a key in groups of {shared[0]}"
            )
        is_half = reader.dtype.itemsize == 2
        raise Unusable(
            "unknown fault", evidence + f"; perhaps logits are rounded to {reader.dtype}" * is_half
        )
