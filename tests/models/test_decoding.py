import pytest
import torch

from alibi_viz import AlibiSelfAttention, KeyValueCache, LanguageModel, TransformerConfig, alibi_slopes
from alibi_viz.models import POSITIONS

SMALL = {"num_layers": 2, "d_model": 24, "num_heads": 3, "dropout": 0.0, "vocabulary": 50}


@pytest.mark.parametrize("position", POSITIONS)
@torch.no_grad()
def test_decoding_step_by_step_gives_the_logits_of_the_whole(position: str) -> None:
    torch.manual_seed(0)
    model = LanguageModel(TransformerConfig(**SMALL, position=position)).eval()
    tokens = torch.randint(50, (2, 12))
    whole = model(tokens)
    cache = model.transformer.new_cache()
    steps = [model(part, cache) for part in tokens.split([5, 1, 1, 3, 2], dim=1)]
    assert torch.allclose(torch.cat(steps, dim=1), whole, atol=2e-5)
    assert [layer.length for layer in cache] == [12, 12]


@pytest.mark.parametrize("position", POSITIONS)
def test_generating_with_the_cache_and_without_is_the_same(position: str) -> None:
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


def test_generate_takes_the_likeliest_at_temperature_zero_and_draws_otherwise() -> None:
    torch.manual_seed(0)
    model = LanguageModel(TransformerConfig(**SMALL)).eval()
    prompt = torch.randint(50, (1, 4))
    greedy = model.generate(prompt, 1, temperature=0)
    assert int(greedy[0, -1]) == int(model(prompt)[0, -1].argmax())
    drawn = {int(model.generate(prompt, 1)[0, -1]) for _ in range(20)}
    assert len(drawn) > 1
    assert torch.equal(model.generate(prompt, 0), prompt)


def test_bad_decoding_is_named() -> None:
    model = LanguageModel(TransformerConfig(**SMALL, position="learned", max_length=8)).eval()
    prompt = torch.zeros(1, 4, dtype=torch.long)
    with pytest.raises(ValueError, match="at least one token, got shape"):
        model.generate(prompt[:, :0], 3)
    with pytest.raises(ValueError, match="new_tokens must be 0 or more, got -1"):
        model.generate(prompt, -1)
    with pytest.raises(ValueError, match=r"temperature must be a finite number from 0 up, got -1\.0"):
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


def test_a_temperature_next_to_zero_takes_the_likeliest() -> None:
    model = LanguageModel(TransformerConfig(**SMALL)).eval()
    prompt = torch.randint(model.config.vocabulary, (2, 4))
    assert torch.equal(model.generate(prompt, 5, temperature=1e-40), model.generate(prompt, 5, temperature=0))


def test_a_refused_call_leaves_the_cache_as_it_was() -> None:
    attention, cache = AlibiSelfAttention(24, 3).eval(), KeyValueCache()
    x = torch.randn(2, 6, 24)
    with torch.no_grad():
        attention(x[:, :5], cache=cache)
        with pytest.raises(ValueError, match="key_padding_mask must be"):
            attention(x[:, 5:], cache=cache, key_padding_mask=torch.ones(2, 4, dtype=torch.bool))
        assert cache.length == 5
        assert torch.allclose(attention(x[:, 5:], cache=cache), attention(x)[:, 5:], atol=1e-6)


def test_decoding_may_begin_in_inference_mode_and_go_on_outside() -> None:
    attention, cache, x = AlibiSelfAttention(24, 3).eval(), KeyValueCache(), torch.randn(2, 6, 24)
    with torch.inference_mode():
        attention(x[:, :5], cache=cache)
    with torch.no_grad():
        assert torch.allclose(attention(x[:, 5:], cache=cache), attention(x)[:, 5:], atol=1e-6)


def test_the_cache_grows_by_doubling_and_keeps_what_it_has() -> None:
    cache, parts, pointers = KeyValueCache(), [], set()
    for _ in range(20):
        parts.append(torch.randn(2, 3, 1, 4))
        keys, values = cache.append(parts[-1], -parts[-1])
        pointers.add(keys.untyped_storage().data_ptr())
        assert torch.equal(keys, torch.cat(parts, dim=2))
        assert torch.equal(values, -keys)
    assert len(pointers) <= 6  # at 1, 2, 3, 5, 9, 17
    held = r"the cache holds \[2, 3, 20, 4\] of torch\.float32 on cpu and is given 1 more, so "
    with pytest.raises(ValueError, match=held + r"\[1, 3, 1, 4\] of torch\.float32 on cpu cannot be appended"):
        cache.append(parts[0][:1], parts[0][:1])
    with pytest.raises(ValueError, match=held + r"\[2, 3, 1, 4\] of torch\.float64 on cpu cannot be appended"):
        cache.append(parts[0].double(), parts[0])
    with pytest.raises(ValueError, match=held + r"\[2, 3, 2, 4\] of torch\.float32 on cpu cannot be appended"):
        cache.append(parts[0], torch.cat(parts[:2], dim=2))  # or one value would serve two keys
    assert cache.length == 20
    with pytest.raises(ValueError, match="a cache keeps no gradients"):
        cache.append(parts[0].requires_grad_(), parts[0])


@pytest.mark.parametrize("num_key_heads", [1, 2, 6])
@pytest.mark.parametrize("length", [1, 40, 800])
def test_every_road_through_the_module_leads_to_the_same_output(num_key_heads: int, length: int) -> None:
    """Trace, eager, mask, folding, and step-by-step decoding, in one place."""
    torch.manual_seed(0)
    module = AlibiSelfAttention(24, 6, num_key_heads=num_key_heads, bias=True).double()
    x = torch.randn(2, length, 24, dtype=torch.float64)
    with torch.no_grad():
        found = module(x)
        _, _, value = module.heads(x)
        shown = module.trace(x).weights @ value.repeat_interleave(6 // num_key_heads, dim=1)
        assert torch.allclose(module.output(shown.transpose(1, 2).flatten(2)), found, atol=1e-12)
        cache, first = KeyValueCache(), max(0, length - 5)
        parts = [x[:, :first], *x[:, first:].split(1, dim=1)]
        steps = [module(part, cache=cache) for part in parts if part.shape[1]]
    assert torch.allclose(torch.cat(steps, dim=1), found, atol=1e-12)


def test_the_module_as_an_encoder_with_padding() -> None:
    torch.manual_seed(0)
    module = AlibiSelfAttention(24, 3, causal=False).double()
    x, real = torch.randn(1, 9, 24, dtype=torch.float64), torch.arange(9)[None] < 6
    padded = module(x, key_padding_mask=real)
    assert torch.allclose(padded[:, :6], module(x[:, :6]), atol=1e-12)
    assert not torch.allclose(padded[:, :6], module(x)[:, :6], atol=1e-3)
    with pytest.raises(ValueError, match="an encoder has no cache"):
        module(x, cache=KeyValueCache())


def test_slopes_of_the_module() -> None:
    own = torch.tensor([0.4, 0.2, 0.1])
    assert torch.equal(AlibiSelfAttention(24, 3, slopes=own).slopes, own)
    assert torch.equal(AlibiSelfAttention(24, 3).half().slopes, alibi_slopes(3))
    learned = AlibiSelfAttention(24, 3, learned_slopes=True)
    learned(torch.randn(2, 9, 24)).square().sum().backward()
    gradient = learned.alibi.log_slopes.grad
    assert gradient is not None
    assert bool(gradient.abs().min() > 0)


def test_bad_sizes_of_the_module_are_named() -> None:
    with pytest.raises(ValueError, match="d_model must be a multiple of num_heads=3, got 25"):
        AlibiSelfAttention(25, 3)
    with pytest.raises(ValueError, match="num_key_heads must be a divisor of num_heads=6, got 4"):
        AlibiSelfAttention(24, 6, num_key_heads=4)
    with pytest.raises(ValueError, match=r"dropout must be at least 0 and below 1, got 1\.0"):
        AlibiSelfAttention(24, 6, dropout=1.0)
    with pytest.raises(ValueError, match=r"x must be \[batch, length, d_model=24\], got shape \[2, 5, 23\]"):
        AlibiSelfAttention(24, 6)(torch.zeros(2, 5, 23))
