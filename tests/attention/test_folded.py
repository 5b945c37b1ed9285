import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from alibi_viz import alibi_attention, alibi_slopes, bias_from_positions, causal_mask, choose_backend
from alibi_viz.attention.folded import FLOAT16_MAX, coordinates, fold
from alibi_viz.attention.inputs import AttentionInputs

HALF = (torch.float16, torch.bfloat16)


def unit_normal(heads: int, length: int, dim: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(length)
    q, k, v = (torch.randn(1, heads, length, dim, generator=generator).to(dtype) for _ in range(3))
    return q, k, v


def error(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor, output: Tensor, rows: Tensor) -> float:
    """Largest difference from float64, over the given rows of the output."""
    ahead = torch.arange(k.shape[2])[None] - rows[:, None]
    logits = q[:, :, rows].double() @ k.double().mT / math.sqrt(q.shape[-1])
    logits = (logits + slopes.double()[:, None, None] * ahead).masked_fill(ahead > 0, -math.inf)
    return float((output[:, :, rows] - logits.softmax(-1) @ v.double()).abs().max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALF])
@pytest.mark.parametrize("scale", [1.0, 32**-0.5])
def test_product_of_coordinates_equals_the_bias_up_to_a_constant_per_row(dtype: torch.dtype, scale: float) -> None:
    slopes, length = alibi_slopes(12), 3000
    query, key = coordinates(slopes, torch.arange(length), dtype, scale)
    assert query.shape == (12, length, key.shape[-1])
    assert query.dtype == key.dtype == dtype
    rows = torch.arange(0, length, 13)  # all rows would take gigabytes
    product = (query[:, rows].double() @ key.double().mT) * scale
    expected = bias_from_positions(slopes, rows, torch.arange(length), dtype=torch.float64)
    # The diagonal is the constant that differs per row and cancels in the softmax.
    diagonal = product[:, torch.arange(len(rows)), rows][..., None]
    difference = product - diagonal - expected
    tolerance = {torch.float64: 1e-9, torch.float32: 1e-3, torch.float16: 0.02, torch.bfloat16: 0.05}[dtype]
    assert float(difference.abs().max()) < tolerance  # for biases up to 2,100
    assert float(diagonal.abs().max()) < 10  # the constant is small


def test_positions_are_exact_in_half_precision() -> None:
    for dtype in HALF:
        _, key = coordinates(torch.ones(1), torch.arange(FLOAT16_MAX), dtype)
        assert torch.equal(key[0, :, 1].double() + key[0, :, 2].double(), torch.arange(FLOAT16_MAX).double())


@pytest.mark.parametrize("heads", [8, 12])
@pytest.mark.parametrize("length", [1024, 4096])
def test_folding_is_as_accurate_as_the_mask(heads: int, length: int) -> None:
    q, k, v = unit_normal(heads, length, 32)
    slopes, rows = alibi_slopes(heads), torch.arange(length - 1, 0, -37)
    folded = error(q, k, v, slopes, alibi_attention(q, k, v, slopes, backend="folded"), rows)
    masked = error(q, k, v, slopes, alibi_attention(q, k, v, slopes, backend="mask"), rows)
    assert folded < 5e-6
    assert folded < 2 * masked + 1e-6


def test_swapping_the_two_coordinates_makes_the_error_twenty_times_larger() -> None:
    q, k, v = unit_normal(8, 4096, 32)
    slopes, rows = alibi_slopes(8), torch.arange(4095, 0, -37)
    wide_q, wide_k, wide_v = fold(AttentionInputs(q, k, v, slopes))
    errors = []
    for order in ([0, 1, *range(2, 34)], [1, 0, *range(2, 34)]):
        both = wide_q[..., order], wide_k[..., order]
        output = scaled_dot_product_attention(*both, wide_v, is_causal=True, scale=32**-0.5)[..., 2:]
        errors.append(error(q, k, v, slopes, output, rows))
    assert errors[0] < 5e-6
    assert errors[1] > 20 * errors[0]


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_error_is_at_most_1_5_times_that_of_the_mask(dtype: torch.dtype) -> None:
    q, k, v = unit_normal(8, 2048, 32, dtype)
    slopes, rows = alibi_slopes(8), torch.arange(2047, 0, -37)
    folded = error(q, k, v, slopes, alibi_attention(q, k, v, slopes, backend="folded"), rows)
    masked = error(q, k, v, slopes, alibi_attention(q, k, v, slopes, backend="mask"), rows)
    assert folded < 1.5 * masked


def test_bfloat16_without_split_positions_is_ten_times_less_accurate() -> None:
    q, k, v = unit_normal(8, 2048, 32, torch.bfloat16)
    slopes, positions, rows = alibi_slopes(8), torch.arange(2048.0), torch.arange(2047, 0, -37)
    for_key = torch.stack((torch.ones(2048), positions), -1).to(torch.bfloat16)
    for_query = (slopes[:, None, None] * torch.stack((-positions, torch.ones(2048)), -1)).to(torch.bfloat16)
    wide_q = torch.cat((for_query[None], q * 32**-0.5), -1)
    wide_k = torch.cat((for_key.expand(1, 8, -1, -1), k), -1)
    output = scaled_dot_product_attention(wide_q, wide_k, pad(v, (2, 0)), is_causal=True, scale=1.0)[..., 2:]
    split = alibi_attention(q, k, v, slopes, backend="folded")
    assert error(q, k, v, slopes, output, rows) > 10 * error(q, k, v, slopes, split, rows)


def test_gradients_equal_those_of_the_mask() -> None:
    tensors = [t.requires_grad_() for t in (*unit_normal(8, 1024, 32), alibi_slopes(8))]
    q, k, v, slopes = tensors
    gradients = []
    for backend in ("mask", "folded"):
        output = alibi_attention(q, k, v, slopes, backend=backend)
        weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
        gradients.append(torch.autograd.grad((output * weight).sum(), tensors))
    for name, masked, folded in zip(("query", "key", "value", "slopes"), *gradients, strict=True):
        tolerance = 1e-3 if name == "slopes" else 2e-5
        assert torch.allclose(folded, masked, rtol=tolerance, atol=tolerance * float(masked.abs().max())), name


def test_no_query_by_key_tensor_is_allocated() -> None:
    class LargestTensor(TorchDispatchMode):
        numel = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            for tensor in result if isinstance(result, tuple) else (result,):
                if isinstance(tensor, Tensor):
                    self.numel = max(self.numel, tensor.numel())
            return result

    q, k, v = unit_normal(4, 4096, 32)
    with LargestTensor() as largest:
        alibi_attention(q, k, v, alibi_slopes(4))
    assert largest.numel == 4 * 4096 * (32 + 2)


def test_output_does_not_depend_on_the_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = torch.randn(3, 3, 4, 50, 8, dtype=torch.float64)
    is_real = torch.rand(3, 50) < 0.7
    positions = torch.rand(3, 50).mul(9).long().cumsum(1)
    for size in (10**9, 2 * 50 * 8 * 8, 1):  # all heads at once; two heads at a time; one head
        monkeypatch.setattr("alibi_viz.attention.folded._CHUNK_BYTES", size)
        for case in ({}, {"key_padding_mask": is_real}, {"positions": positions}, {"positions": positions[0]}):
            folded = alibi_attention(q, k[:, :2], v[:, :2], alibi_slopes(4), backend="folded", **case)
            eager = alibi_attention(q, k[:, :2], v[:, :2], alibi_slopes(4), backend="eager", **case)
            assert torch.allclose(folded, eager, atol=1e-12)


def test_unsupported_calls_raise_with_the_reason_and_auto_selects_the_mask() -> None:
    q, k, v = unit_normal(2, 2049, 8)
    slopes = alibi_slopes(2)
    assert choose_backend(q, k, slopes).name == "folded"
    cases = [({"causal": False}, r"-m \|i - j\|"), ({"attn_mask": causal_mask(2049)[None, None]}, "attn_mask needs")]
    for case, reason in cases:
        with pytest.raises(ValueError, match=f"backend 'folded' does not support this call: .*{reason}"):
            alibi_attention(q, k, v, slopes, backend="folded", **case)
        choice = choose_backend(q, k, slopes, **case)
        assert choice.name == "mask"
        assert choice.reason.startswith("'folded' does not support this call: ")
    with pytest.raises(ValueError, match="there must be as many queries as keys"):
        alibi_attention(q[:, :, 1:], k, v, slopes, backend="folded")
    with pytest.raises(ValueError, match="may be too large for half precision"):
        alibi_attention(q.half(), k.half(), v.half(), slopes, positions=torch.arange(2049), backend="folded")
    learned_slopes = slopes.clone().requires_grad_()
    assert choose_backend(q, k, learned_slopes).name == "folded"
    assert choose_backend(q.half(), k.half(), learned_slopes).reason.startswith("'folded' would round the gradient")
    assert choose_backend(q[:, :, :300], k[:, :, :300], learned_slopes).reason.startswith("with fewer than 768 queries")
