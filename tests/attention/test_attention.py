import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alibi_viz import alibi_attention, alibi_slopes, attention_trace, causal_mask
from tests.reference import reference_attention, reference_bias

BACKENDS = ("eager", "mask", "folded", "auto")  # these support causal attention with any mask and positions


def supporting_backends(rows: int, columns: int, causal: bool, has_mask: bool = False) -> list[str]:
    """Return the backends that support the call.

    "folded" needs a causal mask and as many queries as keys; "strip" needs a causal mask and no other mask; "windowed"
    needs no other mask than the causal one.
    """
    conditions = {"folded": causal and rows == columns, "strip": causal and not has_mask, "windowed": not has_mask}
    return [name for name in (*BACKENDS, "strip", "windowed") if conditions.get(name, True)]


def unit_normal(
    batch: int, heads: int, rows: int, columns: int, dim: int, *, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((batch, heads, rows, dim), (batch, heads, columns, dim), (batch, heads, columns, dim))
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return q, k, v


def expected_attention(
    q: Tensor, k: Tensor, v: Tensor, slopes: Tensor, *, causal: bool, is_real: Tensor | None
) -> tuple[Tensor, Tensor]:
    rows, columns = q.shape[2], k.shape[2]
    form = "relative" if causal else "symmetric"
    bias = reference_bias(slopes, list(range(columns - rows, columns)), list(range(columns)), form)
    return reference_attention(q, k, v, bias, causal=causal, is_real=is_real)


@given(
    lengths=st.tuples(st.integers(0, 5), st.integers(0, 7)).map(sorted),
    batch=st.integers(0, 2),
    heads=st.integers(1, 3),
    causal=st.booleans(),
    padded=st.booleans(),
    seed=st.integers(0, 99),
)
def test_trace_and_backends_match_the_reference_loop(
    *, lengths: list[int], batch: int, heads: int, causal: bool, padded: bool, seed: int
) -> None:
    rows, columns = lengths
    q, k, v = unit_normal(batch, heads, rows, columns, 4, seed=seed)
    is_real = torch.rand(batch, columns, generator=torch.Generator().manual_seed(seed)) < 0.6 if padded else None
    slopes = alibi_slopes(heads)
    expected, weights = expected_attention(q, k, v, slopes, causal=causal, is_real=is_real)

    trace = attention_trace(q, k, slopes, causal=causal, key_padding_mask=is_real)
    assert torch.allclose(trace.weights, weights, atol=1e-12)
    for backend in supporting_backends(rows, columns, causal, padded):
        output = alibi_attention(q, k, v, slopes, causal=causal, key_padding_mask=is_real, backend=backend)
        assert output.shape == (batch, heads, rows, 4)
        assert torch.allclose(output, expected, atol=1e-12), backend


@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("causal", [True, False])
def test_grouped_query_attention_matches_the_reference_loop(key_heads: int, causal: bool) -> None:
    q, k, v = unit_normal(2, 4, 6, 6, 8)
    k, v, slopes = k[:, :key_heads], v[:, :key_heads], alibi_slopes(4)
    expected, weights = expected_attention(q, k, v, slopes, causal=causal, is_real=None)
    assert torch.allclose(attention_trace(q, k, slopes, causal=causal).weights, weights, atol=1e-12)
    for backend in supporting_backends(6, 6, causal):
        assert torch.allclose(alibi_attention(q, k, v, slopes, causal=causal, backend=backend), expected, atol=1e-12)


def test_dropping_keys_with_explicit_positions_equals_masking_them() -> None:
    q, k, v = unit_normal(1, 2, 9, 9, 8)
    slopes, remaining = alibi_slopes(2), torch.tensor([0, 3, 4, 8])
    is_real = torch.zeros(1, 9, dtype=torch.bool)
    is_real[0, remaining] = True
    whole = alibi_attention(q, k, v, slopes, key_padding_mask=is_real)[:, :, remaining]
    for backend in BACKENDS:
        remaining_qkv = (t[:, :, remaining] for t in (q, k, v))
        assert torch.allclose(
            alibi_attention(*remaining_qkv, slopes, positions=remaining, backend=backend), whole, atol=1e-12
        )


def test_left_padding_does_not_change_the_real_tokens() -> None:
    q, k, v = unit_normal(1, 2, 5, 5, 8)
    slopes = alibi_slopes(2)
    alone = alibi_attention(q, k, v, slopes)
    left = [torch.cat((torch.randn(1, 2, 3, 8, dtype=torch.float64), t), dim=2) for t in (q, k, v)]
    is_real = torch.tensor([[False] * 3 + [True] * 5])
    for backend in BACKENDS:
        padded = alibi_attention(*left, slopes, key_padding_mask=is_real, backend=backend)
        assert torch.allclose(padded[:, :, 3:], alone, atol=1e-12)
        assert bool((padded[:, :, :3] == 0).all())


def test_packed_documents_equal_separate_calls() -> None:
    q, k, v = unit_normal(1, 2, 7, 7, 8)
    slopes = alibi_slopes(2)
    document = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    same = (document[:, None] == document[None, :])[None, None]
    packed = alibi_attention(q, k, v, slopes, attn_mask=same)
    for part in (slice(0, 3), slice(3, 7)):
        alone = alibi_attention(*(t[:, :, part] for t in (q, k, v)), slopes)
        assert torch.allclose(packed[:, :, part], alone, atol=1e-12)


def test_without_slopes_output_equals_plain_attention() -> None:
    q, k, v = unit_normal(2, 2, 6, 6, 8)
    plain = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    for backend in (*BACKENDS, "strip"):
        assert torch.allclose(alibi_attention(q, k, v, None, backend=backend), plain, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_output_has_the_dtype_of_the_query_and_its_accuracy(dtype: torch.dtype) -> None:
    q, k, v = (t.to(dtype) for t in unit_normal(2, 4, 40, 40, 16))
    slopes = alibi_slopes(4)
    exact = alibi_attention(q.double(), k.double(), v.double(), slopes, backend="eager")
    tolerance = {torch.float16: 3e-3, torch.bfloat16: 3e-2, torch.float32: 2e-6, torch.float64: 1e-12}[dtype]
    for backend in (*BACKENDS, "strip"):
        output = alibi_attention(q, k, v, slopes, backend=backend)
        assert output.dtype == dtype
        assert torch.allclose(output.double(), exact, atol=tolerance), backend


def test_dropout_zeroes_weights_and_preserves_their_mean() -> None:
    q, k, _ = unit_normal(1, 1, 8, 8, 4)
    v = torch.eye(8, dtype=torch.float64)[None, None, :, :4]
    torch.manual_seed(0)
    for backend in (*BACKENDS, "strip"):
        runs = [alibi_attention(q, k, v, alibi_slopes(1), dropout=0.5, backend=backend) for _ in range(100)]
        mean = torch.stack(runs).mean(0)
        assert bool((torch.stack(runs) == 0).any())
        assert torch.allclose(mean, alibi_attention(q, k, v, alibi_slopes(1)), atol=0.3), backend


def test_mask_cached_in_inference_mode_supports_autograd() -> None:
    q, k, v = (t.float() for t in unit_normal(1, 3, 5, 5, 4))
    slopes = torch.tensor([0.31, 0.17, 0.05])
    with torch.inference_mode():
        alibi_attention(q, k, v, slopes)
    alibi_attention(q.requires_grad_(), k, v, slopes).sum().backward()
    assert q.grad is not None


def test_logits_of_the_trace_are_content_plus_bias() -> None:
    q, k, _ = unit_normal(1, 2, 3, 5, 8)
    trace = attention_trace(q, k, alibi_slopes(2))
    visible = trace.logits > -math.inf
    assert torch.equal(trace.logits[visible], (trace.content + trace.bias)[visible])
    assert torch.allclose(trace.weights.sum(-1), torch.ones(1, 2, 3, dtype=torch.float64))
    assert int((~visible).sum()) == 2 * (2 + 1)


def test_bias_is_not_divided_by_the_root_of_head_dim() -> None:
    q = k = torch.zeros(1, 1, 2, 64)
    weights = attention_trace(q, k, torch.tensor([1.0])).weights[0, 0, 1]
    assert weights.tolist() == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_fully_masked_queries_return_zeros_and_finite_gradients(backend: str) -> None:
    q, k, v = (t.requires_grad_() for t in unit_normal(2, 2, 4, 4, 8))
    slopes = alibi_slopes(2).requires_grad_()
    is_real = torch.tensor([[False, False, True, True], [True, True, True, True]])
    output = alibi_attention(q, k, v, slopes, key_padding_mask=is_real, backend=backend)
    assert bool((output[0, :, :2] == 0).all())
    assert bool((output[0, :, 2:] != 0).all())
    output.square().sum().backward()
    for tensor in (q, k, v, slopes):
        assert tensor.grad is not None
        assert bool(tensor.grad.isfinite().all())


@pytest.mark.parametrize("causal", [True, False])
def test_gradients_equal_finite_differences(causal: bool) -> None:
    q, k, v = unit_normal(1, 2, 5, 5, 4)
    slopes = torch.tensor([0.5, 0.1], dtype=torch.float64)
    for backend in supporting_backends(5, 5, causal):
        slopes.requires_grad_(causal or backend != "windowed")  # which needs a causal mask to learn slopes
        assert torch.autograd.gradcheck(
            lambda *tensors, backend=backend: alibi_attention(*tensors, causal=causal, backend=backend),
            (q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), slopes),
            fast_mode=True,
        )


def test_invalid_arguments_raise_with_their_name_and_shape() -> None:
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
    with pytest.raises(ValueError, match=r"slopes must be \[heads\] = \[4\] to match query, got shape \[3\]"):
        alibi_attention(q, k, v, slopes[:3])
    with pytest.raises(ValueError, match="slopes must be finite"):
        alibi_attention(q, k, v, slopes * math.nan)
    with pytest.raises(TypeError, match=r"query must be a floating-point tensor .*, got torch\.int64"):
        alibi_attention(q.long(), k, v, slopes)
    with pytest.raises(TypeError, match=r"key must have the dtype and device of query, torch\.float32 on cpu"):
        alibi_attention(q, k.half(), v, slopes)
    with pytest.raises(TypeError, match=r"value must have the dtype and device of query, .* on meta"):
        alibi_attention(q, k, v.to("meta"), slopes)
    with pytest.raises(TypeError, match=r"key_padding_mask must be a bool tensor \[batch, key\], got torch\.float32"):
        alibi_attention(q, k, v, slopes, key_padding_mask=torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"key_padding_mask must be \[batch, key\] = \[2, 3\], got \[2, 4\]"):
        alibi_attention(q, k, v, slopes, key_padding_mask=torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(TypeError, match=r"key_padding_mask must be a bool tensor .*, got list"):
        alibi_attention(q, k, v, slopes, key_padding_mask=[[True] * 3] * 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"attn_mask must be a bool tensor .*, got torch\.int64"):
        alibi_attention(q, k, v, slopes, attn_mask=torch.ones(1, 1, 3, 3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"attn_mask must broadcast to .* = \[2, 4, 3, 3\], got \[3, 3\]"):
        alibi_attention(q, k, v, slopes, attn_mask=causal_mask(3))
    with pytest.raises(TypeError, match=r"positions must be an integer tensor .*, got torch\.float32"):
        alibi_attention(q, k, v, slopes, positions=torch.arange(3.0))
    with pytest.raises(ValueError, match=r"positions must be \[key\] = \[3\] or \[batch, key\] = \[2, 3\], got \[4\]"):
        alibi_attention(q, k, v, slopes, positions=torch.arange(4))
    with pytest.raises(ValueError, match=r"slopes must be on the device of query, cpu, got meta"):
        alibi_attention(q, k, v, slopes.to("meta"))
    with pytest.raises(ValueError, match=r"dropout must be at least 0 and below 1, got 1\.5"):
        alibi_attention(q, k, v, slopes, dropout=1.5)
    with pytest.raises(ValueError, match="scale must be a finite number, got nan"):
        alibi_attention(q, k, v, slopes, scale=math.nan)
    with pytest.raises(ValueError, match="at least one head and one channel"):
        alibi_attention(q[..., :0], k[..., :0], v[..., :0], slopes)
    with pytest.raises(
        ValueError, match=r"backend 'flex' does not support this call: FlexAttention has no backward pass"
    ):
        alibi_attention(q.requires_grad_(), k, v, slopes, backend="flex")
    with pytest.raises(ValueError, match=r"backend must be one of .*, got 'flash'"):
        alibi_attention(q, k, v, slopes, backend="flash")
