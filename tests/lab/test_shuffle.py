"""Shuffled words: which of them move, and what that does to attention."""

import pytest
import torch

from alibi_viz import alibi_slopes, attention_trace, lab
from alibi_viz.lab.attention_sources import (
    ByteModel,
    Words,
    law_curve,
    shuffle_words,
    trace_queries,
    weight_by_word,
)

TEXT = "the cat saw the dog,  and\nthe dog saw the cat"


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1])
def test_shuffle_keeps_the_words_the_spaces_and_the_last_word(seed: int) -> None:
    shuffled = shuffle_words(TEXT, seed)
    assert shuffled != TEXT
    assert sorted(shuffled.split()) == sorted(TEXT.split())
    assert shuffled.split()[-1] == "cat"
    spaces = [[part for part in text if part.isspace()] for text in (shuffled, TEXT)]
    assert spaces[0] == spaces[1]
    assert shuffled == shuffle_words(TEXT, seed)


@pytest.mark.parametrize("text", ["", "  ", "one", "one two", "a a a b"])
def test_text_without_two_words_to_exchange_stays(text: str) -> None:
    assert shuffle_words(text, 1) == text


def test_different_seeds_give_different_orders_and_two_words_are_always_exchanged() -> None:
    assert len({shuffle_words(TEXT, seed) for seed in range(20)}) > 15
    assert {shuffle_words("a b c", seed) for seed in range(10)} == {"b a c"}


@pytest.mark.parametrize("causal", [True, False])
def test_weight_by_word_is_the_sum_of_the_recomputed_weights_and_only_the_bias_changes_it(causal: bool) -> None:
    original, shuffled = (Words().read(text, "same word", 4, 48) for text in (TEXT, shuffle_words(TEXT, 1)))
    curve = -alibi_slopes(4)[:, None] * torch.arange(12)
    found = weight_by_word(original, curve, 1, causal=causal)
    weights = attention_trace(original.query, original.key, original.slopes, causal=causal).weights[0, 1, -1]
    for word in {*original.tokens}:
        expected = sum(weights[at] for at, token in enumerate(original.tokens) if token == word)
        assert found[word] == pytest.approx(float(expected), abs=1e-6)
    assert abs(found - weight_by_word(shuffled, curve, 1, causal=causal)).max() > 0.01
    free = [weight_by_word(each, None, 1, causal=causal) for each in (original, shuffled)]
    assert abs(free[0] - free[1]).max() < 1e-6


def test_first_layer_of_a_model_only_moves_and_the_second_changes() -> None:
    source = ByteModel(lab.make_model("alibi"))
    for layer, moves_only in (("layer 1", True), ("layer 2", False)):
        readings = [source.read(text, layer, 8, 48) for text in (TEXT, shuffle_words(TEXT, 1))]
        before, after = (weight_by_word(reading, None, 0, causal=False) for reading in readings)
        assert (abs(before - after).max() < 1e-5) == moves_only


@pytest.mark.parametrize("causal", [True, False])
def test_trace_of_some_queries_equals_that_of_all(causal: bool) -> None:
    query, key = torch.randn(2, 1, 3, 20, 8, generator=torch.Generator().manual_seed(0))
    by_law = law_curve(lambda distance, head, num_heads: -distance.float() * 2.0**-head, 3, 20)
    for rows in (range(20), range(7, 12), range(19, 20), [5, 19, 0, 5]):
        for slopes, bias in ((torch.tensor([0.5, 0.25, 0.125]), by_law), (None, None)):
            expected = attention_trace(query, key, slopes, causal=causal)
            trace = trace_queries(query, key, bias, rows, causal=causal)
            seen = trace.logits.isfinite()
            for step in ("content", "bias", "logits", "weights"):
                shown, full = getattr(trace, step), getattr(expected, step)[:, :, list(rows)]
                torch.testing.assert_close(shown[seen], full[seen])
