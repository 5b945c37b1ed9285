"""Properties that every position method has.

Some parameters start at zero, so those of the position methods are moved at random first.
"""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from alibi_viz import LanguageModel, Transformer, TransformerConfig
from alibi_viz.models import POSITIONS, SelfAttention
from alibi_viz.models.positions import Position
from alibi_viz.models.self_attention import attend
from tests.largest_tensor import LargestTensor
from tests.rows import each_case

HEADS = 3
HEAD_DIM = 8
WIDTH = HEADS * HEAD_DIM
LENGTH = 32
VOCABULARY = 50

every_method = pytest.mark.parametrize("name", list(POSITIONS))
# A bias, turned queries and keys, added vectors, and a bias that reads the input: what the rest of
# a model can depend on
each_kind = pytest.mark.parametrize("name", ["alibi", "rotary", "learned", "forget"])


def config(name, **fields):
    settings = {
        "num_layers": 2,
        "d_model": WIDTH,
        "num_heads": HEADS,
        "dropout": 0.0,
        "vocabulary": VOCABULARY,
        "max_length": LENGTH,
        "position": name,
    }
    return TransformerConfig(**settings | fields)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def tokens_of(batch, length):
    return torch.randint(VOCABULARY, (batch, length), generator=generator(1))


def move_position_parameters(module):
    random = generator()
    for part in module.modules():
        if isinstance(part, Position):
            for parameter in part.parameters():
                parameter.data.add_(0.3 * torch.randn(parameter.shape, generator=random))


def language_model(name, **fields):
    torch.manual_seed(0)
    model = LanguageModel(config(name, **fields))
    move_position_parameters(model)
    return model.eval()


def stack_of(name, **fields):
    torch.manual_seed(0)
    stack = Transformer(config(name, **fields))
    move_position_parameters(stack)
    return stack.eval()


def position_of(name, **fields):
    torch.manual_seed(0)
    position = POSITIONS[name].from_config(config(name, **fields))
    move_position_parameters(position)
    return position.eval()


class Inputs(NamedTuple):
    """What the attention of a layer with a batch of 2 reads."""

    query: Tensor
    key: Tensor
    value: Tensor
    x: Tensor  # the input of the layer


def inputs(queries, keys):
    random = generator(10 * queries + keys)
    query = torch.randn(2, HEADS, queries, HEAD_DIM, generator=random)
    key = torch.randn(2, HEADS, keys, HEAD_DIM, generator=random)
    value = torch.randn(2, HEADS, keys, HEAD_DIM, generator=random)
    x = torch.randn(2, keys, WIDTH, generator=random)
    return Inputs(query, key, value, x)


# Weights


@every_method
def test_all_other_parameters_are_those_of_a_model_without_positions(name):
    """So `lab.make_model` can start all methods from equal weights."""
    shapes = {}
    for key, values in LanguageModel(config(name)).state_dict().items():
        if ".position." not in key:
            shapes[key] = values.shape
    without_positions = LanguageModel(config("none")).state_dict()
    assert shapes == {key: values.shape for key, values in without_positions.items()}


@every_method
def test_all_parameters_get_gradients(name):
    model = language_model(name).train()
    model(tokens_of(4, LENGTH)).logsumexp(-1).sum().backward()
    untrained = []
    for key, parameter in model.named_parameters():
        if parameter.grad is None or not bool(parameter.grad.any()):
            untrained.append(key)
    assert untrained == []


@every_method
def test_only_the_forget_gate_has_parameters_in_each_layer(name):
    first, second = Transformer(config(name)).blocks
    is_shared = first.attention.position is second.attention.position
    assert is_shared == (name != "forget")


# Lengths


@every_method
@pytest.mark.parametrize("length", [0, LENGTH + 1, 16 * LENGTH + 1])
@torch.no_grad()
def test_logits_are_finite_at_any_length_that_is_defined(name, length):
    model = language_model(name)
    if not model.is_defined_at(length):
        with pytest.raises(ValueError, match=f"not defined beyond .*{length}"):
            model(tokens_of(2, length))
        return
    logits = model(tokens_of(2, length))
    assert logits.shape == (2, length, VOCABULARY)
    assert bool(logits.isfinite().all())


@every_method
def test_only_learned_positions_and_xpos_have_a_longest_text(name):
    longest = {"learned": LENGTH, "xpos": 32 * LENGTH}
    assert position_of(name).longest == longest.get(name)


@every_method
@pytest.mark.parametrize("keys", [0, 4])
def test_no_queries_give_an_empty_output(name, keys):
    position = position_of(name)
    query, key, value, x = inputs(0, keys)
    output = attend(position, query, key, value, causal=True, x=x)
    assert output.shape == (2, HEADS, 0, HEAD_DIM)


# What depends on what


@every_method
@torch.no_grad()
def test_a_decoder_does_not_depend_on_later_tokens(name):
    x = inputs(10, 10).x
    changed = torch.cat((x[:, :6], -x[:, 6:]), dim=1)
    stack = stack_of(name)
    torch.testing.assert_close(stack(changed)[:, :6], stack(x)[:, :6], atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["alibi", "rotary", "forget"])
@torch.no_grad()
def test_an_encoder_depends_on_later_tokens(name):
    x = inputs(10, 10).x
    changed = torch.cat((x[:, :6], -x[:, 6:]), dim=1)
    stack = stack_of(name, causal=False)
    assert not torch.allclose(stack(changed)[:, :6], stack(x)[:, :6], atol=1e-3)


@pytest.mark.parametrize("name", ["alibi", "rotary", "none"])
@torch.no_grad()
def test_an_encoder_depends_on_the_order_unless_it_has_no_positions(name):
    x = inputs(10, 10).x
    order = torch.randperm(10, generator=generator())
    stack = stack_of(name, causal=False)
    ignores_order = torch.allclose(stack(x[:, order]), stack(x)[:, order], atol=1e-5)
    assert ignores_order == (name == "none")


@every_method
@torch.no_grad()
def test_a_decoder_depends_on_the_order(name):
    x = inputs(10, 10).x
    order = torch.randperm(10, generator=generator())
    stack = stack_of(name)
    assert not torch.allclose(stack(x[:, order]), stack(x)[:, order], atol=1e-3)


@each_kind
@torch.no_grad()
def test_the_last_positions_alone_have_the_same_output(name):
    x = inputs(10, 10).x
    stack = stack_of(name)
    torch.testing.assert_close(stack(x, last=4), stack(x)[:, -4:], atol=1e-5, rtol=1e-4)


@every_method
def test_a_method_with_a_bias_for_another_number_of_heads_is_refused(name):
    """A bias for one head would be broadcast to all."""
    position = position_of(name, num_heads=1)
    if not position.uses("bias"):
        SelfAttention(position, WIDTH, HEADS)
        return
    message = f"position must have num_heads={HEADS}, got one with 1 heads"
    with pytest.raises(ValueError, match=message):
        SelfAttention(position, WIDTH, HEADS)


def test_only_xpos_is_for_decoders_only():
    causal_only = [name for name, method in POSITIONS.items() if method.is_causal_only]
    assert causal_only == ["xpos"]


def test_a_method_for_decoders_only_refuses_an_encoder():
    with pytest.raises(ValueError, match="is for decoders only: causal must be True, got False"):
        Transformer(config("xpos", causal=False))


@every_method
def test_absolute_methods_alone_change_token_vectors(name):
    position = position_of(name)
    added = position.embed(torch.zeros(1, 9, WIDTH))
    assert bool((added != 0).any()) == (name in ("sinusoidal", "learned"))


@every_method
def test_a_token_in_front_leaves_the_other_weights_in_proportion(name):
    """Up to a quarter of the training length: FIRE divides by the position beyond it."""
    position = position_of(name, max_length=64)
    query, key, _, x = inputs(9, 9)
    with_token = position.weights(query, key, x=x)
    without = position.weights(query[:, :, 1:], key[:, :, 1:], x=x[:, 1:])
    others = with_token[:, :, 3:, 1:]  # of queries that see at least three other tokens
    others = others / others.sum(-1, keepdim=True)
    torch.testing.assert_close(without[:, :, 2:], others)


# Decoding


@every_method
@torch.no_grad()
def test_decoding_with_a_cache_gives_the_logits_of_one_pass(name):
    model = language_model(name)
    tokens = tokens_of(2, 12)
    cache = model.transformer.new_cache()
    steps = [model(part, cache) for part in tokens.split([5, 1, 1, 3, 2], dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), model(tokens), atol=2e-5, rtol=1e-4)


@each_kind
@torch.no_grad()
def test_decoding_goes_on_after_tokens_were_removed(name):
    model = language_model(name)
    tokens = tokens_of(2, 12)
    caches = model.transformer.new_cache()
    model(tokens, caches)
    for cache in caches:
        cache.length = 7
    continued = model(tokens[:, 7:], caches)
    torch.testing.assert_close(continued, model(tokens)[:, 7:], atol=2e-5, rtol=1e-4)


@each_kind
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_cache_changes_no_generated_text(name, temperature):
    model = language_model(name)
    prompt = tokens_of(2, 4)
    texts = []
    for use_cache in (True, False):
        text = model.generate(
            prompt, 9, temperature=temperature, use_cache=use_cache, generator=generator(1)
        )
        texts.append(text)
    assert torch.equal(texts[0], texts[1])


# Attention


LENGTHS = pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 7)])


@every_method
@LENGTHS
def test_the_output_is_the_weights_times_the_values(name, queries, keys):
    """Statistics read `weights`, while models call `attend`."""
    position = position_of(name)
    query, key, value, x = inputs(queries, keys)
    weights = position.weights(query, key, x=x)
    output = attend(position, query, key, value, causal=True, x=x)
    torch.testing.assert_close(output, weights @ value, atol=1e-5, rtol=1e-5)


@every_method
@LENGTHS
def test_the_weights_follow_from_the_bias(name, queries, keys):
    """Figures read `bias`."""
    position = position_of(name)
    query, key, _, x = inputs(queries, keys)
    bias = position.bias(queries, keys, x)
    assert position.uses("bias") == (bias is not None)

    transformed_query, transformed_key = position.rotate(query, key)
    logits = transformed_query @ transformed_key.mT / HEAD_DIM**0.5
    if bias is not None:
        logits = logits + bias
    positions = torch.arange(keys)
    is_later = positions > positions[keys - queries :, None]
    expected = logits.masked_fill(is_later, -torch.inf).softmax(-1)
    weights = position.weights(query, key, x=x)
    torch.testing.assert_close(weights, expected, atol=1e-5, rtol=1e-4)


@every_method
def test_extreme_content_gives_finite_outputs_and_gradients(name):
    length = 300 if name != "learned" else LENGTH
    position = position_of(name)
    query, key, value, x = inputs(length, length)
    query = (100 * query).requires_grad_()
    output = attend(position, query, key, value, causal=True, x=x)
    (gradient,) = torch.autograd.grad(output.sum(), query)
    assert bool(output.isfinite().all())
    assert bool(gradient.isfinite().all())


@each_kind
def test_heads_that_share_a_key_head_attend_as_with_copies_of_it(name):
    num_heads = 4
    width = num_heads * HEAD_DIM
    position = position_of(name, num_heads=num_heads, d_model=width)
    shared = SelfAttention(position, width, num_heads, num_key_heads=2)
    copied = SelfAttention(position, width, num_heads)

    query, key, value = shared.qkv.weight.detach().split([width, width // 2, width // 2])
    copied.qkv.weight.data = torch.cat((query, two_copies(key), two_copies(value)))
    copied.output = shared.output
    x = torch.randn(2, 9, width, generator=generator())
    torch.testing.assert_close(shared(x), copied(x))


def two_copies(weight):
    """Each head [head_dim, width] of a projection twice, one after the other."""
    return weight.unflatten(0, (-1, HEAD_DIM)).repeat_interleave(2, dim=0).flatten(0, 1)


@each_kind
def test_dropout_drops_weights_and_scales_the_others(name):
    position = position_of(name)
    query, key, value, x = inputs(30, 30)
    ones = torch.ones_like(value)  # without dropout, each output is the sum of weights, 1
    torch.manual_seed(0)
    output = attend(position, query, key, ones, causal=True, dropout=0.5, x=x)
    assert output.std().item() > 0.1
    assert output.mean().item() == pytest.approx(1, abs=0.1)


@every_method
@each_case(
    ("dtype", "tolerance"),
    {
        "bfloat16": (torch.bfloat16, 0.15),
        "float64": (torch.float64, 1e-5),
    },
)
@torch.no_grad()
def test_a_stack_works_in_other_dtypes(name, dtype, tolerance):
    stack = stack_of(name)
    x = inputs(9, 9).x
    expected = stack(x)
    output = stack.to(dtype)(x.to(dtype))
    assert output.dtype == dtype
    torch.testing.assert_close(output.float(), expected, atol=tolerance, rtol=1e-2)


@pytest.mark.parametrize("name", ["t5", "kerple-log", "fire"])
def test_texts_that_share_a_bias_need_no_weights_in_memory(name):
    """torch's blockwise kernel on CPUs takes a mask [1, heads, query, key], but not [heads, query,
    key]."""
    texts = 64
    length = 50
    query, key, value = torch.randn(3, texts, HEADS, length, HEAD_DIM)
    # In inference mode, torch would not tell which kernel it calls.
    with torch.no_grad(), LargestTensor() as largest:
        attend(position_of(name), query, key, value, causal=True)
    all_weights = texts * HEADS * length * length
    assert largest.numel < all_weights / 5
