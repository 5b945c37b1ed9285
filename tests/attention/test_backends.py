"""Every backend equals the minimal implementation, or says why it doesn't take the call."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz import alibi_attention, alibi_slopes, attention_trace
from tests.attention.cases import (
    BACKENDS,
    HALF,
    MASKING,
    TOLERANCE,
    expected,
    largest_error,
    normal,
    qkv,
)
from tests.largest_tensor import LargestTensor
from tests.reference import reference_attention, reference_bias
from tests.rows import each_case

FAR = (0, -300, -(2**40), 10**9)


@st.composite
def calls(draw):
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

    def is_rare():
        return draw(st.integers(0, 3)) == 0

    def mask(*shape):
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


def is_supported(call):
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
def test_a_valid_call_equals_minimal_or_says_why_not(call, slopes_dtype):
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


@given(
    lengths=st.tuples(st.integers(0, 5), st.integers(0, 7)).map(sorted),
    causal=st.booleans(),
    padded=st.booleans(),
)
def test_every_step_of_the_trace_equals_that_of_minimal(lengths, *, causal, padded):
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


LEARNED = alibi_slopes(4).requires_grad_()

POSITIONS = torch.arange(50)


# Beyond those of `is_supported`
@each_case(
    ("backend", "dtype", "options"),
    {
        "folded float16 with positions": ("folded", torch.float16, {"positions": POSITIONS}),
        "folded float16 with steep slopes": (
            "folded",
            torch.float16,
            {"slopes": torch.full((4,), 200_000.0)},
        ),
        "folded far positions": ("folded", torch.float32, {"positions": POSITIONS * 2**20}),
        "windowed with positions": ("windowed", torch.float32, {"positions": POSITIONS}),
        "windowed learned slopes, not causal": (
            "windowed",
            torch.float32,
            {"slopes": LEARNED, "causal": False},
        ),
        "windowed learned slopes, scale 0": (
            "windowed",
            torch.float32,
            {"slopes": LEARNED, "scale": 0.0},
        ),
        "windowed learned slopes, float16": ("windowed", torch.float16, {"slopes": LEARNED}),
    },
)
def test_unsupported_call_raises_the_reason_and_auto_is_exact(backend, dtype, options):
    q, k, v = qkv(50, dtype=dtype)
    arguments = {"slopes": alibi_slopes(4)} | options
    with pytest.raises(ValueError, match=f"backend '{backend}' does not support this call: .*"):
        alibi_attention(q, k, v, backend=backend, **arguments)
    assert largest_error(q, k, v, **arguments) < 2e-3


def test_dropout_is_refused_by_windowed_which_has_none():
    q, k, v = qkv(50, dtype=torch.float32)
    with pytest.raises(ValueError, match="backend 'windowed' does not support this call: "):
        alibi_attention(q, k, v, alibi_slopes(4), backend="windowed", dropout=0.1)


# One block, and block edges at 64 queries and, beyond 512 keys, at 192
@each_case(
    ("keys", "slopes"),
    {
        "one key": (1, alibi_slopes(4)),
        "one block": (64, alibi_slopes(4)),
        "two blocks, no slopes": (65, None),
        "blocks of 64": (512, torch.tensor([0.9, 0.3, -0.01, 0.0])),
        "blocks of 192": (768, alibi_slopes(4)),
        "blocks of 192 and a part": (513, torch.tensor([0.9, 0.3, -0.01, 0.0])),
    },
)
def test_blocks_of_queries_that_share_their_bias_equal_minimal(keys, slopes):
    q, k, v = qkv(keys, batch=2, dim=8)
    k = k[:, :2]
    v = v[:, :2]
    for rows in {1, keys // 2 + 1, keys}:
        error = largest_error(q[:, :, keys - rows :], k, v, slopes, backend="mask")
        assert error < 1e-12, f"{rows} queries"


@pytest.mark.parametrize("backend", MASKING)
def test_shapes_are_computed_on_the_meta_device(backend):
    q = torch.zeros(1, 4, 3, 8, device="meta")
    slopes = alibi_slopes(4).to("meta")
    assert alibi_attention(q, q, q, slopes, backend=backend).shape == q.shape


@each_case(
    ("backend", "causal", "slopes"),
    {
        "windowed": ("windowed", True, alibi_slopes(2)),
        "folded": ("folded", True, alibi_slopes(2)),
        "auto without slopes": ("auto", False, None),
    },
)
def test_no_query_by_key_tensor_is_allocated(backend, slopes, *, causal):
    q, k, v = qkv(3000, heads=2, dim=4, dtype=torch.float32)
    with LargestTensor() as largest:
        output = alibi_attention(q, k, v, slopes, causal=causal, backend=backend)
    assert largest.numel < 3000 * 3000 / 16
    exact = expected(q[:, :, -9:], k, v, slopes, causal=causal)
    assert torch.allclose(output[:, :, -9:].double(), exact, atol=1e-5)
