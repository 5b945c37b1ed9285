"""The key-value cache, its ball of keys, and decoding that reads only the keys within the spans."""

import math
import re
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz import AlibiSelfAttention, KeyValueCache, alibi_attention, choose_backend
from alibi_viz.attention import KeyBall, dispatch
from tests.attention import cases
from tests.rows import each_case

normal = partial(cases.normal, dtype=torch.float32)

# Appending


def test_a_cache_returns_all_tokens_so_far():
    cache = KeyValueCache()
    tokens = normal(20, 2, 3, 1, 4)  # one after the other
    for number, token in enumerate(tokens, start=1):
        keys, values = cache.append(token, -token)
        expected = torch.cat(list(tokens[:number]), dim=2)
        assert torch.equal(keys, expected)
        assert torch.equal(values, -expected)
        assert cache.length == number


def test_a_cache_grows_by_doubling():
    cache = KeyValueCache()
    token = torch.zeros(2, 3, 1, 4)
    memory = set()
    for _ in range(20):
        keys, _ = cache.append(token, token)
        memory.add(keys.untyped_storage().nbytes())
    bytes_of_a_token = token.nbytes
    assert memory == {bytes_of_a_token * capacity for capacity in (1, 2, 4, 8, 16, 32)}


def test_a_cache_has_no_room_beyond_the_next_power_of_two():
    keys, _ = KeyValueCache().append(torch.zeros(1, 4, 4096, 8), torch.zeros(1, 4, 4096, 8))
    assert keys.untyped_storage().nbytes() == keys.nbytes


def test_an_emptied_cache_takes_any_shapes():
    cache = KeyValueCache()
    cache.append(torch.zeros(2, 3, 1, 4), torch.zeros(2, 3, 1, 4))
    cache.length = 0
    (tokens,) = cache.append(torch.zeros(5, 7))
    assert tokens.shape == (5, 7)


def test_the_last_tokens_are_removed_by_a_smaller_length():
    cache = KeyValueCache()
    cache.append(torch.tensor([[1.0], [2.0], [3.0]]))
    cache.length = 1
    (tokens,) = cache.append(torch.tensor([[4.0]]))
    assert tokens.tolist() == [[1.0], [4.0]]


@each_case(
    ("length", "error", "message"),
    {
        "more than there are": (100, ValueError, "length must be between 0 and 3, got 100"),
        "negative": (-1, ValueError, "length must be between 0 and 3, got -1"),
        "a float": (2.0, TypeError, "length must be an integer, got 2.0"),
    },
)
def test_a_length_that_the_cache_can_not_have_is_refused(length, error, message):
    cache = KeyValueCache()
    cache.append(torch.zeros(3, 4))
    with pytest.raises(error, match=re.escape(message)):
        cache.length = length
    assert cache.length == 3


TOKEN = torch.zeros(2, 3, 1, 4)
FITTING = "tensors appended to the cache must be [2, 3, 1, 4] of torch.float32 on cpu, got "


@each_case(
    ("tensors", "message"),
    {
        "another batch size": ((TOKEN[:1], TOKEN[:1]), FITTING + "[1, 3, 1, 4]"),
        "another dtype": ((TOKEN.double(), TOKEN), FITTING + "[2, 3, 1, 4] of torch.float64"),
        # It would be broadcast.
        "one key, two values": ((TOKEN, TOKEN.repeat(1, 1, 2, 1)), FITTING + "[2, 3, 2, 4]"),
        "no value": ((TOKEN,), "the cache stores 2 tensors per token, got 1"),
        "a gradient": ((TOKEN.clone().requires_grad_(), TOKEN), "a cache stores no gradients"),
    },
)
def test_tensors_that_do_not_fit_leave_the_cache_unchanged(tensors, message):
    cache = KeyValueCache()
    cache.append(TOKEN, TOKEN)
    with pytest.raises(ValueError, match=re.escape(message)):
        cache.append(*tensors)
    assert cache.length == 1


APPENDED = "tensors appended to the cache must be one or more, each [..., length, channels], got "


@each_case(
    ("tensors", "error", "message"),
    {
        "none": ((), TypeError, APPENDED + "none"),
        "a number": ((3,), TypeError, APPENDED + "int"),
        "one axis": ((torch.zeros(3),), ValueError, APPENDED + "shape [3]"),
    },
)
def test_what_is_no_tensor_of_tokens_is_not_appended(tensors, error, message):
    cache = KeyValueCache()
    with pytest.raises(error, match=re.escape(message)):
        cache.append(*tensors)
    assert cache.length == 0


# The ball of keys


def test_an_empty_cache_has_no_ball():
    with pytest.raises(ValueError, match="an empty cache has no ball of keys"):
        KeyValueCache().key_ball()


@each_case(
    ("tensors", "shapes"),
    {
        "keys alone": ((TOKEN,), "[2, 3, 1, 4]"),
        "no batch": ((TOKEN[0], TOKEN[0]), "[3, 1, 4], [3, 1, 4]"),
        "other widths": ((TOKEN, TOKEN[..., :2]), "[2, 3, 1, 4], [2, 3, 1, 2]"),
    },
)
def test_a_ball_needs_keys_and_values(tensors, shapes):
    cache = KeyValueCache()
    cache.append(*tensors)
    with pytest.raises(ValueError, match="needs a cache of keys and values") as error:
        cache.key_ball()
    assert str(error.value).endswith(f"got shapes {shapes}")


@given(
    steps=st.lists(
        # How many tokens are added, how many are removed then, and whether the ball is read between
        st.tuples(st.integers(1, 20), st.integers(0, 30), st.booleans()),
        min_size=1,
        max_size=6,
    )
)
def test_the_ball_contains_all_keys(steps):
    cache = KeyValueCache()
    for index, (added, removed, is_read) in enumerate(steps):
        further_away = 10.0**index  # than all keys before
        new_keys, new_values = further_away * normal(2, 2, 3, added, 4, seed=index)
        keys, _ = cache.append(new_keys, new_values)
        is_last = index == len(steps) - 1
        if is_read or is_last:
            ball = cache.key_ball()
            distances = (keys.double() - ball.center.double()).norm(dim=-1)
            radius = ball.radius.double()[..., None]
            assert bool((distances <= radius * (1 + 1e-6)).all())
        cache.length = max(0, cache.length - removed)


def lengths_measured(monkeypatch):
    """To which each later call of `KeyBall.of` adds the number of its keys."""
    lengths = []
    measure = KeyBall.of

    def record(key, *rest):
        lengths.append(key.shape[2])
        return measure(key, *rest)

    monkeypatch.setattr(KeyBall, "of", record)
    return lengths


def test_each_token_is_measured_once(monkeypatch):
    lengths = lengths_measured(monkeypatch)
    cache = KeyValueCache()
    for added in (50, 1, 1, 7):
        cache.append(*normal(2, 1, 2, added, 4))
        cache.key_ball()
        cache.key_ball()
    assert lengths == [50, 1, 1, 7]


def test_tokens_are_measured_together_when_the_ball_is_read(
    monkeypatch,
):
    lengths = lengths_measured(monkeypatch)
    cache = KeyValueCache()
    for added in (5, 1, 1):
        cache.append(*normal(2, 1, 2, added, 4))
    cache.key_ball()
    assert lengths == [7]


def test_tokens_are_measured_in_place_of_removed_ones(monkeypatch):
    lengths = lengths_measured(monkeypatch)
    cache = KeyValueCache()
    cache.append(*normal(2, 1, 2, 50, 4))
    cache.key_ball()
    cache.length = 42
    cache.append(*normal(2, 1, 2, 3, 4))
    cache.key_ball()
    assert lengths == [50, 3]


def test_a_cache_that_was_shortened_keeps_its_ball():
    cache = KeyValueCache()
    cache.append(*normal(2, 1, 2, 50, 4))
    ball = cache.key_ball()
    cache.length = 30
    assert cache.key_ball() is ball, "it still contains all keys"


def test_a_third_tensor_has_no_part_in_the_ball():
    key, value, other = normal(3, 1, 2, 5, 4)
    with_other = KeyValueCache()
    with_other.append(key, value, other)
    without = KeyValueCache()
    without.append(key, value)
    assert torch.equal(with_other.key_ball().center, without.key_ball().center)
    assert torch.equal(with_other.key_ball().radius, without.key_ball().radius)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("place", ["key", "value"])
def test_nan_or_inf_makes_the_radius_of_its_head_infinite(place, bad):
    key, value = normal(2, 2, 3, 40, 4)
    cache = KeyValueCache()
    cache.append(key[:, :, :20], value[:, :, :20])
    assert bool(cache.key_ball().radius.isfinite().all())

    tensor = key if place == "key" else value
    tensor[1, 2, 39, 0] = bad
    cache.append(key[:, :, 20:], value[:, :, 20:])
    is_infinite = cache.key_ball().radius.isinf()
    assert is_infinite.nonzero().tolist() == [[1, 2]]


def test_an_emptied_cache_forgets_an_infinite_radius():
    cache = KeyValueCache()
    cache.append(torch.full((1, 1, 1, 2), math.nan), torch.zeros(1, 1, 1, 2))
    assert bool(cache.key_ball().radius.isinf().all())
    cache.length = 0
    cache.append(torch.ones(1, 1, 5, 2), torch.zeros(1, 1, 5, 2))
    assert float(cache.key_ball().radius) < 1e-4


# Decoding within the spans


def attend_within_the_spans(inputs):
    """Attention that skips keys also where it doesn't pay off."""
    assert inputs.key_ball is not None, "decoding passes on the ball of the cache"
    return dispatch.BACKENDS["windowed"].attend(inputs)


@pytest.mark.parametrize("key_heads", [1, 4])
def test_decoding_within_the_spans_equals_one_pass(key_heads, monkeypatch):
    torch.manual_seed(0)
    attention = AlibiSelfAttention(32, num_heads=4, num_key_heads=key_heads)
    x = normal(2, 1500, 32)
    with torch.no_grad():
        whole = attention(x)

    monkeypatch.setattr(dispatch, "attend", attend_within_the_spans)
    cache = KeyValueCache()
    modes = [torch.inference_mode, torch.no_grad]  # in turn, for one cache
    start = 0
    for step, length in enumerate([1400, 1, 3, 95, 1]):
        end = start + length
        with modes[step % 2]():
            output = attention(x[:, start:end], cache)
        torch.testing.assert_close(output, whole[:, start:end], atol=2e-6, rtol=1e-5)
        start = end


def test_another_continuation_within_the_spans_equals_one_pass(
    monkeypatch,
):
    torch.manual_seed(0)
    attention = AlibiSelfAttention(32, num_heads=4)
    x = normal(2, 1500, 32)
    other = normal(2, 5, 32, seed=1)
    with torch.no_grad():
        whole = attention(torch.cat((x[:, :1200], other), dim=1))

    monkeypatch.setattr(dispatch, "attend", attend_within_the_spans)
    cache = KeyValueCache()
    with torch.no_grad():
        attention(x, cache)
        cache.length = 1200
        output = attention(other, cache)
    torch.testing.assert_close(output, whole[:, 1200:], atol=2e-6, rtol=1e-5)


def test_one_token_reads_only_the_keys_within_the_spans():
    """NaN in all other keys and values, put there once the ball is known, does not reach the
    output."""
    slopes = torch.tensor([0.5, 0.25, 0.0, 0.25])
    cache = KeyValueCache()
    keys, values = cache.append(*normal(2, 1, 4, 16384, 64))
    query = normal(1, 4, 1, 64, seed=1)
    expected = alibi_attention(query, keys, values, slopes, backend="eager")
    ball = cache.key_ball()
    for head in (0, 1, 3):  # all that have a slope
        keys[:, head, :16000] = math.nan
        values[:, head, :16000] = math.nan
    output = alibi_attention(query, keys, values, slopes, backend="windowed", key_ball=ball)
    torch.testing.assert_close(output, expected, atol=1e-6, rtol=1e-5)


def test_autocast_does_not_use_the_ball_of_keys_before_they_are_rounded():
    """Near 1000 bfloat16 has steps of 4: keys 1000 and 1002.1 differ by 2.1, but by 4 once they are
    rounded."""
    key = torch.full((1, 1, 2000, 64), 1000.0)
    key[:, :, 1900] = 1002.1
    value = torch.zeros(1, 1, 2000, 64)
    value[:, :, 1900] = 7.0
    query = torch.ones(1, 1, 1, 64)
    slopes = torch.tensor([0.3])
    ball = KeyBall.of(key, value)
    with torch.autocast("cpu", torch.bfloat16):
        output = alibi_attention(query, key, value, slopes, backend="windowed", key_ball=ball)

    rounded_key = key.bfloat16().float()
    expected = alibi_attention(query, rounded_key, value, slopes, backend="eager")
    assert float(expected.mean()) > 4, "the key at 1900 matters"
    torch.testing.assert_close(output.float(), expected, atol=0.1, rtol=0)


# Which ball fits

SLOPES = torch.tensor([0.5, 0.25])
QUERY = normal(1, 2, 1, 1024)
KEY = normal(1, 2, 4096, 1024)


def test_a_ball_lets_auto_skip_keys():
    assert choose_backend(QUERY, KEY, SLOPES).name == "mask"
    ball = KeyBall.of(KEY, KEY)
    assert choose_backend(QUERY, KEY, SLOPES, key_ball=lambda: ball).name == "windowed"


@each_case(
    ("key_ball", "error", "message"),
    {
        "of too few heads": (
            KeyBall.of(KEY[:, :1], KEY[:, :1]),
            ValueError,
            r"must be .*\[1, 2, 1, 1024\]",
        ),
        "of too few channels": (
            KeyBall.of(KEY[..., :1], KEY[..., :1]),
            ValueError,
            r"must be .*\[1, 2, 1, 1024\]",
        ),
        "the cache itself": (
            KeyValueCache(),
            TypeError,
            "must be .* or return one, got KeyValueCache",
        ),
    },
)
def test_a_ball_that_does_not_fit_the_keys_is_refused(key_ball, error, message):
    with pytest.raises(error, match=message):
        alibi_attention(QUERY, KEY, KEY, SLOPES, backend="windowed", key_ball=key_ball)
