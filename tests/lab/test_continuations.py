"""Texts that models write beyond their training length, and the share of their words that the training text has."""

import math

import pytest
import torch

from alibi_viz import LanguageModel, TransformerConfig, lab, study
from alibi_viz.lab.continuations import SAMPLES, TEMPERATURE


@pytest.fixture(scope="module")
def text():
    return lab.load_text()


def beyond(model, text, seed):
    return [written.beyond for written in lab.continuations(model, text, 64, seed=seed)]


def test_a_continuation_is_what_the_model_generates_after_the_prompt(text):
    model = study.published_model("alibi").model
    prompt = text.validation[:32].long().expand(SAMPLES, -1)
    rows = model.generate(prompt, 224, temperature=TEMPERATURE, generator=torch.Generator().manual_seed(3))
    expected = [bytes(row) for row in rows.tolist()]
    texts = lab.continuations(model, text, 64, seed=3)
    assert ["".join(parts) for parts in texts] == [data.decode(errors="replace") for data in expected]
    assert [len(written.beyond.encode()) for written in texts] == [192] * SAMPLES, "these models write plain ASCII"
    assert {written.prompt for written in texts} == {expected[0][:32].decode()}


def test_equal_seeds_give_equal_texts_and_others_differ(text):
    model = study.published_model("sinusoidal").model
    assert beyond(model, text, 0) == beyond(model, text, 0) != beyond(model, text, 1)


def test_a_model_without_positions_beyond_its_training_length_stops_there(text):
    model = lab.make_model("learned", max_length=16)
    for written in lab.continuations(model, text, 16):
        assert written.beyond == ""
        assert written.within


@pytest.mark.parametrize(("length", "end"), [(8, 64), (32, 256), (64, 256), (150, 300)])
def test_texts_end_after_eight_lengths_or_256_bytes_but_not_before_two_lengths(text, length, end):
    """An untrained head that is certain of "a", so that every byte is one character."""
    model = LanguageModel(TransformerConfig(num_layers=1, d_model=8, num_heads=1))
    torch.nn.init.zeros_(model.head.weight)
    model.head.bias = torch.nn.Parameter(100 * torch.eye(256)[ord("a")])
    written = lab.continuations(model, text, length)[0]
    assert (written.within, written.beyond) == ("a" * (length - length // 2), "a" * (end - length))


def test_known_words_are_whole_words_of_the_training_part():
    text = lab.load_text("The cat sat.\n\n" * 40)
    assert lab.known_words([" The cat saw it. "], text) == 2 / 3, "'it' is too short to count"
    assert lab.known_words(["the cat sat", " THE cat_sat "], text) == 3 / 4, "the ends may be cut, and case counts"
    assert math.isnan(lab.known_words(["", "12 __ ab"], text))


@pytest.mark.parametrize("length", [1, 2.0, True])
def test_a_bad_length_is_refused(text, length):
    with pytest.raises((TypeError, ValueError), match="length must be"):
        lab.continuations(lab.make_model(), text, length)
