"""For random arguments, the output matches the float64 reference loop or the error names the invalid argument."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alibi_viz import alibi_attention, attention_trace
from tests.reference import reference_attention, reference_bias

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64)
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 2e-1}
FLOATS = tuple(TOLERANCE)
FAULTS = ("query", "key", "value", "slopes", "mask", "lengths", "backend")


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of `alibi_attention`. Half of the time they are valid; otherwise one of them is wrong."""
    fault = draw(st.sampled_from(FAULTS)) if draw(st.booleans()) else "none"
    generator = torch.Generator().manual_seed(draw(st.integers(0, 9)))
    dtype = draw(st.sampled_from(FLOATS))
    batch, heads, dim = draw(st.integers(0, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    rows, columns = sorted((draw(st.integers(0, 4)), draw(st.integers(0, 5))))
    rows, columns = (columns, rows) if fault == "lengths" else (rows, columns)

    def tensor(name: str, *shape: int) -> Tensor:
        tensor_dtype = dtype
        if name == fault and draw(st.booleans()):
            tensor_dtype = draw(st.sampled_from(DTYPES))
        elif name == fault:
            sizes = list(shape)
            sizes[draw(st.integers(0, len(sizes) - 1))] += draw(st.sampled_from([-1, 1]))
            shape = tuple(max(size, 0) for size in sizes)
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(tensor_dtype)

    slopes = tensor("slopes", heads)
    if fault == "slopes" and len(slopes) and slopes.is_floating_point():
        slopes[0] = draw(st.sampled_from([math.nan, math.inf, -math.inf]))
    mask = tensor("mask", batch, columns)
    mask = mask.real > 0 if fault != "mask" or mask.shape != (batch, columns) else mask
    return {
        "query": tensor("query", batch, heads, rows, dim),
        "key": tensor("key", batch, heads, columns, dim),
        "value": tensor("value", batch, heads, columns, dim),
        "slopes": slopes,
        "causal": draw(st.booleans()),
        "key_padding_mask": mask if fault == "mask" or draw(st.booleans()) else None,
        "backend": "flash"
        if fault == "backend"
        else draw(st.sampled_from(["auto", "auto", "eager", "mask", "strip", "windowed", "folded"])),
    }


@given(arguments())
def test_output_matches_the_reference_loop_or_the_error_names_the_argument(call_arguments: dict[str, Any]) -> None:
    try:
        output = alibi_attention(**call_arguments)
    except (TypeError, ValueError) as error:
        argument_names = ("query", "key", "value", "slopes", "mask", "backend")
        assert any(name in str(error) for name in argument_names), f"unclear: {error}"
        assert "got" in str(error) or "must be" in str(error) or "does not support" in str(error)
        return
    q, k, v = call_arguments["query"], call_arguments["key"], call_arguments["value"]
    slopes, causal, is_real = call_arguments["slopes"], call_arguments["causal"], call_arguments["key_padding_mask"]
    rows, columns = q.shape[2], k.shape[2]
    form = "relative" if causal else "symmetric"
    bias = reference_bias(slopes, list(range(columns - rows, columns)), list(range(columns)), form)
    expected, _ = reference_attention(q, k, v, bias, causal=causal, is_real=is_real)
    assert output.dtype == q.dtype
    assert output.shape == q.shape
    assert torch.allclose(output.double(), expected, atol=TOLERANCE[q.dtype]), call_arguments


@pytest.mark.parametrize("length", [0, 1])
@pytest.mark.parametrize("batch", [0, 2])
def test_empty_and_single_token_inputs_return_the_value(batch: int, length: int) -> None:
    q = torch.randn(batch, 3, length, 4)
    for slopes in (None, torch.ones(3)):
        assert attention_trace(q, q, slopes).weights.shape == (batch, 3, length, length)
        for backend in ("auto", "eager", "mask", "strip", "folded", *(["windowed"] if slopes is not None else [])):
            output = alibi_attention(q, q, q, slopes, backend=backend)
            assert torch.allclose(output, q)  # a single token attends to itself


def test_arguments_that_are_not_tensors_raise_type_error() -> None:
    q = torch.randn(1, 2, 3, 4)
    for wrong in ([[1.0]], "slopes", 0.5):
        with pytest.raises(TypeError, match="slopes must be a floating-point tensor"):
            alibi_attention(q, q, q, wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="key must be a floating-point tensor"):
            alibi_attention(q, wrong, q, None)  # type: ignore[arg-type]
