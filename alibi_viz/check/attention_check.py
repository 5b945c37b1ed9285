"""The tests of an attention function, given a reader of its weights."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from alibi_viz.attention import attention_trace
from alibi_viz.check.attention_reader import AttentionReader
from alibi_viz.check.call import Unusable, check_repeatable, try_each
from alibi_viz.check.diagnosis import Diagnosis, Expectation, diagnose, observe_all
from alibi_viz.check.observation import SHORT, Probe
from alibi_viz.check.report import Finding, Report

__all__ = ["check_reader"]

_PADDING = (3, 7, 0)  # tokens of padding in front of each sequence of a batch


def check_reader(
    reader: AttentionReader,
    subject: str,
    probes: Sequence[Probe],
    expected: Expectation,
    *,
    padding: bool = False,
    key_heads: int | None = None,
) -> Report:
    """Check the bias, the scale of the content, determinism, padding, and finally the output for random inputs.

    `key_heads` is the number of different keys and values; by default each head has its own.
    """
    if unrepeatable := check_repeatable(reader.output, probes[0], tolerance=1e-5):
        return Report(subject, unrepeatable)  # everything else would differ from call to call
    results, findings = observe_all(reader.observe, probes)
    small = [probe for probe in results if probe.key_length <= SHORT]
    factors, unreadable = try_each(reader.content_factor, small)
    square = {probe.num_heads: factor for probe, factor in factors.items() if probe.query_length == probe.key_length}
    expected = replace(expected, head_dim=reader.head_dim, content=square)
    diagnosis = diagnose(list(results.values()), expected)
    findings += (unreadable or _name_content(factors, reader, diagnosis)) + diagnosis.findings
    if padding and small and not findings:
        findings += _check_padding(reader, small[0], expected)
    if not findings:
        findings += try_each(lambda probe: _check_output(reader, probe, expected, key_heads), results)[1]
    return Report(subject, findings, comparison=diagnosis.comparison)


def _name_content(factors: Mapping[Probe, float], reader: AttentionReader, diagnosis: Diagnosis) -> list[Finding]:
    """Name the factors of q . k that were measured in each call."""
    tolerance = max(4 * reader.precision.absolute, 4e-3)
    wrong = {probe: factor for probe, factor in factors.items() if abs(factor - 1) > tolerance}
    if not wrong:
        return []

    def all_equal(expected: Mapping[Probe, float]) -> bool:
        return all(abs(factor - expected[probe]) <= tolerance * expected[probe] for probe, factor in wrong.items())

    name = "content multiplied"
    if all_equal({probe: probe.num_heads**-0.5 for probe in wrong}):
        name = "content too weak"
    elif all_equal(dict.fromkeys(wrong, reader.head_dim**0.5)):
        name = "content not scaled"
    elif diagnosis.comparison and not diagnosis.findings:  # the bias has the same factor
        name = "logits multiplied"
    probe, factor = max(wrong.items(), key=lambda item: abs(item[1] - 1))
    place = "" if len(wrong) == len(factors) else f" (only with {'; '.join(map(str, wrong))})"
    return [Finding(name, f"with {probe} and head_dim {reader.head_dim}, q . k counts {factor:.4g} times{place}")]


def _check_padding(reader: AttentionReader, probe: Probe, expected: Expectation) -> list[Finding]:
    """Put padding in front of some sequences: the weights of their real tokens should not change."""
    mask = torch.arange(probe.key_length) >= torch.tensor(_PADDING)[:, None]  # [batch, key]
    try:
        weights = reader.weights(probe, mask=mask)  # [batch, heads, query, key]
    except Unusable as error:
        return [Finding(error.fault, f"with padding: {error}")]
    tolerance = 8 * reader.precision.absolute
    for sequence, padding in enumerate(_PADDING):
        real = weights[sequence, :, padding:]
        place = f"{probe}, {padding} of them padding"
        if bool(real.isnan().any()):
            return [Finding("returns NaN", f"{place}: weights of real tokens are NaN")]
        if padding and float(real[..., :padding].max()) > tolerance:
            evidence = f"{place}: padding gets a weight of up to {float(real[..., :padding].max()):.3g}"
            return [Finding("padding not masked", evidence)]
        length = probe.key_length - padding
        correct = expected.bias(Probe(probe.num_heads, length, length)).softmax(-1)
        difference = float((real[..., padding:] - correct).abs().max())
        if difference > tolerance:
            return [Finding("padding changes the bias", f"{place}: a weight is off by {difference:.3g}")]
    return []


def _check_output(reader: AttentionReader, probe: Probe, expected: Expectation, key_heads: int | None) -> None:
    """Raise Unusable if the output for random inputs is wrong."""
    heads, query_length, key_length = probe
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(3, heads, query_length, reader.head_dim, generator=generator)
    key, value = torch.randn(2, 3, key_heads or heads, key_length, reader.head_dim, generator=generator)
    key, value = (tensor.repeat_interleave(heads // tensor.shape[1], 1) for tensor in (key, value))
    got = reader(query, key, value)
    # the function gets them rounded to its dtype
    query, key, value = (tensor.to(reader.dtype).double() for tensor in (query, key, value))
    correct = attention_trace(query, key, expected.slopes(heads), causal=expected.causal).weights @ value
    difference = float((got - correct).abs().max())
    if not difference <= 4 * reader.precision.absolute:
        raise Unusable("unknown fault", f"{probe}: for random inputs, the output is off by up to {difference:.3g}")
