"""Shuffled words: which of them move. What that does to attention is tested with AttentionExplorer."""

import pytest

from alibi_viz.lab.attention_sources import shuffle_words

TEXT = "the cat saw the dog,  and\nthe dog saw the cat"


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1])
def test_shuffle_keeps_the_words_the_spaces_and_the_last_word(seed: int) -> None:
    shuffled = shuffle_words(TEXT, seed)
    assert shuffled != TEXT
    assert sorted(shuffled.split()) == sorted(TEXT.split())
    assert shuffled.split()[-1] == "cat"
    assert [*filter(str.isspace, shuffled)] == [*filter(str.isspace, TEXT)]
    assert shuffled == shuffle_words(TEXT, seed)


@pytest.mark.parametrize("text", ["", "  ", "one", "one two", "a a a b"])
def test_text_without_two_words_to_exchange_stays(text: str) -> None:
    assert shuffle_words(text, 1) == text


def test_different_seeds_give_different_orders_and_two_words_are_always_exchanged() -> None:
    assert len({shuffle_words(TEXT, seed) for seed in range(20)}) > 15
    assert {shuffle_words("a b c", seed) for seed in range(10)} == {"b a c"}
