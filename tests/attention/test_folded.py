"""ALiBi as more coordinates of queries and keys: `fold`, and the backend that uses it."""

import math
import os
from fractions import Fraction
from functools import partial
from itertools import product
from operator import mul

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

from alibi_viz import (
    alibi_attention,
    alibi_slopes,
    attention_trace,
    choose_backend,
    fold,
)
from alibi_viz.attention.folded import coordinates
from tests.attention.cases import HALF, expected, largest_error, normal, qkv
from tests.rows import each_case

SLOPES = alibi_slopes(8)


def plain_attention(folded_q, folded_k, v, *, is_causal=True):
    """Attention without ALiBi, with the scale of the unfolded queries."""
    head_dim = v.shape[-1]
    value = pad(v, (0, folded_k.shape[-1] - head_dim))
    output = scaled_dot_product_attention(
        folded_q, folded_k, value, is_causal=is_causal, scale=head_dim**-0.5, enable_gqa=True
    )
    return output[..., :head_dim]


@each_case(
    ("dtype", "scale", "tolerance"),  # for biases up to 2,100
    {
        "float64": (torch.float64, 32**-0.5, 1e-9),
        "float32": (torch.float32, 32**-0.5, 1e-4),
        "float16": (torch.float16, 32**-0.5, 2e-4),
        "bfloat16": (torch.bfloat16, 32**-0.5, 1e-3),
        "scale 1": (torch.bfloat16, 1.0, 1e-3),
    },
)
def test_product_of_coordinates_is_the_bias_but_for_a_constant(dtype, scale, tolerance):
    slopes = alibi_slopes(12)
    length = 3000
    query, key = coordinates(slopes, torch.arange(1 - length, 1), dtype, scale)
    assert query.dtype == dtype
    assert key.dtype == dtype

    rows = torch.arange(0, length, 97)  # a few queries, with every key
    product = (query[:, rows].double() @ key.double().mT) * scale
    # The value at the query's own key is a constant of the row, which cancels in the softmax.
    constant = product[:, torch.arange(len(rows)), rows][..., None]
    distance = rows[:, None] - torch.arange(length)
    bias = -slopes.double()[:, None, None] * distance
    assert float((product - constant - bias).abs().max()) < tolerance
    assert float(constant.abs().max()) < 10, "a large constant would cost digits"


# Rounding, whatever the order in which a kernel adds the channels


def sum_in_order(terms):
    """The sums over the last axis, one channel after the other."""
    total = terms[..., 0]
    for channel in range(1, terms.shape[-1]):
        total = total + terms[..., channel]
    return total


def sums_in_several_orders(folded_q, folded_k):
    """{order: q . k for all pairs of query and key}, in the dtype in which kernels add."""
    if folded_q.element_size() == 2:
        folded_q = folded_q.float()
        folded_k = folded_k.float()
    terms = folded_q[..., :, None, :] * folded_k[..., None, :, :]
    last_to_first = torch.arange(terms.shape[-1] - 1, -1, -1)
    return {
        "in order": sum_in_order(terms),
        "in reverse": sum_in_order(terms[..., last_to_first]),
        # The row's coordinate, the content, and the key's coordinates, so -m i and m j meet last
        "content between": sum_in_order(terms.roll(-1, -1)[..., last_to_first]),
        "as torch adds": terms.sum(-1),
        "as this machine multiplies matrices": folded_q @ folded_k.mT,
    }


def eps_of_sums(dtype):
    """The eps of the dtype in which kernels add."""
    return torch.finfo(torch.promote_types(dtype, torch.float32)).eps


def largest_position(dtype, head_dim):
    """The largest at which no order of sums moves a key by more than half a step."""
    channels = head_dim + (5 if dtype in HALF else 2)
    largest_distinct = int(1 / (channels * eps_of_sums(dtype)))
    # Half precision stores a position as the sum of a coarse and a fine part. The largest sum is
    # below 65504, the largest number of float16.
    return min(largest_distinct, 65_503) if dtype in HALF else largest_distinct


def exact_products(folded_q, folded_k):
    """q . k for all pairs of query and key, in fractions, rounded to float64 at the end."""
    products = torch.zeros(*folded_q.shape[:3], folded_k.shape[2], dtype=torch.float64)
    for row, head, query, key in product(*map(range, products.shape)):
        left = map(Fraction, folded_q[row, head, query].tolist())
        right = map(Fraction, folded_k[row, head, key].tolist())
        products[row, head, query, key] = float(sum(map(mul, left, right)))
    return products


each_dtype = each_case(
    ("dtype", "head_dim"),
    {
        "float64": (torch.float64, 16),
        "float32": (torch.float32, 16),
        "bfloat16": (torch.bfloat16, 16),
        "float16 with many channels": (torch.float16, 200),
    },
)


@each_dtype
@pytest.mark.parametrize("sign", [1, -1], ids=["ahead", "behind"])
def test_a_logit_is_within_the_documented_bound_in_any_order(dtype, head_dim, sign):
    far = largest_position(dtype, head_dim)
    positions = sign * torch.arange(far - 3, far + 1)
    slopes = torch.tensor([0.7, 0.0625])
    query, key = normal(2, 1, 2, 4, head_dim, dtype=dtype)
    folded_q, folded_k = fold(query, key, slopes, positions=positions, scale=1.0)

    content = (query.double().abs() @ key.double().abs().mT).amax((0, 2, 3))  # [heads]
    channels = folded_q.shape[-1]
    bound = channels / 2 * eps_of_sums(dtype) * (slopes.double() * far + content)
    # In half precision, -m i is rounded, so the sums are up to this much larger.
    bound *= 1 + torch.finfo(torch.bfloat16).eps
    exact = exact_products(folded_q, folded_k)
    for order, logits in sums_in_several_orders(folded_q, folded_k).items():
        errors = (logits.double() - exact).abs().amax((0, 2, 3))
        assert bool((errors <= bound).all()), order


@each_dtype
def test_up_to_the_largest_position_a_nearer_key_has_a_larger_bias_in_any_order(dtype, head_dim):
    far = largest_position(dtype, head_dim)
    ones = torch.ones(1, 2, 8, head_dim, dtype=dtype)
    slopes = torch.tensor([0.7, 0.0625])
    folded = fold(ones, ones, slopes, positions=torch.arange(far - 7, far + 1), scale=1.0)
    for order, logits in sums_in_several_orders(*folded).items():
        assert bool((logits.diff() > 0).all()), order


def test_the_bound_is_nearly_reached_where_every_channel_is_lost():
    """A bound that is much too large would refuse positions without need."""
    far = 2**18
    ones = torch.ones(1, 1, 1, 16)
    content = 2**-6 - 2**-20  # less than half a unit in the last place of 2^18
    folded = fold(ones, -content * ones, torch.ones(1), positions=torch.tensor([far]), scale=1.0)
    sums = sums_in_several_orders(*folded)
    error = float(sums["content between"] + 16 * content)
    bound = 18 / 2 * torch.finfo(torch.float32).eps * (far + 16 * content)
    assert 0.8 * bound < error <= bound


# Rounding by the kernel that the documentation names: torch's flash attention for the CPU

# Elements of the output, for unit normal inputs
DOCUMENTED = {torch.float32: 16, torch.bfloat16: 2, torch.float16: 2}
LAST_ROWS = 100
needs_mkl = pytest.mark.skipif(
    not torch.backends.mkl.is_available(),
    reason="tests the order in which MKL adds; `pip install torch` has it on x86 processors",
)
# MKL then multiplies without a fused multiply-add.
IS_COMPATIBLE = os.environ.get("MKL_CBWR", "").startswith("COMPATIBLE")


def error_in_eps(q, k, v, slopes, output):
    """The largest difference from float64 in the last rows."""
    exact = expected(q[:, :, -LAST_ROWS:], k, v, slopes)
    error = (output[:, :, -LAST_ROWS:] - exact).abs().max()
    return float(error) / torch.finfo(output.dtype).eps


@needs_mkl
@each_case(
    ("length", "queries", "dtype", "slopes"),
    {
        "float32": (4096, 4096, torch.float32, SLOPES[[0, -1]]),
        "bfloat16": (4096, 4096, torch.bfloat16, SLOPES[[0, -1]]),
        "float16": (4096, 4096, torch.float16, SLOPES[[0, -1]]),
        # MKL adds the channels of fewer than 16 queries in another order.
        "few queries in the last block": (4100, 4100, torch.float32, SLOPES[[0, -1]]),
        "one query": (16_390, 1, torch.float32, SLOPES[[0, -1]]),
        "slopes that are not powers of two": (
            4100,
            4100,
            torch.float32,
            alibi_slopes(12)[[8, 3]],
        ),
    },
)
def test_flash_attention_of_torch_is_as_exact_as_documented(length, queries, dtype, slopes):
    if IS_COMPATIBLE and dtype == torch.float32 and bool(slopes.log2().frac().any()):
        pytest.skip("with MKL_CBWR=COMPATIBLE, products of other slopes are rounded")
    q, k, v = qkv(length, heads=2, dim=64, dtype=dtype)
    q = q[:, :, length - queries :]
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        # `is_causal` of torch counts queries from the first key. The last one sees all keys.
        output = plain_attention(*fold(q, k, slopes), v, is_causal=queries == length)
    assert output.dtype == dtype
    assert error_in_eps(q, k, v, slopes, output) < DOCUMENTED[dtype]


@each_case(
    ("length", "dim", "first"),
    {
        "few queries in the last block": (1031, 64, 0),
        "scale that is no power of two": (1000, 32, 0),
        "far positions": (1000, 64, 2**40),
    },
)
@needs_mkl
def test_outputs_and_gradients_of_the_backend_are_as_exact_as_documented(length, dim, first):
    options = {
        "key_padding_mask": torch.arange(length)[None] > 2,
        "positions": first + torch.arange(length) if first else None,
    }
    results = {}
    for backend, dtype in (("folded", torch.float32), ("eager", torch.float64)):
        tensors = [tensor.requires_grad_() for tensor in qkv(length, heads=2, dim=dim, dtype=dtype)]
        output = alibi_attention(*tensors, SLOPES[[0, -1]], backend=backend, **options)
        gradients = torch.autograd.grad(output.sin().sum(), tensors)
        results[backend] = [output.detach(), *gradients]
    for folded, exact in zip(results["folded"], results["eager"], strict=True):
        assert float((folded - exact).abs().max()) < 4e-6 * float(exact.abs().max())


# What is folded

# Six tokens in four heads, of which two share a key head.
GROUPED = torch.tensor([0.5, 0.0, -0.2, 3.0])
POSITIONS = each_case(
    "positions",
    {
        "consecutive": None,
        "with gaps": torch.tensor([0, 1, 5, 6, 7, 20]),
        "per row": torch.tensor([[0, 2, 3, 9, 9, 10], [8, 8, 9, 11, 15, 23]]),
    },
)


@POSITIONS
def test_folding_fewer_queries_than_keys_gives_the_weights_of_eager(positions):
    q, k, _ = qkv(6, dim=8, batch=2)
    q = q[:, :, 2:]
    k = k[:, :2]
    folded_q, folded_k = fold(q, k, GROUPED, positions=positions)
    assert folded_q.shape == (2, 4, 4, 10)
    assert folded_k.shape == (2, 2, 6, 10)

    logits = folded_q @ folded_k.repeat_interleave(2, dim=1).mT * 8**-0.5
    is_visible = torch.ones(4, 6, dtype=torch.bool).tril(2)
    weights = logits.masked_fill(~is_visible, -math.inf).softmax(-1)
    exact = attention_trace(q, k, GROUPED, positions=positions).weights
    assert torch.allclose(weights, exact, atol=1e-12)


@POSITIONS
def test_folding_grouped_heads_gives_the_output_of_eager(positions):
    q, k, v = qkv(6, dim=8, batch=2)
    k = k[:, :2]
    v = v[:, :2]
    output = plain_attention(*fold(q, k, GROUPED, positions=positions), v)
    eager = alibi_attention(q, k, v, GROUPED, positions=positions, backend="eager")
    assert torch.allclose(output, eager, atol=1e-12)


def test_without_positions_the_last_key_has_position_0():
    q, k, _ = qkv(5, dim=8)
    by_default = fold(q, k, GROUPED)
    from_the_last = fold(q, k, GROUPED, positions=torch.arange(-4, 1))
    assert all(map(torch.equal, by_default, from_the_last))


@each_case(
    ("dtype", "tolerance"),
    {
        "float64": (torch.float64, 1e-10),
        "bfloat16": (torch.bfloat16, 3 * torch.finfo(torch.bfloat16).eps),
    },
)
@pytest.mark.parametrize("token", [300, 599])
def test_new_queries_attend_to_cached_keys_that_were_folded_once(token, dtype, tolerance):
    q, k, v = qkv(600, dim=16, dtype=dtype)
    slopes = alibi_slopes(4)
    # Folded keys don't depend on the slopes, so other slopes may have folded them.
    _, cached = fold(q[:, :, :300], k[:, :, :300], 2 * slopes, positions=torch.arange(300))
    new_queries, new_keys = fold(
        q[:, :, 300:], k[:, :, 300:], slopes, positions=torch.arange(300, 600)
    )

    end = token + 1
    query = new_queries[:, :, token - 300, None]
    keys = torch.cat((cached, new_keys), dim=2)[:, :, :end]
    output = plain_attention(query, keys, v[:, :, :end], is_causal=False)
    exact = expected(q[:, :, token, None], k[:, :, :end], v[:, :, :end], slopes)
    assert torch.allclose(output.double(), exact, atol=tolerance)


@pytest.mark.parametrize("dtype", HALF)
def test_slope_gradients_in_half_precision_are_those_of_float64(dtype):
    q, k, v = qkv(500, dim=16, dtype=dtype)

    def gradient(compute_dtype):
        slopes = alibi_slopes(4).requires_grad_()
        folded = fold(q.to(compute_dtype), k.to(compute_dtype), slopes)
        output = plain_attention(*folded, v.to(compute_dtype))
        loss = (output.float() * 999 * q).sum()
        return torch.autograd.grad(loss, slopes)[0]

    exact = gradient(torch.float64)
    largest = float(exact.abs().max())
    assert torch.allclose(gradient(dtype), exact, rtol=0.05, atol=0.01 * largest)


# What can be folded ends here, for eight tokens and a scale of 0.25.
LARGEST = {
    # The coordinate slope / scale must not exceed 65504, the largest number of float16.
    "slope in float16": 65_504 * 0.25,
    # The query of the first position has the coordinate 7 * slope / scale, which must not exceed
    # 3.4028e38, the largest number of float32: 0.25 / 7 of it, rounded down.
    "slope in float32": 1.2152e37,
}
SHORT = alibi_slopes(2)
FIRST = torch.arange(8)  # positions, to be shifted
UP_TO_1 = torch.tensor([1.0, 0.0625])  # slopes
# One key more than half precision has positions for
LONG = torch.zeros(1, 1, largest_position(torch.float16, 16) + 2, 16, dtype=torch.float16)


def arguments_of_fold(dtype, **others):
    """Eight tokens of equal content in two heads."""
    ones = torch.ones(1, 2, 8, 16, dtype=dtype)
    return {"query": ones, "key": ones, "slopes": SHORT, "scale": 0.25} | others


@each_case(
    ("dtype", "wrong", "message"),
    {
        "no slopes": (torch.float32, {"slopes": None}, "slopes must be a floating-point tensor"),
        "scale 0": (torch.float32, {"scale": 0.0}, "the scale, which must be positive, got 0.0"),
        "float32, far position": (
            torch.float32,
            {"positions": FIRST + largest_position(torch.float32, 16) - 6},
            "float32 tells positions apart only up to 466033 with 16 channels",
        ),
        "float64, the farthest negative position": (
            torch.float64,
            {"positions": FIRST - 2**63},
            "float64 tells positions apart only up to 250199979298360 with 16 channels",
        ),
        "bfloat16, far negative position": (
            torch.bfloat16,
            {"positions": FIRST - largest_position(torch.bfloat16, 16) - 1},
            "bfloat16 represents positions only up to 65503",
        ),
        "float16, many keys": (
            torch.float16,
            {"key": LONG},
            "float16 represents positions only up to 65503",
        ),
        "float16, steep slopes": (
            torch.float16,
            {"slopes": -1.0001 * LARGEST["slope in float16"] * UP_TO_1},
            "float16 overflows with a scale of 0.25",
        ),
        "float32, steep slopes": (
            torch.float32,
            {"slopes": 1.0001 * LARGEST["slope in float32"] * UP_TO_1},
            "float32 overflows .* slopes up to 1.2",
        ),
    },
)
def test_fold_says_what_cannot_be_folded(dtype, wrong, message):
    with pytest.raises((TypeError, ValueError), match=message):
        fold(**arguments_of_fold(dtype, **wrong))


@each_case(
    ("dtype", "extreme"),
    {
        "tiny scale": (torch.float32, {"scale": 1e-30}),
        "float16, many keys": (torch.float16, {"key": LONG[:, :, 1:]}),
        "float16, steep slopes": (
            torch.float16,
            {"slopes": -LARGEST["slope in float16"] * UP_TO_1},
        ),
        "float32, steep slopes": (torch.float32, {"slopes": LARGEST["slope in float32"] * UP_TO_1}),
    },
)
def test_fold_is_exact_up_to_its_limits(dtype, extreme):
    arguments = arguments_of_fold(dtype, **extreme)
    query, key = fold(**arguments)
    logits = query.double() @ key.double().mT * arguments["scale"]
    # The content is the same for all keys, so neighboring logits differ by the slope.
    steps = logits.diff()
    slopes = arguments["slopes"].double()[:, None, None]
    assert torch.allclose(steps, slopes.expand_as(steps), rtol=1e-6, atol=0)


# The backend


@each_case(
    ("first", "padded"),
    {
        "far ahead": (100_000_000, False),
        "far behind": (-(2**40), False),
        "behind, padded": (-11_000, True),
    },
)
def test_shifting_all_positions_does_not_change_the_output(first, padded):
    q, k, v = qkv(500, batch=2, dtype=torch.float32)
    slopes = alibi_slopes(4)
    key_padding_mask = torch.arange(500).expand(2, -1) >= 9 if padded else None
    backend_of = partial(choose_backend, q, k, slopes, key_padding_mask=key_padding_mask)
    output_of = partial(alibi_attention, q, k, v, slopes, key_padding_mask=key_padding_mask)
    positions = torch.arange(500) + torch.tensor([[0], [7]])
    shifted = positions + torch.tensor([[first], [0]])
    assert backend_of(positions=shifted).name == "folded"
    assert torch.equal(output_of(positions=shifted), output_of(positions=positions))


def test_positions_that_span_more_than_can_be_told_apart_get_a_mask():
    q, k, _ = qkv(500, dtype=torch.float32)
    backend_of = partial(choose_backend, q, k, alibi_slopes(4))
    positions = torch.arange(500)
    farthest = largest_position(torch.float32, 16)
    positions[-1] = farthest
    assert backend_of(positions=positions).name == "folded"
    positions[-1] = farthest + 1
    assert backend_of(positions=positions).name == "mask"


@each_case(
    ("backend", "dtype", "first", "last"),
    {
        "folded, uint8": ("folded", torch.uint8, 56, 255),
        "mask, int8": ("mask", torch.int8, -72, 127),
        "eager, uint16": ("eager", torch.uint16, 0, 199),
    },
)
def test_positions_of_small_integer_dtypes_do_not_overflow(backend, dtype, first, last):
    positions = torch.arange(first, last + 1).to(dtype)
    q, k, v = qkv(200)
    error = largest_error(q, k, v, alibi_slopes(4), backend=backend, positions=positions)
    assert error < 1e-12


# The second half of the keys is real.
IS_REAL = torch.arange(600)[None] >= 300
EXTREMES = each_case(
    ("scale", "slopes", "factor"),
    {
        "tiny scale, no slopes": (1e-24, None, 1.0),
        "usual scale and slopes": (0.25, SLOPES[::2], 1.0),
        "large scale and queries, steep negative slopes": (300.0, -128 * SLOPES[::2], 60.0),
    },
)


def output_of_real_tokens(q, k, v, slopes, scale):
    output = alibi_attention(
        q, k, v, slopes, key_padding_mask=IS_REAL, scale=scale, backend="folded"
    )
    return output[:, :, 300:]


@EXTREMES
def test_output_with_padding_stays_within_the_real_values(factor, slopes, scale):
    q, k, v = qkv(600, dtype=torch.float32)
    largest = float(v[:, :, 300:].abs().max())
    output = output_of_real_tokens(factor * q, k, v, slopes, scale)
    assert float(output.abs().max()) <= largest * (1 + 1e-6)


@EXTREMES
def test_content_of_padding_does_not_change_the_output(factor, slopes, scale):
    """Its values are a million times larger, so a weight of 1e-12 would show."""
    q, k, v = qkv(600, dtype=torch.float32)
    is_padding = ~IS_REAL[0, :, None]
    large_keys = k.masked_fill(is_padding, 1e3)
    large_values = v.masked_fill(is_padding, 1e6)
    expected_output = output_of_real_tokens(factor * q, k, v, slopes, scale)
    output = output_of_real_tokens(factor * q, large_keys, large_values, slopes, scale)
    assert torch.equal(output, expected_output)


@pytest.mark.parametrize(("dtype", "least_scale"), [(torch.float16, 1e-6), (torch.float32, 1e-24)])
def test_padding_is_folded_down_to_the_least_scale_that_hides_it(dtype, least_scale):
    q, k, _ = qkv(900, heads=8, dim=32, dtype=dtype)
    is_real = torch.arange(900)[None] >= 40
    backend_of = partial(choose_backend, q, k, None, key_padding_mask=is_real)
    assert backend_of(scale=least_scale).name == "folded"
    assert backend_of(scale=0.99 * least_scale).name == "mask"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_padding_weighs_nothing_beside_real_logits_of_minus_2_million(dtype):
    length = 64
    q = torch.full((1, 1, length, 32), 512.0, dtype=dtype)
    k = torch.full_like(q, -512.0)  # with a scale of 0.25, all logits are -2^21 without rounding
    v = torch.ones_like(q)
    is_real = torch.arange(length)[None] >= 40
    v[:, :, :40] = 4096.0
    output = alibi_attention(q, k, v, None, key_padding_mask=is_real, scale=0.25, backend="folded")
    ones = torch.ones(1, 1, length - 40, 32, dtype=dtype)
    assert torch.allclose(output[:, :, 40:], ones, rtol=0, atol=2 * torch.finfo(dtype).eps)
    assert not output[:, :, :40].any()
