"""Sources: words as tokens, content by the rule that the docstring states, and a model's own queries and keys."""

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
        ("e\u0301te\u0301", ["e\u0301te\u0301"]),  # accents that are characters of their own
        ("#\ufe0f\u20e3 !\ufe0f", ["#\ufe0f\u20e3", "!\ufe0f"]),  # a mark keeps what is drawn on it
        ("👩\u200d👩\u200d👧 👍🏽", ["👩\u200d👩\u200d👧", "👍🏽"]),
        ("שלום, עולם", ["שלום", ",", "עולם"]),
        ("\u0301", ["\u0301"]),  # an accent on nothing still is a token
    ],
)
def test_words_and_punctuation_marks(text: str, tokens: list[str]) -> None:
    assert words(text) == tokens


def content(text: str, kind: str = "same word") -> torch.Tensor:
    reading = Words().read(text, kind, num_heads=3, longest=48)
    return attention_trace(reading.query, reading.key, None, causal=False).content[0]


def test_equal_words_have_content_two_wherever_they_stand() -> None:
    found = content("The cat saw the other cat")
    for query, key in [(0, 0), (0, 3), (1, 5), (5, 1), (4, 4)]:
        assert found[:, query, key].tolist() == pytest.approx([2.0] * 3, abs=1e-5)


def test_an_accent_typed_in_two_ways_is_one_word() -> None:
    assert content("\u00e9t\u00e9 e\u0301te\u0301")[0, 0, 1] == pytest.approx(2.0, abs=1e-5)


def test_other_pairs_scatter_around_zero_with_deviation_one_half() -> None:
    found = content(" ".join(f"word{number}" for number in range(48)))[0]
    others = found[~torch.eye(48, dtype=torch.bool)]
    assert abs(float(others.mean())) < 0.1
    assert float(others.std()) == pytest.approx(0.5, abs=0.05)
    assert float(others.max()) < 2


def test_content_is_the_same_in_every_head_and_every_run() -> None:
    found = content("to be or not")
    assert torch.equal(found[0], found[2])
    assert torch.equal(found, content("to be or not"))
    assert found[0, 2].tolist() == pytest.approx([-0.9998, 0.6452, 2, 0.0971], abs=1e-4), "or not on this machine"


def test_equal_content_is_zero() -> None:
    assert not content("a b c", "equal").any()


def test_a_long_text_is_cut_and_says_how_long_it_was() -> None:
    reading = Words().read("word " * 100, "same word", num_heads=1, longest=48)
    assert (len(reading.tokens), reading.total, reading.query.shape[2]) == (48, 100, 48)


@pytest.mark.parametrize("source", [Words(), ByteModel(lab.make_model())])
def test_a_source_names_what_it_cannot_do(source: Words | ByteModel) -> None:
    with pytest.raises(ValueError, match=r"content must be one of .*, got 'layer 9'"):
        source.read("a", "layer 9", num_heads=4, longest=48)
    with pytest.raises(ValueError, match=r"text must have at least one (word|byte), got ''"):
        source.read("", source.contents[0], num_heads=4, longest=48)


def test_a_model_gives_the_weights_it_attends_with() -> None:
    """The last layer, from its trace, makes what the model itself makes."""
    model = lab.make_model("alibi", num_layers=2)
    text = "ein Käse"
    reading = ByteModel(model).read(text, "layer 2", num_heads=4, longest=48)
    assert reading.tokens == ["e", "i", "n", "␣", "K", "c3", "a4", "s", "e"]
    assert torch.equal(reading.slopes, alibi_slopes(4))
    weights = attention_trace(reading.query, reading.key, reading.slopes).weights
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    attention = model.transformer.blocks[1].attention
    attention.register_forward_hook(lambda _, inputs, output: seen.append((inputs[0], output)))
    model(torch.tensor([list(text.encode())]))
    x, output = seen[0]
    value = attention.heads(x)[2]
    torch.testing.assert_close(attention.output((weights @ value).transpose(1, 2).flatten(2)), output)


def test_reading_leaves_a_model_in_training_as_it_was() -> None:
    model = lab.make_model("alibi", dropout=0.5).train()
    first, second = (ByteModel(model).read("abc", "layer 2", num_heads=4, longest=48).query for _ in range(2))
    assert torch.equal(first, second), "dropout was on"
    assert model.training
    assert model.transformer.blocks[0].training


def test_a_model_without_alibi_is_refused() -> None:
    with pytest.raises(ValueError, match="position 'alibi', got 'rotary'"):
        ByteModel(lab.make_model("rotary"))


def test_a_model_has_its_own_number_of_heads() -> None:
    with pytest.raises(ValueError, match="num_heads must be 4, as in the model, got 8"):
        ByteModel(lab.make_model()).read("a", "layer 1", num_heads=8, longest=48)


def test_a_diverged_model_is_named() -> None:
    model = lab.make_model()
    torch.nn.init.constant_(model.transformer.blocks[0].attention.qkv.weight, math.nan)
    with pytest.raises(ValueError, match="must be finite"):
        ByteModel(model).read("a", "layer 1", num_heads=4, longest=48)
