"""Sinks stay visible beside a window, and stand right before it."""

import torch

from alibi_viz.surgery.sinks import move_sinks, visible_keys
from tests.rows import each_case

POSITIONS = torch.arange(6)


def visible_to(query, window, sinks):
    """The positions of six keys that a query sees."""
    visible = visible_keys(torch.tensor([query]), POSITIONS, window, sinks)
    return visible[0, 0].nonzero().flatten().tolist()


def minus_position(keys):
    """A bias that says which key it belongs to, [heads, 1, key]."""
    return -keys[None, None, :].float()


def moved_row(query, window, sinks):
    """The bias of six keys for one query, where key j has -j at first."""
    bias = minus_position(POSITIONS)
    moved = move_sinks(bias, torch.tensor([query]), POSITIONS, window, sinks)
    return moved[0, 0].tolist()


def test_a_query_sees_the_sinks_and_its_window():
    assert visible_to(5, window=2, sinks=1) == [0, 4, 5]


def test_without_sinks_a_query_sees_its_window():
    assert visible_to(5, window=2, sinks=0) == [4, 5]


def test_the_window_of_an_encoder_lies_on_both_sides():
    assert visible_to(3, window=2, sinks=1) == [0, 2, 3, 4]


def test_sinks_get_the_bias_of_the_tokens_right_before_the_window():
    assert moved_row(5, window=2, sinks=2) == [-2, -3, -2, -3, -4, -5]


@each_case(
    "query",
    {
        "in the window": 1,
        "partly in the window": 2,
        "right before the window": 3,
    },
)
def test_sinks_that_need_no_other_place_keep_their_bias(query):
    assert moved_row(query, window=2, sinks=2) == [0, -1, -2, -3, -4, -5]


def test_more_sinks_than_tokens_change_nothing():
    assert moved_row(5, window=2, sinks=9) == [0, -1, -2, -3, -4, -5]


def test_each_query_has_sinks_in_a_place_of_its_own():
    bias = minus_position(POSITIONS)
    moved = move_sinks(bias, POSITIONS, POSITIONS, window=2, sinks=1)
    assert moved[0, :, 0].tolist() == [0, 0, 0, -1, -2, -3]


def test_each_head_has_sinks_of_its_own_bias():
    bias = torch.cat((minus_position(POSITIONS), 10 * minus_position(POSITIONS)))
    moved = move_sinks(bias, torch.tensor([5]), POSITIONS, window=2, sinks=1)
    assert moved[:, 0, 0].tolist() == [-3, -30]


def test_padding_takes_no_place():
    """The first text has two tokens of padding before its first token."""
    keys = torch.tensor([[-1, -1, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5]])
    queries = keys[:, -1:]
    columns = torch.arange(6.0).expand(2, 1, 1, 6)
    moved = move_sinks(columns, queries, keys, window=2, sinks=1)
    # The columns of the tokens at positions 1 and 3, which stand before the windows
    assert moved[0, 0, 0].tolist() == [0, 1, 3, 3, 4, 5]
    assert moved[1, 0, 0].tolist() == [3, 1, 2, 3, 4, 5]
