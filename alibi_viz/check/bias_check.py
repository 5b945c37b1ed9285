"""The tests of a bias function."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from alibi_viz.bias import causal_mask
from alibi_viz.check.call import Unusable, call, check_repeatable, to_tensor
from alibi_viz.check.diagnosis import Expectation, diagnose, observe_all
from alibi_viz.check.observation import Observation, Probe
from alibi_viz.check.report import Report

__all__ = ["check_bias"]

_MASKED = -9000.0  # a smaller bias, relative to the largest of its row, is a mask: correct ones are far above
_FLOOR = -60.0  # of log weights; e^-60 is far below what float32 can add to 1


def check_bias(
    function: Callable[[int, int, int], Any],
    subject: str,
    calls: Sequence[Probe],
    expected: Expectation,
    seconds: float,
) -> Report:
    """Check the bias and determinism of a function of (num_heads, query_length, key_length)."""

    def read(probe: Probe) -> Observation:
        value, dtype = to_tensor(call(function, *probe, seconds=seconds, description=str(probe)), str(probe))
        visible = causal_mask(probe.query_length, probe.key_length)
        visible = visible if expected.causal else torch.ones_like(visible)
        logits = _broadcast(value, probe, visible).masked_fill(~visible, -math.inf)
        masked = logits < logits.amax(-1, keepdim=True) + _MASKED
        return Observation(probe, logits.masked_fill(masked, -math.inf), dtype, _FLOOR)

    if unrepeatable := check_repeatable(lambda probe: read(probe).log_weights, calls[0], tolerance=1e-6):
        return Report(subject, unrepeatable)  # everything else would differ from call to call
    results, findings = observe_all(read, calls)
    diagnosis = diagnose(list(results.values()), expected)
    return Report(subject, findings + diagnosis.findings, comparison=diagnosis.comparison)


def _broadcast(bias: Tensor, probe: Probe, visible: Tensor) -> Tensor:
    """Expand a bias to [heads, query, key]. Further heads must be without a bias where it counts, and are dropped."""
    shape = list(bias.shape)
    while bias.ndim > 3 and bias.shape[0] == 1:
        bias = bias[0]
    bias = bias[None] if bias.ndim == 2 and probe.num_heads == 1 else bias
    try:
        if bias.ndim == 3 and len(bias) > probe.num_heads:
            further = bias[probe.num_heads :].expand(-1, probe.query_length, probe.key_length)
            highest = further.masked_fill(~visible, -math.inf).amax(-1)
            if bool((highest == further.masked_fill(~visible, math.inf).amin(-1)).all()):
                bias = bias[: probe.num_heads]
        return bias.expand(probe)
    except RuntimeError:
        raise Unusable("wrong shape", f"{probe}: returned {shape}, expected {list(probe)}") from None
