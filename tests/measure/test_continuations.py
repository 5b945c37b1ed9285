"""Texts that models write beyond their training length, and the share of their words that the
training text has."""

import math

import pytest
import torch

from alibi_viz import LanguageModel, TransformerConfig, lab
from alibi_viz.measure.continuations import known_words
from tests.tables import SMALL

TEXT = lab.load_text()


def test_a_continuation_is_what_the_model_generates_after_the_prompt_for_its_seed_where_it_is_defined() -> (
    None
):
    model, prompt = lab.make_model("alibi", **SMALL), TEXT.validation[:8].long().expand(8, -1)
    rows = model.generate(
        prompt, 120, temperature=0.4, generator=torch.Generator().manual_seed(3)
    ).tolist()
    texts = lab.continuations(model, TEXT, 16, seed=3)
    cuts = [(0, 8), (8, 16), (16, 128)]  # untrained models write bytes that are not UTF-8
    for text, row in zip(texts, rows, strict=True):
        assert [*text] == [
            bytes(row[start:stop]).decode("utf-8", "replace") for start, stop in cuts
        ]
    assert texts != lab.continuations(model, TEXT, 16, seed=4)
    for written in lab.continuations(lab.make_model("learned", max_length=16, **SMALL), TEXT, 16):
        assert written.within and not written.beyond


@pytest.mark.parametrize(("length", "end"), [(2, 16), (5, 40), (64, 256), (151, 302)])
def test_texts_end_after_eight_lengths_or_256_bytes_but_not_before_two_lengths(
    length: int, end: int
) -> None:
    """An untrained head that is certain of "a", so that every byte is one character."""
    model = LanguageModel(TransformerConfig(num_layers=1, d_model=8, num_heads=1))
    torch.nn.init.zeros_(model.head.weight)
    model.head.bias = torch.nn.Parameter(100 * torch.eye(256)[ord("a")])
    written = lab.continuations(model, TEXT, length)[0]
    assert (written.within, written.beyond) == ("a" * (length - length // 2), "a" * (end - length))


def test_a_prompt_longer_than_the_validation_part_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"your text is too short for a prompt of 3 bytes: its .* part has 2$"
    ):
        lab.continuations(lab.make_model(), lab.load_text("to be or not to be"), 6)


def test_known_words_are_whole_words_of_the_training_part() -> None:
    text = lab.load_text("The cat sat.\n\n" * 40)
    assert known_words([" The cat saw it. "], text) == 2 / 3, "'it' is too short to count"
    assert known_words(["the cat sat", " THE cat_sat "], text) == 3 / 4, (
        "the ends may be cut, and case counts"
    )
    assert math.isnan(known_words(["", "12 __ ab"], text))
