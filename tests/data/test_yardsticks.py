"""What a text costs models that only count, computed by hand."""

import math
from collections import Counter
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz import lab
from alibi_viz.data.text import PRIOR_PAIRS, SMOOTHING, Text


def bytes_tensor(content):
    return torch.tensor(list(content), dtype=torch.uint8)


def text_of(train, validation):
    return Text("by hand", bytes_tensor(train), bytes_tensor(validation))


def test_letter_frequencies_of_three_bytes():
    # Of 3 bytes and 256 halves, b has one byte and a half. Only b is predicted.
    expected = -math.log2((1 + 0.5) / (3 + 128))
    assert text_of(b"aab", b"ab").yardsticks["letter frequencies"] == pytest.approx(expected)


def test_letter_pairs_of_three_bytes():
    # After a there was one a and one b, and 5 pairs more, divided by the letter frequencies.
    frequency_of_b = (1 + 0.5) / (3 + 128)
    expected = -math.log2((1 + 5 * frequency_of_b) / (2 + 5))
    assert text_of(b"aab", b"ab").yardsticks["letter pairs"] == pytest.approx(expected)


BYTES = st.lists(st.sampled_from(b"abc "), max_size=40).map(bytes)


@given(train=BYTES, validation=st.lists(st.sampled_from(b"abcd"), min_size=2).map(bytes))
def test_any_text_costs_the_mean_of_what_its_bytes_cost(train, validation):
    letters = Counter(train)
    pairs = Counter(pairwise(train))
    firsts = Counter(train[:-1])

    of_letters = []
    of_pairs = []
    for before, byte in pairwise(validation):
        frequency = (letters[byte] + SMOOTHING) / (len(train) + 256 * SMOOTHING)
        of_letters.append(-math.log2(frequency))
        pair_frequency = (pairs[before, byte] + PRIOR_PAIRS * frequency) / (
            firsts[before] + PRIOR_PAIRS
        )
        of_pairs.append(-math.log2(pair_frequency))

    expected = {
        "letter frequencies": sum(of_letters) / len(of_letters),
        "letter pairs": sum(of_pairs) / len(of_pairs),
    }
    assert text_of(train, validation).yardsticks == pytest.approx(expected)


def test_without_a_training_part_every_byte_is_equally_likely():
    assert text_of(b"", b"any").yardsticks == {"letter frequencies": 8, "letter pairs": 8}


@pytest.mark.parametrize("validation", [b"", b"a"])
def test_a_text_without_a_byte_to_predict_has_no_number(validation):
    assert all(math.isnan(bits) for bits in text_of(b"aab", validation).yardsticks.values())


@pytest.mark.parametrize("load", [lab.load_text, lab.python_text], ids=["tales", "python"])
def test_english_costs_about_as_much_as_expected(
    load,
):
    yardsticks = load().yardsticks
    assert 4.4 < yardsticks["letter frequencies"] < 4.7
    assert 3.2 < yardsticks["letter pairs"] < 3.5


def test_a_short_text_gains_from_letter_pairs_too():
    """Smoothing each pair alone would cost more than it knows."""
    prose = lab.load_text(bytes(lab.load_text().train[:3000].tolist()))
    assert prose.yardsticks["letter pairs"] < prose.yardsticks["letter frequencies"] - 0.5


def test_yardsticks_are_computed_once():
    text = text_of(b"aab", b"ab")
    assert text.yardsticks is text.yardsticks
