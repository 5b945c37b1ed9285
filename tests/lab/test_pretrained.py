"""Pretrained models as sources of attention: what is shown equals what the model computes."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from alibi_viz import attention_trace
from alibi_viz.lab import PretrainedModel
from alibi_viz.widgets import AttentionExplorer, WindowExplorer

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers")

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    BloomModel,
    ByT5Tokenizer,
    FalconConfig,
    FalconModel,
    GPT2Config,
    GPT2Model,
    MptConfig,
    MptModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

FALCON: dict[str, int] = {"vocab_size": 400, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = "to be or not to be, that is the question"


def source() -> PretrainedModel:
    torch.manual_seed(0)
    model = BloomModel(BloomConfig(vocab_size=400, hidden_size=64, n_layer=2, n_head=4)).eval()
    return PretrainedModel(model, ByT5Tokenizer())  # a real tokenizer that needs no download


def test_weights_equal_those_of_the_model() -> None:
    pretrained = source()
    assert pretrained.contents == ("layer 1", "layer 2")
    reading = pretrained.read("to be or not", "layer 2", num_heads=4, longest=48)
    assert "".join(reading.tokens).startswith("to␣be␣or␣not")
    ids = torch.tensor([pretrained.tokenizer("to be or not")["input_ids"]])
    with torch.no_grad():
        expected = pretrained.model(ids, output_attentions=True).attentions[1]
    weights = attention_trace(reading.query, reading.key, reading.slopes).weights
    assert torch.allclose(weights, expected, atol=1e-6)
    app = AttentionExplorer(source=pretrained, text="to be or not")
    assert app.num_heads == 4
    assert app.caption
    windows = WindowExplorer(source=pretrained, text="to be or not", content="layer 2")
    assert len(windows.figure.data[1].x) == 4
    assert "layer 2 of 2 of a pretrained model" in windows.caption


def test_a_long_text_is_truncated_and_its_length_reported() -> None:
    reading = source().read("a" * 100, "layer 1", num_heads=4, longest=48)
    assert len(reading.tokens) == reading.query.shape[2] == 48
    assert reading.total == 101  # with the end-of-text token


def test_unknown_layer_head_count_or_family_raises() -> None:
    with pytest.raises(ValueError, match="content must be one of layer 1, layer 2, got 'layer 3'"):
        source().read("a", "layer 3", num_heads=4, longest=48)
    with pytest.raises(ValueError, match="num_heads must be 4, as in the model, got 8"):
        source().read("a", "layer 1", num_heads=8, longest=48)
    with pytest.raises(ValueError, match="model must be one of bloom, falcon, mpt, got 'gpt2'"):
        PretrainedModel(gpt2(), ByT5Tokenizer())
    with pytest.raises(ValueError, match="model must be one of bloom, falcon, mpt, got 'Linear'"):
        PretrainedModel(torch.nn.Linear(2, 2), ByT5Tokenizer())


def gpt2() -> PreTrainedModel:
    return GPT2Model(GPT2Config(vocab_size=400, n_embd=16, n_layer=1, n_head=2))


def save(folder: Path, model: PreTrainedModel) -> str:
    """Save a model with a tokenizer of its own, of byte pairs as BLOOM's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([TEXT] * 3, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    model.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    "model",
    [
        BloomForCausalLM(BloomConfig(vocab_size=400, hidden_size=64, n_layer=2, n_head=4)),
        MptModel(MptConfig(vocab_size=400, d_model=64, n_layers=2, n_heads=4, max_seq_len=64)),
        FalconModel(FalconConfig(**FALCON, alibi=True)),
    ],
    ids=["bloom", "mpt", "falcon"],
)
def test_app_opens_a_saved_model_by_its_folder(model: PreTrainedModel, tmp_path: Path) -> None:
    folder = save(tmp_path / "my model", model)
    app = AttentionExplorer(source=folder, text=TEXT, content="layer 2")
    assert (app.num_heads, app.contents) == (4, ("layer 1", "layer 2"))
    assert "Content comes from layer 2 of 2 of a pretrained model." in app.caption
    source: Any = app.source
    reading = source.read(TEXT, "layer 2", 4, 48)
    assert reading.tokens[:3] == ["to", "␣be", "␣or"]
    original = PretrainedModel(model.eval(), source.tokenizer).read(TEXT, "layer 2", 4, 48)
    torch.testing.assert_close(reading.query, original.query)
    shown = app.figure.data[3].z
    weights = attention_trace(original.query, original.key, original.slopes).weights[0, 0]
    assert shown[5][2] == pytest.approx(weights[5, 2].item(), abs=2e-5)


def test_app_with_a_pretrained_model_and_a_law_compares_with_the_bias_of_the_model() -> None:
    app = AttentionExplorer(source=source(), text=TEXT, law="square_root", head=2)
    assert "law square_root, bias on" in app.caption and "; with ALiBi " in app.caption


def test_parts_of_a_character_are_shown_as_bytes(tmp_path: Path) -> None:
    folder = save(tmp_path / "bloom", BloomModel(BloomConfig(vocab_size=400, hidden_size=64, n_layer=1, n_head=4)))
    tokens = PretrainedModel.from_pretrained(folder).read("é to", "layer 1", 4, 48).tokens
    assert len(tokens[0]) == 1 and "\ufffd" not in tokens[0]
    assert tokens[-1] == "␣to"


def test_model_that_is_not_on_this_machine_raises_at_once() -> None:
    expected = (
        "the model 'someone/no-such-model' is neither a folder nor among the downloaded models of this machine; with a "
        "network, download it once: hf download someone/no-such-model"
    )
    with pytest.raises(ValueError, match=re.escape(expected)):
        AttentionExplorer(source="someone/no-such-model")


def test_folder_without_a_model_raises(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"cannot load a model from the folder '{re.escape(str(tmp_path))}': "):
        AttentionExplorer(source=str(tmp_path))


def test_missing_library_of_a_downloaded_model_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def from_pretrained(*_arguments: object, **_options: object) -> None:
        raise ImportError("BloomTokenizer requires the SentencePiece library")

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", from_pretrained)
    with pytest.raises(ValueError, match="cannot load the model 'someone/a-model': BloomTokenizer requires"):
        AttentionExplorer(source="someone/a-model")


def test_without_transformers_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match="to load the model 'bigscience/bloom-560m', install transformers: pip"):
        AttentionExplorer(source="bigscience/bloom-560m")


def test_saved_model_of_another_family_or_without_alibi_raises(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="model must be one of bloom, falcon, mpt, got 'gpt2'"):
        AttentionExplorer(source=save(tmp_path / "gpt2", gpt2()))
    rotary = FalconConfig(**FALCON, alibi=False)
    with pytest.raises(ValueError, match="this falcon model was configured without ALiBi"):
        AttentionExplorer(source=save(tmp_path / "falcon", FalconModel(rotary)))


def test_tokenizer_that_returns_nothing_is_named() -> None:
    class Silent(ByT5Tokenizer):
        def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
            return {"input_ids": []}

    with pytest.raises(ValueError, match="the tokenizer of the model returned no tokens for the text 'to be'"):
        AttentionExplorer(source=PretrainedModel(source().model, Silent()), text="to be")


def test_model_of_transformers_given_without_a_tokenizer_is_explained() -> None:
    with pytest.raises(TypeError, match=r"for a model of transformers, give lab.PretrainedModel\(model, tokenizer\)"):
        AttentionExplorer(source=source().model)  # type: ignore[arg-type]
