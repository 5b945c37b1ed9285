"""Shuffled words: which of them move, and what that does to attention."""

import pytest
import torch

from alibi_viz import alibi_slopes, attention_trace, lab
from alibi_viz.lab.attention_sources import (
    ByteModel,
    Words,
    compare_orders,
    law_curve,
    match_tokens,
    shuffle_words,
    trace_queries,
)

TEXT = "the cat saw the dog,  and\nthe dog saw the cat"


def curve(heads: int, length: int) -> torch.Tensor:
    return -alibi_slopes(heads)[:, None] * torch.arange(length)


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


def test_each_copy_of_a_token_is_matched_once() -> None:
    tokens, others = list("banana"), list("aabnna")
    source = match_tokens(tokens, others)
    assert source is not None
    assert sorted(source) == list(range(6))
    assert [others[at] for at in source] == tokens
    assert source[-1] == 5, "the last of equal tokens is matched with the last"
    assert match_tokens(["a", "b"], ["a", "a"]) is None
    assert match_tokens(["a", "b"], ["a"]) is None


def test_weights_only_move_without_bias_and_mask_and_the_mask_changes_other_queries_only() -> None:
    original, shuffled = (Words().read(text, "same word", 4, 48) for text in (TEXT, shuffle_words(TEXT, 1)))
    rows = range(len(original.tokens))
    free = compare_orders(shuffled, original, None, 1, rows, causal=False)
    masked = compare_orders(shuffled, original, None, 1, rows, causal=True)
    biased = compare_orders(shuffled, original, curve(4, len(rows)), 1, rows, causal=False)
    assert free is not None and masked is not None and biased is not None
    assert max(free) < 1e-6
    assert max(masked.content, masked.weight, biased.content) < 1e-6
    assert masked.any_weight > 0.1
    assert 0.01 < biased.weight <= biased.any_weight


@pytest.mark.parametrize("causal", [True, False])
def test_changes_are_those_of_the_recomputed_weights(causal: bool) -> None:
    order = [2, 0, 3, 1, 4]
    original, shuffled = (Words().read(text, "same word", 2, 48) for text in ("the cat saw a dog", "saw the a cat dog"))
    slopes = alibi_slopes(2)
    here, there = (
        attention_trace(reading.query, reading.key, slopes, causal=causal).weights[0, 1]
        for reading in (shuffled, original)
    )
    difference = (here - there[order][:, order]).abs()
    changes = compare_orders(shuffled, original, curve(2, 5), 1, [1, 2], causal=causal)
    assert changes is not None
    expected = difference[-1].max().item(), difference[[1, 2, 4]].max().item()
    assert changes[1:] == pytest.approx(expected, abs=1e-6)


def test_first_layer_of_a_model_only_moves_and_the_second_changes() -> None:
    source = ByteModel(lab.make_model("alibi"))
    texts = TEXT, shuffle_words(TEXT, 1)
    for layer, moves_only in (("layer 1", True), ("layer 2", False)):
        original, shuffled = (source.read(text, layer, 8, 48) for text in texts)
        changes = compare_orders(shuffled, original, None, 0, range(10), causal=False)
        assert changes is not None
        assert (changes.content < 1e-5) == moves_only


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
