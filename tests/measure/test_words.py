"""Texts are split into words, get made-up content, and are shuffled."""

import pytest
import torch

from alibi_viz import attention_trace
from alibi_viz.measure.attention_sources import TOKEN, Words, shuffle_words
from tests.rows import each_case

# Splitting

FAMILY = "\N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}"  # one emoji, of three with joiners
THUMB = "\N{THUMBS UP SIGN}\N{EMOJI MODIFIER FITZPATRICK TYPE-4}"
KEYCAP = "#\ufe0f\u20e3"
DECOMPOSED = "e\u0301te\u0301"  # été, with combining accents


@each_case(
    ("text", "tokens"),
    {
        "nothing": (" \n\t ", []),
        "white space": ("one  two\nthree", ["one", "two", "three"]),
        "punctuation": ("Stop. Now!?", ["Stop", ".", "Now", "!", "?"]),
        "marks inside words": (
            "don't well-known snake_case",
            ["don't", "well-known", "snake_case"],
        ),
        "markup": (
            "<script>alert(1)</script>",
            ["<script>alert", "(", "1", ")", "<", "/", "script>"],
        ),
        "combining characters": (f"{DECOMPOSED} {KEYCAP}", [DECOMPOSED, KEYCAP]),
        "emoji": (f"{FAMILY} {THUMB}", [FAMILY, THUMB]),
        "from right to left": ("שלום, עולם", ["שלום", ",", "עולם"]),
        "every kind of white space": ("a\x1cb\u2003c\xa0d", ["a", "b", "c", "d"]),
        "an accent alone": ("d \u0301", ["d", "\u0301"]),
    },
)
def test_text_is_split_into_words_and_punctuation_marks(text, tokens):
    assert TOKEN.findall(text) == tokens


# Made-up content


def content(text):
    """The content of three heads, [heads, query, key]."""
    reading = Words(num_heads=3).read(text, "random vectors", longest=48)
    return attention_trace(reading.query, reading.key, None, causal=False).content[0]


@each_case(
    ("query", "key"),
    {
        "the word itself": (0, 0),
        "an equal word": (1, 5),
        "an equal word in front": (5, 1),
        "an equal word in another case": (0, 3),
    },
)
def test_equal_words_have_content_two_at_any_distance(query, key):
    values = content("The cat saw the other cat")
    assert values[:, query, key].tolist() == pytest.approx([2.0, 2.0, 2.0], abs=1e-5)


def test_composed_and_decomposed_accents_are_the_same_word():
    values = content(f"\u00e9t\u00e9 {DECOMPOSED}")
    assert values[0, 0, 1] == pytest.approx(2.0, abs=1e-5)


def test_different_words_have_random_content_that_deviates_by_one_half():
    values = content(" ".join(f"word{number}" for number in range(48)))[0]
    is_other_word = ~torch.eye(48, dtype=torch.bool)
    of_others = values[is_other_word]
    assert float(of_others.mean()) == pytest.approx(0, abs=0.1)
    assert float(of_others.std()) == pytest.approx(0.5, abs=0.05)


def test_the_random_content_is_the_same_on_every_machine():
    values = content("to be or not")[0, 2].tolist()
    assert values == pytest.approx([-0.9998, 0.6452, 2, 0.0971], abs=1e-4)


def test_the_content_is_the_same_in_every_head():
    first, second, third = content("to be or not")
    assert torch.equal(first, second)
    assert torch.equal(first, third)


# Reading


def test_a_text_is_cut_to_the_longest_number_of_words():
    reading = Words().read("a " * 50, "random vectors", longest=48)
    assert len(reading.tokens) == 48
    assert reading.query.shape[2] == reading.key.shape[2] == 48
    assert reading.total == 50


def test_unknown_content_is_named():
    with pytest.raises(ValueError, match=r"content must be one of .*, got 'layer 9'"):
        Words().read("a", "layer 9", longest=48)


def test_a_text_must_have_a_word():
    with pytest.raises(ValueError, match="text must have at least one word, got ''"):
        Words().read("", "random vectors", longest=48)


# Shuffling

TEXT = "the cat saw the dog,  and\nthe dog saw the cat"
any_seed = pytest.mark.parametrize("seed", [0, 2**31 - 1])


@any_seed
def test_shuffling_keeps_the_words(seed):
    shuffled = shuffle_words(TEXT, seed)
    assert shuffled != TEXT
    assert sorted(shuffled.split()) == sorted(TEXT.split())


@any_seed
def test_shuffling_keeps_the_last_word(seed):
    assert shuffle_words(TEXT, seed).split()[-1] == "cat"


@any_seed
def test_shuffling_keeps_the_white_space(seed):
    spaces = [character for character in shuffle_words(TEXT, seed) if character.isspace()]
    assert spaces == [character for character in TEXT if character.isspace()]


@any_seed
def test_a_seed_gives_the_same_order_each_time(seed):
    assert shuffle_words(TEXT, seed) == shuffle_words(TEXT, seed)


def test_seeds_give_different_orders():
    orders = {shuffle_words(TEXT, seed) for seed in range(20)}
    assert len(orders) > 15


@any_seed
def test_two_words_before_the_last_are_always_exchanged(seed):
    assert shuffle_words("a b c", seed) == "b a c"


@each_case(
    "text",
    {
        "white space": "  ",
        "one word before the last": "one two",
        "equal words before the last": "a a a b",
    },
)
def test_a_text_without_another_order_stays_as_it_is(text):
    assert shuffle_words(text, seed=0) == text
