"""The curve equals a loop that predicts one token at a time, for real classes of transformers'
models."""

import math
import os
from functools import cache

import pytest
import torch

from alibi_viz import lab

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers", reason="pip install transformers")

from transformers import AutoModelForCausalLM, BloomModel, GPT2Config, LlamaConfig, MambaConfig

from tests.pretrained_models import ByteTokenizer, small_model
from tests.rows import each_case

SENTENCE = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. \N{SNOWMAN} "
TEXT = SENTENCE * 6

# Models

# GPT-2's configuration also takes these names for what it calls "n_embd", "n_layer" and "n_head".
SIZES = {
    "vocab_size": 256,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "bos_token_id": 0,
}


@cache
def model_of(family):
    """A small model of this family, with or without ALiBi. Tests share it, so they don't change it.

    GPT-2 has a table of 16 positions, and MPT a bias for at most 64. Llama's 8 positions say how
    long its training sequences were: rotary positions are computed, and have no end.
    """
    if family == "gpt2":
        return evaluated(GPT2Config(**SIZES, n_positions=16))
    if family == "llama":
        return evaluated(LlamaConfig(**SIZES, intermediate_size=32, max_position_embeddings=8))
    if family == "mamba":
        return evaluated(MambaConfig(**SIZES))
    return small_model(family)


def evaluated(config):
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).eval()


# Tokenizers

in_bytes = ByteTokenizer()


def in_pairs(text, *, add_special_tokens=True):
    """A token for every two characters, out of 256, after a special one."""
    tokens = [0] if add_special_tokens else []
    for start in range(0, len(text), 2):
        codes = map(ord, text[start : start + 2])
        tokens.append(sum(codes) % 256)
    return {"input_ids": tokens}


def in_a_list(text, **options):
    """A token per byte and two further ones, in a list, as `tokenizer.encode` returns them."""
    return [*text.encode(), 0, 255]


TOKENIZERS = {"bytes": in_bytes, "pairs": in_pairs, "a list": in_a_list}


# The losses


def bits_per_byte(model, tokens, context_sizes, num_bytes):
    """The loss of the last tokens, each predicted from as many tokens as its context size says.

    It takes one forward pass per token.
    """
    first_target = len(tokens) - len(context_sizes)
    nats = 0.0
    for place, context_size in enumerate(context_sizes, start=first_target):
        context = torch.tensor([tokens[place - context_size : place]])
        with torch.no_grad():
            logits = model(context).logits[0, -1].double()
        nats -= float(logits.log_softmax(0)[tokens[place]])
    return nats / math.log(2) / num_bytes


def losses_of(model, text, lengths, **options):
    """The losses at these lengths, in bits per byte, where every byte is a token."""
    table = lab.length_curve(model, in_bytes, text, lengths, **options)
    assert table["x"].tolist() == lengths
    return table["value"].tolist()


@each_case(
    ("family", "tokenizer"),
    {
        "a table of positions": ("gpt2", in_bytes),
        "rotary positions": ("llama", in_bytes),
        "ALiBi": ("bloom", in_bytes),
        "ALiBi, two characters a token": ("bloom", in_pairs),
        "ALiBi, a longest length": ("mpt", in_bytes),
    },
)
def test_with_stride_1_every_target_sees_as_many_tokens_as_the_length(family, tokenizer):
    model = model_of(family)
    context_text = TEXT.encode()[:-20].decode()
    target_text = TEXT.encode()[-20:].decode()
    context = tokenizer(context_text, add_special_tokens=False)["input_ids"]
    targets = tokenizer(target_text, add_special_tokens=False)["input_ids"]

    table = lab.length_curve(model, tokenizer, TEXT, [5, 16], targets=20, stride=1)

    for length, loss in zip([5, 16], table["value"], strict=True):
        context_sizes = [length] * len(targets)
        expected = bits_per_byte(model, context + targets, context_sizes, num_bytes=20)
        assert loss == pytest.approx(expected, abs=1e-5)


@each_case(
    ("stride", "context_sizes"),
    {
        "stride 3": (3, [9, 7, 8, 9, 7, 8, 9, 7, 8, 9, 7, 8, 9]),
        "stride 7": (7, [4, 5, 6, 7, 8, 9, 3, 4, 5, 6, 7, 8, 9]),
    },
)
def test_a_sequence_predicts_as_many_targets_as_the_stride(stride, context_sizes):
    """The last target of each sequence sees all 9 tokens. The first sequence predicts the rest."""
    model = model_of("bloom")
    expected = bits_per_byte(model, list(TEXT.encode()), context_sizes, num_bytes=13)
    losses = losses_of(model, TEXT, [9], targets=13, stride=stride)
    assert losses == pytest.approx([expected])


@each_case(("lengths", "stride"), {"32 and 50": ([32, 50], 4), "5 and 16": ([5, 16], 1)})
def test_the_default_stride_is_an_eighth_of_the_shortest_length(lengths, stride):
    model = model_of("bloom")
    by_default = losses_of(model, TEXT, lengths, targets=40)
    assert by_default == losses_of(model, TEXT, lengths, targets=40, stride=stride)


def test_the_size_of_a_batch_does_not_change_the_losses(monkeypatch):
    at_once = losses_of(model_of("bloom"), TEXT, [32, 50], targets=40)
    monkeypatch.setattr("alibi_viz.measure.losses.MAX_BATCH_TOKENS", 1)
    one_by_one = losses_of(model_of("bloom"), TEXT, [32, 50], targets=40)
    assert one_by_one == pytest.approx(at_once, abs=1e-6)


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_the_mode_of_a_model_is_kept(training):
    model = small_model("bloom").train(training)
    losses_of(model, TEXT, [8], targets=8)
    assert model.training == training


# Lengths


@each_case(
    ("family", "positions"),
    {
        "gpt2, a table of positions": ("gpt2", 16),
        "mpt, a bias of this length": ("mpt", 64),
    },
)
def test_the_loss_is_nan_beyond_the_positions_of_a_model(family, positions):
    lengths = [positions // 2, positions, positions + 1]
    losses = losses_of(model_of(family), TEXT, lengths, targets=20)
    assert [math.isnan(loss) for loss in losses] == [False, False, True]


def test_lengths_beyond_the_positions_of_a_model_need_no_text():
    _, loss = losses_of(model_of("gpt2"), TEXT, [8, 5000], targets=20)
    assert math.isnan(loss)


@each_case(
    "family",
    {
        "llama, rotary positions": "llama",
        "falcon, ALiBi": "falcon sdpa",
        "bloom, ALiBi": "bloom",
        "mamba, no positions": "mamba",
    },
)
def test_positions_that_are_computed_have_no_limit(family):
    (loss,) = losses_of(model_of(family), TEXT, [100], targets=20)
    assert math.isfinite(loss)


def test_a_text_may_be_just_long_enough():
    (loss,) = losses_of(model_of("bloom"), "a" * (16 + 20), [16], targets=20)
    assert math.isfinite(loss)


# Texts


def test_targets_start_with_a_whole_character():
    """A snowman has three bytes, so eight bytes start inside the third last one."""
    text = "a" * 40 + "\N{SNOWMAN}" * 10
    table = lab.length_curve(model_of("bloom"), in_bytes, text, [4], targets=8)
    assert table["count"].item() == 9


@each_case("tokenizer", TOKENIZERS)
def test_the_loss_is_per_byte_whatever_the_tokenizer(tokenizer):
    table = lab.length_curve(model_of("bloom"), tokenizer, TEXT, [4], targets=20)
    assert table["count"].item() == 20


@pytest.fixture(scope="module")
def losses_on_the_validation_part():
    return losses_of(model_of("bloom"), lab.load_text(), [8, 16], targets=50)


def test_no_text_is_the_built_in_text(losses_on_the_validation_part):
    losses = losses_of(model_of("bloom"), None, [8, 16], targets=50)
    assert losses == losses_on_the_validation_part


@pytest.mark.parametrize("form", ["bytes", "string", "path"])
def test_what_is_no_text_of_the_lab_is_used_as_a_whole(
    form, losses_on_the_validation_part, tmp_path
):
    validation = lab.load_text().validation.numpy().tobytes()
    path = tmp_path / "validation.txt"
    path.write_bytes(validation)
    forms = {"bytes": validation, "string": validation.decode("utf-8", "ignore"), "path": path}
    losses = losses_of(model_of("bloom"), forms[form], [8, 16], targets=50)
    assert losses == losses_on_the_validation_part


# The table


def test_each_length_has_a_row_that_says_what_was_measured():
    table = lab.length_curve(model_of("bloom"), in_bytes, TEXT, [8, 16], targets=40, trained=16)
    row = {
        "origin": "live",
        "task": "text",
        "method": "bloom",
        "label": "bloom",
        "variant": "as trained",
        "seed": 0,
        "length": 16,
        "step": 0,
        "question": "sliding windows",
        "unit": "bits per byte",
        "count": 40,
        "text": lab.load_text(TEXT).fingerprint,
    }
    assert table.drop(columns="value").to_dict("records") == [row | {"x": 8}, row | {"x": 16}]
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == lab.COLUMNS


def test_by_default_4096_bytes_are_predicted_and_the_shortest_length_is_that_of_training():
    table = lab.length_curve(model_of("bloom"), in_bytes, "a" * 4128, [32, 16], stride=16)
    assert table["count"].tolist() == [4096, 4096]
    assert table["length"].tolist() == [16, 16]


def test_a_text_of_the_lab_has_its_own_fingerprint():
    text = lab.load_text()
    table = lab.length_curve(model_of("bloom"), in_bytes, text, [8], targets=8)
    assert table["text"].item() == text.fingerprint


def test_the_label_is_the_name_of_the_model():
    model = small_model("bloom")
    model.config._name_or_path = "someone/bloom"
    table = lab.length_curve(model, in_bytes, TEXT, [8], targets=8)
    assert table["label"].item() == "someone/bloom"


def test_a_changed_model_has_the_method_of_its_family_and_a_label_of_its_own():
    model = lab.modify(small_model("bloom"), 0.5, window=9)
    table = lab.length_curve(model, in_bytes, TEXT, [8], targets=8)
    assert table["label"].item() == "bloom, slopes times 0.5, window of 9"
    assert table["method"].item() == "bloom"


# What is refused


@each_case(
    ("options", "message"),
    {
        "a length of 0": ({"lengths": [8, 0]}, "lengths must be an integer of at least 1, got 0"),
        "a training length of 0": ({"trained": 0}, "trained must be between 1 and .*, got 0"),
        "a training length that no column holds": (
            {"trained": 2**63},
            f"trained must be between 1 and .*, got {2**63}",
        ),
        "a stride beyond the shortest length": (
            {"stride": 9},
            "stride must be at most the shortest length, 8, got 9",
        ),
    },
)
def test_a_number_out_of_range_is_refused(options, message):
    given = {"lengths": [8, 16], "targets": 20, **options}
    with pytest.raises(ValueError, match=message):
        lab.length_curve(model_of("bloom"), in_bytes, TEXT, **given)


def test_a_text_that_is_too_short_is_refused_with_what_is_there():
    message = "before the 20 bytes .* 15 there; choose shorter lengths or fewer targets"
    with pytest.raises(ValueError, match=message):
        lab.length_curve(model_of("gpt2"), in_bytes, "a" * 35, [8, 16], targets=20)


def test_the_name_of_a_file_in_a_string_is_refused_with_a_hint():
    message = r"a string must be the text itself, got 'mine.txt'; .* give pathlib.Path"
    with pytest.raises(ValueError, match=message):
        lab.length_curve(model_of("bloom"), in_bytes, "mine.txt", [1], targets=20)


@pytest.mark.parametrize("family", ["llama", "mamba"])
def test_a_model_without_a_limit_needs_a_text_of_any_length(family):
    with pytest.raises(ValueError, match="sequences of 1,000,000 tokens are needed"):
        lab.length_curve(model_of(family), in_bytes, TEXT, [1_000_000], targets=20)


def without_tokens(text, **options):
    return []


def with_a_token_too_large(text, **options):
    return [300] * 99


@each_case(
    ("tokenizer", "message"),
    {
        "no tokens": (without_tokens, r"got \[\]"),
        "a token too large": (with_a_token_too_large, r"got \[300, "),
    },
)
def test_a_tokenizer_of_another_model_is_refused(tokenizer, message):
    message = "the tokenizer must return tokens of the model, from 0 to 255, .*, " + message
    with pytest.raises(ValueError, match=message):
        lab.length_curve(model_of("bloom"), tokenizer, TEXT, [8, 16], targets=20)


def test_a_model_without_a_head_is_refused():
    model = BloomModel(small_model("bloom").config)
    with pytest.raises(ValueError, match="have a language-modeling head, got BloomModel"):
        lab.length_curve(model, in_bytes, TEXT, [8, 16], targets=20)


def test_a_model_of_the_lab_is_refused():
    message = "model must be a causal language model of transformers, got LanguageModel"
    with pytest.raises(TypeError, match=message):
        lab.length_curve(lab.make_model(), in_bytes, TEXT, [8, 16], targets=20)


def test_a_model_that_returns_nan_is_refused_with_the_length():
    model = small_model("bloom")
    model.lm_head.weight.data[0, 0] = math.nan
    message = "the model returns NaN or infinite losses in sequences of 8 tokens"
    with pytest.raises(ValueError, match=message):
        lab.length_curve(model, in_bytes, TEXT, [8, 16], targets=20)
