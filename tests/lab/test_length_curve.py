"""The curve equals a loop that predicts one token at a time, for real classes of transformers' models."""

import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from alibi_viz import lab
from alibi_viz.table import results_table

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers")

from transformers import AutoModelForCausalLM, BloomModel, GPT2Config, LlamaConfig, MambaConfig

from tests.pretrained_models import FAMILIES, ByteTokenizer, small_model

TEXT = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. \N{SNOWMAN} " * 6


class PairTokenizer:
    """One token per two characters, out of 256."""

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": [sum(map(ord, text[at : at + 2])) % 256 for at in range(0, len(text), 2)]}


def gpt2() -> Any:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=256, n_embd=32, n_layer=1, n_head=2, n_positions=16, bos_token_id=0)
    return AutoModelForCausalLM.from_config(config).eval()


def llama() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    return AutoModelForCausalLM.from_config(LlamaConfig(vocab_size=256, **sizes, max_position_embeddings=8)).eval()


def diverged() -> Any:
    model = small_model("bloom")
    model.lm_head.weight.data[0, 0] = math.nan
    return model


def curve(*arguments: Any, **options: Any) -> dict[int, float]:
    return lab.length_curve(*arguments, **options).set_index("x")["value"].to_dict()


def bits_per_byte(model: Any, context: list[int], targets: list[int], sizes: list[int], count: int) -> float:
    """One forward pass per target, which sees as many tokens as `sizes` says."""
    tokens, total = context + targets, 0.0
    for at, size in zip(range(len(context), len(tokens)), sizes, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([tokens[at - size : at]])).logits[0, -1].double()
        total -= float(logits.log_softmax(0)[tokens[at]]) / math.log(2)
    return total / count


@pytest.mark.parametrize("make", [*FAMILIES, gpt2, llama])
@pytest.mark.parametrize("tokenizer", [ByteTokenizer(), PairTokenizer()], ids=["bytes", "pairs"])
def test_with_stride_1_every_target_sees_exactly_n_tokens(make: Any, tokenizer: Any) -> None:
    model = small_model(make) if isinstance(make, str) else make()
    data = TEXT.encode()
    table = lab.length_curve(model, tokenizer, TEXT, [5, 16], targets=20, stride=1)
    assert table["count"].unique().tolist() == [20]
    context, targets = (tokenizer(part.decode())["input_ids"] for part in (data[:-20], data[-20:]))
    for n, value in zip(table["x"], table["value"], strict=True):
        assert value == pytest.approx(bits_per_byte(model, context, targets, [n] * len(targets), 20), abs=1e-5)


def test_with_a_stride_windows_predict_as_many_targets_up_to_the_end_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokens = small_model("bloom"), list(TEXT.encode())
    for stride in (3, 7):  # the first window predicts 1 of 3 and 6 of 7: 13 targets
        expected = bits_per_byte(model, tokens[:-13], tokens[-13:], [9 - (12 - at) % stride for at in range(13)], 13)
        assert curve(model, ByteTokenizer(), TEXT, [9], targets=13, stride=stride) == pytest.approx({9: expected})
    at_once = curve(model, ByteTokenizer(), TEXT, [32, 50], targets=40, stride=4)  # the default stride: 32 // 8
    monkeypatch.setattr(sys.modules["alibi_viz.lab.evaluation"], "MAX_BATCH_TOKENS", 1)
    assert curve(model, ByteTokenizer(), TEXT, [32, 50], targets=40) == pytest.approx(at_once, abs=1e-6)


def test_beyond_the_positions_of_a_model_the_loss_is_nan() -> None:
    for model, limit in ((gpt2(), 16), (small_model("mpt"), 64)):
        losses = curve(model, ByteTokenizer(), TEXT, [limit // 2, limit, limit + 1, 5000], targets=20)
        assert [math.isfinite(loss) for loss in losses.values()] == [True, True, False, False]
    mamba = AutoModelForCausalLM.from_config(MambaConfig(vocab_size=256, hidden_size=32, num_hidden_layers=1)).eval()
    for model in (llama(), small_model("falcon sdpa"), small_model("bloom"), mamba):
        assert math.isfinite(curve(model, ByteTokenizer(), "a" * 120, [100], targets=20)[100]), "just long enough"


def test_targets_are_whole_characters_and_the_same_bytes_for_every_tokenizer() -> None:
    text, model = "a" * 40 + "\N{SNOWMAN}" * 10, small_model("bloom")  # three bytes each
    as_list = lambda text, **_: ByteTokenizer()(text)["input_ids"]  # noqa: E731 - like `tokenizer.encode`
    for tokenizer in (ByteTokenizer(), PairTokenizer(), as_list):
        assert lab.length_curve(model, tokenizer, text, [4], targets=8)["count"].item() == 9


def test_a_text_of_the_lab_is_tested_on_its_validation_part_and_anything_else_as_a_whole(tmp_path: Path) -> None:
    model, text = small_model("bloom"), lab.load_text()
    validation, path = bytes(text.validation.tolist()), tmp_path / "part.txt"
    by_text = lab.length_curve(model, ByteTokenizer(), text, [8, 16], targets=50)
    path.write_bytes(validation)
    for same in (None, validation, validation.decode("utf-8", "ignore"), path):
        other = lab.length_curve(model, ByteTokenizer(), same, [8, 16], targets=50)
        assert other["value"].tolist() == by_text["value"].tolist()
    assert by_text["text"].unique().tolist() == [text.fingerprint]


def test_the_table_is_one_of_the_lab() -> None:
    model = small_model("bloom").train()
    as_trained = lab.length_curve(model, ByteTokenizer(), TEXT, [8, 16, 32], targets=40, trained=16)
    assert model.training
    assert as_trained.columns.tolist() == list(lab.COLUMNS)
    assert as_trained.dtypes.equals(results_table([]).dtypes)
    assert as_trained[["method", "label", "length"]].drop_duplicates().values.tolist() == [["bloom", "bloom", 16]]
    changed = lab.length_curve(lab.modify(model, 0.5, window=9), ByteTokenizer(), TEXT, [8], targets=40)
    assert changed[["label", "length"]].values.tolist() == [["bloom, slopes times 0.5, window of 9", 8]]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("mine.txt", {}, "a string is the text itself, for a file give a pathlib.Path"),
        ("a" * 35, {}, "your text has 15 there; choose shorter lengths or fewer targets"),
        (TEXT, {"lengths": [8, 0]}, "lengths must be an integer of at least 1, got 0"),
        (TEXT, {"lengths": [8, 10**6]}, r"lengths=1000000 would take .* GiB, more than a quarter of the free memory"),
        (TEXT, {"stride": 9}, "stride must be at most the shortest length, 8, got 9"),
        (TEXT, {"tokenizer": lambda text, **_: {"input_ids": []}}, "tokenizer must return tokens of the model"),
        (TEXT, {"tokenizer": lambda text, **_: {"input_ids": [3, -1] * 99}}, r"from 0 to 255, .*, got \[3, -1, "),
        (TEXT, {"tokenizer": lambda text, **_: {"input_ids": [300] * 99}}, r"from 0 to 255, .*, got \[300, "),
        (TEXT, {"model": BloomModel(small_model("bloom").config)}, "have a language-modeling head, got BloomModel"),
        (TEXT, {"model": lab.make_model()}, "model must be a causal language model of transformers, got LanguageModel"),
        (TEXT, {"model": diverged()}, "the model returns NaN or infinite losses in sequences of 8 tokens"),
    ],
)
def test_invalid_input_raises_with_its_name(text: Any, options: dict[str, Any], message: str) -> None:
    given = {"model": small_model("bloom"), "tokenizer": ByteTokenizer(), "lengths": [8, 16], "targets": 20} | options
    with pytest.raises((TypeError, ValueError, MemoryError), match=message):
        lab.length_curve(text=text, **given)
