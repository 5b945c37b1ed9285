"""Every backend equals the minimal implementation, or says why it doesn't take the call."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
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
from tests.attention.cases import (
    HALF,
    MASKING,
    TOLERANCE,
    assert_equal,
    expected,
    largest_error,
    normal,
    output_and_gradients,
    qkv,
)
from tests.largest_tensor import LargestTensor
from tests.reference import reference_attention, reference_bias

BACKENDS = ("auto", "eager", "mask", "windowed", "folded")
SLOPES = alibi_slopes(8)


FAR = (0, -300, -(2**40), 10**9)


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    """Valid arguments of `alibi_attention`."""
    dtype = draw(st.sampled_from([*TOLERANCE]))
    seed = draw(st.integers(0, 99))
    batch = draw(st.integers(0, 2))
    key_heads = draw(st.integers(1, 2))
    heads = key_heads * draw(st.integers(1, 2))
    query_length, key_length = sorted((draw(st.integers(0, 6)), draw(st.integers(0, 7))))
    dim = draw(st.integers(1, 4))
    is_half = dtype in HALF
    generator = torch.Generator().manual_seed(seed)

    def is_rare() -> bool:
        return draw(st.integers(0, 3)) == 0

    def mask(*shape: int) -> Tensor | None:
        if not is_rare():
            return None
        return torch.rand(shape, generator=generator) < 0.6

    # The tolerances of half precision are for biases that fall with the distance.
    slope = st.floats(0 if is_half else -0.5, 1.5)
    slopes = st.lists(slope, min_size=heads, max_size=heads).map(torch.tensor)

    positions = None
    if not is_half and is_rare():  # far away or negative, with gaps
        shape = (batch, key_length) if draw(st.booleans()) else (key_length,)
        gaps = torch.randint(50, shape, generator=generator)
        positions = gaps.cumsum(-1) + draw(st.sampled_from(FAR))

    leading_axes = draw(st.sampled_from([(), (heads,), (1, 1), (batch, heads)]))
    return {
        "query": normal(batch, heads, query_length, dim, seed=seed, dtype=dtype),
        "key": normal(batch, key_heads, key_length, dim, seed=seed + 1, dtype=dtype),
        "value": normal(batch, key_heads, key_length, dim, seed=seed + 2, dtype=dtype),
        "slopes": draw(st.none() | slopes),
        "causal": draw(st.booleans()),
        "key_padding_mask": mask(batch, key_length),
        "attn_mask": mask(*leading_axes, query_length, key_length),
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
        has_positive_scale = call["scale"] in (None, 1.0)
        no_attn_mask = call["attn_mask"] is None
        return call["causal"] and equal_lengths and no_attn_mask and has_positive_scale
    return True


@given(calls(), st.sampled_from([None, *TOLERANCE]))
def test_a_valid_call_equals_minimal_or_says_why_not(
    call: dict[str, Any], slopes_dtype: torch.dtype | None
) -> None:
    if call["slopes"] is not None and slopes_dtype is not None:
        # Before the oracle reads them, because half precision rounds slopes such as 0.3.
        call["slopes"] = call["slopes"].to(slopes_dtype)
    if not is_supported(call):
        message = f"backend '{call['backend']}' does not support this call: "
        with pytest.raises(ValueError, match=message):
            alibi_attention(**call)
        return

    output = alibi_attention(**call)
    assert output.dtype == call["query"].dtype
    assert output.shape == call["query"].shape
    del call["backend"]
    exact = expected(**call)
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


def wrong_tensors() -> Iterator[Any]:
    """A row of a table for each tensor and each fault."""
    for name in VALID:
        faults = [one_axis_more, of_another_kind]
        if name != "query":  # which may have any length and device: the others must fit it
            faults += [three_times_as_long, on_another_device]
        for fault in faults:
            yield pytest.param(name, fault, id=f"{name} {fault.__name__.replace('_', ' ')}")


def assert_named(name: str, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{name}.* must .*"):
        alibi_attention(**(VALID | {name: wrong}))


def test_the_valid_arguments_are_accepted() -> None:
    """Otherwise the next two tests would say nothing."""
    alibi_attention(**VALID)


@pytest.mark.parametrize(("name", "fault"), list(wrong_tensors()))
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


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("backend", ["eager", "mask"])
def test_far_keys_are_as_exact_as_near_ones(
    dtype: torch.dtype, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a GPU, the mask is rounded to half precision.
    monkeypatch.setattr(AttentionInputs, "on_gpu", property(lambda self: True))
    query = normal(1, 8, 1, 64)
    key, value = normal(2, 1, 8, 2048, 64, seed=1)
    is_far = (torch.arange(2048) < 64)[None, None, None]
    exact = expected(query, key, value, SLOPES, attn_mask=is_far)
    rounded = [tensor.to(dtype) for tensor in (query, key, value)]
    output = alibi_attention(*rounded, SLOPES, attn_mask=is_far, backend=backend)
    assert float((output - exact).abs().max()) < 4 * torch.finfo(dtype).eps


@given(
    lengths=st.tuples(st.integers(0, 5), st.integers(0, 7)).map(sorted),
    causal=st.booleans(),
    padded=st.booleans(),
)
def test_every_step_of_the_trace_equals_that_of_minimal(
    lengths: list[int], *, causal: bool, padded: bool
) -> None:
    query_length, key_length = lengths
    q = normal(2, 4, query_length, 3)
    k = normal(2, 2, key_length, 3, seed=1)
    slopes = alibi_slopes(4)
    is_real = normal(2, key_length, seed=2) < 0.25 if padded else None
    trace = attention_trace(q, k, slopes, causal=causal, key_padding_mask=is_real)

    keys = list(range(key_length))
    queries = keys[key_length - query_length :]
    bias = reference_bias(slopes, queries, keys, "relative" if causal else "symmetric")
    _, weights = reference_attention(q, k, k, bias, causal=causal, is_real=is_real)
    assert torch.equal(trace.bias, bias.expand_as(trace.bias))
    assert torch.allclose(trace.content, q @ k.repeat_interleave(2, dim=1).mT / math.sqrt(3))
    visible_logits = trace.content + trace.bias
    assert torch.equal(trace.logits, visible_logits.masked_fill(weights == 0, -math.inf))
    assert torch.allclose(trace.weights, weights, atol=1e-12)


SOME_MASK = torch.ones(1, 1, 1, 50, dtype=torch.bool)
LEARNED = alibi_slopes(4).requires_grad_()
POSITIONS = torch.arange(50)


# Beyond those of `is_supported`
@pytest.mark.parametrize(
    ("backend", "dtype", "options"),
    [
        pytest.param(
            "folded", torch.float16, {"positions": POSITIONS}, id="folded float16 with positions"
        ),
        pytest.param(
            "folded",
            torch.float16,
            {"slopes": torch.full((4,), 200_000.0)},
            id="folded float16 with steep slopes",
        ),
        pytest.param(
            "folded", torch.float32, {"positions": POSITIONS * 2**20}, id="folded far positions"
        ),
        pytest.param(
            "windowed",
            torch.float32,
            {"slopes": LEARNED, "causal": False},
            id="windowed learned slopes, not causal",
        ),
        pytest.param(
            "windowed",
            torch.float32,
            {"slopes": LEARNED, "scale": 0.0},
            id="windowed learned slopes, scale 0",
        ),
        pytest.param(
            "windowed", torch.float16, {"slopes": LEARNED}, id="windowed learned slopes, float16"
        ),
        pytest.param("flex", torch.float32, {"attn_mask": SOME_MASK}, id="flex with a mask"),
        pytest.param("flex", torch.float32, {"positions": POSITIONS}, id="flex with positions"),
        pytest.param("flex", torch.float64, {}, id="flex float64"),
    ],
)
def test_unsupported_call_raises_the_reason_and_auto_is_exact(
    backend: str, dtype: torch.dtype, options: dict[str, Any]
) -> None:
    q, k, v = qkv(50, dtype=dtype)
    arguments = {"slopes": alibi_slopes(4)} | options
    with pytest.raises(ValueError, match=f"backend '{backend}' does not support this call: .*"):
        alibi_attention(q, k, v, backend=backend, **arguments)
    assert largest_error(q, k, v, **arguments) < 2e-3


@pytest.mark.parametrize("backend", ["windowed", "flex"])
def test_dropout_is_refused_by_backends_without_it(backend: str) -> None:
    q, k, v = qkv(50, dtype=torch.float32)
    with pytest.raises(ValueError, match=f"backend '{backend}' does not support this call: .*"):
        alibi_attention(q, k, v, alibi_slopes(4), backend=backend, dropout=0.1)


@pytest.fixture
def padded_left() -> dict[str, Tensor]:
    """Five real tokens after three that are padding, with large numbers in them."""
    padding = 1e6 * normal(1, 2, 3, 16)
    q, k, v = (torch.cat((padding, tensor), dim=2) for tensor in qkv(5, heads=2))
    is_real = torch.tensor([[False] * 3 + [True] * 5])
    return {"query": q, "key": k, "value": v, "key_padding_mask": is_real}


@pytest.mark.parametrize("backend", MASKING)
def test_padded_tokens_get_zeros_and_change_nothing_else(
    padded_left: dict[str, Tensor], backend: str
) -> None:
    output = alibi_attention(**padded_left, slopes=alibi_slopes(2), backend=backend)
    without_padding = alibi_attention(*qkv(5, heads=2), alibi_slopes(2))
    assert torch.allclose(output[:, :, 3:], without_padding, atol=1e-9)
    assert not output[:, :, :3].any()


@pytest.mark.parametrize("backend", MASKING)
def test_gradients_of_padded_tokens_are_finite(
    padded_left: dict[str, Tensor], backend: str
) -> None:
    slopes = alibi_slopes(2).requires_grad_()
    trained = [padded_left[name].requires_grad_() for name in ("query", "key", "value")]
    output = alibi_attention(**padded_left, slopes=slopes, backend=backend)
    gradients = torch.autograd.grad(output.square().sum(), [*trained, slopes])
    for gradient in gradients:
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize(
    "slopes",
    [
        pytest.param(alibi_slopes(4), id="official"),
        pytest.param(torch.tensor([0.9, 0.3, -0.01, 0.0]), id="others"),
        pytest.param(None, id="none"),
    ],
)
# One block, and block edges at 64 queries and, beyond 512 keys, at 192
@pytest.mark.parametrize("keys", [1, 64, 65, 128, 192, 512, 513, 768, 959])
def test_blocks_of_queries_that_share_their_bias_equal_minimal(
    keys: int, slopes: Tensor | None
) -> None:
    q, k, v = qkv(keys, batch=2, dim=8)
    k = k[:, :2]
    v = v[:, :2]
    for rows in {1, keys // 2 + 1, keys}:
        error = largest_error(q[:, :, keys - rows :], k, v, slopes, backend="mask")
        assert error < 1e-12, f"{rows} queries"


@contextmanager
def bfloat16_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(torch.inference_mode, id="inference mode"),
        pytest.param(partial(torch.device, "meta"), id="meta device"),
        pytest.param(bfloat16_by_default, id="bfloat16 by default"),
    ],
)
def test_cached_bias_does_not_depend_on_the_first_callers_setting(
    setting: Callable[[], AbstractContextManager[object]], *, causal: bool
) -> None:
    q, k, v = qkv(100, dtype=torch.float32)
    slopes = torch.rand(4)  # which no other test has cached
    with setting():
        alibi_attention(q, k, v, slopes, causal=causal)
        alibi_attention(q[:, :, -1:], k, v, slopes, causal=causal)

    assert largest_error(q, k, v, slopes, causal=causal) < 5e-6
    results = output_and_gradients((q, k, v, slopes), "auto", causal=causal)
    exact = output_and_gradients((q, k, v, slopes), "eager", causal=causal)
    assert_equal(results, exact, tolerance=1e-4)


@pytest.mark.parametrize("backend", ["auto", "mask", "windowed", "folded"])
@pytest.mark.parametrize(
    "trained",
    [
        pytest.param(("query", "key", "value"), id="inputs"),
        pytest.param(("slopes",), id="slopes"),
    ],
)
def test_tensors_made_in_inference_mode_serve_the_training_of_others(
    trained: tuple[str, ...], backend: str
) -> None:
    with torch.inference_mode():
        q, k, v = (tensor.clone() for tensor in qkv(100, dtype=torch.float32))
        tensors = {"query": q, "key": k, "value": v, "slopes": alibi_slopes(4).clone()}
    for name in trained:
        tensors[name] = tensors[name].clone().requires_grad_()
    leaves = [tensors[name] for name in trained]

    def gradients(backend: str) -> Sequence[Tensor]:
        loss = alibi_attention(**tensors, backend=backend).square().sum()
        return torch.autograd.grad(loss, leaves)

    assert_equal(gradients(backend), gradients("eager"), tolerance=1e-4)


@pytest.mark.parametrize("backend", MASKING)
def test_shapes_are_computed_on_the_meta_device(backend: str) -> None:
    q = torch.zeros(1, 4, 3, 8, device="meta")
    slopes = alibi_slopes(4).to("meta")
    assert alibi_attention(q, q, q, slopes, backend=backend).shape == q.shape


@pytest.mark.parametrize("backend", MASKING)
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((0, 4, 3, 8), id="empty batch"),
        pytest.param((2, 4, 0, 8), id="no tokens"),
    ],
)
def test_learned_slopes_have_a_gradient_without_any_query(
    backend: str, shape: tuple[int, ...]
) -> None:
    slopes = alibi_slopes(4).requires_grad_()
    q = torch.zeros(shape)
    alibi_attention(q, q, q, slopes, backend=backend).sum().backward()
    assert slopes.grad is not None
    assert not slopes.grad.any()


@pytest.mark.parametrize("autocast", [False, True])
def test_logits_beyond_the_range_of_float16_do_not_overflow(*, autocast: bool) -> None:
    q = torch.full((1, 1, 3, 64), 100.0).half()  # logits of 80,000
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        output = alibi_attention(q, q, q, torch.tensor([0.5]), backend="eager")
    assert bool((output == 100).all())


def test_too_small_a_scale_to_hide_padding_is_refused() -> None:
    q = torch.full((1, 1, 3, 64), 100.0).half()
    is_real = torch.tensor([[False, True, True]])
    with pytest.raises(ValueError, match="a scale of 1e-08 is too small to hide padded keys"):
        alibi_attention(q, q, q, None, key_padding_mask=is_real, scale=1e-8, backend="folded")


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("length", [5, 600])
@pytest.mark.parametrize(("backend", "causal"), [("mask", True), ("mask", False), ("folded", True)])
def test_gradients_equal_those_of_eager(
    backend: str, *, causal: bool, length: int, learned: bool
) -> None:
    """The gradients of eager, by autograd, equal those of windowed, by hand: see
    test_windowed.py."""
    tensors = (*qkv(length, heads=2, dim=4), alibi_slopes(2).double())
    results = output_and_gradients(tensors, backend, learned=learned, causal=causal)
    exact = output_and_gradients(tensors, "eager", learned=learned, causal=causal)
    assert_equal(results, exact, tolerance=1e-9)


@pytest.mark.parametrize("backend", MASKING)
def test_dropout_zeroes_weights_and_preserves_their_mean(backend: str) -> None:
    q, k, _ = qkv(8, heads=1, dim=4)
    v = torch.eye(8, dtype=torch.float64)[None, None, :, :4]  # so the output is the weights
    attention = partial(alibi_attention, q, k, v, alibi_slopes(1))
    torch.manual_seed(0)
    runs = torch.stack([attention(dropout=0.5, backend=backend) for _ in range(100)])
    is_visible = attention() > 0
    assert bool((runs == 0)[:, is_visible].any())
    assert torch.allclose(runs.mean(0), attention(), atol=0.3)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_autocast_gives_its_dtype_to_the_output(backend: str, dtype: torch.dtype) -> None:
    q, k, v = qkv(300, heads=8, dim=32, dtype=torch.float32)
    with torch.autocast("cpu", dtype):
        output = alibi_attention(q, k, v, SLOPES, backend=backend)
    assert output.dtype == dtype
    assert float((output.float() - expected(q, k, v, SLOPES)).abs().max()) < 0.04


@pytest.mark.parametrize("backend", BACKENDS)
def test_autocast_leaves_float64_as_it_is(backend: str) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        output = alibi_attention(*qkv(20), alibi_slopes(4), backend=backend)
    assert output.dtype == torch.float64


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_long_trained_queries_are_windowed_under_autocast(dtype: torch.dtype) -> None:
    q, k, _ = qkv(2100, heads=8, dim=32, dtype=torch.float32)
    with torch.autocast("cpu", dtype):
        assert choose_backend(q.requires_grad_(), k, SLOPES).name == "windowed"


def test_the_choice_is_for_the_dtype_of_autocast() -> None:
    q, k, _ = qkv(900, heads=8, dim=32, dtype=torch.float32)
    positions = 2 * torch.arange(900)
    assert choose_backend(q, k, SLOPES, positions=positions).name == "folded"
    # Folding in float16 supports no positions.
    with torch.autocast("cpu", torch.float16):
        assert choose_backend(q, k, SLOPES, positions=positions).name == "mask"


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize(
    ("queries", "autocast"),
    [
        pytest.param(600, False, id="all queries"),
        pytest.param(1, False, id="one query"),
        pytest.param(600, True, id="autocast"),
    ],
)
def test_a_mask_is_not_rounded_to_half_precision(
    dtype: torch.dtype, queries: int, *, autocast: bool
) -> None:
    length = 600
    slopes = torch.tensor([0.0101])
    # Without content, and with a value in the first key only, the output is the weight of that key.
    v = torch.zeros(1, 1, length, 4, dtype=dtype)
    v[:, :, 0] = 100
    k = torch.zeros_like(v)
    q = k[:, :, -queries:]
    exact = expected(q, k, v, slopes)

    if autocast:
        q, k, v = (tensor.float() for tensor in (q, k, v))
    with torch.autocast("cpu", dtype, enabled=autocast):
        output = alibi_attention(q, k, v, slopes, backend="mask")
    assert output.dtype == dtype

    rounded_mask = mask_future(alibi_bias(slopes, queries, length, dtype=dtype))[None]
    rounded = scaled_dot_product_attention(
        q.to(dtype), k.to(dtype), v.to(dtype), attn_mask=rounded_mask
    )
    error = (output / exact - 1).abs().max()
    error_of_rounding = (rounded / exact - 1).abs().max()
    assert error < 0.5 * error_of_rounding


@pytest.mark.parametrize(
    ("backend", "causal", "slopes"),
    [
        pytest.param("windowed", True, alibi_slopes(2), id="windowed"),
        pytest.param("folded", True, alibi_slopes(2), id="folded"),
        pytest.param("auto", False, None, id="auto without slopes"),
    ],
)
def test_no_query_by_key_tensor_is_allocated(
    backend: str, slopes: Tensor | None, *, causal: bool
) -> None:
    q, k, v = qkv(3000, heads=2, dim=4, dtype=torch.float32)
    with LargestTensor() as largest:
        output = alibi_attention(q, k, v, slopes, causal=causal, backend=backend)
    assert largest.numel < 3000 * 3000 / 16
    exact = expected(q[:, :, -9:], k, v, slopes, causal=causal)
    assert torch.allclose(output[:, :, -9:].double(), exact, atol=1e-5)
