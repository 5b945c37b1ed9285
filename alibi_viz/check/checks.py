"""Check slopes, biases and attention functions of any library."""

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from alibi_viz import arguments
from alibi_viz.check.call import Unusable, call, on_the_cpu, to_tensor, try_each
from alibi_viz.check.detect import (
    Sample,
    Sweep,
    describe,
    wrong_gradients,
)
from alibi_viz.check.expected import Expected, Group, Slopes
from alibi_viz.check.naming import Named, Naming
from alibi_viz.check.plan import (
    BATCHES,
    CONTIGUOUS,
    FURTHER_HEAD_DIM,
    FURTHER_HEADS,
    MEMORY_WORDS,
    NO_HEAD_DIM,
    SHORT,
    Call,
    Probe,
    attention_calls,
    bias_calls,
)
from alibi_viz.check.probe import AttentionReader, Observation, read_bias
from alibi_viz.check.report import Finding, Report
from alibi_viz.check.slope_rules import Tolerance, name_slopes
from alibi_viz.check.words import alternatives, count
from alibi_viz.slopes import SCHEMES, alibi_slopes

SLOPE_HEADS = range(1, 129)
# Tried by default, together with others that a function takes
USUAL_HEADS = (8, 12)
# The second is larger than the usual block, and a multiple of 8 only: kernels round to more.
HEAD_DIMS = (64, 104)


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
    wrong_kind = _wrong_kind(function, subject, "num_heads")
    if wrong_kind is not None:
        return wrong_kind
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
        findings = failures.findings(slopes_by_call)
        if slopes_by_call:
            by_group = {
                Group(made.probe.num_heads, NO_HEAD_DIM): value
                for made, value in slopes_by_call.items()
            }
            tolerance = Tolerance(relative_tolerance)
            named = name_slopes(by_group, Expected(reference), tolerance, factors=False)
            findings += named.findings
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
    wrong_kind = _wrong_kind(function, subject, "num_heads", "query_length", "key_length")
    if wrong_kind is not None:
        return wrong_kind
    expected = Expected(reference, causal)
    further = _further_heads(reference) if num_heads is USUAL_HEADS else []

    def ask(made: Call) -> Observation:
        return read_bias(function, made, causal, seconds)

    with on_the_cpu():
        calls = bias_calls([*heads, *further], decoding=decoding, length=length)
        sweep = Sweep(ask, calls)
        return examine_bias(subject, sweep, expected, further)


def examine_bias(
    subject: str, sweep: Sweep, expected: Expected, further_heads: Sequence[int] = ()
) -> Report:
    """The report on a sweep of a bias, or of the weights at equal content."""
    # All calls, because naming needs no others: they tell the weights already.
    wrong = sweep.go_on(expected, enough=math.inf)
    _drop_refused(sweep, further_heads)
    findings = _findings_of_failures(sweep)
    report = Report(subject, findings, tried=describe(list(sweep.answers)))
    if not wrong:
        return report
    named = Naming(sweep, wrong, expected).run()
    findings = [*findings, *named.findings]
    comparison = named.comparison if findings else None
    return replace(report, findings=findings, notes=named.notes, comparison=comparison)


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
    sides = _sides(padding)
    inputs = ("query", "key", "value", "mask") if sides else ("query", "key", "value")
    wrong_kind = _wrong_kind(function, subject, *inputs)
    if wrong_kind is not None:
        return wrong_kind
    expected = Expected(reference, causal, window, scale, softcap, group_size)
    reader = AttentionReader(function, layout, dtype, convert, seconds)
    further = _further_heads(reference, group_size) if num_heads is USUAL_HEADS else []
    further_size = [FURTHER_HEAD_DIM] if head_dim is HEAD_DIMS else []
    calls = attention_calls(
        [*heads, *further],
        [*head_dims, *further_size],
        decoding=decoding,
        length=length,
        sides=sides,
        batches=BATCHES if "b" in layout else (3,),
    )
    with on_the_cpu():
        sweep = Sweep(lambda made: Sample.of(reader, made), calls)

        wrong = sweep.go_on(expected)
        notes = _drop_refused(sweep, further, further_size)
        if padding is True and not causal:
            # Many encoders take lengths, so their padding is behind; any side will do.
            wrong = _drop_a_wrong_side(sweep, wrong)
        report, is_right = examine(subject, reader, sweep, wrong, expected, notes=notes)
        gradients = "no gradients"
        if is_right:
            findings, gradients = wrong_gradients(reader, sweep, expected)
            report = replace(report, findings=findings)
        report = replace(report, tried=f"{report.tried}; {gradients}")
        if reader.changed:
            changed = ", ".join(sorted(reader.changed))
            report.notes.append(f"Changes its arguments in place: {changed}.")
        return report


def examine(
    subject: str,
    reader: AttentionReader,
    sweep: Sweep,
    wrong: Sequence[Call],
    expected: Expected,
    *,
    notes: Sequence[str] = (),
) -> tuple[Report, bool]:
    """The report on what a sweep of attention has detected, and whether all calls are right."""
    named = Named()
    if wrong and "does not finish" not in sweep.failures.by_fault:
        named = Naming(sweep, wrong, expected, reader).run()
    findings = [*_findings_of_failures(sweep), *named.findings]
    comparison = named.comparison if findings else None
    tried = describe(list(sweep.answers), reader.dtype)
    report = Report(subject, findings, [*notes, *named.notes], comparison, tried)
    return report, not wrong and not findings


def _findings_of_failures(sweep: Sweep) -> list[Finding]:
    """Findings for the calls that failed: those of all the longest are a maximum length."""
    findings = sweep.failures.findings(sweep.answers)
    longest = max((made.probe.key_length for made in sweep.answers), default=0)
    for n, finding in enumerate(findings):
        failed = sweep.failures.by_fault[finding.name]
        is_cap = longest >= SHORT and all(made.probe.key_length > longest for made in failed)
        if is_cap and finding.name in ("raises an error", "wrong shape"):
            findings[n] = replace(finding, name="length cap")
    return findings


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


def _drop_a_wrong_side(sweep: Sweep, wrong: Sequence[Call]) -> list[Call]:
    """The wrong calls without those with padding on one side, if the other is right."""
    bad = [made for made in (*wrong, *sweep.failures.calls) if made.is_padded]
    sides = {made.padding for made in bad}
    if len(sides) != 1:
        return list(wrong)
    sweep.failures.drop(bad)
    sweep.answers = {made: answer for made, answer in sweep.answers.items() if made not in bad}
    return [made for made in wrong if made not in bad]


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


def _wrong_kind(function: Callable[..., Any], name: str, *handed_in: str) -> Report | None:
    """A report that says so if a function can't take as many arguments as a check hands in."""
    inner = inspect.unwrap(function)
    if inspect.isclass(inner):
        evidence = f"{name} is a class"
        return Report(name, [Finding("wrong kind of function", evidence)])
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a function in C
        return None
    try:
        signature.bind(*handed_in)
    except TypeError as error:
        evidence = f"{name}{signature} is called with ({', '.join(handed_in)}): {error}"
        return Report(name, [Finding("wrong kind of function", evidence)])
    return None


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
        raise TypeError(f"function must be callable, got {type(function).__name__}")
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


def _drop_refused(
    sweep: Sweep, further_heads: Sequence[int], further_sizes: Sequence[int] = ()
) -> list[str]:
    """Drop the failures of calls that a function may refuse, and say in notes which these are.

    It may refuse inputs that are not contiguous, a size of a head, and further numbers and sizes of
    heads, which are no note. But if the usual kind of the same call fails, too, that is a fault.
    """
    usual = sweep.calls[0]
    sizes_that_work = {made.head_dim for made in sweep.answers}
    errors = sweep.failures.by_fault.get("raises an error", {})
    refused: dict[str, str] = {}  # what is refused: the first error
    for made in sweep.failures.calls if sizes_that_work else []:
        is_further = made.probe.num_heads in further_heads or made.head_dim in further_sizes
        is_of_refused_size = made.head_dim not in sizes_that_work
        if not is_further and (made not in errors or not (is_of_refused_size or made.is_view)):
            continue
        heads = usual.probe.num_heads if is_further else made.probe.num_heads
        sizes = made.probe._replace(num_heads=heads)
        twin = replace(made, probe=sizes, head_dim=usual.head_dim, memory=CONTIGUOUS)
        _, failures = try_each(sweep.ask, [twin])
        if failures.by_fault:
            continue
        if not is_further:
            kind = f"head_dim {made.head_dim}" if is_of_refused_size else MEMORY_WORDS[made.memory]
            refused.setdefault(kind, errors[made])
        sweep.failures.drop([made])

    memory = [words for words in MEMORY_WORDS.values() if words in refused]
    notes = [_refusal(kind, error) for kind, error in refused.items() if kind not in memory]
    if memory:
        notes.append(_refusal(f"some {alternatives(memory)}", refused[memory[0]]))
    return notes


def _refusal(condition: str, message: str) -> str:
    return f"Not checked with {condition}, which the function refuses ({message})."
