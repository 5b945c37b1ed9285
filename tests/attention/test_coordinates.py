import math

import pytest
import torch
from alibi_viz.attention.coordinates import coordinates
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from alibi_viz import alibi_attention, alibi_slopes, attention_trace, bias_from_positions, fold

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


def plain_attention(folded_q: Tensor, folded_k: Tensor, v: Tensor, *, is_causal: bool = True) -> Tensor:
    """Attention without ALiBi, with the scale of the unfolded queries."""
    head_dim = v.shape[-1]
    value = pad(v, (0, folded_k.shape[-1] - head_dim))
    options = {"is_causal": is_causal, "scale": head_dim**-0.5, "enable_gqa": True}
    return scaled_dot_product_attention(folded_q, folded_k, value, **options)[..., :head_dim]


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
        _, key = coordinates(torch.ones(1), torch.arange(65_504), dtype)
        assert torch.equal(key[0, :, 1].double() + key[0, :, 2].double(), torch.arange(65_504).double())


@pytest.mark.parametrize(
    ("dtype", "documented"), [(torch.float32, 1e-6), (torch.bfloat16, 9e-3), (torch.float16, 1e-3)]
)
def test_error_of_folding_is_the_documented_one(dtype: torch.dtype, documented: float) -> None:
    q, k, v = unit_normal(8, 4096, 64, dtype)
    slopes, rows = alibi_slopes(8), torch.cat((torch.arange(200), torch.arange(200, 4096, 37)))
    output = plain_attention(*fold(q, k, slopes), v)
    assert output.dtype == dtype
    assert documented / 2 < error(q, k, v, slopes, output, rows) < documented * 2


def test_swapping_the_two_coordinates_makes_the_error_twenty_times_larger() -> None:
    q, k, v = unit_normal(8, 4096, 32)
    slopes, rows = alibi_slopes(8), torch.arange(4095, 0, -37)
    wide_q, wide_k = fold(q, k, slopes)
    errors = []
    for order in ([0, 1, *range(2, 34)], [1, 0, *range(2, 34)]):
        both = wide_q[..., order], wide_k[..., order]
        output = scaled_dot_product_attention(*both, pad(v, (0, 2)), is_causal=True, scale=32**-0.5)[..., :32]
        errors.append(error(q, k, v, slopes, output, rows))
    assert errors[0] < 5e-6
    assert errors[1] > 20 * errors[0]


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


@pytest.mark.parametrize("positions", [None, torch.tensor([0, 1, 5, 6, 7, 20]), torch.randint(9, (2, 6)).cumsum(1)])
def test_fewer_queries_than_keys_and_grouped_heads_equal_eager(positions: Tensor | None) -> None:
    q, k, v = (torch.randn(2, heads, 6, 8, dtype=torch.float64) for heads in (4, 2, 2))
    slopes = torch.tensor([0.5, 0.0, -0.2, 3.0])
    folded_q, folded_k = fold(q[:, :, 2:], k, slopes, positions=positions)
    assert folded_q.shape == (2, 4, 4, 10)
    assert folded_k.shape == (2, 2, 6, 10)
    logits = folded_q @ folded_k.repeat_interleave(2, dim=1).mT * 8**-0.5
    weights = logits.masked_fill(~torch.ones(4, 6, dtype=torch.bool).tril(2), -math.inf).softmax(-1)
    expected = attention_trace(q[:, :, 2:], k, slopes, positions=positions)
    assert torch.allclose(weights, expected.weights, atol=1e-12)
    expected_output = alibi_attention(q, k, v, slopes, positions=positions, backend="eager")
    assert torch.allclose(plain_attention(*fold(q, k, slopes, positions=positions), v), expected_output, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)])
def test_new_queries_attend_to_cached_keys_that_were_folded_once(dtype: torch.dtype, tolerance: float) -> None:
    q, k, v = unit_normal(4, 600, 16, dtype)
    slopes, half = alibi_slopes(4), 300
    cached = fold(q[:, :, :half], k[:, :, :half], slopes)[1]
    for position in range(half, 600):
        token = slice(position, position + 1)
        if position == 400:
            slopes = slopes / 2  # the cached keys don't depend on the slopes
        folded_q, folded_k = fold(q[:, :, token], k[:, :, token], slopes, positions=torch.tensor([position]))
        cached = torch.cat((cached, folded_k), dim=2)
        output = plain_attention(folded_q, cached, v[:, :, : position + 1], is_causal=False)
        if position in (half, 399, 400, 599):
            expected = alibi_attention(*(t[:, :, : position + 1].double() for t in (q, k, v)), slopes, backend="eager")
            assert torch.allclose(output.double(), expected[:, :, -1:], atol=tolerance)


def test_gradients_flow_to_query_key_and_slopes() -> None:
    tensors = [torch.randn(1, 2, 5, 3, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    slopes = torch.tensor([0.5, 0.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda q, k, v, m: plain_attention(*fold(q, k, m), v), (*tensors, slopes))


@pytest.mark.parametrize("dtype", HALF)
def test_slope_gradients_in_half_precision_are_those_of_float64_to_its_rounding(dtype: torch.dtype) -> None:
    q, k, v = unit_normal(4, 500, 16, dtype)
    weight = torch.randn(v.shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    gradients = []
    for cast in (dtype, torch.float64):
        slopes = alibi_slopes(4).requires_grad_()
        output = plain_attention(*fold(q.to(cast), k.to(cast), slopes), v.to(cast))
        (output * weight.to(cast)).sum().backward()
        gradients.append(slopes.grad)
    assert torch.allclose(*gradients, rtol=0.05, atol=0.01 * float(gradients[1].abs().max()))


def test_default_scale_of_the_kernel_would_be_wrong() -> None:
    q, k, v = unit_normal(2, 50, 16)
    folded_q, folded_k = fold(q, k, alibi_slopes(2))
    output = scaled_dot_product_attention(folded_q, folded_k, pad(v, (0, 2)), is_causal=True)[..., :16]
    expected = plain_attention(folded_q, folded_k, v)
    assert float((output - expected).abs().max()) > 1e-2


def test_folding_under_autocast_keeps_positions_exact() -> None:
    q, k, v = unit_normal(2, 2000, 16)
    slopes = alibi_slopes(2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        folded_q, folded_k = fold(q, k, slopes)
        assert folded_q.dtype == folded_k.dtype == torch.bfloat16
        output = plain_attention(folded_q, folded_k, v)
    assert torch.allclose(output.float(), alibi_attention(q, k, v, slopes, backend="eager"), atol=5e-2)


def test_fold_compiles_to_one_graph() -> None:
    q, k, _ = unit_normal(2, 40, 16)
    folded = torch.compile(fold, backend="eager", fullgraph=True)(q, k, alibi_slopes(2))
    assert all(map(torch.equal, folded, fold(q, k, alibi_slopes(2))))


def test_errors_name_the_tensor_and_its_shape() -> None:
    q, slopes = torch.randn(1, 2, 8, 16), alibi_slopes(2)
    half = q.half()
    cases = [
        ((q, q[..., :15], slopes), {}, r"key must be .* \[1, 2 or a divisor of it, 8, 16\] .* got \[1, 2, 8, 15\]"),
        ((q, q[:, :, 1:], slopes), {}, "query length 8 must be at most the key length 7"),
        ((q, half, slopes), {}, "key must have the dtype and device of query"),
        ((q, q, slopes[:1]), {}, r"slopes must be \[heads\] = \[2\] to match query, got shape \[1\]"),
        ((q, q, None), {}, "slopes must be a floating-point tensor"),
        ((q, q, slopes), {"scale": 0.0}, "the scale, which must be positive, got 0.0"),
        ((q, q, slopes), {"positions": torch.arange(7)}, r"positions must be \[key\] = \[8\] .* got \[7\]"),
        ((q, q, slopes), {"positions": torch.arange(8) + 2**24}, "float32 distinguishes positions only up to 16777216"),
        (
            (half, half, slopes),
            {"positions": torch.arange(8) + 65_497},
            "float16 represents positions only up to 65503",
        ),
        ((half, half, slopes * 1e6), {}, "float16 overflows"),
    ]
    for arguments, options, message in cases:
        with pytest.raises((TypeError, ValueError), match=message):
            fold(*arguments, **options)
