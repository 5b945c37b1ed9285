"""Models that read a text layer by layer compute what they compute in one go."""

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from alibi_viz import lab
from alibi_viz.adapters import pretrained_heads
from alibi_viz.lab.model_sources import ByteModel, ModelRun, PretrainedModel

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers")

from transformers import FalconConfig, GPT2Config

from tests.pretrained_models import FAMILIES, ByteTokenizer, small_model

TEXT = "the cat sat on the mat, and the dog sat by the door"
CHANGES: list[dict[str, Any]] = [{}, {"factors": [0.5, 1.0, 2.0, 0.0], "window": 9, "sinks": 3}]


def read_layer(model: torch.nn.Module, layer: int, text: str = TEXT) -> tuple[torch.Tensor, torch.Tensor]:
    reading = PretrainedModel(model, ByteTokenizer()).start(text, 4096).read(layer)
    return reading.query, reading.key


@pytest.mark.parametrize("change", CHANGES, ids=["as loaded", "changed"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer_equals_that_of_the_whole_model(family: str, change: dict[str, Any]) -> None:
    model = lab.change_attention(small_model(family), **change) if change else small_model(family)
    for text in (TEXT, "x"):
        for layer in range(2):
            query, key, _ = pretrained_heads(model, torch.tensor([list(text.encode())]), layer)
            torch.testing.assert_close(read_layer(model, layer, text), (query, key), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("family", ["bloom", "mpt"])
def test_queries_in_several_blocks_give_the_same(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alibi_viz.lab.pretrained_layers._BLOCK", 7)
    model = lab.change_attention(small_model(family), window=9, sinks=3)
    query, key, _ = pretrained_heads(model, torch.tensor([list(TEXT.encode())]), 1)
    torch.testing.assert_close(read_layer(model, 1), (query, key), atol=2e-5, rtol=1e-4)


def test_half_precision() -> None:
    model = small_model("bloom").to(torch.bfloat16)
    query, _, _ = pretrained_heads(model, torch.tensor([list(TEXT.encode())]), 1)
    torch.testing.assert_close(read_layer(model, 1)[0], query.float(), atol=0.1, rtol=0.1)


def test_each_layer_runs_once_and_is_kept() -> None:
    model = small_model("bloom")
    calls = []
    model.transformer.h[0].mlp.register_forward_hook(lambda *_: calls.append(1))
    run = PretrainedModel(model, ByteTokenizer()).start(TEXT, 4096)
    assert run.done == 0
    assert list(run.steps(0)) == [1]
    assert calls == [], "the first layer's attention needs no finished layer"
    for layer in (1, 0, 1):
        run.read(layer)
    assert (run.done, calls) == (2, [1])


def test_the_model_is_unchanged_and_can_be_trained_in_between() -> None:
    model = small_model("bloom").train()
    with torch.no_grad():
        model.eval()
        before = model(torch.tensor([[1, 2, 3]])).logits
        model.train()
    run = PretrainedModel(model, ByteTokenizer()).start(TEXT, 4096)
    next(run.steps(1))
    assert model.training and all(block.training for block in model.transformer.h)
    run.read(1)
    model(torch.tensor([[1, 2, 3]])).logits.sum().backward()
    assert all(module.training for module in model.modules())
    with torch.no_grad():
        assert torch.equal(model.eval()(torch.tensor([[1, 2, 3]])).logits, before)


@pytest.mark.parametrize("kind", ["byte", "pretrained"])
def test_threads_can_share_a_run(kind: str) -> None:
    def start() -> ModelRun:
        if kind == "byte":
            return ByteModel(lab.make_model("alibi", num_layers=4)).start(TEXT, 4096)
        return PretrainedModel(small_model("bloom"), ByteTokenizer()).start(TEXT, 4096)

    run = start()
    threads = [threading.Thread(target=run.read, args=(run.num_layers - 1,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run.done == run.num_layers
    if kind == "pretrained":
        assert torch.equal(run.read(1).query, start().read(1).query)


def test_mpt_reads_no_more_tokens_than_it_has_positions_for() -> None:
    reading = PretrainedModel(small_model("mpt"), ByteTokenizer()).start("a" * 100, 4096).read(1)
    assert (len(reading.tokens), reading.total) == (64, 100)


def test_tokens_that_the_model_does_not_have_and_nan_raise() -> None:
    with pytest.raises(ValueError, match="the tokenizer returned token 122, but the model has 100 tokens"):
        PretrainedModel(small_model("bloom", vocabulary=100), ByteTokenizer()).start("z", 48)
    diverged = small_model("bloom")
    torch.nn.init.constant_(diverged.transformer.h[0].mlp.dense_4h_to_h.weight, torch.nan)
    run = PretrainedModel(diverged, ByteTokenizer()).start(TEXT, 48)
    run.read(0)
    with pytest.raises(ValueError, match="the model's queries and keys must be finite"):
        run.read(1)


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
