"""Keys beyond the attention spans weigh at most the tolerance, for any content; and the spans are
not much too wide."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz import AttentionTrace, attention_trace
from alibi_viz.attention import KeyBall
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.attention.skipping.spans import attention_spans, share_left_out
from tests.attention.cases import normal
from tests.rows import each_case

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
CONTENTS = (
    "normal",
    "far match",
    "near orthogonal",
    "own opposite",
    "first queries",
    "shifted",
    "zero",
)


def spans_of(inputs):
    return tuple(attention_spans(inputs).tolist())


def share_beyond(inputs, spans):
    """float64 [heads]: the largest share of a query's weights that is more than `spans` steps
    away."""
    query = inputs.query.double()
    key = inputs.key.double().repeat_interleave(inputs.group_size, dim=1)
    position = torch.arange(key.shape[2])
    steps = position[key.shape[2] - query.shape[2] :, None] - position  # [query, key]
    logits = query @ key.mT * inputs.scaling - inputs.slopes.double()[:, None, None] * steps.abs()
    weights = (logits.masked_fill(steps < 0, -math.inf) if inputs.causal else logits).softmax(-1)
    return (weights * (steps.abs() > torch.tensor(spans)[:, None, None])).sum(-1).amax((0, 2))


def assert_negligible(inputs, spans):
    """Keys beyond the spans weigh at most the tolerance."""
    tolerance = (
        torch.finfo(inputs.query.dtype).eps / 2 if inputs.tolerance is None else inputs.tolerance
    )
    shares = share_beyond(inputs, spans) / tolerance
    assert bool((shares <= 1 + 1e-9).all()), (shares, spans)


def with_content(query, key, content, far):
    """Change queries and keys in place so that a bound that ignores some of the content would be
    wrong."""
    direction = torch.ones(query.shape[-1], dtype=query.dtype)
    far_key = far % key.shape[2]
    if content == "far match":  # one key that some queries match far better than all others
        key[:, :, far_key] = 30 * key.abs().amax() * direction
        query[:, :, far % query.shape[2]] = 3 * query.abs().amax() * direction
    elif content == "near orthogonal":  # only keys in the first half match the queries
        query[..., 1:] = 0
        key[..., 0] = 0
        key[:, :, : key.shape[2] // 2, 0] = 3 * key.abs().amax() * query[:, :1, -1:, 0].sign()
    elif content == "own opposite":
        key[:, :, -query.shape[2] :] = -query[:, : key.shape[1]]
    elif content == "first queries":  # in the symmetric form, they see keys far ahead
        query *= 0.01
        query[:, :, :3] = 10 * direction
        key[:, :, far_key] = 10 * direction
    elif content == "shifted":
        key += 100 * direction
    elif content == "zero":
        query *= 0


@st.composite
def calls(draw):
    key_length = draw(st.integers(1, 400))
    query_length = key_length if draw(st.booleans()) else draw(st.integers(1, key_length))
    batch = draw(st.integers(1, 2))
    key_heads = draw(st.integers(1, 2))
    group_size = draw(st.integers(1, 3))
    heads = key_heads * group_size
    head_dim = draw(st.integers(1, 16))
    seed = draw(st.integers(0, 10**6))
    size_of_queries = 10 ** draw(st.floats(-2, 2))
    size_of_keys = 10 ** draw(st.floats(-2, 2))
    query = size_of_queries * normal(batch, heads, query_length, head_dim, seed=seed)
    key = size_of_keys * normal(batch, key_heads, key_length, head_dim, seed=seed + 1)
    with_content(query, key, draw(st.sampled_from(CONTENTS)), draw(st.integers(0, 400)))
    dtype = draw(st.sampled_from(DTYPES))
    slopes = [10 ** draw(st.floats(-4, math.log10(4))) for _ in range(heads)]
    return AttentionInputs(
        query.to(dtype),
        key.to(dtype),
        key.to(dtype),
        torch.tensor(slopes, dtype=torch.float64),
        draw(st.booleans()),  # causal
        scale=draw(st.sampled_from([None, 1.0, -0.3])),
        tolerance=draw(st.sampled_from([None, 0.9, 1e-2, 1e-5])),
    )


@given(calls())
def test_keys_beyond_the_spans_weigh_at_most_the_tolerance(inputs):
    spans = spans_of(inputs)
    assert all(0 <= span <= inputs.key_length for span in spans)
    assert_negligible(inputs, spans)


@pytest.mark.parametrize(
    ("content", "causal"),
    [
        ("normal", True),
        ("far match", True),
        ("far match", False),
        ("near orthogonal", True),
        ("own opposite", False),
        ("first queries", False),
        ("shifted", True),
        ("zero", False),
    ],
)
def test_spans_leave_something_out_and_nothing_that_matters(content, causal):
    """The same with slopes so steep that even extreme content has spans shorter than the
    sequence."""
    query = normal(1, 4, 600, 8)
    key = normal(1, 2, 600, 8, seed=1)
    with_content(query, key, content, far=599 if content == "first queries" else 40)
    is_extreme = content in ("far match", "first queries", "shifted")
    slopes = torch.tensor([4.0, 1.0, 0.5, 0.2])
    if is_extreme:
        slopes *= 8
    inputs = AttentionInputs(query.float(), key.float(), key.float(), slopes, causal=causal)
    spans = spans_of(inputs)
    assert min(spans) < 600
    assert spans == spans_of(inputs._replace(tolerance=2.0**-24)), "the default for float32"
    assert_negligible(inputs, spans)


@pytest.mark.parametrize("causal", [True, False])
def test_the_bound_is_nearly_tight_and_holds_in_its_worst_case(causal):
    """The last query of a group matches the 64 keys before it, and even more all beyond its span;
    others oppose it."""
    length = 3000
    position = 1408 + 63  # the last of a group of 64 queries
    slopes = torch.tensor([0.02])
    tolerance = 1e-3
    query, key = torch.zeros(2, 1, 1, length, 1, dtype=torch.float64)
    query[:, :, position] = 1.0
    key[:] = 5.0
    key[:, :, 1408 - 64 : 1408] = 4.0
    ball = KeyBall(
        torch.zeros(1, 1, 1, 1, dtype=torch.float64), torch.tensor([[5.0]], dtype=torch.float64)
    )
    inputs = AttentionInputs(
        query, key, key, slopes, causal, scale=1.0, tolerance=tolerance, key_ball=ball
    )
    (span,) = spans_of(inputs)
    assert span < 600
    key[:, :, position - span : position + span + 1] = -5.0
    key[:, :, 1408 - 64 : 1408] = 4.0
    assert 0.8 * tolerance < float(share_beyond(inputs, (span,))) <= tolerance


def span_by_the_formula(inputs, head, n):
    """The w of the module's docstring for one head, from each query and its `n` near keys.

    It is at most the key length.
    """
    m = float(inputs.slopes[head])
    key_head = head // inputs.group_size
    query = inputs.query[:, head]
    key = inputs.key[:, key_head]
    ball = inputs.ball()
    center = ball.center[:, key_head, 0]
    radius = ball.radius[:, key_head]

    keys_before = inputs.key_length - inputs.query_length  # the first query
    # A query without `n` keys before its group sees all keys before it. These first queries have
    # the span that reaches them all, and in the symmetric form also keys after them.
    first = 0 if keys_before >= n else n
    queries = range(first if inputs.causal else 0, inputs.query_length)

    largest_excess = 0.0
    for i in queries:
        steps_after_first = (i - first) % n  # r: how far the query is from the first of its group
        if i < first:
            # The keys of its own group, on both sides
            start = keys_before
            mean_distance = steps_after_first + (n - 1) / 2
        else:
            # The keys before its group
            start = keys_before + i - steps_after_first - n
            mean_distance = steps_after_first + (n + 1) / 2
        near_center = key[:, start : start + n].mean(1)

        largest_content = query[:, i].norm(dim=-1) * radius * abs(inputs.scaling)  # c
        mean_content = (query[:, i] * (near_center - center)).sum(-1) * inputs.scaling  # s
        excess = float((largest_content - mean_content).max()) + m * mean_distance
        largest_excess = max(largest_excess, excess)

    sides = 1 if inputs.causal else 2
    t = inputs.tolerance / sides
    w = (largest_excess - math.log(n) - math.log(1 - math.exp(-m)) - math.log(t)) / m

    needed_by_first = keys_before + n if first else 0
    return min(max(math.ceil(w), needed_by_first), inputs.key_length)


@each_case(
    ("rows", "length", "causal", "scale"),
    {
        "one query": (1, 250, True, 0.2),
        "two queries, negative scale": (2, 60, False, -0.1),
        "no keys before": (64, 64, True, 0.2),
        "fewer than 64 keys before": (190, 250, True, 0.2),
        "fewer than 64 keys before, both directions": (190, 250, False, -0.1),
        "64 keys before": (186, 250, False, -0.1),
    },
)
def test_spans_of_grouped_heads_are_those_of_the_formula(rows, length, causal, scale):
    slopes = torch.tensor([0.5, 3.0, 0.02, 0.1, 0.02, 0.0, -0.3, 1e-5], dtype=torch.float64)
    near_keys = (2, 1, 64, 8, 64)  # about 1 / slope; the other heads read all keys
    query = normal(2, 8, rows, 4)
    key = normal(2, 4, length, 4, seed=1) + 9
    # The first 64 of 190 queries have fewer than 64 keys before them.
    first_short_query = 64 if rows == 190 else 0
    query[:, 4, first_short_query:] *= 0.01
    inputs = AttentionInputs(query, key, key, slopes, causal, scale=scale, tolerance=0.9)
    spans = [span_by_the_formula(inputs, head, n) for head, n in enumerate(near_keys)]
    assert spans_of(inputs) == (*spans, length, length, length)


def test_adding_a_vector_to_all_keys_hardly_changes_the_spans():
    """It changes all logits of a query equally, so the output stays the same."""
    query, key = normal(2, 1, 4, 2000, 16)
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    spans = spans_of(AttentionInputs(query, key, key, slopes))
    shifted = spans_of(AttentionInputs(query, key + 50, key + 50, slopes))
    assert shifted == pytest.approx(spans, rel=0.02, abs=1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_and_matmul_precision_do_not_round_the_bound(dtype):
    query, key = normal(2, 1, 2, 600, 64).float()
    key = 0.05 * key + 10 * normal(64).float()
    inputs = AttentionInputs(query, key, key, torch.tensor([1.0, 0.25]), tolerance=1e-6)
    expected = spans_of(inputs)
    radius = KeyBall.of(key, key).radius
    with torch.autocast("cpu", dtype):
        assert spans_of(inputs) == expected
        assert torch.equal(KeyBall.of(key, key).radius, radius)
    precision = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert spans_of(inputs) == expected
    finally:
        torch.set_float32_matmul_precision(precision)


@given(
    st.integers(1, 60),
    st.sampled_from([0, 1, 1e4]),
    st.sampled_from([0, 1e-3, 1, 100]),
    st.sampled_from(DTYPES),
)
def test_the_ball_contains_all_keys(length, center, spread, dtype):
    key = (normal(2, 3, length, 5) * spread + center).to(dtype)
    ball = KeyBall.of(key, key)
    distances = (key.double() - ball.center.double()).norm(dim=-1).amax(-1)
    assert ball.radius.shape == (2, 3)
    assert bool((ball.radius * (1 + 1e-6) >= distances).all())
    largest_key = key.double().norm(dim=-1).amax(-1)
    not_much_larger = distances * (1 + 1e-4) + 1e-4 * largest_key
    assert bool((ball.radius <= not_much_larger).all())


@given(calls())
def test_spans_of_the_trace_are_minimal_and_at_most_those_of_the_bound(
    inputs,
):
    query, key, _, slopes, causal = inputs[:5]
    trace = attention_trace(query.double(), key.double(), slopes, causal=causal, scale=inputs.scale)
    tolerance = torch.finfo(query.dtype).eps / 2 if inputs.tolerance is None else inputs.tolerance
    # Twice the tolerance, for the rounding of sums in float64; `spans` takes less than 1.
    smallest = trace.spans(min(2 * tolerance, 0.999))
    bound = spans_of(inputs)
    assert all(one <= other for one, other in zip(smallest, bound, strict=True)), (smallest, bound)
    exact = trace.spans(tolerance)
    for head, span in enumerate(exact):
        if span and tolerance > 1e-12:
            less = tuple(w - (h == head) for h, w in enumerate(exact))
            assert float(share_beyond(inputs, less)[head]) > tolerance * (1 - 1e-9)
            assert float(share_beyond(inputs, exact)[head]) <= tolerance * (1 + 1e-9)


@each_case(
    ("batch", "rows", "columns"),
    {
        "no sequences": (0, 3, 5),
        "no queries": (2, 0, 5),
        "no tokens": (2, 0, 0),
    },
)
def test_spans_of_a_trace_without_weights_are_zero(batch, rows, columns):
    query = torch.zeros(batch, 2, rows, 4)
    key = torch.zeros(batch, 2, columns, 4)
    assert attention_trace(query, key, torch.ones(2)).spans() == (0, 0)


@pytest.mark.parametrize(("length", "tolerance"), [(3, -1), (3, 1.0), (3, math.nan), (0, "a")])
def test_a_wrong_tolerance_of_the_spans_of_a_trace_is_named(tolerance, length):
    query = torch.zeros(1, 2, length, 4)
    trace = attention_trace(query, query, torch.ones(2))
    with pytest.raises((TypeError, ValueError), match=f"^tolerance must be .*, got {tolerance!r}$"):
        trace.spans(tolerance)


def test_span_of_a_trace_with_nan_is_all_keys():
    weights = torch.eye(4)[None, None].repeat(1, 2, 1, 1)
    weights[0, 1, 2, 1] = math.nan
    assert AttentionTrace(*[weights] * 4).spans(0.0) == (0, 4)


@given(
    length=st.integers(1, 30),
    rows=st.integers(1, 30),
    span=st.integers(0, 40),
    causal=st.booleans(),
)
def test_share_left_out_counts_pairs(length, rows, span, causal):
    rows = min(rows, length)
    query, key = torch.zeros(1, 2, rows, 1), torch.zeros(1, 2, length, 1)
    pairs = [
        (i, j) for i in range(length - rows, length) for j in range(i + 1 if causal else length)
    ]
    seen = sum(1 + (abs(i - j) <= span) for i, j in pairs)  # the first head sees everything
    share = share_left_out(AttentionInputs(query, key, key, None, causal=causal), (length, span))
    assert share == pytest.approx(1 - seen / (2 * len(pairs)))
