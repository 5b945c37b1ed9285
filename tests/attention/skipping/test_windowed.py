"""Attention that skips keys of negligible weight gives the output and the gradients of full
attention."""

import math
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alibi_viz import alibi_attention, alibi_slopes
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.attention.skipping import tiles
from alibi_viz.attention.skipping.spans import attention_spans
from alibi_viz.attention.skipping.windowed import _calls
from tests.attention.cases import (
    HALF,
    assert_equal,
    expected,
    largest_error,
    normal,
    output_and_gradients,
    qkv,
)
from tests.rows import each_case


@contextmanager
def threads_of_torch(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


SLOPES = (0.0, -0.02, 1e-30, 1e-4, 0.004, 0.05, 0.3, 4.0, 1e4)


@st.composite
def calls(draw):
    """Query, key, value and slopes, and options of `alibi_attention`."""
    key_length = draw(st.integers(1, 330))
    few_queries = min(key_length, draw(st.integers(0, 5)))
    query_length = draw(st.sampled_from([key_length, few_queries, key_length // 2 + 1]))
    batch = draw(st.integers(0, 3))
    key_heads = draw(st.integers(1, 2))
    heads = key_heads * draw(st.integers(1, 2))
    head_dim = draw(st.sampled_from([1, 3, 8]))
    seed = draw(st.integers(0, 999))
    content = draw(st.sampled_from([0.1, 1.0, 10.0]))

    query = content * normal(batch, heads, query_length, head_dim, seed=seed)
    key, value = normal(2, batch, key_heads, key_length, head_dim, seed=seed + 1)
    slopes = draw(st.lists(st.sampled_from(SLOPES), min_size=heads, max_size=heads))
    options = {"causal": draw(st.booleans()), "scale": draw(st.sampled_from([0.7, -1, 0]))}
    return (query, key, value, torch.tensor(slopes, dtype=torch.float64)), options


@each_case(
    ("key_heads", "calls"),  # each the heads of a call, and their keys
    {
        "own keys": (4, [(slice(0, 4), 4)]),
        "shared keys": (2, [(slice(0, 2), 4), (slice(2, 4), 4)]),
    },
)
def test_heads_of_equal_spans_share_a_call_when_decoding(key_heads, calls):
    """Grouped heads share it with those of their key head only."""
    query = normal(2, 4, 1, 8)
    key = normal(2, key_heads, 900, 8, seed=1)
    assert _calls(AttentionInputs(query, key, key, None), (3, 3, 3, 3)) == calls


@pytest.mark.parametrize("key_heads", [4, 2])
def test_decoding_with_shared_calls_is_exact(key_heads):
    query = normal(2, 4, 1, 8)
    key = normal(2, key_heads, 900, 8, seed=1)
    slopes = torch.tensor([2.0, 0.5, 0.1, 0.001])
    assert largest_error(query, key, key, slopes, backend="windowed") < 1e-12


@settings(max_examples=60)
@given(call=calls(), threads=st.sampled_from([1, 2, 4]))
def test_output_and_gradients_are_those_of_eager(call, threads):
    tensors, options = call
    learned = options["causal"] and options["scale"] != 0
    with threads_of_torch(threads):
        results = output_and_gradients(tensors, "windowed", learned=learned, **options)
        exact = output_and_gradients(tensors, "eager", learned=learned, **options)
    assert_equal(results, exact, tolerance=1e-9)


@each_case(
    ("rows", "columns", "causal", "threads"),
    {
        "all queries, causal": (1700, 1700, True, 1),
        "many queries, both directions": (700, 1710, False, 4),
        "few queries, causal": (5, 1700, True, 4),
        "one query, both directions": (1, 1700, False, 1),
    },
)
def test_wide_spans_with_bands_and_neighbors_equal_eager(
    rows, columns, *, causal, threads, monkeypatch
):
    monkeypatch.setattr(tiles, "_NARROW", 1024)
    query = 0.3 * normal(1, 2, rows, 4, seed=5)
    _, key, value = qkv(columns, heads=1, dim=4)
    slopes = torch.tensor([0.048, 0.001], dtype=torch.float64)
    tensors = (query, key, value, slopes)
    tolerance = 1e-22  # more than 1024 steps for the first head
    inputs = AttentionInputs(*tensors, causal, tolerance=tolerance)
    wide, all_keys = attention_spans(inputs).tolist()
    assert 1024 < wide < 0.75 * columns
    assert all_keys == columns

    with threads_of_torch(threads):
        results = output_and_gradients(
            tensors, "windowed", learned=causal, causal=causal, tolerance=tolerance
        )
    exact = output_and_gradients(tensors, "eager", learned=causal, causal=causal)
    assert_equal(results, exact, tolerance=1e-9)


def test_float32_is_exact_to_rounding():
    q, k, v = qkv(777, dim=32, dtype=torch.float32)
    slopes = alibi_slopes(4)
    exact = output_and_gradients([q.double(), k.double(), v.double(), slopes.double()], "eager")
    results = output_and_gradients([q, k, v, slopes], "windowed")
    *of_inputs, of_slopes = results
    *exact_of_inputs, exact_of_slopes = exact
    assert_equal(of_inputs, exact_of_inputs, tolerance=5e-6)
    assert_equal([of_slopes], [exact_of_slopes], tolerance=1e-4)


@pytest.mark.parametrize(("dtype", "causal"), [(torch.bfloat16, True), (torch.float16, False)])
def test_half_precision_is_exact_to_rounding(dtype, causal):
    tensors = (*qkv(530, dim=32, dtype=dtype), alibi_slopes(4))
    results = output_and_gradients(tensors, "windowed", learned=False, causal=causal)
    assert {result.dtype for result in results} == {dtype}
    assert max(largest_errors(tensors, "windowed", causal=causal)) < 3 * torch.finfo(dtype).eps


@pytest.fixture
def on_the_cpu():
    """Arguments of `alibi_attention` in bfloat16, that need gradients."""
    q, k, v = qkv(530, dim=32, dtype=torch.bfloat16)
    return {"query": q.requires_grad_(), "key": k, "value": v, "slopes": alibi_slopes(4)}


def test_gradients_do_not_depend_on_the_default_device(on_the_cpu):
    with torch.device("meta"):
        output = alibi_attention(**on_the_cpu, backend="windowed")
        (gradient,) = torch.autograd.grad(output, on_the_cpu["query"], torch.ones_like(output))
    assert gradient.is_cpu


def test_decoding_does_not_depend_on_the_default_device(on_the_cpu):
    on_the_cpu["query"] = on_the_cpu["query"][:, :, -1:].detach()
    with torch.device("meta"):
        assert alibi_attention(**on_the_cpu, backend="windowed").is_cpu


def test_extreme_content_costs_only_the_digits_of_its_logits():
    """Norms of 100: the softmax is almost a maximum, and logits are up to 2,500."""
    q, k, v = qkv(900, heads=8, dtype=torch.float32)
    q = 100 * q / q.norm(dim=-1, keepdim=True)
    k = 100 * k / k.norm(dim=-1, keepdim=True)
    error = largest_error(q, k, v, alibi_slopes(8), backend="windowed")
    assert error < 2 * torch.finfo(torch.float32).eps * 2500


def test_double_backward_raises():
    query, key, value = (tensor.requires_grad_() for tensor in qkv(600, heads=1))
    output = alibi_attention(query, key, value, torch.tensor([0.5]), backend="windowed")
    (gradient,) = torch.autograd.grad(output.square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="'windowed' has no second derivatives: use 'eager'"):
        torch.autograd.grad(gradient.sum(), key)


@pytest.mark.parametrize(
    "trained",
    [("query",), ("key",), ("value",), ("slopes",), ("query", "slopes")],
    ids=" and ".join,
)
def test_only_tensors_that_require_a_gradient_get_one(trained):
    q, k, v = qkv(200, heads=2)
    slopes = torch.tensor([0.5, 0.01], dtype=torch.float64)

    def gradients(backend):
        """{name: gradient} of all tensors that have got one."""
        leaves = {"query": q, "key": k, "value": v, "slopes": slopes}
        leaves = {name: tensor.detach().clone() for name, tensor in leaves.items()}
        for name in trained:
            leaves[name].requires_grad_()
        # The gradient of a sum is one number, expanded.
        alibi_attention(**leaves, backend=backend).sum().backward()
        return {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}

    results = gradients("windowed")
    assert tuple(results) == trained
    assert_equal([*results.values()], [*gradients("eager").values()], tolerance=1e-10)


def heads_joined(tensor):
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


def channels_strided(tensor):
    return tensor.transpose(2, 3).contiguous().transpose(2, 3)


def part_of_a_larger_tensor(tensor):
    head_dim = tensor.shape[-1]
    return torch.cat((tensor, tensor, tensor), dim=-1)[..., head_dim : 2 * head_dim]


def every_second_token(tensor):
    return tensor.repeat_interleave(2, dim=2)[:, :, ::2]


def one_head_for_all(tensor):
    return tensor[:, :1].expand_as(tensor)


def one_batch_row_for_all(tensor):
    return tensor[:1].expand_as(tensor)


def one_token_for_all(tensor):
    return tensor[:, :, :1].expand_as(tensor)


@pytest.mark.parametrize(
    "layout",
    [
        heads_joined,
        channels_strided,
        part_of_a_larger_tensor,
        every_second_token,
        one_head_for_all,
        one_batch_row_for_all,
        one_token_for_all,
    ],
)
def test_any_memory_layout_gives_the_output_and_gradients_of_eager(layout):
    slopes = torch.tensor([0.9, 0.01])

    def output_and_gradients_of(backend):
        leaves = [tensor.requires_grad_() for tensor in qkv(150, heads=2, dim=5, batch=2)]
        q, k, v = (layout(leaf) for leaf in leaves)
        output = alibi_attention(q, k, v, slopes, backend=backend)
        return [output.detach(), *torch.autograd.grad(output.square().sum(), leaves)]

    results = output_and_gradients_of("windowed")
    assert_equal(results, output_and_gradients_of("eager"), tolerance=1e-8)


@each_case(
    ("name", "bad", "causal", "slope", "first", "last"),
    {
        "NaN in a query": ("query", math.nan, True, 0.7, 70, 71),
        "NaN in a key": ("key", math.nan, True, 0.001, 70, 71),
        "NaN in a value, both directions": ("value", math.nan, False, 0.7, 70, 71),
        "inf in the first key": ("key", math.inf, True, 0.7, 0, 1),
        "inf in many keys, both directions": ("key", math.inf, False, 0.001, 130, 280),
        "-inf in many queries": ("query", -math.inf, True, 0.001, 130, 280),
        "-inf in many values": ("value", -math.inf, True, 0.7, 130, 280),
    },
)
def test_nan_and_inf_reach_the_rows_that_full_attention_gives_them(
    slope, first, last, *, causal, name, bad
):
    """inf * 0 is NaN, so eager and the mask differ where a weight rounds to 0, or a key behind the
    query has inf."""
    q, k, v = (tensor.float() for tensor in qkv(300, heads=1, dim=4))
    # Without negative numbers, inf in one of them gives logits of one sign.
    tensors = {"query": q.abs(), "key": k.abs(), "value": v}
    tensors[name][:, :, first:last] = bad

    def attention(backend):
        output = alibi_attention(
            **tensors, slopes=torch.tensor([slope]), causal=causal, backend=backend
        )
        return output[0, 0]

    output = attention("windowed")
    eager = attention("eager")
    equals_eager = torch.isclose(output, eager, atol=1e-5, equal_nan=True)
    equals_mask = torch.isclose(output, attention("mask"), atol=1e-5, equal_nan=True)
    # Where neither is finite, it doesn't matter which of NaN and inf they are.
    is_bad_in_both = ~(eager.isfinite() | output.isfinite())
    assert bool((equals_eager | equals_mask | is_bad_in_both).all())

    if math.isnan(bad):
        if name == "query":
            reached = output[first:last]
        elif causal:
            reached = output[first:]
        else:
            reached = output
        assert not reached.isfinite().any(), "a row that has a NaN in full attention is finite"


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6])
def test_a_tolerance_changes_the_output_by_at_most_twice_its_share(tolerance):
    q, k, v = qkv(500, heads=2)
    slopes = torch.tensor([0.2, 0.1], dtype=torch.float64)
    output = alibi_attention(q, k, v, slopes, backend="windowed", tolerance=tolerance)
    error = float((output - expected(q, k, v, slopes)).abs().max())
    assert error <= 2 * tolerance * float(v.abs().max())
    assert error > 1e-12, "nothing is left out"


# Keys with a large component in common


def with_common_logit(
    common,
    *,
    spread,
    key_heads=2,
    length=600,
    dtype=torch.float32,
    seed=0,
):
    """Query, key, value and slopes: the content of all pairs is `common`, plus about `spread`."""
    # The same numbers in all tokens, of another sign in each channel
    channel = math.sqrt(common) / 64**0.25
    signs = normal(1, key_heads, 1, 64, seed=seed).sign()
    deviation = spread / max(1.0, channel)
    query, key, value = normal(3, 1, 2, length, 64, seed=seed + 1)
    query = channel * signs + deviation * query
    key = channel * signs + deviation * key[:, :key_heads]
    slopes = torch.tensor([2.0**-8, 2.0**-5])
    return [query.to(dtype), key.to(dtype), value[:, :key_heads].to(dtype), slopes]


def largest_errors(tensors, backend, **options):
    """The largest errors of the output and of the gradients of query, key and value.

    Each is relative to the largest element of the same tensor in float64.
    """
    results = output_and_gradients(tensors, backend, learned=False, **options)
    in_float64 = [tensor.double() for tensor in tensors]
    exact = output_and_gradients(in_float64, "eager", learned=False, **options)
    errors = []
    for result, reference in zip(results, exact, strict=True):
        error = (result.double() - reference).abs().max() / reference.abs().max()
        errors.append(float(error))
    return errors


@each_case(
    ("common", "spread", "key_heads", "causal"),
    {
        "no common logit": (0, 1.0, 2, True),
        "both directions": (64, 0.3, 2, False),
        "shared keys that hardly differ": (1024, 0.03, 1, True),
        "a common logit of 16,384": (16384, 1.0, 2, True),
    },
)
def test_a_common_component_of_the_keys_costs_no_digits(common, spread, key_heads, causal):
    tensors = with_common_logit(common, spread=spread, key_heads=key_heads)
    assert max(largest_errors(tensors, "windowed", causal=causal)) < 5e-6


def test_a_huge_first_key_costs_the_others_no_digits():
    """Its weights are 0, but it moves the mean of the keys far from all others."""
    query, key, value, slopes = with_common_logit(0, spread=1.0)
    query[..., 0] = query[..., 0].abs()
    key[:, :, 0, 0] = -1e4
    errors = largest_errors([query, key, value, slopes], "windowed", causal=False)
    assert max(errors) < 3e-6


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_in_half_precision_a_common_component_does_not_spoil_the_gradients(dtype):
    tensors = with_common_logit(1024, spread=1.0, dtype=dtype)
    errors = largest_errors(tensors, "windowed")
    assert max(errors) < 5 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_in_half_precision_keys_with_a_large_range_are_not_rounded(dtype):
    """Subtracting anything from them would round them."""
    query, key, value, slopes = with_common_logit(64, spread=1.0, dtype=dtype)
    key[:, :, ::2] *= -1
    errors = largest_errors([query, key, value, slopes], "windowed")
    assert max(errors) < 3 * torch.finfo(dtype).eps
