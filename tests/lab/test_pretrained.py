"""Pretrained models as sources of attention: what is shown equals what the model computes."""

import os

import pytest
import torch

from alibi_viz import attention_trace
from alibi_viz.lab import PretrainedModel
from alibi_viz.widgets import AttentionExplorer

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers")

from transformers import BloomConfig, BloomModel, ByT5Tokenizer, GPT2Config, GPT2Model


def source() -> PretrainedModel:
    torch.manual_seed(0)
    model = BloomModel(BloomConfig(vocab_size=400, hidden_size=64, n_layer=2, n_head=4)).eval()
    return PretrainedModel(model, ByT5Tokenizer())  # a real tokenizer that needs no download


def test_weights_equal_those_of_the_model() -> None:
    pretrained = source()
    assert pretrained.contents == ("layer 1", "layer 2")
    reading = pretrained.read("to be or not", "layer 2", num_heads=4, longest=48)
    assert "".join(reading.tokens).startswith("to be or not")
    ids = torch.tensor([pretrained.tokenizer("to be or not")["input_ids"]])
    with torch.no_grad():
        expected = pretrained.model(ids, output_attentions=True).attentions[1]
    weights = attention_trace(reading.query, reading.key, reading.slopes).weights
    assert torch.allclose(weights, expected, atol=1e-6)
    app = AttentionExplorer(source=pretrained, text="to be or not")
    assert app.num_heads == 4
    assert app.caption


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
        PretrainedModel(GPT2Model(GPT2Config(vocab_size=400, n_embd=16, n_layer=1, n_head=2)), ByT5Tokenizer())
