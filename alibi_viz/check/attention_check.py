"""The tests of an attention function, given a reader of its weights."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from alibi_viz.attention import attention_trace
from alibi_viz.check.attention_reader import AttentionReader
from alibi_viz.check.call import Unusable, check_repeatable, try_each
from alibi_viz.check.diagnosis import Expectation, diagnose, observe_all
from alibi_viz.check.observation import SHORT, Probe
from alibi_viz.check.report import Finding, Report

__all__ = ["check_reader"]

_PADDING = (0, 3, 7)  # tokens of padding in front of each sequence of a batch


def check_reader(
    reader: AttentionReader,
    subject: str,
    probes: Sequence[Probe],
    expected: Expectation,
    *,
    padding: bool = False,
    key_heads: int | None = None,
) -> Report:
    """Check the bias, the scale of the content, determinism, padding, and at last the output for random inputs.

    `key_heads` is 1 if all heads share keys and values; by default each has its own.
    """
    if random := check_repeatable(reader.weights, probes[:1]):
        return Report(subject, random)  # everything else would differ from call to call
    results, findings = observe_all(reader.observe, probes)
    short = [probe for probe in results if probe.query_length == probe.key_length <= SHORT]
    contents, unreadable = try_each(reader.content_factor, short)
    content = {probe.num_heads: factor for probe, factor in contents.items()}
    findings += unreadable + _name_content(content, reader)
    expected = replace(expected, head_dim=reader.head_dim, content=content)
    diagnosis = diagnose(list(results.values()), expected)
    findings += diagnosis.findings
    if padding and short:
        findings += _check_padding(reader, short[0], expected)
    if not findings:
        findings += try_each(lambda probe: _check_output(reader, probe, expected, key_heads), short)[1]
    return Report(subject, findings, comparison=diagnosis.comparison)


def _name_content(content: Mapping[int, float], reader: AttentionReader) -> list[Finding]:
    """Name the factor of q . k that was measured for each head count."""
    tolerance = 8 * reader.precision.absolute

    def equals(factors: Mapping[int, float]) -> bool:
        return all(abs(factor - factors[heads]) <= tolerance * factors[heads] for heads, factor in content.items())

    names = {
        "": dict.fromkeys(content, 1.0),
        "content too weak": {heads: heads**-0.5 for heads in content},
        "content not scaled": dict.fromkeys(content, reader.head_dim**0.5),
        "content multiplied": content,
    }
    name = next(name for name, factors in names.items() if equals(factors))
    heads = next(iter(content), 0)
    evidence = (
        f"with {heads} heads of size {reader.head_dim}, q . k counts {content.get(heads, 1):.4g} times as expected"
    )
    return [Finding(name, evidence)] if name else []


def _check_padding(reader: AttentionReader, probe: Probe, expected: Expectation) -> list[Finding]:
    """Put padding in front of some sequences: the weights of their real tokens should not change."""
    mask = torch.arange(probe.key_length) >= torch.tensor(_PADDING)[:, None]  # [batch, key]
    try:
        weights = reader.weights(probe, mask=mask)  # [batch, heads, query, key]
    except Unusable as error:
        return [Finding(error.fault, f"with padding: {error}")]
    tolerance = 8 * reader.precision.absolute
    findings = []
    for sequence, padding in enumerate(_PADDING):
        real = weights[sequence, :, padding:]
        length = probe.key_length - padding
        correct = expected.bias(Probe(probe.num_heads, length, length)).softmax(-1)
        place = f"{probe}, {padding} of them padding"
        if padding and float(real[..., :padding].max()) > tolerance:
            evidence = f"{place}: padding gets a weight of up to {float(real[..., :padding].max()):.3g}"
            findings.append(Finding("padding not masked", evidence))
        elif not (difference := float((real[..., padding:] - correct).abs().max())) <= tolerance:  # also if NaN
            findings.append(Finding("padding changes the bias", f"{place}: a weight is off by {difference:.3g}"))
    return findings[:1]


def _check_output(reader: AttentionReader, probe: Probe, expected: Expectation, key_heads: int | None) -> None:
    """Raise Unusable if the output for random inputs is wrong."""
    heads, query_length, key_length = probe
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, heads, query_length, reader.head_dim, generator=generator)
    key, value = torch.randn(2, 2, key_heads or heads, key_length, reader.head_dim, generator=generator)
    key, value = (tensor.expand(-1, heads, -1, -1) for tensor in (key, value))
    got = reader(query, key, value)
    query, key, value = (
        tensor.to(reader.dtype).double() for tensor in (query, key, value)
    )  # rounded as the function's
    correct = attention_trace(query, key, expected.slopes(heads), causal=expected.causal).weights @ value
    difference = float((got - correct).abs().max())
    if not difference <= 4 * reader.precision.absolute:
        raise Unusable("unknown fault", f"{probe}: for random inputs, the output is off by up to {difference:.3g}")
