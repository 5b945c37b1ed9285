"""Every backend equals the minimal implementation, or says why it doesn't take the call."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes, attention_trace, choose_backend
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.bias import mask_future
from tests.attention import cases
from tests.attention.cases import (
    HALF,
    MASKING,
    TOLERANCE,
    assert_equal,
    expected,
    normal,
    output_and_gradients,
    qkv,
)
from tests.largest_tensor import LargestTensor
from tests.reference import reference_attention, reference_bias

BACKENDS = ("auto", "eager", "mask", "windowed", "folded")
SLOPES = alibi_slopes(8)


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    """Valid arguments of `alibi_attention`."""
    dtype, seed = draw(st.sampled_from([*TOLERANCE])), draw(st.integers(0, 99))
    batch, key_heads, group = (
        draw(st.integers(0, 2)),
        draw(st.integers(1, 2)),
        draw(st.integers(1, 2)),
    )
    rows, columns = sorted((draw(st.integers(0, 6)), draw(st.integers(0, 7))))
    dim, heads, is_exact = draw(st.integers(1, 4)), key_heads * group, dtype not in HALF
    generator = torch.Generator().manual_seed(seed)

    def random_mask(*shape: int) -> Tensor | None:
        return (
            torch.rand(shape, generator=generator) < 0.6 if draw(st.integers(0, 3)) == 0 else None
        )

    slopes, positions = st.floats(-0.5 if is_exact else 0, 1.5), None
    if is_exact and draw(st.integers(0, 3)) == 0:  # far away or negative, with gaps
        gaps = torch.randint(
            50, (batch, columns) if draw(st.booleans()) else (columns,), generator=generator
        )
        positions = gaps.cumsum(-1) + draw(st.sampled_from([0, -300, -(2**40), 10**9]))
    return {
        "query": normal(batch, heads, rows, dim, seed=seed, dtype=dtype),
        "key": normal(batch, key_heads, columns, dim, seed=seed + 1, dtype=dtype),
        "value": normal(batch, key_heads, columns, dim, seed=seed + 2, dtype=dtype),
        "slopes": draw(
            st.none() | st.lists(slopes, min_size=heads, max_size=heads).map(torch.tensor)
        ),
        "causal": draw(st.booleans()),
        "key_padding_mask": random_mask(batch, columns),
        "attn_mask": random_mask(
            *draw(st.sampled_from([(), (heads,), (1, 1), (batch, heads)])), rows, columns
        ),
        "positions": positions,
        "scale": draw(st.sampled_from([None, None, 1.0, 0.0, -0.3])),
        "backend": draw(st.sampled_from(BACKENDS)),
    }


def is_supported(call: dict[str, Any]) -> bool:
    """What each backend promises to take, independently of its own answer."""
    has_mask = call["key_padding_mask"] is not None or call["attn_mask"] is not None
    if call["backend"] == "windowed":
        return call["slopes"] is not None and not has_mask and call["positions"] is None
    if call["backend"] == "folded":
        equal_lengths = call["query"].shape[2] == call["key"].shape[2]
        return (
            call["causal"]
            and equal_lengths
            and call["attn_mask"] is None
            and call["scale"] not in (0.0, -0.3)
        )
    return True


@given(calls(), st.sampled_from([None, *TOLERANCE]))
def test_a_valid_call_equals_minimal_or_says_why_not(
    call: dict[str, Any], slopes_dtype: torch.dtype | None
) -> None:
    if (
        call["slopes"] is not None and slopes_dtype is not None
    ):  # half precision rounds slopes such as 0.3
        call["slopes"] = call["slopes"].to(slopes_dtype)
    if not is_supported(call):
        with pytest.raises(
            ValueError, match=f"backend '{call['backend']}' does not support this call: "
        ):
            alibi_attention(**call)
        return
    output = alibi_attention(**call)
    assert (output.dtype, output.shape) == (call["query"].dtype, call["query"].shape)
    exact = expected(**{name: value for name, value in call.items() if name != "backend"})
    assert torch.allclose(output.double(), exact, atol=TOLERANCE[output.dtype], rtol=1e-3), call


QUERY, KEY, VALUE = qkv(6, heads=2, dim=3, batch=2)
VALID = {
    "query": QUERY,
    "key": KEY,
    "value": VALUE,
    "slopes": alibi_slopes(2),
    "key_padding_mask": torch.ones(2, 6, dtype=torch.bool),
    "attn_mask": torch.ones(2, 1, 6, 6, dtype=torch.bool),
    "positions": torch.arange(6),
}


def one_axis_more(tensor: Tensor) -> Tensor:
    return tensor[None]


def of_another_kind(tensor: Tensor) -> Tensor:
    return tensor.long() if tensor.is_floating_point() else tensor.float()


def three_times_as_long(tensor: Tensor) -> Tensor:
    return torch.cat((tensor, tensor, tensor), dim=-1)


def on_another_device(tensor: Tensor) -> Tensor:
    return tensor.to("meta")


WRONG_TENSORS = [
    pytest.param(name, fault, id=f"{name} {fault.__name__.replace('_', ' ')}")
    for name in VALID
    for fault in (one_axis_more, of_another_kind, three_times_as_long, on_another_device)
    # The query itself may have any length and device: the others must fit it.
    if name != "query" or fault in (one_axis_more, of_another_kind)
]


def assert_named(name: str, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{name}.* must .*"):
        alibi_attention(**(VALID | {name: wrong}))


def test_the_valid_arguments_are_accepted() -> None:
    """Otherwise the next two tests would say nothing."""
    alibi_attention(**VALID)


@pytest.mark.parametrize(("name", "fault"), WRONG_TENSORS)
def test_a_tensor_that_does_not_fit_is_named(name: str, fault: Callable[[Tensor], Tensor]) -> None:
    assert_named(name, fault(VALID[name]))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        pytest.param("query", QUERY[0], id="query without batch"),
        pytest.param("query", QUERY[..., :0], id="query without channels"),
        pytest.param("query", QUERY.repeat(1, 1, 2, 1), id="query longer than keys"),
        pytest.param("query", torch.nested.nested_tensor([QUERY] * 2), id="nested query"),
        pytest.param("key", KEY.half(), id="key of another dtype"),
        pytest.param("key", KEY.to_sparse(), id="sparse key"),
        pytest.param("key", KEY.repeat(1, 3, 1, 1), id="more key heads than heads"),
        pytest.param("key", KEY[:1], id="key of a smaller batch"),
        pytest.param("value", VALUE[:1], id="value of a smaller batch"),
        pytest.param("slopes", VALID["slopes"][:1], id="too few slopes"),
        pytest.param("slopes", VALID["slopes"] * math.inf, id="infinite slopes"),
        pytest.param("slopes", VALID["slopes"] * math.nan, id="slopes that are NaN"),
        pytest.param(
            "slopes", torch.nested.nested_tensor([VALID["slopes"]] * 2), id="nested slopes"
        ),
        pytest.param("key_padding_mask", VALID["key_padding_mask"][:1], id="padding, batch"),
        pytest.param("positions", VALID["positions"][:1], id="too few positions"),
        pytest.param("scale", math.nan, id="scale that is NaN"),
        pytest.param("scale", True, id="scale that is a bool"),
        pytest.param("dropout", 1, id="dropout of everything"),
        pytest.param("tolerance", 0, id="tolerance 0"),
        pytest.param("tolerance", 1, id="tolerance 1"),
        pytest.param("backend", "flash", id="unknown backend"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_expected(name: str, wrong: Any) -> None:
    assert_named(name, wrong)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("backend", ["eager", "mask"])
def test_far_keys_are_as_exact_as_near_ones(
    dtype: torch.dtype, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AttentionInputs, "on_gpu", property(lambda self: True))
    query, key, value = normal(1, 8, 1, 64), *normal(2, 1, 8, 2048, 64, seed=1)
    only_far = (torch.arange(2048) < 64)[None, None, None]
    exact = alibi_attention(query, key, value, alibi_slopes(8), attn_mask=only_far, backend="eager")
    output = alibi_attention(
        *(t.to(dtype) for t in (query, key, value)), SLOPES, attn_mask=only_far, backend=backend
    )
    assert float((output - exact).abs().max()) < 4 * torch.finfo(dtype).eps


@given(
    lengths=st.tuples(st.integers(0, 5), st.integers(0, 7)).map(sorted),
    causal=st.booleans(),
    padded=st.booleans(),
)
def test_every_step_of_the_trace_equals_that_of_minimal(
    lengths: list[int], causal: bool, padded: bool
) -> None:
    rows, columns = lengths
    q, k = normal(2, 4, rows, 3), normal(2, 2, columns, 3, seed=1)
    slopes, is_real = alibi_slopes(4), torch.rand(2, columns) < 0.6 if padded else None
    trace, positions = (
        attention_trace(q, k, slopes, causal=causal, key_padding_mask=is_real),
        list(range(columns)),
    )
    bias = reference_bias(
        slopes, positions[columns - rows :], positions, "relative" if causal else "symmetric"
    )
    weights = reference_attention(q, k, k, bias, causal=causal, is_real=is_real)[1]
    assert torch.allclose(trace.weights, weights, atol=1e-12) and torch.equal(
        trace.bias, bias.expand_as(trace.bias)
    )
    assert torch.allclose(trace.content, q @ k.repeat_interleave(2, dim=1).mT / math.sqrt(3))
    assert torch.equal(
        trace.logits, (trace.content + trace.bias).masked_fill(weights == 0, -math.inf)
    )


ATTN_MASK, LEARNED = torch.ones(1, 1, 1, 50, dtype=torch.bool), alibi_slopes(4).requires_grad_()
UNSUPPORTED: list[tuple[str, torch.dtype, dict[str, Any]]] = [  # beyond those of `is_supported`
    ("folded", torch.float16, {"positions": torch.arange(50)}),
    ("folded", torch.float16, {"slopes": torch.full((4,), 200_000.0)}),
    ("folded", torch.float32, {"positions": torch.arange(50) * 2**20}),
    ("windowed", torch.float32, {"dropout": 0.1}),
    ("windowed", torch.float32, {"slopes": LEARNED, "causal": False}),
    ("windowed", torch.float32, {"slopes": LEARNED, "scale": 0.0}),
    ("windowed", torch.float16, {"slopes": LEARNED}),
    ("flex", torch.float32, {"dropout": 0.1}),
    ("flex", torch.float32, {"attn_mask": ATTN_MASK}),
    ("flex", torch.float32, {"positions": torch.arange(50)}),
    ("flex", torch.float64, {}),
]


@pytest.mark.parametrize(("backend", "dtype", "options"), UNSUPPORTED)
def test_unsupported_call_raises_the_reason_and_auto_is_exact(
    backend: str, dtype: torch.dtype, options: Any
) -> None:
    tensors, slopes = qkv(50, dtype=dtype), options.get("slopes", alibi_slopes(4))
    options = {name: value for name, value in options.items() if name != "slopes"}
    with pytest.raises(ValueError, match=f"backend '{backend}' does not support this call: .*"):
        alibi_attention(*tensors, slopes, backend=backend, **options)
    assert "dropout" in options or cases.largest_error(*tensors, slopes, **options) < 2e-3


@pytest.mark.parametrize("backend", MASKING)
def test_padded_tokens_get_zeros_change_nothing_else_and_have_finite_gradients(
    backend: str,
) -> None:
    tensors, slopes = qkv(5, heads=2), alibi_slopes(2)
    left = [torch.cat((1e6 * normal(1, 2, 3, 16), t), dim=2).requires_grad_() for t in tensors]
    is_real = torch.tensor([[False] * 3 + [True] * 5])
    output = alibi_attention(
        *left, slopes.requires_grad_(), key_padding_mask=is_real, backend=backend
    )
    assert torch.allclose(output[:, :, 3:], alibi_attention(*tensors, slopes), atol=1e-9)
    assert not output[:, :, :3].any()
    output.square().sum().backward()
    assert all(bool(t.grad.isfinite().all()) for t in (*left, slopes) if t.grad is not None)


@pytest.mark.parametrize("keys", [1, 64, 65, 128, 192, 512, 513, 768, 959])
def test_blocks_of_queries_that_share_their_bias_equal_the_minimal_implementation(
    keys: int,
) -> None:
    q, k, v = qkv(keys, batch=2, dim=8)
    for rows in {1, keys // 2 + 1, keys}:
        for slopes in (alibi_slopes(4), torch.tensor([0.9, 0.3, -0.01, 0.0]), None):
            assert (
                cases.largest_error(
                    q[:, :, keys - rows :], k[:, :2], v[:, :2], slopes, backend="mask"
                )
                < 1e-12
            )


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("setting", ["inference mode", "meta device", "bfloat16 by default"])
def test_cached_bias_does_not_depend_on_the_first_callers_mode_device_or_dtype(
    setting: str, causal: bool
) -> None:
    tensors, slopes = (
        qkv(100, dtype=torch.float32),
        torch.rand(4),
    )  # slopes that no other test has cached
    try:
        with torch.device("meta" if setting == "meta device" else "cpu"):
            torch.set_default_dtype(
                torch.bfloat16 if setting == "bfloat16 by default" else torch.float32
            )
            with torch.inference_mode(setting == "inference mode"):
                alibi_attention(*tensors, slopes, causal=causal)
                alibi_attention(tensors[0][:, :, -1:], *tensors[1:], slopes, causal=causal)
    finally:
        torch.set_default_dtype(torch.float32)
    results, eager = (
        output_and_gradients((*tensors, slopes), name, causal=causal) for name in ("auto", "eager")
    )
    assert_equal(results, eager, tolerance=1e-4)
    assert cases.largest_error(*tensors, slopes, causal=causal) < 5e-6


@pytest.mark.parametrize("trained", [slice(0, 3), slice(3, 4)], ids=["inputs", "slopes"])
def test_tensors_made_in_inference_mode_serve_the_training_of_others(trained: slice) -> None:
    with torch.inference_mode():
        tensors = [each.clone() for each in (*qkv(100, dtype=torch.float32), alibi_slopes(4))]
    leaves = tensors[trained] = [each.clone().requires_grad_() for each in tensors[trained]]
    outputs = [alibi_attention(*tensors, backend=name).square().sum() for name in BACKENDS]
    _, exact, *others = (torch.autograd.grad(each, leaves) for each in outputs)
    for gradients in others:
        assert_equal(gradients, exact, tolerance=1e-4)


@pytest.mark.parametrize("backend", MASKING)
def test_shapes_are_computed_on_the_meta_device(backend: str) -> None:
    q, slopes = torch.zeros(1, 4, 3, 8, device="meta"), alibi_slopes(4).to("meta")
    assert alibi_attention(q, q, q, slopes, backend=backend).shape == q.shape


@pytest.mark.parametrize("backend", MASKING)
@pytest.mark.parametrize("shape", [(0, 4, 3, 8), (2, 4, 0, 8)])
def test_learned_slopes_have_a_gradient_without_any_query(
    backend: str, shape: tuple[int, ...]
) -> None:
    slopes, q = alibi_slopes(4).requires_grad_(), torch.zeros(shape)
    alibi_attention(q, q, q, slopes, backend=backend).sum().backward()
    assert slopes.grad is not None and slopes.grad.count_nonzero() == 0


def test_float16_does_not_overflow_and_too_small_a_scale_is_refused() -> None:
    q, is_real = torch.full((1, 1, 3, 64), 100.0).half(), torch.tensor([[False, True, True]])
    for autocast in (False, True):
        with torch.autocast("cpu", torch.float16, enabled=autocast):
            assert (
                alibi_attention(q, q, q, torch.tensor([0.5]), backend="eager").eq(100).all()
            )  # logits of 80,000
    with pytest.raises(ValueError, match="a scale of 1e-08 is too small to hide padded keys"):
        alibi_attention(q, q, q, None, key_padding_mask=is_real, scale=1e-8, backend="folded")


@pytest.mark.parametrize("length", [5, 600])
@pytest.mark.parametrize(("backend", "causal"), [("mask", True), ("mask", False), ("folded", True)])
def test_gradients_equal_those_of_eager(backend: str, causal: bool, length: int) -> None:
    """The gradients of eager, by autograd, equal those of windowed, by hand: see
    test_windowed.py."""
    tensors, names = (*qkv(length, heads=2, dim=4), alibi_slopes(2).double()), (backend, "eager")
    for learned in (True, False):
        results, eager = (
            output_and_gradients(tensors, name, learned=learned, causal=causal) for name in names
        )
        assert_equal(results, eager, tolerance=1e-9)


@pytest.mark.parametrize("backend", MASKING)
def test_dropout_zeroes_weights_and_preserves_their_mean(backend: str) -> None:
    q, k, _ = qkv(8, heads=1, dim=4)
    v = torch.eye(8, dtype=torch.float64)[None, None, :, :4]
    torch.manual_seed(0)
    runs = torch.stack(
        [
            alibi_attention(q, k, v, alibi_slopes(1), dropout=0.5, backend=backend)
            for _ in range(100)
        ]
    )
    assert (runs == 0).any() and torch.allclose(
        runs.mean(0), alibi_attention(q, k, v, alibi_slopes(1)), atol=0.3
    )


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("backend", BACKENDS)
def test_autocast_gives_its_dtype_to_the_output_and_to_the_choice(
    backend: str, dtype: torch.dtype
) -> None:
    q, k, v = qkv(2100, heads=8, dim=32, dtype=torch.float32)
    reference = alibi_attention(q, k, v, SLOPES)
    with torch.autocast("cpu", dtype):
        output = alibi_attention(q, k, v, SLOPES, backend=backend)
        assert choose_backend(q.clone().requires_grad_(), k, SLOPES).name == "windowed"
        assert alibi_attention(*qkv(20), alibi_slopes(4)).dtype == torch.float64, (
            "autocast leaves float64 as it is"
        )
    assert output.dtype == dtype and float((output.float() - reference).abs().max()) < 0.04


@pytest.mark.parametrize("dtype", HALF)
def test_a_mask_is_not_rounded_to_half_precision(dtype: torch.dtype) -> None:
    length, slopes = 600, torch.tensor([0.0101])
    v = torch.zeros(1, 1, length, 4, dtype=dtype)
    v[:, :, 0] = 100  # the output is the weight of the first key, which depends only on the bias
    q = k = torch.zeros_like(v)
    exact, mask = (
        expected(q, k, v, slopes),
        mask_future(alibi_bias(slopes, length, dtype=dtype))[None],
    )
    rounded = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    for rows, cast in ((length, False), (1, False), (length, True)):
        inputs = [t.float() if cast else t for t in (q[:, :, -rows:], k, v)]
        with torch.autocast("cpu", dtype, enabled=cast):
            output = alibi_attention(*inputs, slopes, backend="mask")
        error, worse = (
            (each / exact[:, :, -rows:] - 1).abs().max() for each in (output, rounded[:, :, -rows:])
        )
        assert output.dtype == dtype and error < 0.5 * worse


@pytest.mark.parametrize(
    ("backend", "causal"), [("windowed", True), ("folded", True), ("auto", False)]
)
def test_no_query_by_key_tensor_is_allocated(backend: str, causal: bool) -> None:
    slopes = alibi_slopes(2) if causal else None
    q, k, v = qkv(3000, heads=2, dim=4, dtype=torch.float32)
    with LargestTensor() as largest:
        output = alibi_attention(q, k, v, slopes, causal=causal, backend=backend)
    assert largest.numel < 3000 * 3000 / 16
    assert torch.allclose(
        output[:, :, -9:].double(), expected(q[:, :, -9:], k, v, slopes, causal=causal), atol=1e-5
    )
