"""Properties that every position method has, with parameters at random values, since some start at
zero."""

from typing import Any

import pytest
import torch
from torch import Tensor

from alibi_viz import LanguageModel, Transformer, TransformerConfig
from alibi_viz.models import POSITIONS, SelfAttention
from alibi_viz.models.positions import Position
from tests.largest_tensor import LargestTensor

HEADS, DIM, LENGTH = 3, 8, 32
SMALL: dict[str, Any] = {
    "num_layers": 2,
    "d_model": HEADS * DIM,
    "num_heads": HEADS,
    "dropout": 0.0,
    "vocabulary": 50,
}
every_method = pytest.mark.parametrize("name", [*POSITIONS])
tokens_of = lambda *shape: torch.randint(50, shape, generator=torch.Generator().manual_seed(1))  # noqa: E731


def config(name: str, **fields: Any) -> TransformerConfig:
    return TransformerConfig(**SMALL | {"max_length": LENGTH, "position": name} | fields)


def shaken(module: torch.nn.Module) -> torch.nn.Module:
    """The module in evaluation mode, with all parameters of its position methods moved at
    random."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for part in module.modules():
            for parameter in part.parameters() if isinstance(part, Position) else ():
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return module.eval()


def language_model(name: str, **fields: Any) -> LanguageModel:
    torch.manual_seed(0)
    return shaken(LanguageModel(config(name, **fields)))  # type: ignore[return-value]


def position_of(name: str, **fields: int) -> Position:
    torch.manual_seed(0)
    return shaken(POSITIONS[name].from_config(config(name, **fields)))  # type: ignore[return-value]


def inputs(
    rows: int, columns: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, values, and the input of the layer."""
    generator = torch.Generator().manual_seed(10 * rows + columns)
    q, k, v = (
        torch.randn(2, HEADS, n, DIM, generator=generator, dtype=dtype)
        for n in (rows, columns, columns)
    )
    return q, k, v, torch.randn(2, columns, HEADS * DIM, generator=generator)


@every_method
def test_state_dict_differs_from_that_without_positions_only_in_position_parameters(
    name: str,
) -> None:
    """So `lab.make_model` can start all methods from equal weights."""
    own, plain = (
        LanguageModel(config(name)).state_dict(),
        LanguageModel(config("none")).state_dict(),
    )
    assert {key: own[key].shape for key in plain} == {
        key: value.shape for key, value in plain.items()
    }
    assert all(".position." in key for key in own.keys() - plain.keys())


@every_method
@torch.no_grad()
def test_logits_are_finite_at_any_length_where_the_method_is_defined_and_an_error_elsewhere(
    name: str,
) -> None:
    model = language_model(name)
    for length in (0, 1, 17, LENGTH, LENGTH + 1, 3 * LENGTH, 16 * LENGTH + 1):
        if model.is_defined_at(length):
            logits = model(tokens_of(2, length))
            assert logits.shape == (2, length, 50) and bool(logits.isfinite().all())
        else:
            with pytest.raises(ValueError, match=f"not defined beyond .*{length}"):
                model(tokens_of(2, length))
    assert model.transformer.position.max_length == {"learned": LENGTH, "xpos": 32 * LENGTH}.get(
        name
    )


@every_method
@torch.no_grad()
def test_only_an_encoder_depends_on_later_tokens(name: str) -> None:
    x = torch.randn(1, 10, HEADS * DIM, generator=torch.Generator().manual_seed(0))
    changed = torch.cat((x[:, :6], -x[:, 6:]), dim=1)
    for causal in (True, False):
        if POSITIONS[name].decoder_only and not causal:
            with pytest.raises(
                ValueError, match="is for decoders only: causal must be True, got False"
            ):
                Transformer(config(name, causal=False))
            with pytest.raises(ValueError, match="causal must be True"):
                position_of(name).attend(*torch.zeros(3, 1, HEADS, 4, DIM), causal=False)
            with pytest.raises(ValueError, match="causal must be True"):
                position_of(name).weights(*torch.zeros(2, 1, HEADS, 4, DIM), causal=False)
            continue
        model = shaken(Transformer(config(name, causal=causal)))
        torch.testing.assert_close(model(x, last=4), model(x)[:, -4:], atol=1e-5, rtol=1e-4)
        assert torch.allclose(model(x)[:, :6], model(changed)[:, :6], atol=1e-6) == causal
        order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
        assert torch.allclose(model(x)[:, order], model(x[:, order]), atol=1e-5) == (
            name == "none" and not causal
        )


@every_method
@torch.no_grad()
def test_decoding_with_a_cache_gives_the_logits_and_the_texts_of_one_pass(name: str) -> None:
    model, tokens = language_model(name), tokens_of(2, 12)
    cache = model.transformer.new_cache()
    steps = [model(part, cache) for part in tokens.split([5, 1, 1, 3, 2], dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), model(tokens), atol=2e-5, rtol=1e-4)
    cache[0].length = cache[1].length = 7  # as after rejected tokens
    torch.testing.assert_close(
        model(tokens[:, 7:], cache), model(tokens)[:, 7:], atol=2e-5, rtol=1e-4
    )
    for temperature in (0.0, 1.0):
        options = [
            {"use_cache": cached, "generator": torch.Generator().manual_seed(1)}
            for cached in (True, False)
        ]
        cached, whole = (
            model.generate(tokens[:, :4], 9, temperature=temperature, **each) for each in options
        )
        assert torch.equal(cached, whole) and torch.equal(cached[:, :4], tokens[:, :4])


@every_method
def test_relative_methods_do_not_notice_a_token_in_front_and_absolute_ones_act_on_token_vectors(
    name: str,
) -> None:
    """Up to a quarter of the training length: FIRE divides by the position beyond it."""
    position = position_of(name, max_length=64)
    assert bool((position.embed(torch.zeros(1, 9, HEADS * DIM)) == 0).all()) != position.is_absolute
    q, k, _, x = inputs(9, 9)
    whole, tail = (position.weights(q[:, :, n:], k[:, :, n:], x=x[:, n:]) for n in (0, 1))
    for query in range(3, 9):
        expected = whole[:, :, query, 1 : query + 1]
        got = tail[:, :, query - 1, :query]
        torch.testing.assert_close(
            got / got.sum(-1, keepdim=True), expected / expected.sum(-1, keepdim=True)
        )


@every_method
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 5), (1, 6), (3, 7)])
def test_output_is_weights_times_values_and_weights_follow_from_the_bias(
    name: str, rows: int, columns: int
) -> None:
    """Figures read `bias` and statistics read `weights`, while models call `attend`."""
    position, (q, k, v, x) = position_of(name), inputs(rows, columns)
    weights = position.weights(q, k, x=x)
    torch.testing.assert_close(
        position.attend(q, k, v, causal=True, x=x), weights @ v, atol=1e-5, rtol=1e-5
    )
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, HEADS, rows))
    future = torch.arange(columns) > torch.arange(columns - rows, columns)[:, None]
    assert not weights[:, :, future].any()
    bias = position.bias(rows, columns, x)
    assert position.has_bias == (bias is not None)
    query, key = position.transform(q, k)
    logits = query @ key.mT / DIM**0.5
    if bias is not None:
        logits = logits + bias
    expected = logits.masked_fill(future, -torch.inf).softmax(-1)
    torch.testing.assert_close(weights, expected, atol=1e-5, rtol=1e-4)


@every_method
def test_empty_inputs_give_empty_outputs_and_more_queries_than_keys_an_error(name: str) -> None:
    position = position_of(name)
    for rows, columns in ((0, 0), (0, 4)):
        q, k, v, x = inputs(rows, columns)
        assert position.attend(q, k, v, causal=True, x=x).shape == (2, HEADS, 0, DIM)
    q, k, v, x = inputs(3, 3)
    with pytest.raises(ValueError, match=r"key_length=2|at most"):
        position.attend(q, k[:, :, 1:], v[:, :, 1:], causal=True, x=x[:, 1:])


@every_method
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@torch.no_grad()
def test_every_method_supports_other_dtypes(name: str, dtype: torch.dtype) -> None:
    model, x = shaken(Transformer(config(name))), inputs(9, 9)[3]
    expected, output = model(x), model.to(dtype)(x.to(dtype))
    assert output.dtype == dtype
    torch.testing.assert_close(
        output.float(), expected, atol=0.15 if dtype == torch.bfloat16 else 1e-5, rtol=1e-2
    )


@every_method
def test_all_parameters_get_gradients_and_layers_share_what_the_method_shares(name: str) -> None:
    model = language_model(name).train()
    model(tokens_of(4, LENGTH)).logsumexp(-1).sum().backward()
    assert not [
        key
        for key, value in model.named_parameters()
        if value.grad is None or not bool(value.grad.any())
    ]
    first, second = (block.attention.position for block in model.transformer.blocks)
    assert (first is not second) == (name == "forget")


@every_method
def test_extreme_content_gives_finite_weights_and_gradients(name: str) -> None:
    position, (q, k, v, x) = position_of(name), inputs(300, 300)
    if not position.is_defined_at(300):
        return
    query = (100 * q).requires_grad_()
    output = position.attend(query, k, v, causal=True, x=x)
    (gradient,) = torch.autograd.grad(output.sum(), query)
    assert bool(output.isfinite().all() and gradient.isfinite().all())


@every_method
def test_grouped_query_attention_equals_attention_with_repeated_key_heads(name: str) -> None:
    position, x = position_of(name, num_heads=4, d_model=4 * DIM), torch.randn(2, 9, 4 * DIM)
    grouped, full = (SelfAttention(position, 4 * DIM, 4, num_key_heads=heads) for heads in (2, 4))
    query, *pairs = grouped.qkv.weight.detach().split((4 * DIM, *4 * [DIM]))
    full.qkv.weight = torch.nn.Parameter(
        torch.cat((query, *(each for each in pairs for _ in range(2))))
    )
    full.output = grouped.output
    torch.testing.assert_close(grouped(x), full(x))


@every_method
def test_dropout_drops_weights(name: str) -> None:
    position, (q, k, v, x) = position_of(name), inputs(30, 30)
    torch.manual_seed(0)
    output = position.attend(q, k, torch.ones_like(v), causal=True, dropout=0.5, x=x).detach()
    assert output.std() > 0.1  # without dropout, every row of weights adds up to one
    assert output.mean() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("name", ["t5", "kerple-log", "fire"])
def test_texts_that_share_a_bias_need_no_attention_weights_in_memory(name: str) -> None:
    """torch's blockwise kernel on CPUs takes a mask [1, heads, query, key], but not [heads, query,
    key]."""
    query, key, value = torch.randn(3, 64, HEADS, 50, DIM)
    with torch.inference_mode(), LargestTensor() as largest:
        position_of(name).attend(query, key, value, causal=True)
    assert largest.numel < 64 * HEADS * 50 * 50 / 5
