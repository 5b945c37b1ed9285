import pytest
import torch

from alibi_viz import alibi_attention, alibi_slopes, causal_mask, choose_backend
from alibi_viz.bias import shared_bias
from tests.attention.test_coordinates import HALF, error, unit_normal
from tests.largest_tensor import LargestTensor


@pytest.mark.parametrize("heads", [8, 12])
@pytest.mark.parametrize("length", [1024, 4096])
def test_folding_is_as_accurate_as_the_mask(heads: int, length: int) -> None:
    q, k, v = unit_normal(heads, length, 32)
    slopes, rows = alibi_slopes(heads), torch.arange(length - 1, 0, -37)
    folded = error(q, k, v, slopes, alibi_attention(q, k, v, slopes, backend="folded"), rows)
    masked = error(q, k, v, slopes, alibi_attention(q, k, v, slopes, backend="mask"), rows)
    assert folded < 5e-6
    assert folded < 2 * masked + 1e-6


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_error_is_at_most_1_5_times_that_of_the_mask(dtype: torch.dtype) -> None:
    q, k, v = unit_normal(8, 2048, 32, dtype)
    slopes, rows = alibi_slopes(8), torch.arange(2047, 0, -37)
    folded = error(q, k, v, slopes, alibi_attention(q, k, v, slopes, backend="folded"), rows)
    masked = error(q, k, v, slopes, alibi_attention(q, k, v, slopes, backend="mask"), rows)
    assert folded < 1.5 * masked


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
    q, k, v = unit_normal(4, 4096, 32)
    with LargestTensor() as largest:
        alibi_attention(q, k, v, alibi_slopes(4), backend="folded")
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


@pytest.mark.parametrize("slope", [0.7, -0.7])
def test_padding_in_a_sequence_with_gaps_has_weight_0_however_near_or_far(slope: float) -> None:
    q, k, v = torch.randn(3, 1, 1, 6, 8)
    is_real = torch.tensor([[False, False, True, False, True, False]])
    positions = torch.tensor([0, 3, 1000, 1003, 1010, 2000])
    options = {"key_padding_mask": is_real, "positions": positions}
    folded = alibi_attention(q, k, v, torch.tensor([slope]), backend="folded", **options)
    eager = alibi_attention(q, k, v, torch.tensor([slope]), backend="eager", **options)
    assert torch.allclose(folded, eager, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_nan_in_a_query_of_a_padded_batch_changes_no_other_row(dtype: torch.dtype) -> None:
    q, k, v = torch.randn(3, 2, 2, 6, 8).to(dtype)
    q[1, 0, 2, 3] = torch.nan
    is_real = torch.arange(6) < torch.tensor([[4], [6]])
    folded = alibi_attention(q, k, v, alibi_slopes(2), key_padding_mask=is_real, backend="folded")
    eager = alibi_attention(q, k, v, alibi_slopes(2), key_padding_mask=is_real, backend="eager")
    assert eager[1, 0, 2].isnan().all()
    folded[1, 0, 2] = eager[1, 0, 2] = 0.0  # torch's kernels return NaN or 0
    assert torch.allclose(folded, eager, atol=1e-6 if dtype == torch.float32 else 2e-2)


def test_unsupported_calls_raise_with_the_reason() -> None:
    q, k, v = unit_normal(2, 2049, 8)
    slopes = alibi_slopes(2)
    cases = [
        ({"causal": False}, r"-m \|i - j\|"),
        ({"attn_mask": causal_mask(2049)[None, None]}, "attn_mask needs"),
        ({"scale": 0.0}, "the scale, which must be positive"),
    ]
    for case, reason in cases:
        with pytest.raises(ValueError, match=f"backend 'folded' does not support this call: .*{reason}"):
            alibi_attention(q, k, v, slopes, backend="folded", **case)
    with pytest.raises(ValueError, match="there must be as many queries as keys"):
        alibi_attention(q[:, :, 1:], k, v, slopes, backend="folded")
    with pytest.raises(ValueError, match="may be too large for half precision"):
        alibi_attention(q.half(), k.half(), v.half(), slopes, positions=torch.arange(2049), backend="folded")


def test_auto_selects_folded_with_a_reason_or_the_mask_with_the_reason_against_it() -> None:
    q, k, _ = unit_normal(2, 2049, 8)
    slopes, learned_slopes = alibi_slopes(2), alibi_slopes(2).requires_grad_()
    padding = {"key_padding_mask": torch.arange(2049)[None] > 0}  # which "windowed" does not support
    assert choose_backend(q, k, None).name == "folded"
    assert choose_backend(q, k, learned_slopes, **padding).name == "folded"
    for case in ({"attn_mask": causal_mask(2049)[None, None]}, {"causal": False, **padding}):
        choice = choose_backend(q, k, slopes, **case)
        assert choice.name == "mask"
        assert choice.reason.startswith("'folded' does not support this call: ")
    assert choose_backend(q.half(), k.half(), learned_slopes).reason.startswith("'folded' would round the gradient")


@pytest.mark.parametrize(
    ("fewest", "needs_gradient", "learned"), [(384, False, False), (640, True, False), (192, False, True)]
)
def test_auto_selects_folded_from_where_it_is_faster_than_a_mask(
    fewest: int, needs_gradient: bool, learned: bool
) -> None:
    slopes = alibi_slopes(2).requires_grad_(learned)
    for length, name in ((fewest, "folded"), (fewest - 1, "mask")):
        query = torch.zeros(1, 2, length, 8, requires_grad=needs_gradient)
        padding = {} if learned else {"key_padding_mask": torch.arange(length)[None] > 0}
        choice = choose_backend(query, query.detach(), slopes, **padding)
        assert (choice.name, str(fewest) in choice.reason) == (name, True)


@torch.no_grad()
def test_slopes_that_could_get_a_gradient_are_fixed_without_autograd() -> None:
    q, k, v = unit_normal(2, 300, 8)
    slopes = alibi_slopes(2).requires_grad_()
    assert choose_backend(q, k, slopes).name == "strip"
    assert shared_bias(slopes, causal=True) is shared_bias(slopes.detach(), causal=True)
    assert torch.equal(alibi_attention(q, k, v, slopes), alibi_attention(q, k, v, slopes.detach()))
