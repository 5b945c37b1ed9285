"""Texts that models write beyond their training length, and how many of their words are known."""

import math

import pytest
import torch

from alibi_viz import LanguageModel, TransformerConfig, lab
from alibi_viz.measure.continuations import known_words, unknown_words
from tests.rows import each_case
from tests.tables import SMALL

TEXT = lab.load_text()


def decoded(tokens):
    """Untrained models write bytes that are not UTF-8."""
    return bytes(tokens).decode("utf-8", "replace")


def test_a_continuation_is_what_the_model_generates_after_the_prompt():
    model = lab.make_model("alibi", **SMALL)
    prompts = TEXT.validation[:8].long().expand(8, -1)
    generator = torch.Generator().manual_seed(3)
    generated = model.generate(prompts, 120, temperature=0.4, generator=generator).tolist()
    written = lab.continuations(model, TEXT, 16, seed=3)
    for text, tokens in zip(written, generated, strict=True):
        assert text.prompt == decoded(tokens[:8])
        assert text.within == decoded(tokens[8:16])
        assert text.beyond == decoded(tokens[16:])


def test_another_seed_gives_other_texts():
    model = lab.make_model("alibi", **SMALL)
    assert lab.continuations(model, TEXT, 16, seed=3) != lab.continuations(model, TEXT, 16, seed=4)


def test_a_model_with_a_table_of_positions_writes_up_to_its_end():
    learned = lab.make_model("learned", max_length=16, **SMALL)
    for text in lab.continuations(learned, TEXT, 16):
        assert text.within
        assert text.beyond == ""


@each_case(
    ("length", "end"),
    {
        "eight lengths": (2, 16),
        "eight odd lengths": (5, 40),
        "256 bytes": (64, 256),
        "two lengths": (151, 302),
    },
)
def test_texts_end_after_eight_lengths_or_256_bytes_but_not_before_two_lengths(length, end):
    """An untrained head that is certain of "a", so that every byte is one character."""
    model = LanguageModel(TransformerConfig(num_layers=1, d_model=8, num_heads=1))
    torch.nn.init.zeros_(model.head.weight)
    model.head.bias = torch.nn.Parameter(100 * torch.eye(256)[ord("a")])
    written = lab.continuations(model, TEXT, length)[0]
    assert written.within == "a" * (length - length // 2)
    assert written.beyond == "a" * (end - length)


def test_shorter_texts_begin_as_longer_ones_do():
    model = lab.make_model("alibi", **SMALL)
    long = lab.continuations(model, TEXT, 16, seed=3)[0]
    short = lab.continuations(model, TEXT, 16, seed=3, most=40)[0]
    assert short.within == long.within
    assert 0 < len(short.beyond) < len(long.beyond)
    assert long.beyond.startswith(short.beyond[:-1])  # the last character may be cut


def test_a_prompt_longer_than_the_validation_part_is_refused():
    with pytest.raises(
        ValueError, match=r"your text is too short for a prompt of 3 bytes: its .* part has 2 "
    ):
        lab.continuations(lab.make_model(), lab.load_text("to be or not to be"), 6)


CAT = lab.load_text("The cat sat.\n\n" * 40)


@each_case(
    ("passages", "share"),
    {
        "it is too short to count": ([" The cat saw it. "], 2 / 3),
        "words at the ends may be cut": (["the cat sat", " cat_sat "], 3 / 3),
        "case counts": ([" THE cat "], 1 / 2),
    },
)
def test_known_words_are_whole_words_of_the_training_part(passages, share):
    assert known_words(passages, CAT) == share


def test_without_words_their_known_share_is_nan():
    assert math.isnan(known_words(["", "12 __ ab"], CAT))


def test_unknown_words_have_their_places():
    assert unknown_words(" cat grmbl sat zzz", CAT) == [(5, 10)], "the last one may be cut"
