"""The language model, self-attention and the key-value cache: what doesn't depend on the position
method."""

import copy
import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from alibi_viz import (
    AlibiSelfAttention,
    KeyValueCache,
    LanguageModel,
    TransformerConfig,
    alibi_slopes,
)
from alibi_viz.models import POSITIONS, SelfAttention
from alibi_viz.models.positions.rotary import Rotary

SMALL: dict[str, Any] = {"num_layers": 2, "d_model": 24, "num_heads": 3, "dropout": 0.0}


def model(**fields: Any) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(TransformerConfig(**SMALL | fields)).eval()


PROMPT, X = torch.zeros(1, 4, dtype=torch.long), torch.zeros(2, 5, 24)
INVALID: dict[str, Callable[[], object]] = {
    "d_model must be a multiple of num_heads=3, got 25": lambda: AlibiSelfAttention(25, 3),
    "num_key_heads must be a divisor of num_heads=6, got 4": lambda: AlibiSelfAttention(
        24, 6, num_key_heads=4
    ),
    "x must be [batch, length, d_model=25], got shape [2, 5, 24]": lambda: AlibiSelfAttention(
        25, 5
    )(X),
    "x must be [batch, length, d_model=30], got shape [2, 5, 24]": lambda: model(
        d_model=30
    ).transformer(X),
    "x must be torch.float32, like the weights": lambda: AlibiSelfAttention(24, 6)(X.half()),
    "last must be an integer of at least 1, got 0": lambda: AlibiSelfAttention(24, 6)(X, last=0),
    "key_padding_mask must be None, because only ALiBi takes one, not Rotary": lambda: (
        SelfAttention(Rotary(8), 24, 3)(X, key_padding_mask=torch.ones(2, 5, dtype=torch.bool))
    ),
    "an encoder has no cache": lambda: model(causal=False).generate(PROMPT, 1),
    "tokens must be an integer tensor [batch, length], got torch.float32": lambda: model()(
        PROMPT.float()
    ),
    "tokens must be between 0 and 255, got 256": lambda: model()(torch.tensor([[0, 256]])),
    "tokens must be between 0 and 255, got -1": lambda: model()(torch.tensor([[-1, 256]])),
    "an integer tensor [batch, length], got list": lambda: model().generate([[1]], 1),  # type: ignore[arg-type]
    "at least one token, got shape [1, 0]": lambda: model().generate(PROMPT[:, :0], 3),
    "new_tokens must be at least 0, got -1": lambda: model().generate(PROMPT, -1),
    "temperature must be a finite number of at least 0, got -1": lambda: model().generate(
        PROMPT, 1, temperature=-1
    ),
    "temperature must be a number, got True": lambda: model().generate(PROMPT, 1, temperature=True),
    "dropout must be at least 0 and below 1, got 1": lambda: AlibiSelfAttention(24, 6, dropout=1),
    "cache must be an instance of KeyValueCache": lambda: AlibiSelfAttention(24, 6)(X, X),  # type: ignore[arg-type]
    "an empty cache has no ball of keys": lambda: KeyValueCache().key_ball(),
}


@pytest.mark.parametrize("message", INVALID)
def test_invalid_argument_is_named_with_its_value(message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        INVALID[message]()


def test_tokens_can_have_any_integer_dtype() -> None:
    tokens = torch.tensor([[0, 7, 100]])
    for dtype in (torch.uint8, torch.int16, torch.int32):
        assert torch.equal(model()(tokens.to(dtype)), model()(tokens))
        assert model().generate(tokens[:, :1].to(dtype), 0).dtype == torch.int64


def test_generate_is_greedy_at_temperature_zero_or_almost() -> None:
    tokens = torch.randint(256, (2, 4), generator=torch.Generator().manual_seed(0))
    greedy = model().generate(tokens, 5, temperature=0)
    assert torch.equal(greedy[:, 4], model()(tokens)[:, -1].argmax(-1))
    assert torch.equal(model().generate(tokens, 5, temperature=1e-40), greedy)


def test_samples_follow_the_softmax_of_the_logits_over_the_temperature() -> None:
    binary, prompts = model(vocabulary=2), torch.zeros(4000, 1, dtype=torch.long)
    binary.head.weight.data *= (
        2 / binary(prompts[:1])[0, 0].diff().detach()
    )  # token 1 is ahead by 2
    for options, lead in (({}, 2), ({"temperature": 0.5}, 4), ({"temperature": 4}, 0.5)):
        texts = binary.generate(prompts, 1, generator=torch.Generator().manual_seed(0), **options)
        assert texts[:, 1].double().mean().item() == pytest.approx(
            1 / (1 + math.exp(-lead)), abs=0.02
        )
    binary.head.weight.data *= 1000
    assert bool(
        binary.generate(prompts, 1, temperature=1e-36)[:, 1].all()
    )  # logits / 1e-36 would overflow


def test_token_vectors_start_on_the_scale_of_sinusoids_and_logits_have_no_bias() -> None:
    assert (
        model().embedding.weight.std().item() == pytest.approx(0.5, rel=0.05)
        and model().head.bias is None
    )


@pytest.mark.parametrize(
    "fields", [{"learned_slopes": True}, *({"position": name} for name in POSITIONS)], ids=str
)
def test_model_created_on_the_meta_device_works_after_loading_weights(
    fields: dict[str, Any],
) -> None:
    expected = model(**fields)
    for assign in (False, True):
        with torch.device("meta"):
            created = LanguageModel(expected.config).eval()
        created = created if assign else created.to_empty(device="cpu")
        created.load_state_dict(expected.state_dict(), assign=assign)
        assert torch.equal(created(PROMPT), expected(PROMPT))


def test_encoder_ignores_padding() -> None:
    torch.manual_seed(0)
    module = AlibiSelfAttention(24, 3, causal=False).double()
    x, is_real = torch.randn(1, 9, 24, dtype=torch.float64), torch.arange(9)[None] < 6
    padded = module(x, key_padding_mask=is_real)
    torch.testing.assert_close(padded[:, :6], module(x[:, :6]), atol=1e-12, rtol=0)
    assert not torch.allclose(padded[:, :6], module(x)[:, :6], atol=1e-3)


def test_slopes_can_be_given_or_learned_and_stay_float32() -> None:
    slopes = torch.tensor([0.4, 0.2, 0.1])
    assert torch.equal(AlibiSelfAttention(24, 3, slopes=slopes).slopes, slopes)
    assert torch.equal(AlibiSelfAttention(24, 3).half().slopes, alibi_slopes(3))
    learned = AlibiSelfAttention(24, 3, learned_slopes=True)
    torch.testing.assert_close(learned.slopes, alibi_slopes(3))
    learned(torch.randn(2, 9, 24)).square().sum().backward()
    gradient = learned.position.learned.log_slopes.grad  # type: ignore[union-attr]
    assert gradient is not None and bool(gradient.all())


@pytest.mark.parametrize("causal", [True, False])
def test_copies_and_files_of_a_module_do_not_contain_the_cached_bias(causal: bool) -> None:
    module, x = AlibiSelfAttention(32, 4, causal=causal), torch.randn(1, 9, 32)
    size = len(pickle.dumps(module))
    bias = module.position.bias(500, 500)  # 4 MiB
    assert len(pickle.dumps(module)) < size + 100
    for copied in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert torch.equal(copied(x), module(x)) and torch.equal(
            copied.position.bias(500, 500), bias
        )


@torch.no_grad()
def test_call_that_raises_leaves_the_cache_unchanged_also_when_it_is_empty() -> None:
    attention, cache, x = AlibiSelfAttention(24, 3).eval(), KeyValueCache(), torch.randn(2, 6, 24)
    mask = torch.ones(2, 4, dtype=torch.bool)
    for part in (x[:1, :5].repeat(3, 1, 1), x[:, :5], x[:, 5:]):  # the first has another batch size
        length = cache.length
        with pytest.raises(ValueError, match="key_padding_mask must be"):
            attention(part, cache, key_padding_mask=mask)
        assert cache.length == length
        if len(part) == 2:
            output = attention(part, cache)
    torch.testing.assert_close(output, attention(x)[:, 5:])


@torch.no_grad()
def test_a_stack_that_raises_leaves_all_caches_at_one_length() -> None:
    model = LanguageModel(TransformerConfig(num_layers=3, d_model=24, num_heads=3)).eval()
    caches = model.transformer.new_cache()
    model(tokens := torch.arange(6)[None], caches)
    with pytest.raises(ValueError, match="last must be"):  # the last block says so
        model(tokens, caches, last=0)
    assert {each.length for each in caches} == {6}
    for wrong in ([], caches[:2], caches[0]):
        with pytest.raises(ValueError, match="cache must be a list of 3 caches"):
            model(tokens, wrong)


def test_cache_grows_by_doubling_and_rejects_tensors_that_do_not_fit() -> None:
    cache, parts, pointers = KeyValueCache(), [], set()
    for _ in range(20):
        parts.append(torch.randn(2, 3, 1, 4))
        keys, values = cache.append(parts[-1], -parts[-1])
        pointers.add(keys.untyped_storage().data_ptr())
        assert torch.equal(keys, torch.cat(parts, dim=2)) and torch.equal(values, -keys)
    assert len(pointers) <= 6  # at 1, 2, 3, 5, 9, 17
    part, both = parts[0], torch.cat(parts[:2], dim=2)
    # one value for two keys would be broadcast
    for wrong, got in (
        ((part[:1], part[:1]), r"\[1, 3, 1, 4\]"),
        ((part.double(), part), "torch.float64"),
        ((part, both), r"\[2, 3, 2, 4\]"),
    ):
        expected = r"appended to the cache must be \[2, 3, 1, 4\] of torch\.float32 on cpu, got .*"
        with pytest.raises(ValueError, match=expected + got):
            cache.append(*wrong)
    with pytest.raises(ValueError, match="the cache stores 2 tensors per token, got 1"):
        cache.append(part)
    with pytest.raises(ValueError, match="a cache stores no gradients"):
        cache.append(part.requires_grad_(), part)
    assert cache.length == 20
    cache.length = 0  # takes any shapes again
    assert cache.append(torch.zeros(5, 7))[0].shape == (5, 7)
