"""ALiBi as more coordinates of queries and keys: `fold`, and the backend that uses it."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from alibi_viz import (
    alibi_attention,
    alibi_bias,
    alibi_slopes,
    attention_trace,
    choose_backend,
    fold,
)
from alibi_viz.attention.folded import coordinates
from tests.attention.cases import HALF, expected, largest_error, qkv

SLOPES = alibi_slopes(8)


def error(q: Tensor, k: Tensor, v: Tensor, output: Tensor) -> float:
    """The largest difference from float64 in the last rows, whose positions are the largest."""
    return float((output[:, :, -100:] - expected(q[:, :, -100:], k, v, SLOPES)).abs().max())


def plain_attention(
    folded_q: Tensor, folded_k: Tensor, v: Tensor, *, is_causal: bool = True
) -> Tensor:
    """Attention without ALiBi, with the scale of the unfolded queries."""
    head_dim = v.shape[-1]
    value = pad(v, (0, folded_k.shape[-1] - head_dim))
    options = {"is_causal": is_causal, "scale": head_dim**-0.5, "enable_gqa": True}
    return scaled_dot_product_attention(folded_q, folded_k, value, **options)[..., :head_dim]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALF])
@pytest.mark.parametrize("scale", [1.0, 32**-0.5])
def test_product_of_coordinates_equals_the_bias_up_to_a_constant_per_row(
    dtype: torch.dtype, scale: float
) -> None:
    slopes, length = alibi_slopes(12), 3000
    query, key = coordinates(slopes, torch.arange(length), dtype, scale)
    assert query.dtype == key.dtype == dtype
    rows = torch.arange(0, length, 13)  # all rows would take gigabytes
    product = (query[:, rows].double() @ key.double().mT) * scale
    # The diagonal is the constant that differs per row and cancels in the softmax.
    diagonal = product[:, torch.arange(len(rows)), rows][..., None]
    difference = product - diagonal - alibi_bias(slopes, length, dtype=torch.float64)[:, rows]
    tolerance = {
        torch.float64: 1e-9,
        torch.float32: 1e-4,
        torch.float16: 2e-4,
        torch.bfloat16: 1e-3,
    }[dtype]
    assert float(difference.abs().max()) < tolerance  # for biases up to 2,100
    assert float(diagonal.abs().max()) < 10  # the constant is small


@pytest.mark.parametrize(
    ("dtype", "stated"), [(torch.float32, 1e-6), (torch.bfloat16, 9e-3), (torch.float16, 1e-3)]
)
def test_error_of_folding_is_the_documented_one_and_that_of_a_mask(
    dtype: torch.dtype, stated: float
) -> None:
    q, k, v = qkv(4096, heads=8, dim=64, dtype=dtype)
    output = plain_attention(*fold(q, k, SLOPES), v)
    assert output.dtype == dtype and stated / 3 < error(q, k, v, output) < stated * 2
    masked = error(q, k, v, alibi_attention(q, k, v, SLOPES, backend="mask"))
    assert error(q, k, v, alibi_attention(q, k, v, SLOPES, backend="folded")) < 2 * masked + 1e-6


@pytest.mark.parametrize(
    ("length", "dim"), [(1031, 64), (1000, 32)]
)  # few rows in the last block; an odd scale
def test_outputs_and_gradients_are_as_exact_as_with_a_mask(length: int, dim: int) -> None:
    is_real, results = torch.arange(length)[None] > 2, {}
    for backend, dtype in (("folded", torch.float32), ("eager", torch.float64)):
        tensors = [each.requires_grad_() for each in qkv(length, heads=8, dim=dim, dtype=dtype)]
        output = alibi_attention(*tensors, SLOPES, key_padding_mask=is_real, backend=backend)
        results[backend] = [output, *torch.autograd.grad(output.sin().sum(), tensors)]
    for got, exact in zip(results["folded"], results["eager"], strict=True):
        assert float((got - exact).abs().max()) < 4e-6 * float(exact.abs().max())


@pytest.mark.parametrize(
    "positions", [None, torch.tensor([0, 1, 5, 6, 7, 20]), torch.randint(9, (2, 6)).cumsum(1)]
)
def test_fewer_queries_than_keys_and_grouped_heads_equal_eager(positions: Tensor | None) -> None:
    q, k, v = qkv(6, dim=8, batch=2)
    k, v, slopes = k[:, :2], v[:, :2], torch.tensor([0.5, 0.0, -0.2, 3.0])
    folded_q, folded_k = fold(q[:, :, 2:], k, slopes, positions=positions)
    assert (folded_q.shape, folded_k.shape) == ((2, 4, 4, 10), (2, 2, 6, 10))
    logits = folded_q @ folded_k.repeat_interleave(2, dim=1).mT * 8**-0.5
    weights = logits.masked_fill(~torch.ones(4, 6, dtype=torch.bool).tril(2), -math.inf).softmax(-1)
    assert torch.allclose(
        weights, attention_trace(q[:, :, 2:], k, slopes, positions=positions).weights, atol=1e-12
    )
    eager = alibi_attention(q, k, v, slopes, positions=positions, backend="eager")
    assert torch.allclose(
        plain_attention(*fold(q, k, slopes, positions=positions), v), eager, atol=1e-12
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)])
def test_new_queries_attend_to_cached_keys_that_were_folded_once(
    dtype: torch.dtype, tolerance: float
) -> None:
    q, k, v = qkv(600, dim=16, dtype=dtype)
    cached = fold(q[:, :, :300], k[:, :, :300], 2 * alibi_slopes(4))[
        1
    ]  # which don't depend on the slopes
    folded_q, folded_k = fold(
        q[:, :, 300:], k[:, :, 300:], alibi_slopes(4), positions=torch.arange(300, 600)
    )
    for token in (300, 599):
        query, keys = (
            folded_q[:, :, token - 300, None],
            torch.cat((cached, folded_k), dim=2)[:, :, : token + 1],
        )
        output = plain_attention(query, keys, v[:, :, : token + 1], is_causal=False)
        exact = expected(
            q[:, :, token, None], k[:, :, : token + 1], v[:, :, : token + 1], alibi_slopes(4)
        )
        assert torch.allclose(output.double(), exact, atol=tolerance)


@pytest.mark.parametrize("dtype", HALF)
def test_slope_gradients_in_half_precision_are_those_of_float64_to_its_rounding(
    dtype: torch.dtype,
) -> None:
    q, k, v = qkv(500, dim=16, dtype=dtype)
    gradients = []
    for cast in (dtype, torch.float64):
        slopes = alibi_slopes(4).requires_grad_()
        (
            plain_attention(*fold(q.to(cast), k.to(cast), slopes), v.to(cast)).float() * 999 * q
        ).sum().backward()
        gradients.append(slopes.grad)
    assert torch.allclose(*gradients, rtol=0.05, atol=0.01 * float(gradients[1].abs().max()))


SHORT = alibi_slopes(2)
LAST = torch.arange(-7, 1)  # positions of eight tokens, to be shifted
LONG = torch.zeros(1, 1, 65_505, 16, dtype=torch.float16)


def arguments_of_fold(dtype: torch.dtype, **others: Any) -> dict[str, Any]:
    """Eight tokens of equal content in two heads with 16 channels, so the default scale is 0.25."""
    ones = torch.ones(1, 2, 8, 16, dtype=dtype)
    return {"query": ones, "key": ones, "slopes": SHORT} | others


@pytest.mark.parametrize(
    ("dtype", "wrong", "message"),
    [
        pytest.param(
            torch.float32,
            {"slopes": None},
            "slopes must be a floating-point tensor",
            id="no slopes",
        ),
        pytest.param(
            torch.float32,
            {"scale": 0.0},
            "the scale, which must be positive, got 0.0",
            id="scale 0",
        ),
        pytest.param(
            torch.float32,
            {"positions": LAST + 2**24 + 1},
            "float32 distinguishes .* only up to 16777216",
            id="float32, far position",
        ),
        pytest.param(
            torch.bfloat16,
            {"positions": LAST + 65_504},
            "bfloat16 represents positions only up to 65503",
            id="bfloat16, far position",
        ),
        pytest.param(
            torch.float16,
            {"positions": LAST - 65_497},
            "float16 represents positions only up to 65503",
            id="float16, far negative position",
        ),
        pytest.param(
            torch.float16,
            {"key": LONG},
            "float16 represents positions only up to 65503",
            id="float16, many keys",
        ),
        pytest.param(
            torch.float16,
            {"slopes": SHORT * -262_032},
            "float16 overflows with a scale of 0.25",
            id="float16, steep slopes",
        ),
        pytest.param(
            torch.float32,
            {"slopes": SHORT * 1.95e38},
            "float32 overflows .* slopes up to 1.2",
            id="float32, steep slopes",
        ),
    ],
)
def test_fold_says_what_cannot_be_folded(
    dtype: torch.dtype, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        fold(**arguments_of_fold(dtype, **wrong))


@pytest.mark.parametrize(
    ("dtype", "extreme"),
    [
        pytest.param(torch.float32, {}, id="default"),
        pytest.param(torch.float32, {"scale": 1e-30}, id="tiny scale"),
        pytest.param(torch.float32, {"positions": LAST + 2**24}, id="float32, far position"),
        pytest.param(torch.bfloat16, {"positions": LAST + 65_503}, id="bfloat16, far position"),
        pytest.param(
            torch.float16, {"positions": LAST - 65_496}, id="float16, far negative position"
        ),
        pytest.param(torch.float16, {"key": LONG[:, :, 1:]}, id="float16, many keys"),
        pytest.param(torch.float16, {"slopes": SHORT * -262_016}, id="float16, steep slopes"),
        pytest.param(torch.float32, {"slopes": SHORT * 1.94e38}, id="float32, steep slopes"),
    ],
)
def test_fold_is_exact_up_to_its_limits(dtype: torch.dtype, extreme: dict[str, Any]) -> None:
    arguments = arguments_of_fold(dtype, **extreme)
    query, key = fold(**arguments)
    logits = query.double() @ key.double().mT * arguments.get("scale", 0.25)
    # The content is the same for all keys, so neighboring logits differ by the bias alone.
    steps = logits.diff()
    positions = arguments.get("positions", torch.arange(key.shape[2]))
    bias_steps = arguments["slopes"].double()[:, None, None] * positions.diff()
    assert torch.allclose(steps, bias_steps.expand_as(steps), rtol=1e-6, atol=0)


@pytest.mark.parametrize("first", [100_000_000, -11_000, -(2**40)])
@pytest.mark.parametrize("padded", [False, True])
def test_shifting_all_positions_does_not_change_the_output(first: int, padded: bool) -> None:
    tensors, is_real = (
        qkv(500, batch=2, dtype=torch.float32),
        torch.arange(500).expand(2, -1) >= 9 if padded else None,
    )
    case = {
        "positions": torch.arange(500) + torch.tensor([[first], [7]]),
        "key_padding_mask": is_real,
    }
    assert choose_backend(*tensors[:2], alibi_slopes(4), **case).name == "folded"
    assert largest_error(*tensors, alibi_slopes(4), **case) < 2e-6


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32])
@pytest.mark.parametrize("backend", ["mask", "eager", "folded"])
def test_positions_of_small_integer_dtypes_do_not_overflow(
    backend: str, dtype: torch.dtype
) -> None:
    positions = torch.arange(-100 if dtype == torch.int8 else 0, 200).clamp(
        max=torch.iinfo(dtype).max
    )[-200:]
    tensors = qkv(200, dtype=torch.float32)
    assert (
        largest_error(*tensors, alibi_slopes(4), backend=backend, positions=positions.to(dtype))
        < 2e-6
    )


@pytest.mark.parametrize("scale", [1e-24, 1.0, 300.0])
@pytest.mark.parametrize("slopes", [None, SLOPES, -128 * SLOPES])
@pytest.mark.parametrize("factor", [1.0, 60.0])
def test_padded_keys_have_weight_0_at_any_scale_and_size(
    factor: float, slopes: Tensor | None, scale: float
) -> None:
    """Their values are a million times larger, so a weight of 1e-12 would show."""
    q, k, v = qkv(900, heads=8, dtype=torch.float32)
    q, is_real = factor * q, torch.arange(900)[None] >= 450
    case = {"key_padding_mask": is_real, "scale": scale, "backend": "folded"}
    clean = alibi_attention(q, k, v, slopes, **case)
    v, k = v.masked_fill(~is_real[0, :, None], 1e6), k.masked_fill(~is_real[0, :, None], 1e3)
    assert torch.equal(alibi_attention(q, k, v, slopes, **case)[:, :, 450:], clean[:, :, 450:])
    assert bool((clean[:, :, 450:].abs() <= v[:, :, 450:].abs().max() * (1 + 1e-6)).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("content", [1.0, 400.0])  # 400: down to -2e6
def test_padding_is_as_exact_as_with_a_mask_however_low_the_real_logits_are(
    content: float, dtype: torch.dtype
) -> None:
    q, k, v = qkv(900, heads=8, dim=32)
    q, k, v = (content * q.abs()).to(dtype), (-content * k.abs()).to(dtype), v.to(dtype)
    case = {"key_padding_mask": torch.arange(900)[None] >= 40}
    assert choose_backend(q, k, SLOPES, **case).name == "folded"
    scales = (
        (1e-6, 0.99e-6) if dtype == torch.float16 else (1e-24, 0.99e-24)
    )  # the least that hides them, and less
    assert [choose_backend(q, k, None, **case, scale=scale).name for scale in scales] == [
        "folded",
        "mask",
    ]
    folded, mask = (
        largest_error(q, k, v, SLOPES, **case, backend=backend) for backend in ("folded", "mask")
    )
    assert folded <= 1.5 * mask + 1e-6
