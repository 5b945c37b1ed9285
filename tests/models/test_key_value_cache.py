"""The statistics of a cache, and decoding that reads only the keys within the spans."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alibi_viz import AlibiSelfAttention, KeyValueCache, alibi_attention, choose_backend
from alibi_viz.attention import KeyBall
from alibi_viz.models.positions import relative
from tests.attention import cases

normal = partial(cases.normal, dtype=torch.float32)


@given(
    steps=st.lists(
        st.tuples(st.integers(1, 20), st.integers(0, 30), st.booleans()), min_size=1, max_size=6
    )
)
def test_ball_contains_all_keys_however_the_cache_grew(steps: list[tuple[int, int, bool]]) -> None:
    cache = KeyValueCache()
    for index, (new, removed, measured) in enumerate(steps):
        keys, _ = cache.append(
            *10.0**index * normal(2, 2, 3, new, 4, seed=index)
        )  # later keys are further away
        if measured or index == len(steps) - 1:
            ball = cache.key_ball()
            distances = (keys.double() - ball.center.double()).norm(dim=-1)
            assert bool((distances <= ball.radius.double()[..., None] * (1 + 1e-6)).all())
        cache.length = max(0, cache.length - removed)


def test_each_token_is_measured_once_also_after_tokens_were_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths, measure = [], KeyBall.of

    def spy(key: Tensor, *rest: Any) -> KeyBall:
        lengths.append(key.shape[2])
        return measure(key, *rest)

    monkeypatch.setattr(KeyBall, "of", spy)
    cache = KeyValueCache()
    for new in (50, 1, 1, 7):
        cache.append(*normal(3, 1, 2, new, 4))  # the third tensor has no part in the ball
        assert cache.key_ball() is cache.key_ball()
    cache.length -= 8
    cache.append(*normal(3, 1, 2, 3, 4))
    cache.key_ball()
    assert lengths == [50, 1, 1, 7, 3]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("tensor", [0, 1])
def test_nan_or_inf_makes_the_radius_infinite_until_the_cache_is_emptied(
    tensor: int, bad: float
) -> None:
    tensors = normal(2, 2, 3, 40, 4)
    tensors[tensor, 1, 2, 39, 0] = bad
    cache = KeyValueCache()
    cache.append(*tensors[..., :20, :])
    assert bool(cache.key_ball().radius.isfinite().all())
    cache.append(*tensors[..., 20:, :])
    assert cache.key_ball().radius.isinf().nonzero().tolist() == [[1, 2]]
    cache.length = 0
    cache.append(torch.ones(1, 1, 5, 2), torch.zeros(1, 1, 5, 2))
    assert float(cache.key_ball().radius) < 1e-4


@pytest.mark.parametrize("key_heads", [1, 4])
def test_windowed_decoding_equals_one_pass_in_any_mode(
    key_heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    attention, cache = AlibiSelfAttention(32, num_heads=4, num_key_heads=key_heads), KeyValueCache()
    x, other = normal(2, 1500, 32), normal(2, 5, 32, seed=1)
    with torch.no_grad():
        whole, changed = attention(x), attention(torch.cat((x[:, :1200], other), dim=1))[:, 1200:]

    def windowed(*args: Any, **options: Any) -> Tensor:
        assert "key_ball" in options, "decoding hands over the statistics of the cache"
        return alibi_attention(*args, **options, backend="windowed")

    monkeypatch.setattr(relative, "alibi_attention", windowed)
    parts = [1400, 1, 3, 95, 1]
    for index, (part, expected) in enumerate(
        zip(x.split(parts, 1), whole.split(parts, 1), strict=True)
    ):
        with torch.no_grad() if index % 2 else torch.inference_mode():
            torch.testing.assert_close(attention(part, cache), expected, atol=2e-6, rtol=1e-5)
    cache.length = 1200  # another continuation
    with torch.no_grad():
        torch.testing.assert_close(attention(other, cache), changed, atol=2e-6, rtol=1e-5)


def test_one_token_reads_only_the_keys_within_the_windows_of_its_heads() -> None:
    """NaN in all other keys and values, put there once the statistics are known, does not reach the
    output."""
    slopes, cache = torch.tensor([0.5, 0.25, 0.0, 0.25]), KeyValueCache()
    keys, values = cache.append(*normal(2, 1, 4, 16384, 64))
    assert keys.untyped_storage().nbytes() == keys.nbytes, "no room beyond the next power of two"
    query = normal(1, 4, 1, 64, seed=1)
    expected, statistics = (
        alibi_attention(query, keys, values, slopes, backend="eager"),
        cache.key_ball(),
    )
    for head in (0, 1, 3):
        keys[:, head, :16000], values[:, head, :16000] = math.nan, math.nan
    output = alibi_attention(query, keys, values, slopes, backend="windowed", key_ball=statistics)
    torch.testing.assert_close(output, expected, atol=1e-6, rtol=1e-5)


def test_autocast_does_not_use_statistics_of_keys_before_they_are_rounded() -> None:
    """Near 1000 bfloat16 has steps of 4: keys 1000 and 1002.1 differ by 2.1, but by 4 once they are
    rounded."""
    key = torch.full((1, 1, 2000, 64), 1000.0)
    key[:, :, 1900] = 1002.1
    query, value = torch.ones(1, 1, 1, 64), torch.zeros(1, 1, 2000, 64)
    value[:, :, 1900] = 7.0
    slopes, statistics = torch.tensor([0.3]), KeyBall.of(key, value)
    with torch.autocast("cpu", torch.bfloat16):
        output = alibi_attention(query, key, value, slopes, backend="windowed", key_ball=statistics)
    expected = alibi_attention(
        *(tensor.bfloat16().float() for tensor in (query, key, value)), slopes, backend="eager"
    )
    assert float(expected.mean()) > 4 and torch.allclose(output.float(), expected, atol=0.1)


def test_statistics_that_do_not_fit_the_keys_raise_and_auto_uses_those_that_do() -> None:
    slopes, query, key = torch.tensor([0.5, 0.25]), normal(1, 2, 1, 1024), normal(1, 2, 4096, 1024)
    assert (
        choose_backend(query, key, slopes, key_ball=lambda: KeyBall.of(key, key)).name == "windowed"
    )
    assert choose_backend(query, key, slopes).name == "mask"
    for wrong, message in (
        (KeyBall.of(key[:, :1], key[:, :1]), r"must be .*\[1, 2, 1, 1024\]"),
        (KeyBall.of(key[..., :1], key[..., :1]), r"must be .*\[1, 2, 1, 1024\]"),
        (KeyValueCache(), "must be .* or return one, got KeyValueCache"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            alibi_attention(query, key, key, slopes, backend="windowed", key_ball=wrong)  # type: ignore[arg-type]
