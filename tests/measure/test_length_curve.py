"""The curve equals a loop that predicts one token at a time, for real classes of transformers'
models."""

import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from alibi_viz import lab
from alibi_viz.measure.table import results_table

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers")

from transformers import AutoModelForCausalLM, BloomModel, GPT2Config, LlamaConfig, MambaConfig

from tests.pretrained_models import FAMILIES, ByteTokenizer, small_model

TEXT = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. \N{SNOWMAN} " * 6


def pairs(text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
    """A tokenizer with one token per two characters, out of 256, after a special one."""
    ids = [sum(map(ord, text[at : at + 2])) % 256 for at in range(0, len(text), 2)]
    return {"input_ids": [0] * add_special_tokens + ids}


SIZES = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}
GPT2 = GPT2Config(vocab_size=256, n_embd=32, n_layer=1, n_head=2, n_positions=16, bos_token_id=0)
LLAMA = LlamaConfig(vocab_size=256, **SIZES, max_position_embeddings=8)
MAMBA = MambaConfig(vocab_size=256, hidden_size=32, num_hidden_layers=1)


def made(config: Any) -> Any:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).eval()


def diverged() -> Any:
    model = small_model("bloom")
    model.lm_head.weight.data[0, 0] = math.nan
    return model


def curve(*arguments: Any, **options: Any) -> dict[int, float]:
    return lab.length_curve(*arguments, **options).set_index("x")["value"].to_dict()


def bits_per_byte(
    model: Any, context: list[int], targets: list[int], sizes: list[int], count: int
) -> float:
    """One forward pass per target, which sees as many tokens as `sizes` says."""
    tokens, total = context + targets, 0.0
    for at, size in zip(range(len(context), len(tokens)), sizes, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([tokens[at - size : at]])).logits[0, -1].double()
        total -= float(logits.log_softmax(0)[tokens[at]]) / math.log(2)
    return total / count


@pytest.mark.parametrize(
    "kind", [*FAMILIES, GPT2, LLAMA], ids=lambda kind: getattr(kind, "model_type", kind)
)
@pytest.mark.parametrize("tokenizer", [ByteTokenizer(), pairs], ids=["bytes", "pairs"])
def test_with_stride_1_every_target_sees_exactly_n_tokens(kind: Any, tokenizer: Any) -> None:
    model = small_model(kind) if isinstance(kind, str) else made(kind)
    parts = TEXT.encode()[:-20], TEXT.encode()[-20:]
    table = lab.length_curve(
        model, tokenizer, TEXT, [5, 16], targets=20
    )  # the default stride: 5 // 8, but at least 1
    context, targets = (
        tokenizer(part.decode(), add_special_tokens=False)["input_ids"] for part in parts
    )
    for n, value in zip(table["x"], table["value"], strict=True):
        assert value == pytest.approx(
            bits_per_byte(model, context, targets, [n] * len(targets), 20), abs=1e-5
        )


def test_with_a_stride_windows_predict_as_many_targets_up_to_the_end_of_a_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, tokens = small_model("bloom"), list(TEXT.encode())
    for stride in (3, 7):  # the first window predicts 1 of 3 and 6 of 7: 13 targets
        expected = bits_per_byte(
            model, tokens[:-13], tokens[-13:], [9 - (12 - at) % stride for at in range(13)], 13
        )
        assert curve(model, ByteTokenizer(), TEXT, [9], targets=13, stride=stride) == pytest.approx(
            {9: expected}
        )
    at_once = curve(
        model, ByteTokenizer(), TEXT, [32, 50], targets=40, stride=4
    )  # the default stride: 32 // 8
    monkeypatch.setattr(sys.modules["alibi_viz.measure.losses"], "MAX_BATCH_TOKENS", 1)
    assert curve(model, ByteTokenizer(), TEXT, [32, 50], targets=40) == pytest.approx(
        at_once, abs=1e-6
    )


def test_beyond_the_positions_of_a_model_the_loss_is_nan() -> None:
    for model, limit in ((made(GPT2), 16), (small_model("mpt"), 64)):
        losses = curve(
            model, ByteTokenizer(), TEXT, [limit // 2, limit, limit + 1, 5000], targets=20
        )
        assert [math.isfinite(loss) for loss in losses.values()] == [True, True, False, False]
    for model in (made(LLAMA), small_model("falcon sdpa"), small_model("bloom"), made(MAMBA)):
        assert math.isfinite(curve(model, ByteTokenizer(), "a" * 120, [100], targets=20)[100]), (
            "just long enough"
        )


def test_targets_are_whole_characters_and_the_same_bytes_for_every_tokenizer() -> None:
    text, model = "a" * 40 + "\N{SNOWMAN}" * 10, small_model("bloom")  # three bytes each
    for tokenizer in (
        ByteTokenizer(),
        pairs,
        lambda text, **_: [*text.encode(), 0, 255],
    ):  # as `tokenizer.encode`
        assert lab.length_curve(model, tokenizer, text, [4], targets=8)["count"].item() == 9


def test_a_text_of_the_lab_is_tested_on_its_validation_part_and_anything_else_as_a_whole(
    tmp_path: Path,
) -> None:
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
    assert model.training and as_trained.dtypes.equals(results_table([]).dtypes)
    row = {
        "origin": "live",
        "task": "text",
        "method": "bloom",
        "label": "bloom",
        "variant": "as trained",
        "seed": 0,
    }
    row |= {
        "length": 16,
        "step": 0,
        "question": "sliding windows",
        "unit": "bits per byte",
        "count": 40,
    }
    row["text"] = lab.load_text(TEXT).fingerprint
    assert as_trained.drop(columns="value").to_dict("records") == [
        row | {"x": x} for x in (8, 16, 32)
    ]
    model.config._name_or_path = "someone/bloom"
    changed = lab.length_curve(
        lab.modify(model, 0.5, window=9), ByteTokenizer(), lab.load_text(), [16, 32], stride=16
    )
    label = "someone/bloom, slopes times 0.5, window of 9"
    assert (
        changed[["method", "label", "length", "count"]].values.tolist()
        == [["bloom", label, 16, 4096]] * 2
    )


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "mine.txt",
            {"lengths": [1]},
            "has 0 there; .*; a string is the text itself, for a file give a pathlib.Path",
        ),
        (
            "a" * 35,
            {"model": made(GPT2)},
            "before the 20 bytes .* 15 there; choose shorter lengths or fewer targets",
        ),
        (TEXT, {"lengths": [8, 0]}, "lengths must be an integer of at least 1, got 0"),
        *(
            (TEXT, {"lengths": [10**6], "model": made(kind)}, "1,000,000 tokens are needed")
            for kind in (LLAMA, MAMBA)
        ),
        (TEXT, {"trained": 0}, "trained must be between 1 and .*, got 0"),
        (TEXT, {"trained": 2**63}, f"trained must be between 1 and .*, got {2**63}"),
        (TEXT, {"stride": 9}, "stride must be at most the shortest length, 8, got 9"),
        (
            TEXT,
            {"tokenizer": lambda text, **_: {"input_ids": []}},
            "tokenizer must return tokens of the model",
        ),
        (
            TEXT,
            {"tokenizer": lambda text, **_: {"input_ids": [3, -1] * 99}},
            r"from 0 to 255, .*, got \[3, -1, ",
        ),
        (
            TEXT,
            {"tokenizer": lambda text, **_: {"input_ids": [300] * 99}},
            r"from 0 to 255, .*, got \[300, ",
        ),
        (
            TEXT,
            {"model": BloomModel(small_model("bloom").config)},
            "have a language-modeling head, got BloomModel",
        ),
        (
            TEXT,
            {"model": lab.make_model()},
            "model must be a causal language model of transformers, got LanguageModel",
        ),
        (
            TEXT,
            {"model": diverged()},
            "the model returns NaN or infinite losses in sequences of 8 tokens",
        ),
    ],
)
def test_invalid_input_raises_with_its_name(
    text: Any, options: dict[str, Any], message: str
) -> None:
    given = {
        "model": small_model("bloom"),
        "tokenizer": ByteTokenizer(),
        "lengths": [8, 16],
        "targets": 20,
    } | options
    with pytest.raises((TypeError, ValueError), match=message):
        lab.length_curve(text=text, **given)
