"""Sources of attention: how texts are split, the content made up from words, and the queries and keys of a model."""

import math

import pytest
import torch

from alibi_viz import attention_trace, lab
from alibi_viz.lab.attention_sources import ByteModel, Words, words
from alibi_viz.slopes import alibi_slopes


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" \n\t ", []),
        ("one  two\nthree", ["one", "two", "three"]),
        ("Stop. Now!?", ["Stop", ".", "Now", "!", "?"]),
        ("don't well-known snake_case", ["don't", "well-known", "snake_case"]),
        ("<script>alert(1)</script>", ["<script>alert", "(", "1", ")", "<", "/", "script>"]),
        ("e\u0301te\u0301", ["e\u0301te\u0301"]),  # combining accents
        ("#\ufe0f\u20e3 !\ufe0f", ["#\ufe0f\u20e3", "!\ufe0f"]),  # combining characters stay with a mark
        ("👩\u200d👩\u200d👧 👍🏽", ["👩\u200d👩\u200d👧", "👍🏽"]),
        ("שלום, עולם", ["שלום", ",", "עולם"]),
        ("a\x1cb\u2003c\xa0d", ["a", "b", "c", "d"]),  # every kind of white space
        ("\u0301", ["\u0301"]),  # an accent alone is a token too
    ],
)
def test_text_is_split_into_words_and_punctuation_marks(text: str, tokens: list[str]) -> None:
    assert words(text) == tokens


def content(text: str, kind: str = "same word") -> torch.Tensor:
    reading = Words().read(text, kind, num_heads=3, longest=48)
    return attention_trace(reading.query, reading.key, None, causal=False).content[0]


def test_equal_words_have_content_two_at_any_distance() -> None:
    values = content("The cat saw the other cat")
    for query, key in [(0, 0), (0, 3), (1, 5), (5, 1), (4, 4)]:
        assert values[:, query, key].tolist() == pytest.approx([2.0] * 3, abs=1e-5)
    accents = content("\u00e9t\u00e9 e\u0301te\u0301")
    assert accents[0, 0, 1] == pytest.approx(2.0, abs=1e-5), "composed and decomposed accents are the same word"
    assert not content("a b c", "equal").any()


def test_other_pairs_have_mean_zero_and_deviation_one_half() -> None:
    values = content(" ".join(f"word{number}" for number in range(48)))[0]
    others = values[~torch.eye(48, dtype=torch.bool)]
    assert abs(float(others.mean())) < 0.1
    assert float(others.std()) == pytest.approx(0.5, abs=0.05)
    assert float(others.max()) < 2


def test_content_is_the_same_in_every_head_and_every_run() -> None:
    values = content("to be or not")
    assert torch.equal(values[0], values[2])
    assert torch.equal(values, content("to be or not"))
    assert values[0, 2].tolist() == pytest.approx([-0.9998, 0.6452, 2, 0.0971], abs=1e-4), "the same on every machine"


def test_a_long_text_is_truncated_and_its_length_reported() -> None:
    reading = Words().read("word " * 100, "same word", num_heads=1, longest=48)
    assert (len(reading.tokens), reading.total, reading.query.shape[2]) == (48, 100, 48)


@pytest.mark.parametrize("source", [Words(), ByteModel(lab.make_model())])
def test_unknown_content_or_empty_text_raises(source: Words | ByteModel) -> None:
    with pytest.raises(ValueError, match=r"content must be one of .*, got 'layer 9'"):
        source.read("a", "layer 9", num_heads=8, longest=48)
    with pytest.raises(ValueError, match=r"text must have at least one (word|byte), got ''"):
        source.read("", source.contents[0], num_heads=8, longest=48)


def test_weights_from_a_reading_reproduce_the_output_of_the_layer() -> None:
    model = lab.make_model("alibi", num_layers=2)
    text = "ein Käse"
    reading = ByteModel(model).read(text, "layer 2", num_heads=8, longest=48)
    assert reading.tokens == ["e", "i", "n", "␣", "K", "c3", "a4", "s", "e"]
    assert torch.equal(reading.slopes, alibi_slopes(8))
    weights = attention_trace(reading.query, reading.key, reading.slopes).weights
    calls: list[tuple[torch.Tensor, torch.Tensor]] = []
    attention = model.transformer.blocks[1].attention
    attention.register_forward_hook(lambda _, inputs, output: calls.append((inputs[0], output)))
    model(torch.tensor([list(text.encode())]))
    x, output = calls[0]
    value = attention.heads(x)[2]
    torch.testing.assert_close(attention.output((weights @ value).transpose(1, 2).flatten(2)), output)


def test_reading_disables_dropout_and_restores_training_mode() -> None:
    model = lab.make_model("alibi", dropout=0.5).train()
    first, second = (ByteModel(model).read("abc", "layer 2", num_heads=8, longest=48).query for _ in range(2))
    assert torch.equal(first, second), "dropout was on"
    assert model.training
    assert model.transformer.blocks[0].training


def test_a_diverged_model_raises() -> None:
    model = lab.make_model()
    torch.nn.init.constant_(model.transformer.blocks[0].attention.qkv.weight, math.nan)
    with pytest.raises(ValueError, match="must be finite"):
        ByteModel(model).read("a", "layer 1", num_heads=8, longest=48)


def test_random_content_is_standard_normal_and_stays_when_the_text_grows() -> None:
    short, long = (Words().read("word " * length, "random", num_heads=3, longest=4096) for length in (50, 1000))
    assert torch.equal(short.query, long.query[:, :, :50]) and torch.equal(short.key, long.key[:, :, :50])
    assert long.query.shape == (1, 3, 1000, 16)
    for vectors in (long.query, long.key):
        assert abs(float(vectors.mean())) < 0.02 and float(vectors.std()) == pytest.approx(1, abs=0.02)
    assert not torch.equal(long.query[:, 0], long.query[:, 1])
    assert not torch.equal(long.query, long.key)
