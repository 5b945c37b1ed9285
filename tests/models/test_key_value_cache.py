"""The statistics of a cache, and decoding that reads only the keys within the spans."""

import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alibi_viz import (
    AlibiSelfAttention,
    KeyValueCache,
    LanguageModel,
    TransformerConfig,
    alibi_attention,
    choose_backend,
)
from alibi_viz.attention import KeyBall, windowed
from alibi_viz.attention.inputs import AttentionInputs
from tests.attention.cases import prefer_windowed


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def assert_contains(ball: KeyBall, keys: Tensor) -> None:
    """Every key lies within the radius of its batch row and head."""
    distances = (keys.double() - ball.center.double()).norm(dim=-1)
    assert bool((distances <= ball.radius.double()[..., None] * (1 + 1e-6)).all())


@given(steps=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 30), st.booleans()), min_size=1, max_size=6))
def test_the_ball_contains_all_keys_however_the_cache_grew(steps: list[tuple[int, int, bool]]) -> None:
    cache = KeyValueCache()
    for index, (new, removed, measured) in enumerate(steps):
        tensors = 10.0**index * normal(2, 2, 3, new, 4, seed=index)  # later keys are further away
        keys, _ = cache.append(*tensors)
        if measured or index == len(steps) - 1:
            assert_contains(cache.key_ball(), keys)
        cache.length = max(0, cache.length - removed)


def test_each_token_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = []
    measure = KeyBall.of.__func__  # type: ignore[attr-defined]

    def spy(cls: type[KeyBall], key: Tensor, value: Tensor, center: Tensor | None = None) -> KeyBall:
        lengths.append(key.shape[2])
        return measure(cls, key, value, center)

    monkeypatch.setattr(KeyBall, "of", classmethod(spy))
    cache = KeyValueCache()
    for new in (50, 1, 1, 7):
        cache.append(*normal(2, 1, 2, new, 4))
        assert cache.key_ball() is cache.key_ball()
    cache.length -= 8
    cache.append(*normal(2, 1, 2, 3, 4))
    cache.key_ball()
    assert lengths == [50, 1, 1, 7, 3]


def test_a_cache_that_was_emptied_starts_anew() -> None:
    cache = KeyValueCache()
    with pytest.raises(ValueError, match="an empty cache has no ball of keys: append"):
        cache.key_ball()
    cache.append(torch.full((1, 1, 5, 2), math.nan), torch.zeros(1, 1, 5, 2))
    assert cache.key_ball().radius.tolist() == [[math.inf]]
    cache.length = 0
    with pytest.raises(ValueError, match="an empty cache has no ball of keys"):
        cache.key_ball()
    cache.append(torch.ones(1, 1, 5, 2), torch.zeros(1, 1, 5, 2))
    assert float(cache.key_ball().radius) < 1e-4


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("tensor", [0, 1])
def test_nan_and_inf_in_keys_or_values_make_the_radius_infinite(tensor: int, bad: float) -> None:
    tensors = normal(2, 2, 3, 40, 4)
    tensors[tensor, 1, 2, 39, 0] = bad
    cache = KeyValueCache()
    cache.append(*tensors[..., :20, :])
    assert bool(cache.key_ball().radius.isfinite().all())
    cache.append(*tensors[..., 20:, :])
    assert cache.key_ball().radius.isinf().nonzero().tolist() == [[1, 2]]


def test_statistics_of_another_shape_raise() -> None:
    query, key = normal(1, 4, 1, 8), normal(1, 2, 2000, 8)
    slopes = torch.tensor([0.5, 0.2, 0.1, 0.05])
    for part in (key[:, :1], key.repeat(2, 1, 1, 1), key[..., :1]):
        wrong = KeyBall.of(part, part)
        with pytest.raises(ValueError, match=r"center and radius of key_ball must be \(\[1, 2, 1, 8\], \[1, 2\]\)"):
            alibi_attention(query, key, key, slopes, backend="windowed", key_ball=wrong)


def test_autocast_does_not_use_statistics_of_keys_before_they_are_rounded() -> None:
    """Near 1000 bfloat16 has steps of 4: keys 1000 and 1002.1 differ by 2.1, but by 4 once they are rounded."""
    key = torch.full((1, 1, 2000, 64), 1000.0)
    key[:, :, 1900] = 1002.1
    query, value = torch.ones(1, 1, 1, 64), torch.zeros(1, 1, 2000, 64)
    value[:, :, 1900] = 7.0
    slopes, statistics = torch.tensor([0.3]), KeyBall.of(key, value)
    with torch.autocast("cpu", torch.bfloat16):
        output = alibi_attention(query, key, value, slopes, backend="windowed", key_ball=statistics)
    rounded = (tensor.bfloat16().float() for tensor in (query, key, value))
    expected = alibi_attention(*rounded, slopes, backend="eager")
    assert float(expected.mean()) > 4
    assert torch.allclose(output.float(), expected, atol=0.1)


def test_the_cache_itself_is_named_when_it_is_given_instead_of_its_statistics() -> None:
    cache = KeyValueCache()
    keys, values = cache.append(*normal(2, 1, 2, 9, 4))
    expected = "key_ball must be a KeyBall or a function that returns one, got KeyValueCache"
    with pytest.raises(TypeError, match=expected):
        alibi_attention(keys[:, :, -1:], keys, values, torch.ones(2), key_ball=cache)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int, tuple[int, ...]]]]:
    """(queries, keys, spans) of each call of the backend "windowed", which few queries get from 1024 keys on here."""
    recorded: list[tuple[int, int, tuple[int, ...]]] = []
    find = windowed.attention_spans

    def spy(inputs: AttentionInputs) -> Tensor:
        spans = find(inputs)
        recorded.append((inputs.query_length, inputs.key_length, tuple(spans.tolist())))
        return spans

    monkeypatch.setattr(windowed, "attention_spans", spy)
    prefer_windowed(monkeypatch, 1024)
    yield recorded


@pytest.mark.parametrize("key_heads", [1, 4])
def test_decoding_beyond_1024_tokens_is_windowed_and_gives_the_same(
    key_heads: int, calls: list[tuple[int, int, tuple[int, ...]]]
) -> None:
    torch.manual_seed(0)
    attention = AlibiSelfAttention(32, num_heads=4, num_key_heads=key_heads)
    x, cache = normal(2, 1500, 32), KeyValueCache()
    with torch.no_grad():
        whole = attention(x)
        calls.clear()
        for part, expected in zip(x.split([1400, 1, 3, 95, 1], 1), whole.split([1400, 1, 3, 95, 1], 1), strict=True):
            assert torch.allclose(attention(part, cache), expected, atol=2e-6)
        assert [call[:2] for call in calls] == [(1400, 1400), (1, 1401), (3, 1404), (95, 1499), (1, 1500)]
        assert all(spans[0] < 200 for *_, spans in calls)
        cache.length = 1200  # another continuation
        other = normal(2, 5, 32, seed=1)
        expected = attention(torch.cat((x[:, :1200], other), dim=1))[:, 1200:]
        assert torch.allclose(attention(other, cache), expected, atol=2e-6)


def test_decoding_with_inference_mode_on_and_off() -> None:
    attention = AlibiSelfAttention(32, num_heads=4)
    x, cache = normal(1, 1300, 32), KeyValueCache()
    with torch.inference_mode():
        whole = attention(x)
        attention(x[:, :1200], cache)
    with torch.no_grad():
        assert torch.allclose(attention(x[:, 1200:1201], cache), whole[:, 1200:1201], atol=2e-6)
    with torch.inference_mode():
        assert torch.allclose(attention(x[:, 1201:], cache), whole[:, 1201:], atol=2e-6)


@torch.no_grad()
def test_a_language_model_decodes_windowed_with_the_logits_of_one_pass(
    calls: list[tuple[int, int, tuple[int, ...]]],
) -> None:
    torch.manual_seed(0)
    config = TransformerConfig(num_layers=2, d_model=24, num_heads=3, dropout=0.0, vocabulary=50)
    model = LanguageModel(config).eval()
    tokens = torch.randint(50, (1, 1100))
    whole, cache = model(tokens), model.transformer.new_cache()
    steps = [model(part, cache) for part in tokens.split([1095, 1, 1, 3], dim=1)]
    assert torch.allclose(torch.cat(steps, dim=1), whole, atol=2e-5)
    assert sum(rows == 1 for rows, *_ in calls) == 4  # two tokens in two layers
    cached, uncached = (model.generate(tokens, 4, temperature=0, use_cache=use_cache) for use_cache in (True, False))
    assert torch.equal(cached, uncached)


def test_one_token_reads_only_the_keys_within_the_spans() -> None:
    """NaN in all other keys and values, put there once the statistics are known, does not reach the output."""
    slopes = torch.tensor([0.5, 0.25])
    cache = KeyValueCache()
    keys, values = cache.append(*normal(2, 1, 2, 4000, 16))
    query = normal(1, 2, 1, 16, seed=1)
    expected = alibi_attention(query, keys, values, slopes, backend="eager")
    statistics = cache.key_ball()
    keys[:, :, :3700], values[:, :, :3700] = math.nan, math.nan
    output = alibi_attention(query, keys, values, slopes, backend="windowed", key_ball=statistics)
    assert torch.allclose(output, expected, atol=1e-6)


def test_steep_heads_beside_a_flat_one_do_not_read_all_keys() -> None:
    slopes = torch.tensor([0.5, 0.25, 0.0, 0.25])
    keys, values = normal(2, 1, 4, 16384, 64)
    query = normal(1, 4, 1, 64, seed=1)
    expected = alibi_attention(query, keys, values, slopes, backend="eager")
    statistics = KeyBall.of(keys, values)
    for head in (0, 1, 3):
        keys[:, head, :16000], values[:, head, :16000] = math.nan, math.nan
    output = alibi_attention(query, keys, values, slopes, backend="windowed", key_ball=statistics)
    assert torch.allclose(output, expected, atol=1e-6)


def test_auto_needs_statistics_and_a_long_cache_to_decode_windowed() -> None:
    slopes = torch.tensor([0.5, 0.25])
    query, key = normal(1, 2, 1, 1024), normal(1, 2, 4096, 1024)
    statistics = KeyBall.of(key, key)
    assert choose_backend(query, key, slopes, key_ball=statistics).name == "windowed"
    assert choose_backend(query, key, slopes, key_ball=lambda: statistics).name == "windowed"
    assert choose_backend(query, key, slopes).name == "mask"
    assert choose_backend(query, key[..., 1:, :], slopes, key_ball=statistics).name == "mask"
    few = KeyBall.of(key[..., :8], key[..., :8])
    assert choose_backend(query[..., :8], key[..., :8], slopes, key_ball=few).name == "mask", "small heads"
    real = torch.ones(1, 4096, dtype=torch.bool)
    choice = choose_backend(query, key, slopes, key_ball=statistics, key_padding_mask=real)
    assert choice.name == "mask"
