"""The calls of a sweep, and what wrong ones have in common."""

from itertools import combinations, pairwise, product

import pytest

from alibi_viz.check.conditions import condition, with_condition
from alibi_viz.check.plan import FURTHER_HEADS, Call, Probe, attention_calls, bias_calls
from tests.rows import each_case


def sweep(**options):
    defaults = {"decoding": True, "length": 300, "sides": ["left", "right"]}
    return attention_calls([8, 12, *FURTHER_HEADS], [64, 104, 16], **{**defaults, **options})


@pytest.fixture(scope="module")
def calls():
    return sweep()


def changing(call):
    return {
        "heads": call.probe.num_heads,
        "head_dim": call.head_dim,
        "batch": call.batch,
        "memory": call.memory,
    }


def test_every_two_conditions_meet(calls):
    # Of many heads, large calls have fewer.
    few_heads = [call for call in calls if call.probe.num_heads <= 16]
    plain = [changing(call) for call in few_heads if call.padding == "none"]
    for name, other in combinations(plain[0], 2):
        met = {(values[name], values[other]) for values in plain}
        possible = product({values[name] for values in plain}, {values[other] for values in plain})
        assert met >= set(possible), (name, other)


def test_sizes_change_while_the_number_of_heads_stays(calls):
    """Otherwise a bias that is cached for some heads would never be used again."""
    pairs = pairwise(calls)
    same = [(one, two) for one, two in pairs if one.probe.num_heads == two.probe.num_heads]
    assert any(one.probe.key_length > two.probe.key_length for one, two in same)
    assert any(one.probe.key_length < two.probe.key_length for one, two in same)


def test_a_sweep_is_the_same_each_time(calls):
    assert sweep() == calls


def test_the_first_call_is_small_and_plain(calls):
    assert calls[0] == Call(Probe(8, 16, 16), head_dim=64)


@pytest.mark.parametrize(
    ("queries", "keys"), [(1, 16), (5, 16), (17, 17), (1, 300), (130, 300), (300, 300)]
)
@pytest.mark.parametrize("padding", ["none", "left"])
def test_these_sizes_are_called_with_and_without_padding(calls, queries, keys, padding):
    assert (queries, keys) in [call.probe[1:] for call in calls if call.padding == padding]


def test_a_single_query_is_never_padding(calls):
    for call in calls:
        assert call.padding != "right" or call.probe.query_length > 3


def test_without_decoding_there_are_as_many_queries_as_keys():
    for call in sweep(decoding=False):
        assert call.probe.query_length == call.probe.key_length


def test_more_than_512_keys_meet_few_queries():
    longest = [call.probe for call in sweep(length=2000) if call.probe.key_length == 2000]
    assert {probe.query_length for probe in longest} == {1, 5, 130}


def test_a_short_length_makes_small_calls_only():
    assert max(call.probe.key_length for call in sweep(length=16)) == 16


def test_some_calls_come_again_after_longer_ones():
    calls = bias_calls([8], decoding=True, length=300)
    again = [call for call in calls if call.after_longer]
    longest = next(n for n, call in enumerate(calls) if call.probe == (8, 300, 300))
    assert (8, 16, 16) in [call.probe for call in again]
    assert all(calls.index(call) > longest for call in again)


@pytest.mark.parametrize("memory", ["transposed", "packed", "cached", "strided"])
def test_several_sequences_lie_in_each_kind_of_memory(calls, memory):
    assert Call(Probe(8, 16, 16), head_dim=64, batch=3, memory=memory) in calls


@each_case(
    ("padding", "queries", "padded"),
    {
        "in front, all queries": ("left", 300, 150),
        "in front, one query": ("left", 1, 150),
        "behind, all queries": ("right", 300, 150),
        "behind, one query left": ("right", 130, 129),
    },
)
def test_padding_of_long_calls_fills_blocks(padding, queries, padded):
    call = Call(Probe(8, queries, 300), batch=1, padding=padding)
    assert call.padded_tokens == (padded,)


# What wrong calls have in common


def told(calls, is_wrong):
    wrong = [call for call in calls if is_wrong(call)]
    return condition(wrong, [call for call in calls if not is_wrong(call)])


@pytest.mark.parametrize(
    ("is_wrong", "words"),
    [
        (lambda call: call.batch == 1, "a batch of one"),
        (lambda call: call.memory == "transposed", "transposed inputs"),
        (lambda call: call.memory != "contiguous", "inputs that are not contiguous"),
        (lambda call: call.head_dim == 104, "head_dim 104"),
        (lambda call: call.probe.num_heads == 12, "12 heads"),
        (lambda call: call.probe.query_length == 1, "1 query"),
        (lambda call: call.probe.query_length < call.probe.key_length, "fewer queries than keys"),
        (lambda call: call.probe.query_length > 100, "127 or more queries"),
        (lambda call: call.probe.key_length < 8, "at most 7 keys"),
        (lambda call: call.padding == "left", "padding in front"),
        (lambda call: call.padding != "none", "padding in front or padding behind"),
        (
            lambda call: call.probe.query_length == 1 and call.padding == "left",
            "padding in front and 1 query",
        ),
        (
            lambda call: call.probe.key_length > 128 and call.batch == 1,
            "a batch of one and 129 or more keys",
        ),
    ],
)
def test_what_wrong_calls_have_in_common_is_said_in_words(calls, is_wrong, words):
    assert told(calls, is_wrong) == words


def test_calls_with_nothing_in_common_are_counted(calls):
    some = [calls[0], calls[7], calls[14], calls[30], calls[50]]
    right = [call for call in calls if call not in some]
    number = f"5 of {len(calls)} calls"
    assert with_condition("off", some, right) == f"off (only in {number}, such as {calls[0]})"
