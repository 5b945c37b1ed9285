"""Models as sources of attention: what is read equals what the model computes, layer by layer."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from alibi_viz import attention_trace, lab
from alibi_viz.lab.attention_sources import PretrainedModel
from alibi_viz.widgets import AttentionExplorer, WindowExplorer

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers")

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import ByT5Tokenizer, FalconConfig, GPT2Config, PreTrainedTokenizerFast

from tests.pretrained_models import ByteTokenizer, small_model

TEXT = "to be or not to be, that is the question"


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


def test_the_apps_show_a_model_of_transformers() -> None:
    source = PretrainedModel(small_model("bloom", vocabulary=400), ByT5Tokenizer())
    app = AttentionExplorer(source=source, text=TEXT, law="square_root", head=2)
    assert app.num_heads == 4 and "; with ALiBi " in app.caption
    windows = WindowExplorer(source=source, text=TEXT, content="layer 2")
    assert len(windows.figure.data[1].x) == 4


def test_a_text_is_cut_to_the_longest_and_to_the_positions_of_the_model() -> None:
    reading = PretrainedModel(small_model("bloom"), ByteTokenizer()).read("a" * 100, "layer 1", 4, 48)
    assert (len(reading.tokens), reading.query.shape[2], reading.total) == (48, 48, 100)
    reading = PretrainedModel(small_model("mpt"), ByteTokenizer()).read("a" * 100, "layer 1", 4, 4096)
    assert (len(reading.tokens), reading.total) == (64, 100)


def test_each_layer_runs_once_while_the_model_can_be_trained() -> None:
    model, calls = small_model("bloom").train(), []
    model.transformer.h[0].mlp.register_forward_hook(lambda *_: calls.append(1))
    run = PretrainedModel(model, ByteTokenizer()).start(TEXT, 4096)
    assert (run.done, calls) == (1, []), "the first layer's attention needs no finished layer"
    assert list(run.steps(1)) == [2]
    for layer in (1, 0, 1):
        run.read(layer)
    assert (run.done, calls) == (2, [1])
    assert all(module.training for module in model.modules())
    model(torch.tensor([[1, 2, 3]])).logits.sum().backward()


def save(folder: Path, model: Any) -> str:
    """Save a model with a tokenizer of its own, of byte pairs as BLOOM's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([TEXT] * 3, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    model.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("family", ["bloom", "mpt", "falcon sdpa"])
def test_app_opens_a_saved_model_by_its_folder(family: str, tmp_path: Path) -> None:
    model = small_model(family, vocabulary=400)
    app = AttentionExplorer(source=save(tmp_path / "my model", model), text=TEXT, content="layer 2")
    assert (app.num_heads, app.contents) == (4, ("layer 1", "layer 2"))
    source: Any = app.source
    reading = source.read(f"{TEXT} é", "layer 2", 4, 48)
    assert reading.tokens[:3] == ["to", "␣be", "␣or"]
    assert "\ufffd" not in "".join(reading.tokens), "parts of a character are shown as bytes"
    original = PretrainedModel(model, source.tokenizer).read(f"{TEXT} é", "layer 2", 4, 48)
    torch.testing.assert_close(reading.query, original.query)


def test_a_model_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = "neither a folder nor among the downloaded models .*, download it once: hf download someone/no-model"
    with pytest.raises(ValueError, match=f"the model 'someone/no-model' is {expected}"):
        AttentionExplorer(source="someone/no-model")
    with pytest.raises(ValueError, match=f"cannot load a model from the folder '{re.escape(str(tmp_path))}': "):
        AttentionExplorer(source=str(tmp_path))

    def fail(*_: object, **__: object) -> None:
        raise ImportError("BloomTokenizer requires the SentencePiece library")

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", fail)
    with pytest.raises(ValueError, match="cannot load the model 'someone/a-model': BloomTokenizer requires"):
        AttentionExplorer(source="someone/a-model")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match="to load the model 'a/b', install transformers: pip"):
        AttentionExplorer(source="a/b")


def test_the_family_is_checked_before_anything_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the weights or the tokenizer were loaded")

    for name in ("AutoModel", "AutoTokenizer"):
        monkeypatch.setattr(getattr(sys.modules["transformers"], name), "from_pretrained", fail)
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
    with pytest.raises(ValueError, match="content must be one of layer 1, layer 2, got 'layer 3'"):
        source.read("a", "layer 3", num_heads=4, longest=48)
    with pytest.raises(ValueError, match="num_heads must be 4, as in the model, got 8"):
        source.read("a", "layer 1", num_heads=8, longest=48)
    with pytest.raises(ValueError, match="the tokenizer returned no tokens for the text 'to be'"):
        AttentionExplorer(source=PretrainedModel(model, lambda text: {"input_ids": []}), text="to be")
    with pytest.raises(ValueError, match="the tokenizer returned token 122, but the model has 100 tokens"):
        PretrainedModel(small_model("bloom", vocabulary=100), ByteTokenizer()).start("z", 48)
    with pytest.raises(TypeError, match=r"for a model of transformers, give lab.PretrainedModel\(model, tokenizer\)"):
        AttentionExplorer(source=model)
    torch.nn.init.constant_(model.transformer.h[0].mlp.dense_4h_to_h.weight, torch.nan)
    run = source.start(TEXT, 48)
    run.read(0)
    with pytest.raises(ValueError, match="the model's queries and keys must be finite"):
        run.read(1)
