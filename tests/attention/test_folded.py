"""ALiBi as more coordinates of queries and keys: `fold`, and the backend that uses it."""

import math
from functools import partial

import pytest
import torch
from torch.nn.functional import pad, scaled_dot_product_attention

from alibi_viz import (
    alibi_attention,
    alibi_slopes,
    attention_trace,
    choose_backend,
    fold,
)
from alibi_viz.attention.folded import coordinates
from tests.attention.cases import HALF, expected, largest_error, qkv
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


@pytest.mark.parametrize(
    ("dtype", "tolerance"),  # for biases up to 2,100
    [
        (torch.float64, 1e-9),
        (torch.float32, 1e-4),
        (torch.float16, 2e-4),
        (torch.bfloat16, 1e-3),
    ],
)
@pytest.mark.parametrize("scale", [1.0, 32**-0.5])
def test_product_of_coordinates_is_the_bias_but_for_a_constant(dtype, tolerance, scale):
    slopes = alibi_slopes(12)
    length = 3000
    query, key = coordinates(slopes, torch.arange(length), dtype, scale)
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


# The error grows with the position, so it is measured in the last rows.
LENGTH = 4096
LAST_ROWS = 100
STEEPEST_AND_FLATTEST = SLOPES[[0, -1]]
STATED = [(torch.float32, 1e-6), (torch.bfloat16, 9e-3), (torch.float16, 1e-3)]


def error_of_last_rows(q, k, v, output):
    """The largest difference from float64."""
    exact = expected(q[:, :, -LAST_ROWS:], k, v, STEEPEST_AND_FLATTEST)
    return float((output[:, :, -LAST_ROWS:] - exact).abs().max())


@pytest.mark.parametrize(("dtype", "stated"), STATED)
def test_error_of_folding_is_the_documented_one(dtype, stated):
    q, k, v = qkv(LENGTH, heads=2, dim=64, dtype=dtype)
    output = plain_attention(*fold(q, k, STEEPEST_AND_FLATTEST), v)
    assert output.dtype == dtype
    assert stated / 3 < error_of_last_rows(q, k, v, output) < stated * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_folded_backend_is_about_as_exact_as_a_mask(dtype):
    q, k, v = qkv(LENGTH, heads=2, dim=64, dtype=dtype)
    errors = {}
    for backend in ("folded", "mask"):
        output = alibi_attention(q, k, v, STEEPEST_AND_FLATTEST, backend=backend)
        errors[backend] = error_of_last_rows(q, k, v, output)
    assert errors["folded"] < 2 * errors["mask"] + 1e-6


@each_case(
    ("length", "dim"),
    {
        "few rows in the last block": (1031, 64),
        "scale that is no power of two": (1000, 32),
    },
)
def test_outputs_and_gradients_are_as_exact_as_with_a_mask(length, dim):
    is_real = torch.arange(length)[None] > 2
    results = {}
    for backend, dtype in (("folded", torch.float32), ("eager", torch.float64)):
        tensors = [tensor.requires_grad_() for tensor in qkv(length, heads=2, dim=dim, dtype=dtype)]
        output = alibi_attention(
            *tensors, STEEPEST_AND_FLATTEST, key_padding_mask=is_real, backend=backend
        )
        results[backend] = [output, *torch.autograd.grad(output.sin().sum(), tensors)]
    for folded, exact in zip(results["folded"], results["eager"], strict=True):
        assert float((folded - exact).abs().max()) < 4e-6 * float(exact.abs().max())


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
def test_folding_fewer_queries_than_keys_gives_the_weights_of_eager(
    positions,
):
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


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("token", [300, 599])
def test_new_queries_attend_to_cached_keys_that_were_folded_once(token, dtype, tolerance):
    q, k, v = qkv(600, dim=16, dtype=dtype)
    slopes = alibi_slopes(4)
    # Folded keys don't depend on the slopes, so other slopes may have folded them.
    _, cached = fold(q[:, :, :300], k[:, :, :300], 2 * slopes)
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
    # Half precision stores a position as the sum of a coarse and a fine part. The largest sum is
    # below 65504, the largest number of float16.
    "position in half precision": 65_503,
    # From 2^24 on, float32 has no odd integers.
    "position in float32": 2**24,
    # From 2^53 on, float64 has none either.
    "position in float64": 2**53,
    # The coordinate slope / scale must not exceed 65504, the largest number of float16.
    "slope in float16": 65_504 * 0.25,
    # The query of the last position has the coordinate 7 * slope / scale, which must not exceed
    # 3.4028e38, the largest number of float32: 0.25 / 7 of it, rounded down.
    "slope in float32": 1.2152e37,
}
SHORT = alibi_slopes(2)
# Positions of eight tokens, to be shifted
FIRST = torch.arange(8)
LAST = torch.arange(-7, 1)
# Slopes up to 1 in size
UP_TO_1 = torch.tensor([1.0, 0.0625])
# One key more than half precision has positions for, which count from 0
LONG = torch.zeros(1, 1, LARGEST["position in half precision"] + 2, 16, dtype=torch.float16)


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
            {"positions": LAST + LARGEST["position in float32"] + 1},
            "float32 distinguishes .* only up to 16777216",
        ),
        "float64, far position": (
            torch.float64,
            {"positions": LAST + LARGEST["position in float64"] + 1},
            "float64 distinguishes .* only up to 9007199254740992",
        ),
        "float64, the farthest negative position": (
            torch.float64,
            {"positions": FIRST - 2**63},
            "float64 distinguishes .* only up to 9007199254740992",
        ),
        "bfloat16, far position": (
            torch.bfloat16,
            {"positions": LAST + LARGEST["position in half precision"] + 1},
            "bfloat16 represents positions only up to 65503",
        ),
        "float16, far negative position": (
            torch.float16,
            {"positions": FIRST - LARGEST["position in half precision"] - 1},
            "float16 represents positions only up to 65503",
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
        "default": (torch.float32, {}),
        "tiny scale": (torch.float32, {"scale": 1e-30}),
        "float32, far position": (
            torch.float32,
            {"positions": LAST + LARGEST["position in float32"]},
        ),
        "float64, far position": (
            torch.float64,
            {"positions": LAST + LARGEST["position in float64"]},
        ),
        "bfloat16, far position": (
            torch.bfloat16,
            {"positions": LAST + LARGEST["position in half precision"]},
        ),
        "float16, far negative position": (
            torch.float16,
            {"positions": FIRST - LARGEST["position in half precision"]},
        ),
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
    # The content is the same for all keys, so neighboring logits differ by the bias alone.
    steps = logits.diff()
    positions = arguments.get("positions", torch.arange(key.shape[2]))  # 0, 1, ... by default
    bias_steps = arguments["slopes"].double()[:, None, None] * positions.diff()
    assert torch.allclose(steps, bias_steps.expand_as(steps), rtol=1e-6, atol=0)


@pytest.mark.parametrize("first", [100_000_000, -11_000, -(2**40)])
@pytest.mark.parametrize("padded", [False, True])
def test_shifting_all_positions_does_not_change_the_output(first, *, padded):
    q, k, v = qkv(500, batch=2, dtype=torch.float32)
    slopes = alibi_slopes(4)
    options = {
        "positions": torch.arange(500) + torch.tensor([[first], [7]]),
        "key_padding_mask": torch.arange(500).expand(2, -1) >= 9 if padded else None,
    }
    assert choose_backend(q, k, slopes, **options).name == "folded"
    assert largest_error(q, k, v, slopes, **options) < 2e-6


@pytest.mark.parametrize(
    ("dtype", "first", "last"),
    [
        (torch.uint8, 56, 255),
        (torch.int8, -72, 127),
        (torch.int16, 0, 199),
        (torch.uint16, 0, 199),
        (torch.int32, 0, 199),
    ],
)
@pytest.mark.parametrize("backend", ["mask", "eager", "folded"])
def test_positions_of_small_integer_dtypes_do_not_overflow(backend, dtype, first, last):
    positions = torch.arange(first, last + 1).to(dtype)
    q, k, v = qkv(200, dtype=torch.float32)
    error = largest_error(q, k, v, alibi_slopes(4), backend=backend, positions=positions)
    assert error < 2e-6


# The second half of the keys is real.
IS_REAL = torch.arange(600)[None] >= 300
each_scale = pytest.mark.parametrize("scale", [1e-24, 1.0, 300.0])
each_slopes = each_case(
    "slopes",
    {
        "no slopes": None,
        "slopes": SLOPES[::2],
        "steep negative slopes": -128 * SLOPES[::2],
    },
)
each_factor = each_case("factor", {"usual queries": 1.0, "large queries": 60.0})


def output_of_real_tokens(q, k, v, slopes, scale):
    output = alibi_attention(
        q, k, v, slopes, key_padding_mask=IS_REAL, scale=scale, backend="folded"
    )
    return output[:, :, 300:]


@each_scale
@each_slopes
@each_factor
def test_output_with_padding_stays_within_the_real_values(factor, slopes, scale):
    q, k, v = qkv(600, dtype=torch.float32)
    largest = float(v[:, :, 300:].abs().max())
    output = output_of_real_tokens(factor * q, k, v, slopes, scale)
    assert float(output.abs().max()) <= largest * (1 + 1e-6)


@each_scale
@each_slopes
@each_factor
def test_content_of_padding_does_not_change_the_output(factor, slopes, scale):
    """Its values are a million times larger, so a weight of 1e-12 would show."""
    q, k, v = qkv(600, dtype=torch.float32)
    is_padding = ~IS_REAL[0, :, None]
    large_keys = k.masked_fill(is_padding, 1e3)
    large_values = v.masked_fill(is_padding, 1e6)
    expected_output = output_of_real_tokens(factor * q, k, v, slopes, scale)
    output = output_of_real_tokens(factor * q, large_keys, large_values, slopes, scale)
    assert torch.equal(output, expected_output)


@pytest.mark.parametrize(
    ("dtype", "least_scale"),
    [(torch.float16, 1e-6), (torch.bfloat16, 1e-24), (torch.float32, 1e-24)],
)
def test_padding_is_folded_down_to_the_least_scale_that_hides_it(dtype, least_scale):
    q, k, _ = qkv(900, heads=8, dim=32, dtype=dtype)
    is_real = torch.arange(900)[None] >= 40
    backend_of = partial(choose_backend, q, k, None, key_padding_mask=is_real)
    assert backend_of(scale=least_scale).name == "folded"
    assert backend_of(scale=0.99 * least_scale).name == "mask"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@each_case("content", {"low": 1.0, "down to -2e6": 400.0})
def test_padding_is_as_exact_as_with_a_mask_for_low_real_logits(content, dtype):
    q, k, v = qkv(900, heads=8, dim=32)
    q = (content * q.abs()).to(dtype)
    k = (-content * k.abs()).to(dtype)
    v = v.to(dtype)
    is_real = torch.arange(900)[None] >= 40
    assert choose_backend(q, k, SLOPES, key_padding_mask=is_real).name == "folded"
    error_by = partial(largest_error, q, k, v, SLOPES, key_padding_mask=is_real)
    assert error_by(backend="folded") <= 1.5 * error_by(backend="mask") + 1e-6
