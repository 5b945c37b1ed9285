"""The plan of a check: every two conditions meet, and what wrong calls have in common is said."""

from dataclasses import replace
from itertools import combinations, product

import pytest

from alibi_viz.check.common_condition import fault_of_condition, only_condition
from alibi_viz.check.plan import (
    Call,
    Probe,
    attention_plan,
    bias_plan,
    calls_that_tell_apart,
    pairwise,
)
from tests.rows import each_case

CONDITIONS = {
    "sizes": ["square", "one query", "few queries"],
    "batch": [3, 1],
    "padding": ["none", "left", "right"],
    "transposed": [False, True],
}


def pairs_of(choice):
    return set(combinations(choice.items(), 2))


def all_pairs(conditions):
    pairs = set()
    for (name, values), (other_name, others) in combinations(conditions.items(), 2):
        for value, other in product(values, others):
            pairs.add(((name, value), (other_name, other)))
    return pairs


def test_every_two_values_meet():
    met = set().union(*map(pairs_of, pairwise(CONDITIONS)))
    assert met == all_pairs(CONDITIONS)


def test_far_fewer_choices_than_combinations():
    assert len(pairwise(CONDITIONS)) <= 12  # of 36; 9 are the fewest possible


def test_first_choice_has_the_first_value_of_each_condition():
    first = pairwise(CONDITIONS)[0]
    assert first == {"sizes": "square", "batch": 3, "padding": "none", "transposed": False}


def test_forbidden_values_never_meet():
    def forbids(name, value, other_name, other):
        return (value, other) == ("one query", "right")

    choices = pairwise(CONDITIONS, forbids)
    assert all((choice["sizes"], choice["padding"]) != ("one query", "right") for choice in choices)
    met = set().union(*map(pairs_of, choices))
    forbidden = {(("sizes", "one query"), ("padding", "right"))}
    assert met == all_pairs(CONDITIONS) - forbidden


def plan(**options):
    defaults = {
        "num_heads": [8, 12],
        "decoding": True,
        "length": 300,
        "head_dims": [64, 104],
        "padding": ["left", "right"],
    }
    return attention_plan(**{**defaults, **options})


def test_first_call_of_attention_is_small_and_plain():
    assert plan()[0] == Call(Probe(8, 16, 16), head_dim=64)


@each_case(
    ("queries", "keys"),
    {
        "one query, few keys": (1, 16),
        "few queries, few keys": (5, 16),
        "odd": (17, 17),
        "one query, many keys": (1, 300),
        "a block and a bit": (130, 300),
        "all of many": (300, 300),
    },
)
@pytest.mark.parametrize("padding", ["none", "left"])
def test_attention_is_called_with_these_sizes_and_padding(queries, keys, padding):
    sizes = [call.probe[1:] for call in plan() if call.padding == padding]
    assert (queries, keys) in sizes


def test_a_single_query_is_never_padding():
    for call in plan():
        assert call.padding != "right" or call.probe.query_length > 3


def test_without_decoding_there_are_as_many_queries_as_keys():
    for call in plan(decoding=False):
        assert call.probe.query_length == call.probe.key_length


def test_more_than_512_keys_meet_few_queries():
    longest = [call.probe for call in plan(length=2000) if call.probe.key_length == 2000]
    assert {probe.query_length for probe in longest} == {1, 5, 130}


def test_a_short_length_makes_only_the_small_calls():
    assert {call.probe.key_length for call in plan(length=16)} == {16}


def test_small_calls_come_again_after_longer_ones():
    calls = bias_plan([8], decoding=True, length=300)
    again = [call for call in calls if call.after_longer]
    longest = next(n for n, call in enumerate(calls) if call.probe == (8, 300, 300))
    assert {call.probe for call in again} == {(8, 16, 16), (8, 5, 16), (8, 1, 16)}
    assert all(calls.index(call) > longest for call in again)


def test_a_long_check_calls_with_whole_blocks_only():
    assert Call(Probe(8, 128, 128), head_dim=64) in plan()


def test_a_short_check_makes_no_call_of_a_whole_block():
    assert all(call.probe.key_length != 128 for call in plan(length=64))


@pytest.mark.parametrize("memory", ["transposed", "packed", "cached", "strided"])
def test_several_sequences_lie_in_each_kind_of_memory(memory):
    assert Call(Probe(8, 16, 16), head_dim=64, batch=3, memory=memory) in plan()


def test_a_model_gets_contiguous_inputs_only():
    assert {call.memory for call in plan(views=False)} == {"contiguous"}


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


def test_further_numbers_of_heads_get_a_small_call():
    calls = bias_plan([8, 12, 40], decoding=True, length=300)
    assert [call.probe for call in calls if call.probe.num_heads == 40] == [(40, 16, 16)]


# Further calls that tell conditions apart

PLAIN = Call(Probe(8, 16, 16), head_dim=64)
UNUSUAL = Call(
    Probe(12, 1, 300), head_dim=104, batch=1, memory="transposed", padding="left", after_longer=True
)


@each_case(
    "plain",
    {
        "heads": {"probe": Probe(8, 1, 300)},
        "head_dim": {"head_dim": 64},
        "batch": {"batch": 3},
        "memory": {"memory": "contiguous"},
        "padding": {"padding": "none"},
    },
)
def test_each_condition_of_a_wrong_call_is_replaced_by_a_plain_one(plain):
    further = calls_that_tell_apart([UNUSUAL], [PLAIN, UNUSUAL])
    assert replace(UNUSUAL, **plain) in further


def test_a_plain_condition_of_a_wrong_call_is_replaced_by_an_unusual_one():
    further = calls_that_tell_apart([PLAIN], [PLAIN, UNUSUAL])
    assert replace(PLAIN, memory="transposed", after_longer=True) in further


def test_no_call_is_made_twice_to_tell_conditions_apart():
    calls = plan()
    further = calls_that_tell_apart(calls[5:6], calls)
    assert not {replace(call, after_longer=False) for call in further} & set(calls)


def test_if_all_calls_are_wrong_there_is_nothing_to_tell_apart():
    assert calls_that_tell_apart(plan(), plan()) == []


# What wrong calls have in common


def has_one_sequence(call):
    return call.batch == 1


def is_transposed(call):
    return call.memory == "transposed"


def is_not_contiguous(call):
    return call.memory != "contiguous"


def has_large_heads(call):
    return call.head_dim == 104


def has_12_heads(call):
    return call.probe.num_heads == 12


def has_one_query(call):
    return call.probe.query_length == 1


def decodes(call):
    return call.probe.query_length < call.probe.key_length


def has_many_queries(call):
    return call.probe.query_length > 100


def is_padded_in_front(call):
    return call.padding == "left"


def is_padded(call):
    return call.padding != "none"


def has_one_query_and_padding_in_front(call):
    return has_one_query(call) and is_padded_in_front(call)


@pytest.mark.parametrize(
    ("is_wrong", "words"),
    [
        (has_one_sequence, "a batch of one"),
        (is_transposed, "transposed inputs"),
        (is_not_contiguous, "inputs that are not contiguous"),
        (has_large_heads, "head_dim 104"),
        (has_12_heads, "12 heads"),
        (has_one_query, "1 query"),
        (decodes, "fewer queries than keys"),
        (has_many_queries, "128, 130 or 300 queries"),
        (is_padded_in_front, "padding in front"),
        (is_padded, "padding in front or padding behind"),
        (has_one_query_and_padding_in_front, "padding in front and 1 query"),
    ],
)
def test_common_condition_is_said_in_words(is_wrong, words):
    calls = plan()
    wrong = [call for call in calls if is_wrong(call)]
    assert only_condition(wrong, calls) == words


def test_calls_without_a_common_condition_are_listed():
    calls = plan()
    some = [calls[0], calls[7]]
    assert only_condition(some, calls) == f"{calls[0]}; {calls[7]}"


def test_of_many_calls_only_the_first_are_listed():
    calls = plan()
    assert only_condition(calls[2:12], calls).endswith("; and 7 more")


def test_wrong_calls_that_are_all_not_contiguous_ignore_strides():
    calls = plan()
    views = [call for call in calls if is_not_contiguous(call)]
    assert fault_of_condition(views, calls) == "strides ignored"


def test_wrong_calls_that_are_all_padded_are_a_fault_of_padding():
    calls = plan()
    padded = [call for call in calls if call.padding != "none"]
    assert fault_of_condition(padded, calls) == "padding changes the bias"


def test_other_wrong_calls_are_no_fault_of_a_condition():
    calls = plan()
    assert fault_of_condition(calls[:5], calls) is None
