import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alibi_viz import alibi_attention, alibi_slopes, attention_trace
from tests.literal import literal_attention, literal_bias

BACKENDS = ("eager", "mask", "auto")


def unit_normal(
    batch: int, heads: int, rows: int, columns: int, dim: int, *, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((batch, heads, rows, dim), (batch, heads, columns, dim), (batch, heads, columns, dim))
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return q, k, v


def literal(
    q: Tensor, k: Tensor, v: Tensor, slopes: Tensor, *, causal: bool, real: Tensor | None
) -> tuple[Tensor, Tensor]:
    rows, columns = q.shape[2], k.shape[2]
    form = "relative" if causal else "symmetric"
    bias = literal_bias(slopes, list(range(columns - rows, columns)), list(range(columns)), form)
    return literal_attention(q, k, v, bias, causal=causal, real=real)


@given(
    lengths=st.tuples(st.integers(0, 5), st.integers(0, 7)).map(sorted),
    batch=st.integers(0, 2),
    heads=st.integers(1, 3),
    causal=st.booleans(),
    padded=st.booleans(),
    seed=st.integers(0, 99),
)
def test_trace_and_backends_equal_the_literal_double_loop(
    *, lengths: list[int], batch: int, heads: int, causal: bool, padded: bool, seed: int
) -> None:
    rows, columns = lengths
    q, k, v = unit_normal(batch, heads, rows, columns, 4, seed=seed)
    real = torch.rand(batch, columns, generator=torch.Generator().manual_seed(seed)) < 0.6 if padded else None
    slopes = alibi_slopes(heads)
    expected, weights = literal(q, k, v, slopes, causal=causal, real=real)

    trace = attention_trace(q, k, slopes, causal=causal, key_padding_mask=real)
    assert torch.allclose(trace.weights, weights, atol=1e-12)
    for backend in BACKENDS:
        output = alibi_attention(q, k, v, slopes, causal=causal, key_padding_mask=real, backend=backend)
        assert output.shape == (batch, heads, rows, 4)
        assert torch.allclose(output, expected, atol=1e-12), backend


def test_the_trace_adds_up() -> None:
    q, k, _ = unit_normal(1, 2, 3, 5, 8)
    trace = attention_trace(q, k, alibi_slopes(2))
    seen = trace.logits > -math.inf
    assert torch.equal(trace.logits[seen], (trace.content + trace.bias)[seen])
    assert torch.allclose(trace.weights.sum(-1), torch.ones(1, 2, 3, dtype=torch.float64))
    assert int((~seen).sum()) == 2 * (2 + 1)


def test_the_bias_is_not_divided_by_the_root_of_the_head_size() -> None:
    q = k = torch.zeros(1, 1, 2, 64)
    weights = attention_trace(q, k, torch.tensor([1.0])).weights[0, 0, 1]
    assert weights.tolist() == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_query_that_sees_nothing_gives_zeros_and_finite_gradients(backend: str) -> None:
    q, k, v = (t.requires_grad_() for t in unit_normal(2, 2, 4, 4, 8))
    slopes = alibi_slopes(2).requires_grad_()
    real = torch.tensor([[False, False, True, True], [True, True, True, True]])
    output = alibi_attention(q, k, v, slopes, key_padding_mask=real, backend=backend)
    assert bool((output[0, :, :2] == 0).all())
    assert bool((output[0, :, 2:] != 0).all())
    output.square().sum().backward()
    for tensor in (q, k, v, slopes):
        assert tensor.grad is not None
        assert bool(tensor.grad.isfinite().all())


@pytest.mark.parametrize("causal", [True, False])
def test_the_slopes_get_the_gradient_of_finite_differences(causal: bool) -> None:
    q, k, v = unit_normal(1, 2, 5, 5, 4)
    slopes = torch.tensor([0.5, 0.1], dtype=torch.float64, requires_grad=True)
    for backend in BACKENDS:
        assert torch.autograd.gradcheck(
            lambda *tensors, backend=backend: alibi_attention(*tensors, causal=causal, backend=backend),
            (q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), slopes),
        )


def test_bad_input_is_named() -> None:
    q, k, v = (t.float() for t in unit_normal(2, 4, 3, 3, 8))
    slopes = alibi_slopes(4)
    with pytest.raises(ValueError, match=r"query must be \[batch, heads, length, head_dim\], got shape \[4, 3, 8\]"):
        alibi_attention(q[0], k, v, slopes)
    with pytest.raises(ValueError, match=r"key must be .* = \[2, 4 or a divisor of it, 3, 8\].*got \[2, 4, 3, 7\]"):
        alibi_attention(q, k[..., :7], v, slopes)
    with pytest.raises(ValueError, match=r"value must be .*got \[2, 4, 2, 8\]"):
        alibi_attention(q, k, v[:, :, :2], slopes)
    with pytest.raises(ValueError, match="query length 3 must be at most the key length 2"):
        alibi_attention(q, k[:, :, :2], v[:, :, :2], slopes)
    with pytest.raises(ValueError, match=r"slopes must be \[heads\] = \[4\] to fit query, got shape \[3\]"):
        alibi_attention(q, k, v, slopes[:3])
    with pytest.raises(ValueError, match="slopes must be finite"):
        alibi_attention(q, k, v, slopes * math.nan)
    with pytest.raises(TypeError, match=r"query must be a floating-point tensor .*, got torch\.int64"):
        alibi_attention(q.long(), k, v, slopes)
    with pytest.raises(TypeError, match=r"key must have the dtype and device of query, torch\.float32 on cpu"):
        alibi_attention(q, k.half(), v, slopes)
    with pytest.raises(TypeError, match=r"value must have the dtype and device of query, .* on meta"):
        alibi_attention(q, k, v.to("meta"), slopes)
    with pytest.raises(TypeError, match=r"key_padding_mask must be bool, .* got torch\.float32"):
        alibi_attention(q, k, v, slopes, key_padding_mask=torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"key_padding_mask must be \[batch, key\] = \[2, 3\], got \[2, 4\]"):
        alibi_attention(q, k, v, slopes, key_padding_mask=torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"backend must be one of .*, got 'flash'"):
        alibi_attention(q, k, v, slopes, backend="flash")
