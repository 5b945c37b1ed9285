"""Decoding with a key-value cache gives the same results as decoding without one."""

import pytest
import torch

from alibi_viz import KeyValueCache, LanguageModel, TransformerConfig
from alibi_viz.models import POSITIONS

CACHED = [name for name, method in POSITIONS.items() if method.supports_cache]
SMALL = {"num_layers": 2, "d_model": 24, "num_heads": 3, "dropout": 0.0, "vocabulary": 50}


@pytest.mark.parametrize("position", CACHED)
@torch.no_grad()
def test_decoding_step_by_step_gives_the_logits_of_one_pass(position: str) -> None:
    torch.manual_seed(0)
    model = LanguageModel(TransformerConfig(**SMALL, position=position)).eval()
    tokens = torch.randint(50, (2, 12))
    whole = model(tokens)
    cache = model.transformer.new_cache()
    steps = [model(part, cache) for part in tokens.split([5, 1, 1, 3, 2], dim=1)]
    assert torch.allclose(torch.cat(steps, dim=1), whole, atol=2e-5)
    assert [layer.length for layer in cache] == [12, 12]


@pytest.mark.parametrize("position", CACHED)
def test_generate_gives_the_same_tokens_with_and_without_a_cache(position: str) -> None:
    torch.manual_seed(0)
    model = LanguageModel(TransformerConfig(**SMALL, position=position)).eval()
    prompt = torch.randint(50, (3, 4))
    for temperature in (0.0, 1.0):
        texts = [
            model.generate(
                prompt, 9, temperature=temperature, use_cache=cached, generator=torch.Generator().manual_seed(1)
            )
            for cached in (True, False)
        ]
        assert torch.equal(*texts)
        assert torch.equal(texts[0][:, :4], prompt)
        assert texts[0].shape == (3, 13)


def test_generate_is_greedy_at_temperature_zero_and_samples_otherwise() -> None:
    torch.manual_seed(0)
    model = LanguageModel(TransformerConfig(**SMALL)).eval()
    prompt = torch.randint(50, (1, 4))
    greedy = model.generate(prompt, 1, temperature=0)
    assert int(greedy[0, -1]) == int(model(prompt)[0, -1].argmax())
    samples = {int(model.generate(prompt, 1)[0, -1]) for _ in range(20)}
    assert len(samples) > 1
    assert torch.equal(model.generate(prompt, 0), prompt)
    assert model.generate(prompt.to(torch.uint8), 0).dtype == torch.int64


def test_invalid_arguments_of_generate_raise() -> None:
    model = LanguageModel(TransformerConfig(**SMALL, position="learned", max_length=8)).eval()
    prompt = torch.zeros(1, 4, dtype=torch.long)
    with pytest.raises(ValueError, match="at least one token, got shape"):
        model.generate(prompt[:, :0], 3)
    with pytest.raises(ValueError, match="new_tokens must be at least 0, got -1"):
        model.generate(prompt, -1)
    with pytest.raises(ValueError, match=r"temperature must be a finite number of at least 0, got -1\.0"):
        model.generate(prompt, 1, temperature=-1.0)
    with pytest.raises(TypeError, match=r"new_tokens must be an integer, got 2\.0"):
        model.generate(prompt, 2.0)
    with pytest.raises(TypeError, match="temperature must be a number, got 'warm'"):
        model.generate(prompt, 1, temperature="warm")
    with pytest.raises(TypeError, match=r"tokens must be an integer tensor \[batch, length\], got list"):
        model.generate([[1, 2]], 1)
    with pytest.raises(ValueError, match="not defined beyond max_length=8, got length 9"):
        model.generate(prompt, 9)
    with pytest.raises(ValueError, match="an encoder has no cache"):
        LanguageModel(TransformerConfig(**SMALL, causal=False)).generate(prompt, 1)


def test_a_tiny_temperature_is_greedy() -> None:
    model = LanguageModel(TransformerConfig(**SMALL)).eval()
    prompt = torch.randint(model.config.vocabulary, (2, 4))
    assert torch.equal(model.generate(prompt, 5, temperature=1e-40), model.generate(prompt, 5, temperature=0))


def test_cache_grows_by_doubling_and_rejects_tensors_that_do_not_fit() -> None:
    cache, parts, pointers = KeyValueCache(), [], set()
    for _ in range(20):
        parts.append(torch.randn(2, 3, 1, 4))
        keys, values = cache.append(parts[-1], -parts[-1])
        pointers.add(keys.untyped_storage().data_ptr())
        assert torch.equal(keys, torch.cat(parts, dim=2))
        assert torch.equal(values, -keys)
    assert len(pointers) <= 6  # at 1, 2, 3, 5, 9, 17
    expected = r"tensors appended to the cache must be \[2, 3, 1, 4\] of torch\.float32 on cpu, got "
    with pytest.raises(ValueError, match=expected + r"\[1, 3, 1, 4\] of torch\.float32 on cpu"):
        cache.append(parts[0][:1], parts[0][:1])
    with pytest.raises(ValueError, match=expected + r"\[2, 3, 1, 4\] of torch\.float64 on cpu"):
        cache.append(parts[0].double(), parts[0])
    with pytest.raises(ValueError, match=expected + r"\[2, 3, 2, 4\] of torch\.float32 on cpu"):
        cache.append(parts[0], torch.cat(parts[:2], dim=2))  # one value for two keys would be broadcast
    with pytest.raises(ValueError, match="the cache stores 2 tensors per token, got 1"):
        cache.append(parts[0])
    assert cache.length == 20
    with pytest.raises(ValueError, match="a cache stores no gradients"):
        cache.append(parts[0].requires_grad_(), parts[0])


def test_an_empty_cache_takes_tensors_of_any_shape() -> None:
    cache = KeyValueCache()
    with torch.inference_mode():
        cache.append(torch.zeros(1, 2, 0, 4))
    for batch in (2, 3):
        part = torch.randn(batch, 2, 5, 4)
        (keys,) = cache.append(part)
        assert torch.equal(keys, part)
        cache.length = 0


def test_method_without_a_cache_generates_without_one_and_refuses_one() -> None:
    assert [name for name in POSITIONS if name not in CACHED] == ["randomized"]
    model = LanguageModel(TransformerConfig(**SMALL, position="randomized")).eval()
    prompt = torch.randint(50, (2, 4))
    for options in ({}, {"use_cache": None}):
        texts = [model.generate(prompt, 5, temperature=0, **kept) for kept in (options, {"use_cache": False})]
        assert torch.equal(*texts)
    with pytest.raises(ValueError, match=r"'randomized' supports no cache, .* or generate\(\.\.\., use_cache=False\)"):
        model.generate(prompt, 5, use_cache=True)
    with pytest.raises(ValueError, match="depend on the length of the text, so start must be 0, got 4"):
        cache = [KeyValueCache(), KeyValueCache()]
        model.requires_grad_(False)(prompt, cache)
        model(prompt, cache)
