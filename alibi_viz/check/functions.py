"""Check slopes, biases and attention functions of any library."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from alibi_viz.arguments import check_integer, check_positive_integers
from alibi_viz.check.attention_check import check_reader
from alibi_viz.check.attention_reader import AttentionReader
from alibi_viz.check.bias_check import check_bias
from alibi_viz.check.call import Unusable, call, check_repeatable, check_seconds, on_cpu, to_tensor, try_each
from alibi_viz.check.diagnosis import Expectation
from alibi_viz.check.naming import Tolerance, name_slopes, reference_slopes
from alibi_viz.check.observation import Probe, probes
from alibi_viz.check.report import Finding, Report

__all__ = ["attention", "bias", "slopes"]

SLOPE_HEADS = (*range(1, 33), 40, 48, 56, 64, 71, 96, 112, 128)


def slopes(
    function: Callable[[int], Any],
    num_heads: Sequence[int] = SLOPE_HEADS,
    *,
    slopes: str | Callable[[int], Any] = "official",
    seconds: float = 60.0,
) -> Report:
    """Check a function that computes the slopes for a number of heads.

    Args:
        function: num_heads -> slopes, an array or list [heads]. If each device computes the slopes of its own heads,
            let the function concatenate them.
        num_heads: head counts to try.
        slopes: the correct slopes: a scheme of `alibi_slopes`, or a function of num_heads.
        seconds: time limit of a call.

    Raises TypeError or ValueError for an invalid argument; whatever the function does becomes a finding.

    >>> from alibi_viz import check
    >>> report = check.slopes(lambda num_heads: [2 ** (-8 * head / num_heads) for head in range(num_heads)])
    >>> report.ok, [finding.name for finding in report.findings]
    (False, ['first slope is 1'])
    """
    reference, num_heads = reference_slopes(slopes), _check_arguments(function, num_heads, seconds)

    def read(heads: int) -> tuple[Tensor, torch.dtype]:
        case = "1 head" if heads == 1 else f"{heads} heads"
        value, dtype = to_tensor(call(function, heads, seconds=seconds, description=case), case)
        if value.numel() != heads:
            raise Unusable("wrong shape", f"{case}: returned {list(value.shape)}, expected [{heads}]")
        return value.flatten(), dtype

    with on_cpu():
        if unrepeatable := check_repeatable(lambda heads: read(heads)[0], num_heads[-1], tolerance=1e-6):
            return Report(_name(function), unrepeatable)
        results, findings = try_each(read, num_heads)
        got = {heads: value for heads, (value, _) in results.items()}
        tolerance = Tolerance(max([torch.finfo(dtype).eps for _, dtype in results.values()] + [2e-6]))
        if not all(tolerance.close(value, reference(heads)) for heads, value in got.items()):
            findings += name_slopes(got, reference, tolerance=tolerance)
        return Report(_name(function), findings)


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

    A constant added to a row, a causal mask of -inf or of the lowest number, rounding within the dtype, and further
    heads without a bias are correct.

    Args:
        function: (num_heads, query_length, key_length) -> bias, broadcastable to [heads, query, key]; leading axes of
            size 1 are allowed. With fewer queries than keys, the queries are the last positions.
        num_heads: head counts to try. Use at least one that is not a power of two.
        causal: whether it is for causal attention, so that biases of keys after the query don't matter. Otherwise the
            bias should be -m |i - j|.
        decoding: also call it with fewer queries than keys.
        slopes: the correct slopes: a scheme of `alibi_slopes`, or a function of num_heads.
        length: the longest length to try. Positions in bfloat16 collide from 256 on, in float16 from 2048 on.
        seconds: time limit of a call.

    Raises TypeError or ValueError for an invalid argument; whatever the function does becomes a finding.

    >>> from alibi_viz import check
    >>> check.bias(lambda heads, queries, keys: alibi_bias(alibi_slopes(heads), queries, keys, form="key")).ok
    True
    """
    expected = Expectation(reference_slopes(slopes), causal)
    num_heads = _check_arguments(function, num_heads, seconds, length)
    with on_cpu():
        return check_bias(function, _name(function), probes(num_heads, decoding, length), expected, seconds)


def attention(
    function: Callable[..., Any],
    layout: str = "bhld",
    causal: bool = True,
    *,
    num_heads: Sequence[int] = (8, 12),
    head_dim: int = 64,
    key_heads: int | None = None,
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
        function: (query, key, value) -> output. Adapt other signatures with a lambda.
        layout: the axes of its arguments and output: b(atch), h(eads), l(ength) and d (size of a head) in any order,
            such as "bhld", "blhd" or "hld".
        causal: whether keys after a query are masked. Otherwise the bias should be -m |i - j|.
        num_heads: head counts to try. Use at least one that is not a power of two.
        head_dim: size of a head.
        key_heads: for grouped-query attention, how many heads the key and the value have. Each is shared by neighboring
            heads of the query. Every head count must be a multiple of it. By default they have as many as the query.
        decoding: also call it with fewer queries than keys; the queries are the last positions.
        padding: also call it with padding in front, as `function(query, key, value, mask)`; the mask is bool
            [batch, key], True for a real token.
        slopes: the correct slopes: a scheme of `alibi_slopes`, or a function of num_heads.
        dtype: dtype of the arguments.
        convert: turns a torch tensor into what the function takes, such as `numpy.asarray`.
        length: the longest length to try. Positions in bfloat16 collide from 256 on, in float16 from 2048 on.
        seconds: time limit of a call.

    Raises TypeError or ValueError for an invalid argument; whatever the function does becomes a finding.

    >>> from alibi_viz import check
    >>> check.attention(lambda q, k, v: alibi_attention(q, k, v, alibi_slopes(q.shape[1])), num_heads=[12]).ok
    True
    >>> no_bias = torch.nn.functional.scaled_dot_product_attention
    >>> report = check.attention(lambda q, k, v: no_bias(q, k, v, is_causal=True), decoding=False)
    >>> [finding.name for finding in report.findings]
    ['no bias']
    """
    num_heads = _check_arguments(function, num_heads, seconds, length)
    check_integer("head_dim", head_dim, 1)
    if key_heads is not None:
        check_integer("key_heads", key_heads, 1)
        if any(count % key_heads for count in num_heads):
            raise ValueError(f"every head count must be a multiple of key_heads, got {num_heads} and {key_heads}")
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point torch.dtype, got {dtype!r}")
    calls, expected = probes(num_heads, decoding, length), Expectation(reference_slopes(slopes), causal)

    def run(layout: str, calls: Sequence[Probe]) -> Report:
        reader = AttentionReader(function, layout, head_dim, dtype, convert, seconds, key_heads)
        return check_reader(reader, _name(function), calls, expected, padding=padding, key_heads=key_heads)

    with on_cpu():
        report = run(layout, calls)
        if report.ok or any(finding.name == "does not finish" for finding in report.findings):
            return report
        swapped = layout.translate(str.maketrans("hl", "lh"))
        if run(swapped, calls[:1]).ok and run(swapped, calls).ok:  # one call, because most faults are others
            return replace(
                report,
                findings=[Finding("wrong layout", f"with layout {swapped} instead of {layout}, it has no fault")],
            )
        return report


def _check_arguments(function: Any, num_heads: Any, seconds: Any, length: int = 1) -> list[int]:
    """The head counts as a list. Raises TypeError or ValueError for invalid arguments."""
    if not callable(function):
        raise TypeError(f"function must be callable, got {function!r}")
    check_seconds(seconds)
    heads = list(num_heads) if isinstance(num_heads, Iterable) else [num_heads]
    if not heads:
        raise ValueError("num_heads must contain at least one head count")
    for count in heads:
        check_positive_integers(num_heads=count, length=length)
    return heads


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__name__)
