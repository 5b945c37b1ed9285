"""Models as sources of attention: their tokens, queries and keys are read from one run."""

import pytest
import torch

from alibi_viz import LanguageModel, TransformerConfig, alibi_slopes, attention_trace, lab
from alibi_viz.measure.attention_sources import (
    ByteModel,
    PretrainedModel,
)
from alibi_viz.widgets import AttentionExplorer
from tests.pretrained_models import ByteTokenizer, small_model
from tests.rows import each_case

TEXT = "to be or not to be, that is the question"


# A model of ours, which reads bytes


@pytest.fixture(scope="module")
def byte_model():
    return ByteModel(lab.make_model("alibi", num_layers=2))


def test_bytes_are_shown_as_characters_symbols_or_numbers(byte_model):
    reading = byte_model.read("ein\n\tKäs~ !\x7f", "layer 1", longest=48)
    assert reading.tokens == ["e", "i", "n", "↵", "⇥", "K", "c3", "a4", "s", "~", "␣", "!", "7f"]


def test_a_reading_has_the_slopes_of_the_model(byte_model):
    reading = byte_model.read(TEXT, "layer 2", longest=48)
    assert torch.equal(reading.slopes, alibi_slopes(4))


def test_a_reading_says_which_layer_it_is_of(byte_model):
    reading = byte_model.read(TEXT, "layer 2", longest=48)
    assert reading.note == (
        "Content comes from layer 2 of 2 of the trained model, which reads letters."
    )


def test_weights_from_a_reading_reproduce_the_output_of_the_layer(byte_model):
    reading = byte_model.read(TEXT, "layer 2", longest=48)
    weights = attention_trace(reading.query, reading.key, reading.slopes).weights

    attention = byte_model.model.transformer.blocks[1].attention
    calls = []

    def keep(_, inputs, output):
        calls.append((inputs[0], output))

    with attention.register_forward_hook(keep):
        byte_model.model(torch.tensor([list(TEXT.encode())]))
    ((layer_input, layer_output),) = calls

    _query, _key, value = attention.heads(layer_input)
    of_heads = (weights @ value).transpose(1, 2).flatten(2)
    torch.testing.assert_close(attention.output(of_heads), layer_output)


def test_unknown_content_is_named(byte_model):
    with pytest.raises(ValueError, match=r"content must be one of .*, got 'layer 9'"):
        byte_model.read("a", "layer 9", longest=48)


def test_a_text_must_have_a_byte(byte_model):
    with pytest.raises(ValueError, match="text must have at least one byte, got ''"):
        byte_model.read("", "layer 1", longest=48)


# A model of transformers


def pretrained(family):
    return PretrainedModel(small_model(family), ByteTokenizer())


def test_a_pretrained_model_offers_its_layers_and_heads():
    source = pretrained("bloom")
    assert source.contents == ("layer 1", "layer 2")
    assert source.num_heads == 4


def eager(family):
    """The model of a family in the implementation that returns its weights."""
    model = small_model(family)
    if family == "falcon sdpa":
        # Eager attention of Falcon adds the bias twice.
        model.set_attn_implementation("eager")
        model = lab.modify(model, 0.5)
    return model


@pytest.mark.parametrize("family", ["bloom", "mpt", "falcon sdpa"])
def test_weights_equal_those_of_the_model(family):
    source = pretrained(family)
    ids = torch.tensor([list(TEXT.encode())])
    with torch.no_grad():
        of_layers = eager(family)(ids, output_attentions=True).attentions
    assert len(of_layers) == 2
    for layer, expected in enumerate(of_layers, start=1):
        reading = source.read(TEXT, f"layer {layer}", longest=48)
        weights = attention_trace(reading.query, reading.key, reading.slopes).weights
        torch.testing.assert_close(weights, expected, atol=1e-5, rtol=1e-4)


@each_case(
    ("family", "longest", "tokens_read"),
    {
        "longest": ("bloom", 48, 48),
        "positions of the model": ("mpt", 4096, 64),
    },
)
def test_a_text_is_cut_to_the_longest_and_to_the_positions_of_the_model(
    family, longest, tokens_read
):
    reading = pretrained(family).read("a " * 50, "layer 1", longest=longest)
    assert len(reading.tokens) == tokens_read
    assert reading.query.shape[2] == reading.key.shape[2] == tokens_read
    assert reading.total == 100


def test_an_encoder_is_refused_because_it_sees_later_keys_too():
    encoder = LanguageModel(TransformerConfig(num_layers=1, d_model=8, num_heads=2, causal=False))
    with pytest.raises(ValueError, match="the model must be a decoder, got an encoder"):
        ByteModel(encoder)


def test_a_name_that_is_no_string_is_refused():
    with pytest.raises(TypeError, match="name must be an instance of str, got int"):
        PretrainedModel.from_pretrained(3)  # type: ignore[arg-type]


def test_a_changed_model_is_refused():
    changed = lab.modify(small_model("bloom"), 0.5)
    with pytest.raises(ValueError, match="the model must be unchanged, without hooks"):
        PretrainedModel(changed, ByteTokenizer())


def test_a_model_without_its_tokenizer_is_refused():
    message = r"for a model of transformers, give lab.PretrainedModel\(model, tokenizer\)"
    with pytest.raises(TypeError, match=message):
        AttentionExplorer(source=small_model("bloom"))


@pytest.fixture
def diverged():
    """A model whose first layer passes NaN on to the second."""
    source = pretrained("bloom")
    torch.nn.init.constant_(source.model.transformer.h[0].mlp.dense_4h_to_h.weight, torch.nan)
    return source


def test_a_layer_before_the_one_that_diverged_can_be_read(diverged):
    reading = diverged.read(TEXT, "layer 1", longest=48)
    assert reading.query.isfinite().all()


def test_queries_and_keys_that_diverged_are_refused(diverged):
    with pytest.raises(ValueError, match="the model's queries and keys must be finite"):
        diverged.read(TEXT, "layer 2", longest=48)


# One run for all layers, which leaves the model as it was


def pretrained_in_training():
    source = pretrained("bloom")
    for layer in source.model.transformer.h:
        layer.mlp.hidden_dropout = 0.5
    source.model.train()
    return source


def ours_in_training():
    return ByteModel(lab.make_model("alibi", num_heads=4, dropout=0.5).train())


in_training = each_case(
    "make_source",
    {
        "bloom": pretrained_in_training,
        "ours": ours_in_training,
    },
)


def read_layers(source):
    """The queries of each layer."""
    inputs = source.run(TEXT, longest=4096)
    return [source.reading(inputs, content).query for content in source.contents]


@in_training
def test_a_model_runs_once_for_all_layers(make_source):
    source = make_source()
    runs = []

    def count(module, _):
        runs.append(module)

    source.model.transformer.register_forward_pre_hook(count)
    lab.window_table(source, TEXT)
    assert len(runs) == 1


@in_training
def test_each_layer_has_its_own_queries(make_source):
    first, second = read_layers(make_source())
    assert not torch.equal(first, second)


@in_training
def test_a_model_is_read_without_dropout(make_source):
    source = make_source()
    first_time = read_layers(source)
    second_time = read_layers(source)
    torch.testing.assert_close(second_time, first_time, atol=0, rtol=0)


@in_training
def test_a_model_is_in_training_mode_again_after_it_was_read(make_source):
    source = make_source()
    read_layers(source)
    for module in source.model.modules():
        assert module.training, module


@in_training
def test_a_model_can_be_trained_after_it_was_read(make_source):
    source = make_source()
    read_layers(source)
    output = source.model(torch.tensor([[1, 2, 3]]))
    logits = getattr(output, "logits", output)
    logits.sum().backward()
    for parameter in source.model.parameters():
        assert parameter.grad is not None
