"""Keys beyond the windows weigh at most the tolerance, for any content; and the windows are not much too wide."""

import math

import pytest
import torch
from alibi_viz.attention.windows import key_windows
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alibi_viz import KeyStatistics, alibi_attention, alibi_slopes, choose_backend
from alibi_viz.attention.inputs import AttentionInputs

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
CONTENTS = ("normal", "far match", "near orthogonal", "own opposite", "first queries", "shifted", "zero")


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def share_beyond(inputs: AttentionInputs, windows: tuple[int, ...]) -> Tensor:
    """float64 [heads]: the largest share of a query's weights that is more than `windows` steps away."""
    query, key = inputs.query.double(), inputs.key.double().repeat_interleave(inputs.group_size, dim=1)
    position = torch.arange(key.shape[2])
    steps = position[key.shape[2] - query.shape[2] :, None] - position  # [query, key]
    logits = query @ key.mT * inputs.scaling - inputs.slopes.double()[:, None, None] * steps.abs()
    weights = (logits.masked_fill(steps < 0, -math.inf) if inputs.causal else logits).softmax(-1)
    beyond = steps.abs() > torch.tensor(windows)[:, None, None]
    return (weights * beyond).sum(-1).amax((0, 2))


def assert_negligible(inputs: AttentionInputs, windows: tuple[int, ...], tolerance: float | None = None) -> None:
    """Keys beyond the windows weigh at most the tolerance."""
    if tolerance is None:
        tolerance = torch.finfo(inputs.query.dtype).eps / 2
    share = share_beyond(inputs, windows)
    assert bool((share <= tolerance * (1 + 1e-9)).all()), (share / tolerance, windows)


def with_content(query: Tensor, key: Tensor, content: str, far: int) -> None:
    """Change queries and keys in place so that a bound that ignores some of the content would be wrong."""
    direction = torch.ones(query.shape[-1], dtype=query.dtype)
    far_key = far % key.shape[2]
    if content == "far match":  # one key that some queries match far better than all others
        key[:, :, far_key] = 30 * key.abs().amax() * direction
        query[:, :, far % query.shape[2]] = 3 * query.abs().amax() * direction
    elif content == "near orthogonal":  # only keys in the first half match the queries
        query[..., 1:], key[..., 0] = 0, 0
        key[:, :, : key.shape[2] // 2, 0] = 3 * key.abs().amax() * query[:, :1, -1:, 0].sign()
    elif content == "own opposite":
        key[:, :, -query.shape[2] :] = -query[:, : key.shape[1]]
    elif content == "first queries":  # in the symmetric form, they see keys far ahead
        query *= 0.01
        query[:, :, :3], key[:, :, far_key] = 10 * direction, 10 * direction
    elif content == "shifted":
        key += 100 * direction
    elif content == "zero":
        query *= 0


@st.composite
def calls(draw: st.DrawFn) -> AttentionInputs:
    key_length = draw(st.integers(1, 400))
    query_length = key_length if draw(st.booleans()) else draw(st.integers(1, key_length))
    batch, key_heads, group_size = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    head_dim, heads, seed = draw(st.integers(1, 16)), key_heads * group_size, draw(st.integers(0, 10**6))
    query = normal(batch, heads, query_length, head_dim, seed=seed) * 10 ** draw(st.floats(-2, 2))
    key = normal(batch, key_heads, key_length, head_dim, seed=seed + 1) * 10 ** draw(st.floats(-2, 2))
    with_content(query, key, draw(st.sampled_from(CONTENTS)), draw(st.integers(0, 400)))
    dtype = draw(st.sampled_from(DTYPES))
    slopes = [10 ** draw(st.floats(-4, math.log10(4))) for _ in range(heads)]
    return AttentionInputs(
        query.to(dtype),
        key.to(dtype),
        key.to(dtype),
        torch.tensor(slopes, dtype=torch.float64),
        causal=draw(st.booleans()),
        scale=draw(st.sampled_from([None, 1.0, -0.3])),
        tolerance=draw(st.sampled_from([None, 1e-2, 1e-5])),
    )


@given(calls())
def test_keys_beyond_the_windows_weigh_at_most_the_tolerance(inputs: AttentionInputs) -> None:
    windows = key_windows(inputs)
    assert all(0 <= window <= inputs.key_length for window in windows)
    assert_negligible(inputs, windows, inputs.tolerance)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("content", CONTENTS)
def test_windows_leave_something_out_and_nothing_that_matters(content: str, causal: bool) -> None:
    """The same with slopes so steep that even extreme content has windows shorter than the sequence."""
    query, key = normal(1, 4, 600, 8), normal(1, 2, 600, 8, seed=1)
    with_content(query, key, content, far=599 if content == "first queries" else 40)
    slopes = torch.tensor([4.0, 1.0, 0.5, 0.2]) * (8 if content in ("far match", "first queries", "shifted") else 1)
    inputs = AttentionInputs(query.float(), key.float(), key.float(), slopes, causal=causal)
    windows = key_windows(inputs)
    assert min(windows) < 600
    assert_negligible(inputs, windows)


def test_one_far_key_with_a_huge_match_is_not_lost() -> None:
    query, key, value = torch.zeros(3, 1, 1, 1000, 4)
    query[:, :, -1, 0] = key[:, :, 10, 0] = 40.0  # content 800 at distance 989, so a bias of -494
    value[:, :, 10] = 7.0
    output = alibi_attention(query, key, value, torch.tensor([0.5]), backend="windowed")
    assert torch.allclose(output[0, 0, -1], torch.full((4,), 7.0))


def test_the_first_queries_of_an_encoder_see_a_huge_match_ahead() -> None:
    query, key, value = torch.zeros(3, 1, 1, 600, 4)
    query[:, :, 0, 0], key[:, :, 500, 0] = 30.0, 100.0
    value[:, :, 500] = 7.0
    output = alibi_attention(query, key, value, torch.tensor([1.0]), causal=False, backend="windowed")
    assert torch.allclose(output[0, 0, 0], torch.full((4,), 7.0))


@pytest.mark.parametrize("causal", [True, False])
def test_a_tolerance_a_thousand_times_too_large_is_caught(causal: bool) -> None:
    """With equal content the bound is nearly tight, so the same check fails for windows of a larger tolerance."""
    key = torch.zeros(1, 3, 700, 4)
    inputs = AttentionInputs(key, key, key, torch.tensor([0.5, 0.25, 0.125]), causal=causal)
    assert_negligible(inputs, key_windows(inputs))
    too_large = key_windows(inputs._replace(tolerance=1000 * torch.finfo(torch.float32).eps / 2))
    with pytest.raises(AssertionError):
        assert_negligible(inputs, too_large)
    for head in range(3):
        share = share_beyond(inputs, too_large)[head]
        assert float(share) > torch.finfo(torch.float32).eps / 2


@pytest.mark.parametrize("causal", [True, False])
def test_the_bound_is_nearly_tight_and_holds_in_its_worst_case(causal: bool) -> None:
    """The last query of a group matches the 64 keys before the group and all beyond its window; others oppose it."""
    length, position, slope, tolerance = 3000, 1408 + 63, 0.02, 1e-3
    query, key = torch.zeros(2, 1, 1, length, 1, dtype=torch.float64)
    query[:, :, position] = 1.0
    key[:] = 5.0
    ball = KeyStatistics(torch.zeros(1, 1, 1, 1, dtype=torch.float64), torch.tensor([[5.0]], dtype=torch.float64))
    inputs = AttentionInputs(
        query, key, key, torch.tensor([slope]), causal, scale=1.0, tolerance=tolerance, key_statistics=ball
    )
    (window,) = key_windows(inputs)
    assert window < 600
    key[:, :, position - window : position + window + 1] = -5.0
    key[:, :, 1408 - 64 : 1408] = 5.0
    share = float(share_beyond(inputs, (window,)))
    assert 0.8 * tolerance < share <= tolerance


def test_queries_with_few_keys_before_them_see_all_of_these() -> None:
    """Query 63 is at position 123, and the bound uses 64 near keys; one match at position 0."""
    query, key = torch.zeros(1, 1, 900, 1), torch.zeros(1, 1, 960, 1)
    query[:, :, 63], key[:, :, 0] = 30.0, 30.0
    ball = KeyStatistics(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1))  # of all keys but the first
    inputs = AttentionInputs(query, key, key, torch.tensor([0.02]), tolerance=0.9, key_statistics=ball)
    assert key_windows(inputs)[0] >= 123


def test_a_smaller_tolerance_widens_the_windows_by_its_logarithm() -> None:
    query, key = normal(2, 1, 2, 600, 8)
    inputs = AttentionInputs(query, key, key, torch.tensor([0.5, 0.25], dtype=torch.float64))
    wide, narrow = (key_windows(inputs._replace(tolerance=tolerance)) for tolerance in (1e-9, 1e-3))
    for slope, *windows in zip((0.5, 0.25), wide, narrow, strict=True):
        assert windows[0] - windows[1] == pytest.approx(math.log(1e6) / slope, abs=1)


def test_half_of_the_work_at_4096_tokens_is_left_out() -> None:
    query, key = normal(2, 1, 8, 4096, 64).float()
    choice = choose_backend(query, key, alibi_slopes(8))
    assert choice.name == "windowed"
    assert choice.left_out > 0.5
    last = torch.arange(4096)
    seen = sum(int(torch.minimum(last, torch.tensor(window)).sum()) + 4096 for window in choice.windows or ())
    assert choice.left_out == pytest.approx(1 - seen / (8 * 4096 * 4097 / 2))


def test_windows_on_random_content_are_hardly_wider_than_in_a_prototype() -> None:
    query, key = normal(2, 1, 8, 16384, 64).float()
    windows = key_windows(AttentionInputs(query, key, key, alibi_slopes(8)))
    prototype = (73, 152, 299, 623, 1236, 2550, 5107, 10705)
    assert all(window < 1.3 * expected for window, expected in zip(windows, prototype, strict=True)), windows
    assert windows == tuple(sorted(windows))


def test_adding_a_vector_to_all_keys_hardly_changes_the_windows() -> None:
    """It changes all logits of a query equally, so the output stays the same."""
    query, key = normal(2, 1, 4, 2000, 16)
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    windows, shifted = (key_windows(AttentionInputs(query, k, k, slopes)) for k in (key, key + 50))
    assert all(abs(one - other) <= 1 + 0.02 * one for one, other in zip(windows, shifted, strict=True))


@pytest.mark.parametrize("slope", [0.0, -0.5, 1e-30, 1e-300])
def test_without_a_steep_slope_the_window_is_all_keys(slope: float) -> None:
    query, key = normal(2, 1, 1, 300, 4)
    inputs = AttentionInputs(query, key, key, torch.tensor([slope], dtype=torch.float64))
    assert key_windows(inputs) == (300,)
    assert key_windows(inputs._replace(slopes=None)) == (300,)


def test_a_huge_slope_has_a_window_of_at_most_2() -> None:
    query, key = normal(2, 1, 1, 300, 4)
    for slope in (1e3, 1e30, 1e300):
        inputs = AttentionInputs(query, key, key, torch.tensor([slope], dtype=torch.float64))
        assert key_windows(inputs)[0] <= 2


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("tensor", ["query", "key", "value"])
@pytest.mark.parametrize("causal", [True, False])
def test_nan_and_inf_in_one_row_of_the_batch_leave_nothing_out(tensor: str, causal: bool, bad: float) -> None:
    for position in (5, 250, 499):
        tensors = {name: normal(2, 1, 500, 4, seed=seed).float() for seed, name in enumerate(("query", "key", "value"))}
        tensors[tensor][1, 0, position, 2] = bad
        assert key_windows(AttentionInputs(**tensors, slopes=torch.tensor([0.5]), causal=causal)) == (500,), position


def test_content_that_overflows_leaves_nothing_out() -> None:
    query, key = normal(2, 1, 1, 500, 4).float()
    query[:, :, 400], key[:, :, 100] = 1e30, 1e30
    assert key_windows(AttentionInputs(query, key, key, torch.tensor([0.5]))) == (500,)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_and_matmul_precision_do_not_round_the_bound(dtype: torch.dtype) -> None:
    query, key = normal(2, 1, 2, 600, 64).float()
    key = 0.05 * key + 10 * normal(64).float()
    inputs = AttentionInputs(query, key, key, torch.tensor([1.0, 0.25]), tolerance=1e-6)
    expected, radius = key_windows(inputs), KeyStatistics.of(key, key).radius
    with torch.autocast("cpu", dtype):
        assert key_windows(inputs) == expected
        assert torch.equal(KeyStatistics.of(key, key).radius, radius)
    precision = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert key_windows(inputs) == expected
    finally:
        torch.set_float32_matmul_precision(precision)


@pytest.mark.parametrize("key_heads", [1, 3, 12])
@pytest.mark.parametrize("query_length", [1, 300])
def test_windows_of_all_heads_are_those_of_each_head_alone(key_heads: int, query_length: int) -> None:
    """With one query, heads are bounded together, also beside heads with a flat, zero or negative slope."""
    slopes = torch.tensor([0.5, 0.02, 1e-5, 0.26, 0.27, 0.25, 0.0, 0.021, -0.3, 0.02, 0.021, 0.1], dtype=torch.float64)
    query, key = normal(2, 12, query_length, 8), normal(2, key_heads, 2000, 8, seed=1)
    key *= torch.linspace(0.1, 3, key_heads, dtype=torch.float64)[:, None, None]
    together = key_windows(AttentionInputs(query, key, key, slopes))
    for head, window in enumerate(together):
        shared = key[:, head * key_heads // 12][:, None]
        assert key_windows(AttentionInputs(query[:, head : head + 1], shared, shared, slopes[head : head + 1])) == (
            window,
        )
    assert len(set(together)) > 5
