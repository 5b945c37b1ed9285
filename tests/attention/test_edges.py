"""Edge cases of the fast backends: each is exact, or raises an error and `auto` selects another backend."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes, choose_backend
from alibi_viz.attention import choose
from alibi_viz.bias import mask_future

SLOPES = alibi_slopes(8)


def qkv(length: int, head_dim: int = 32) -> Tensor:
    return torch.randn(3, 1, 8, length, head_dim, generator=torch.Generator().manual_seed(length))


def largest_error(
    length: int, backend: str = "auto", *, expected: dict[str, object] | None = None, **case: object
) -> float:
    """Largest difference from the eager backend in float64, for which `expected` may replace arguments."""
    q, k, v = qkv(length)
    output = alibi_attention(q, k, v, SLOPES, backend=backend, **case)
    assert bool(output.isfinite().all())
    case |= expected or {}
    reference = alibi_attention(q.double(), k.double(), v.double(), SLOPES, backend="eager", **case)
    return float((output - reference).abs().max())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", ["auto", "eager", "mask", "strip", "windowed", "folded"])
def test_every_backend_returns_the_autocast_dtype_and_auto_still_leaves_keys_out(
    backend: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "FORWARD", (1024, 1))
    q, k, v = qkv(2100)
    reference = alibi_attention(q, k, v, SLOPES)
    with torch.autocast("cpu", dtype):
        output = alibi_attention(q, k, v, SLOPES, backend=backend)
        assert choose_backend(q, k, SLOPES).name == "windowed"
    assert output.dtype == dtype
    assert float((output.float() - reference).abs().max()) < 0.04


def test_autocast_does_not_cast_float64() -> None:
    q, k, v = qkv(20).double()
    with torch.autocast("cpu", torch.bfloat16):
        assert alibi_attention(q, k, v, SLOPES).dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32])
@pytest.mark.parametrize("backend", ["auto", "mask", "eager", "folded"])
def test_positions_of_small_integer_dtypes_do_not_overflow(backend: str, dtype: torch.dtype) -> None:
    positions = torch.arange(-100 if dtype == torch.int8 else 0, 200).clamp(max=torch.iinfo(dtype).max)[-200:]
    assert largest_error(200, backend, positions=positions.to(dtype), expected={"positions": positions}) < 2e-6


@pytest.mark.parametrize("first", [100_000_000, -11_000, -(2**40)])
@pytest.mark.parametrize("padded", [False, True])
def test_shifting_all_positions_does_not_change_the_output(first: int, padded: bool) -> None:
    is_real = torch.arange(800)[None] >= 9 if padded else None
    positions = torch.arange(800)
    case = {"positions": positions + first, "key_padding_mask": is_real}
    assert choose_backend(*qkv(800)[:2], SLOPES, **case).name == "folded"
    assert largest_error(800, expected={"positions": positions}, **case) < 2e-6


def test_positions_too_far_apart_for_float32_are_not_folded() -> None:
    positions = torch.arange(800)
    positions[:400] -= 2**24
    choice = choose_backend(*qkv(800)[:2], SLOPES, positions=positions)
    assert choice.name == "mask"
    assert "float32 distinguishes positions" in choice.reason
    assert largest_error(800, positions=positions) < 2e-6
    with pytest.raises(ValueError, match="backend 'folded' does not support this call: float32 distinguishes"):
        largest_error(800, "folded", positions=positions)


@pytest.mark.parametrize("scale", [0.0, -1.0])
@pytest.mark.parametrize("length", [100, 2100])
def test_a_scale_that_is_not_positive_is_not_folded(scale: float, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "FORWARD", (1024, 1))
    assert largest_error(length, scale=scale) < 1e-4
    assert choose_backend(*qkv(length)[:2], SLOPES, scale=scale).name == ("strip" if length == 100 else "windowed")
    with pytest.raises(ValueError, match="the scale, which must be positive"):
        largest_error(length, "folded", scale=scale)


@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1.0])
@pytest.mark.parametrize("slopes", [None, SLOPES])
def test_padded_keys_are_masked_at_any_scale(scale: float, slopes: Tensor | None) -> None:
    q, k, v = qkv(900)
    is_real = torch.arange(900)[None] >= 40
    assert choose_backend(q, k, slopes, key_padding_mask=is_real).name == "folded"
    case = {"key_padding_mask": is_real, "scale": scale}
    output = alibi_attention(q, k, v, slopes, **case)
    reference = alibi_attention(q.double(), k.double(), v.double(), slopes, backend="eager", **case)
    assert float((output - reference).abs().max()) < 3e-5


@pytest.mark.parametrize("query_factor", [1.0, 60.0])
@pytest.mark.parametrize(("scale", "slope_factor"), [(None, 1.0), (300.0, 1.0), (1000.0, 1.0), (None, -128.0)])
def test_large_padded_keys_and_values_do_not_affect_the_output(
    query_factor: float, scale: float | None, slope_factor: float
) -> None:
    q, k, v = qkv(900)
    is_real = torch.arange(900)[None] >= 450
    v[:, :, :450], k[:, :, :450] = 1e6, 1e3
    output = alibi_attention(
        query_factor * q, k, v, slope_factor * SLOPES, key_padding_mask=is_real, scale=scale, backend="folded"
    )
    assert float(output[:, :, 450:].abs().max()) < 10


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_half_precision_with_padding_is_folded_accurately(head_dim: int, dtype: torch.dtype) -> None:
    q, k, v = qkv(2100, head_dim).to(dtype)
    is_real = torch.arange(2100)[None] >= 100
    assert choose_backend(q, k, SLOPES, key_padding_mask=is_real).name == "folded"
    v[:, :, :100] = 1e4
    output = alibi_attention(q, k, v, SLOPES, key_padding_mask=is_real)
    reference = alibi_attention(q.float(), k.float(), v.float(), SLOPES, key_padding_mask=is_real, backend="eager")
    assert float((output - reference).abs().max()) < 0.03


@pytest.mark.parametrize("backend", ["strip", "mask"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_bias_is_not_rounded_to_half_precision(dtype: torch.dtype, backend: str) -> None:
    length, slopes = 600, torch.tensor([0.0101])
    v = torch.zeros(1, 1, length, 4, dtype=dtype)
    v[:, :, 0] = 100  # the output is the weight of the first key, which depends only on the bias
    q = k = torch.zeros_like(v)
    exact = alibi_attention(q.double(), k.double(), v.double(), slopes, backend="eager")
    rounded = scaled_dot_product_attention(
        q, k, v, attn_mask=mask_future(alibi_bias(slopes, length, dtype=dtype))[None]
    )
    for rows, cast in ((length, False), (1, False), (length, True)):
        inputs = [t.float() if cast else t for t in (q[:, :, -rows:], k, v)]
        with torch.autocast("cpu", dtype, enabled=cast):
            output = alibi_attention(*inputs, slopes, backend=backend)
        error, error_of_rounded = (
            (each / exact[:, :, -rows:] - 1).abs().max() for each in (output, rounded[:, :, -rows:])
        )
        assert (output.dtype, bool(error < 0.5 * error_of_rounded)) == (dtype, True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_of_slopes_are_not_rounded_to_half_precision(dtype: torch.dtype) -> None:
    gradients = []
    for backend, precision in (("auto", dtype), ("eager", torch.float64)):
        slopes = SLOPES.clone().requires_grad_()
        q, k, v = qkv(300).to(dtype).to(precision)
        alibi_attention(q, k, v, slopes, backend=backend).sum().backward()
        gradients.append(slopes.grad)
    assert torch.allclose(*gradients, rtol=1e-5, atol=1e-5 * float(gradients[1].abs().max()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_padding_is_masked_when_the_logits_of_all_real_keys_are_far_below_zero(dtype: torch.dtype) -> None:
    q, k, v = qkv(900)
    q, k, v = (400 * q.abs()).to(dtype), (-400 * k.abs()).to(dtype), v.to(dtype)  # content down to -2e6
    is_real = torch.arange(900)[None] >= 40
    assert choose_backend(q, k, SLOPES, key_padding_mask=is_real).name == "folded"
    output, mask = (
        alibi_attention(q, k, v, SLOPES, key_padding_mask=is_real, backend=backend) for backend in ("folded", "mask")
    )
    reference = alibi_attention(q.double(), k.double(), v.double(), SLOPES, key_padding_mask=is_real, backend="eager")
    errors = [float((result - reference).abs().max()) for result in (output, mask)]
    assert errors[0] <= 1.5 * errors[1]


@pytest.mark.parametrize(("slope", "scale"), [(200.0, None), (0.5, 1e-5)])
def test_float16_that_would_overflow_is_not_folded(slope: float, scale: float | None) -> None:
    q, k, v = qkv(2100, 128).half()
    output = alibi_attention(q, k, v, torch.full((8,), slope), scale=scale)
    reference = alibi_attention(q.float(), k.float(), v.float(), torch.full((8,), slope), scale=scale)
    assert float((output - reference).abs().max()) < 0.01
    with pytest.raises(ValueError, match="float16 overflows"):
        alibi_attention(q, k, v, torch.full((8,), slope), scale=scale, backend="folded")


@pytest.mark.parametrize(("slopes", "scale"), [(SLOPES, 1e-39), (1e36 * SLOPES, None)])
def test_float32_that_would_overflow_is_not_folded(slopes: Tensor, scale: float | None) -> None:
    q, k, v = qkv(2100)
    with pytest.raises(ValueError, match="float32 overflows"):
        alibi_attention(q, k, v, slopes, backend="folded", scale=scale)


def test_cached_bias_does_not_depend_on_the_default_device() -> None:
    q, k, v = qkv(100)
    slopes = 1.7 * SLOPES
    with torch.device("meta"):
        outputs = [
            alibi_attention(q[:, :, -1:], k, v, slopes),
            alibi_attention(q, k, v, slopes),
            alibi_attention(q, k, v, slopes, causal=False),
        ]
    reference = alibi_attention(q, k, v, slopes, backend="eager")
    assert torch.allclose(outputs[0], reference[:, :, -1:], atol=1e-5)
    assert torch.allclose(outputs[1], reference, atol=1e-5)
    assert torch.allclose(outputs[2], alibi_attention(q, k, v, slopes, causal=False, backend="eager"), atol=1e-5)


def test_cached_bias_does_not_depend_on_the_default_dtype() -> None:
    q, k, v = torch.randn(3, 1, 12, 600, 16)
    slopes = alibi_slopes(12)
    torch.set_default_dtype(torch.bfloat16)
    try:
        alibi_attention(q, k, v, slopes, causal=False)
    finally:
        torch.set_default_dtype(torch.float32)
    reference = alibi_attention(q, k, v, slopes, causal=False, backend="eager")
    assert torch.allclose(alibi_attention(q, k, v, slopes, causal=False), reference, atol=5e-6)


@pytest.mark.parametrize(("name", "value"), [("scale", "a"), ("dropout", "a"), ("dropout", None), ("scale", True)])
def test_scale_and_dropout_that_are_not_numbers_raise(name: str, value: object) -> None:
    q, k, v = qkv(5)
    with pytest.raises(TypeError, match=f"{name} must be a number, got {value!r}"):
        alibi_attention(q, k, v, SLOPES, **{name: value})


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("length", [1, 5, 768, 3000])
def test_one_query_with_many_keys_is_exact(length: int, padded: bool, causal: bool) -> None:
    q, k, v = qkv(length)
    q, is_real = q[:, :, -1:], torch.arange(length)[None] >= min(9, length - 1) if padded else None
    case = {"key_padding_mask": is_real, "causal": causal}
    output = alibi_attention(q, k, v, SLOPES, **case)
    reference = alibi_attention(q.double(), k.double(), v.double(), SLOPES, backend="eager", **case)
    assert float((output - reference).abs().max()) < 2e-6
