"""Sources of attention: how texts are split and shuffled, content made up from words, queries and
keys of models."""

import os
import re
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from alibi_viz import attention_trace, lab
from alibi_viz.measure.attention_sources import (
    TOKEN,
    ByteModel,
    PretrainedModel,
    Words,
    readings,
    shuffle_words,
)
from alibi_viz.slopes import alibi_slopes
from alibi_viz.widgets import AttentionExplorer

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers")

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import FalconConfig, GPT2Config, PreTrainedTokenizerFast

from tests.pretrained_models import ByteTokenizer, small_model

AUTO = ("AutoConfig", "AutoTokenizer", "AutoModel")
TEXT = "to be or not to be, that is the question"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (" \n\t ", []),
        ("one  two\nthree", ["one", "two", "three"]),
        ("Stop. Now!?", ["Stop", ".", "Now", "!", "?"]),
        ("don't well-known snake_case", ["don't", "well-known", "snake_case"]),
        ("<script>alert(1)</script>", ["<script>alert", "(", "1", ")", "<", "/", "script>"]),
        (
            "e\u0301te\u0301 #\ufe0f\u20e3",
            ["e\u0301te\u0301", "#\ufe0f\u20e3"],
        ),  # combining characters
        ("👩\u200d👩\u200d👧 👍🏽 שלום, עולם", ["👩\u200d👩\u200d👧", "👍🏽", "שלום", ",", "עולם"]),
        (
            "a\x1cb\u2003c\xa0d \u0301",
            ["a", "b", "c", "d", "\u0301"],
        ),  # every kind of white space, an accent alone
    ],
)
def test_text_is_split_into_words_and_punctuation_marks(text: str, tokens: list[str]) -> None:
    assert TOKEN.findall(text) == tokens


def content(text: str, kind: str = "same word") -> torch.Tensor:
    reading = Words().read(text, kind, num_heads=3, longest=48)
    return attention_trace(reading.query, reading.key, None, causal=False).content[0]


def test_equal_words_have_content_two_at_any_distance_and_others_deviate_by_one_half() -> None:
    values = content("The cat saw the other cat")
    for query, key in [(0, 0), (0, 3), (1, 5), (5, 1), (4, 4)]:
        assert values[:, query, key].tolist() == pytest.approx([2.0] * 3, abs=1e-5)
    accents = content("\u00e9t\u00e9 e\u0301te\u0301")
    assert accents[0, 0, 1] == pytest.approx(2.0, abs=1e-5), (
        "composed and decomposed accents are the same word"
    )
    assert not content("a b c", "equal").any()
    others = content(" ".join(f"word{number}" for number in range(48)))[0][
        ~torch.eye(48, dtype=torch.bool)
    ]
    assert abs(float(others.mean())) < 0.1 and float(others.std()) == pytest.approx(0.5, abs=0.05)
    values = content("to be or not")
    assert torch.equal(values[0], values[2])
    assert values[0, 2].tolist() == pytest.approx([-0.9998, 0.6452, 2, 0.0971], abs=1e-4), (
        "the same on every machine"
    )


@pytest.mark.parametrize("source", [Words(), ByteModel(lab.make_model())])
def test_unknown_content_or_empty_text_raises(source: Words | ByteModel) -> None:
    with pytest.raises(ValueError, match=r"content must be one of .*, got 'layer 9'"):
        source.read("a", "layer 9", num_heads=8, longest=48)
    with pytest.raises(ValueError, match=r"text must have at least one (word|byte), got ''"):
        source.read("", source.contents[0], num_heads=8, longest=48)


def test_weights_from_a_reading_reproduce_the_output_of_the_layer() -> None:
    model, text = lab.make_model("alibi", num_layers=2), "ein\n\tKäs~ !\x7f"
    reading = ByteModel(model).read(text, "layer 2", num_heads=8, longest=48)
    assert reading.tokens == ["e", "i", "n", "↵", "⇥", "K", "c3", "a4", "s", "~", "␣", "!", "7f"]
    assert torch.equal(reading.slopes, alibi_slopes(8))
    assert reading.note == f"Content comes from layer 2 of 2 of {ByteModel.name}."
    weights = attention_trace(reading.query, reading.key, reading.slopes).weights
    calls: list[tuple[torch.Tensor, torch.Tensor]] = []
    attention = model.transformer.blocks[1].attention
    attention.register_forward_hook(lambda _, inputs, output: calls.append((inputs[0], output)))
    model(torch.tensor([list(text.encode())]))
    x, output = calls[0]
    torch.testing.assert_close(
        attention.output((weights @ attention.heads(x)[2]).transpose(1, 2).flatten(2)), output
    )


@pytest.mark.parametrize("family", ["bloom", "mpt", "falcon sdpa"])
def test_weights_equal_those_of_the_model(family: str) -> None:
    model = small_model(family)
    source = PretrainedModel(model, ByteTokenizer())
    assert (source.contents, source.num_heads) == (("layer 1", "layer 2"), 4)
    if family == "falcon sdpa":
        model.set_attn_implementation("eager")  # which returns weights, but adds the bias twice
        model = lab.modify(model, 0.5)
    with torch.no_grad():
        attentions = model(torch.tensor([list(TEXT.encode())]), output_attentions=True).attentions
    for layer, expected in enumerate(attentions):
        reading = source.read(TEXT, source.contents[layer], num_heads=4, longest=48)
        weights = attention_trace(reading.query, reading.key, reading.slopes).weights
        torch.testing.assert_close(weights, expected, atol=1e-5, rtol=1e-4)


def test_a_text_is_cut_to_the_longest_and_to_the_positions_of_the_model() -> None:
    text, bloom, mpt = (
        "a " * 50,
        *(PretrainedModel(small_model(name), ByteTokenizer()) for name in ("bloom", "mpt")),
    )
    for source, longest, expected in (
        (bloom, 48, (48, 100)),
        (mpt, 4096, (64, 100)),
        (Words(), 48, (48, 50)),
    ):
        reading = source.read(text, source.contents[0], 4, longest)
        assert (len(reading.tokens), reading.total) == expected
        assert reading.query.shape[2] == reading.key.shape[2] == expected[0]


def test_a_model_runs_once_for_all_layers_without_dropout_and_can_be_trained_afterwards() -> None:
    bloom, ours = small_model("bloom").train(), lab.make_model("alibi", dropout=0.5).train()
    for model, part, source in (
        (bloom, bloom.transformer.h[0].mlp, PretrainedModel(bloom, ByteTokenizer())),
        (ours, ours.transformer.blocks[0].feed_forward, ByteModel(ours)),
    ):
        calls: list[int] = []
        part.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        first, second = readings(source, TEXT, 4, 4096)
        assert calls == [1]
        again = source.read(TEXT, "layer 2", source.num_heads or 0, 4096)
        assert torch.equal(again.query, second.query), "dropout was on"
        assert not torch.equal(first.query, second.query) and all(
            module.training for module in model.modules()
        )
        output = model(torch.tensor([[1, 2, 3]]))
        getattr(output, "logits", output).sum().backward()


def save(folder: Path, model: Any) -> str:
    """Save a model with a tokenizer of its own, of byte pairs as BLOOM's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        [TEXT] * 3, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet)
    )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    model.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("family", ["bloom", "mpt", "falcon sdpa"])
def test_app_opens_a_saved_model_by_its_folder(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model(family, vocabulary=400)
    loaders = {name: Mock(wraps=getattr(transformers, name).from_pretrained) for name in AUTO}
    for name, loader in loaders.items():
        monkeypatch.setattr(getattr(transformers, name), "from_pretrained", loader)
    app = AttentionExplorer(source=save(tmp_path / "my model", model), text=TEXT, content="layer 2")
    assert (app.num_heads, app.contents) == (4, ("layer 1", "layer 2"))
    for loader in loaders.values():
        assert loader.call_args_list[0].kwargs == {"local_files_only": True}, (
            "nothing is downloaded"
        )
    source: Any = app.source
    reading = source.read(f"{TEXT} é", "layer 2", 4, 48)
    assert reading.tokens[:3] == ["to", "␣be", "␣or"]
    assert "\ufffd" not in "".join(reading.tokens), "parts of a character are shown as bytes"
    original = PretrainedModel(model, source.tokenizer).read(f"{TEXT} é", "layer 2", 4, 48)
    torch.testing.assert_close(reading.query, original.query)


def test_a_model_that_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = "cannot load the model 'someone/no-model': .*; hf download someone/no-model"
    with pytest.raises(ValueError, match=f"(?s){expected}"):
        AttentionExplorer(source="someone/no-model")
    with pytest.raises(ValueError, match=f"cannot load the model '{re.escape(str(tmp_path))}': "):
        AttentionExplorer(source=str(tmp_path))
    Path(save(tmp_path, small_model("bloom", vocabulary=400)), "model.safetensors").write_text(
        "version git-lfs"
    )
    with pytest.raises(
        ValueError, match=r"cannot load the model .*: Error while deserializing header"
    ):
        AttentionExplorer(source=str(tmp_path))
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(
        ValueError, match=r"cannot load the model 'a/b': .*: pip install transformers"
    ):
        AttentionExplorer(source="a/b")


def test_the_family_is_checked_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(side_effect=AssertionError("the weights or the tokenizer were loaded"))
    for name in AUTO[1:]:
        monkeypatch.setattr(getattr(transformers, name), "from_pretrained", fail)
    for config, message in [
        (GPT2Config(), "model must be one of bloom, falcon, mpt, got 'gpt2'"),
        (FalconConfig(alibi=False), "this falcon model was configured without ALiBi"),
    ]:
        config.save_pretrained(tmp_path)
        with pytest.raises(ValueError, match=message):
            PretrainedModel.from_pretrained(str(tmp_path))


def test_unusable_tokens_and_numbers_are_named() -> None:
    model = small_model("bloom")
    source = PretrainedModel(model, ByteTokenizer())
    with pytest.raises(ValueError, match="num_heads must be 4, as in the model, got 8"):
        source.read("a", "layer 1", num_heads=8, longest=48)
    with pytest.raises(ValueError, match="the model must be unchanged, without hooks"):
        PretrainedModel(lab.modify(model, 0.5), ByteTokenizer())
    with pytest.raises(
        TypeError,
        match=r"for a model of transformers, give lab.PretrainedModel\(model, tokenizer\)",
    ):
        AttentionExplorer(source=model)
    torch.nn.init.constant_(model.transformer.h[0].mlp.dense_4h_to_h.weight, torch.nan)
    source.read(TEXT, "layer 1", 4, 48)
    with pytest.raises(ValueError, match="the model's queries and keys must be finite"):
        source.read(TEXT, "layer 2", 4, 48)


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1])
def test_shuffle_keeps_the_words_the_spaces_and_the_last_word(seed: int) -> None:
    text = "the cat saw the dog,  and\nthe dog saw the cat"
    shuffled = shuffle_words(text, seed)
    assert sorted(shuffled.split()) == sorted(text.split()) and shuffled.split()[-1] == "cat"
    assert [*filter(str.isspace, shuffled)] == [*filter(str.isspace, text)]
    assert shuffled == shuffle_words(text, seed) != text
    assert len({shuffle_words(text, seed) for seed in range(20)}) > 15
    assert shuffle_words("a b c", seed) == "b a c", "two words are always exchanged"
    assert all(
        shuffle_words(text, seed) == text for text in ("", "  ", "one", "one two", "a a a b")
    )
