"""The language model and its stack of blocks: what doesn't depend on the position method."""

import math
import re

import pytest
import torch

from alibi_viz import KeyValueCache, LanguageModel, TransformerConfig
from alibi_viz.models import POSITIONS
from tests.rows import each_case

PROMPT = torch.zeros(1, 4, dtype=torch.long)


def small_model(**fields):
    settings = {"num_layers": 2, "d_model": 24, "num_heads": 3, "dropout": 0.0}
    settings.update(fields)
    torch.manual_seed(0)
    return LanguageModel(TransformerConfig(**settings)).eval()


# The model


def test_token_vectors_start_on_the_scale_of_sinusoids():
    assert small_model().embedding.weight.std().item() == pytest.approx(0.5, rel=0.05)


def test_logits_have_no_bias():
    assert small_model().head.bias is None


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32], ids=str)
def test_tokens_can_have_any_integer_dtype(dtype):
    model = small_model()
    tokens = torch.tensor([[0, 7, 100]])
    assert torch.equal(model(tokens.to(dtype)), model(tokens))


@each_case(
    ("tokens", "error", "message"),
    {
        "floats": (
            PROMPT.float(),
            TypeError,
            "tokens must be an integer tensor [batch, length], got torch.float32",
        ),
        "a list": ([[1]], TypeError, "tokens must be an integer tensor [batch, length], got list"),
        "too large": (
            torch.tensor([[0, 256]]),
            ValueError,
            "tokens must be between 0 and 255, got 256",
        ),
        "negative": (
            torch.tensor([[-1, 256]]),
            ValueError,
            "tokens must be between 0 and 255, got -1",
        ),
    },
)
def test_wrong_tokens_are_named(tokens, error, message):
    with pytest.raises(error, match=re.escape(message)):
        small_model()(tokens)


X = torch.zeros(2, 5, 24)


@each_case(
    ("x", "error", "message"),
    {
        "another width": (
            X[..., :23],
            ValueError,
            "x must be [batch, length, d_model=24], got shape [2, 5, 23]",
        ),
        "no batch": (X[0], ValueError, "x must be [batch, length, d_model=24], got shape [5, 24]"),
        "float64": (
            X.double(),
            TypeError,
            "x must be torch.float32, like the weights, [batch, length, d_model=24], got "
            "torch.float64",
        ),
        "integers": (
            X.long(),
            TypeError,
            "x must be a floating-point tensor [batch, length, d_model=24], got torch.int64",
        ),
        "a list": (
            X.tolist(),
            TypeError,
            "x must be a floating-point tensor [batch, length, d_model=24], got list",
        ),
    },
)
def test_a_wrong_input_of_the_stack_is_named(x, error, message):
    with pytest.raises(error, match=re.escape(message)):
        small_model().transformer(x)


def test_a_stack_of_one_block_checks_its_input_and_applies_it():
    stack = small_model(num_layers=1).transformer
    with pytest.raises(ValueError, match=r"got shape \[2, 5, 23\]"):
        stack(X[..., :23])
    x = torch.randn(2, 5, 24)
    (block,) = stack.blocks
    assert torch.equal(stack(x), stack.norm(block(x)))


def test_autocast_casts_an_input_of_the_stack():
    stack = small_model().transformer
    with torch.autocast("cpu", torch.bfloat16):
        assert stack(X.bfloat16()).shape == X.shape


ON_META = {name: {"position": name} for name in POSITIONS}
ON_META["learned slopes"] = {"learned_slopes": True}


@each_case("fields", ON_META)
def test_a_model_on_the_meta_device_works_once_it_has_weights(fields):
    expected = small_model(**fields)
    with torch.device("meta"):
        model = LanguageModel(expected.config).eval()
    model.to_empty(device="cpu")
    model.load_state_dict(expected.state_dict())
    assert torch.equal(model(PROMPT), expected(PROMPT))


@each_case("fields", ON_META)
def test_a_model_on_the_meta_device_can_be_assigned_weights(fields):
    expected = small_model(**fields)
    with torch.device("meta"):
        model = LanguageModel(expected.config).eval()
    model.load_state_dict(expected.state_dict(), assign=True)
    assert torch.equal(model(PROMPT), expected(PROMPT))


# Caches of a stack


@torch.no_grad()
def test_an_error_in_the_last_block_leaves_the_caches_of_all(monkeypatch):
    model = small_model(num_layers=3)
    caches = model.transformer.new_cache()
    tokens = torch.arange(6)[None]
    model(tokens, caches)
    monkeypatch.setattr(model.transformer.blocks[-1], "feed_forward", None)
    with pytest.raises(TypeError, match="not callable"):
        model(tokens, caches)
    assert [cache.length for cache in caches] == [6, 6, 6]


@torch.no_grad()
def test_each_block_needs_a_cache():
    model = small_model(num_layers=3)
    caches = model.transformer.new_cache()
    for too_few in ([], caches[:2]):
        with pytest.raises(ValueError, match="cache must be a list of 3 caches"):
            model(PROMPT, too_few)


@torch.no_grad()
@each_case(
    ("cache", "got"),
    {
        "a single cache": (KeyValueCache(), "KeyValueCache"),
        "a number": (3, "int"),
        "numbers": ([3, 3], "one with int"),
    },
)
def test_what_is_no_list_of_caches_is_refused(cache, got):
    message = f"cache must be a list of 2 caches, see new_cache, got {got}"
    with pytest.raises(TypeError, match=message):
        small_model()(PROMPT, cache)


# Generated text


def test_generate_returns_int64_after_the_given_tokens():
    prompt = torch.tensor([[0, 7]], dtype=torch.uint8)
    texts = small_model().generate(prompt, 3)
    assert texts.dtype == torch.int64
    assert texts.shape == (1, 5)
    assert texts[:, :2].tolist() == [[0, 7]]


def test_generate_takes_the_most_likely_token_at_temperature_0():
    model = small_model()
    text = torch.randint(256, (2, 4), generator=torch.Generator().manual_seed(0))
    generated = model.generate(text, 3, temperature=0)
    for _ in range(3):
        most_likely = model(text)[:, -1].argmax(-1)
        text = torch.cat((text, most_likely[:, None]), dim=1)
    assert torch.equal(generated, text)


@pytest.mark.parametrize("temperature", [1e-40, 1e-50])
def test_generate_treats_a_tiny_temperature_as_0(temperature):
    """In float32, 1 / 1e-40 is infinite and 1e-50 is 0."""
    model = small_model()
    greedy = model.generate(PROMPT, 5, temperature=0)
    assert torch.equal(model.generate(PROMPT, 5, temperature=temperature), greedy)


def with_two_tokens(lead):
    """A model whose logit of token 1 after the token 0 is ahead by `lead`."""
    model = small_model(vocabulary=2)
    logits = model(torch.zeros(1, 1, dtype=torch.long))[0, 0].detach()
    model.head.weight.data *= lead / (logits[1] - logits[0])
    return model


def texts_after_token_0(model, temperature, count):
    prompts = torch.zeros(count, 1, dtype=torch.long)
    generator = torch.Generator().manual_seed(0)
    texts = model.generate(prompts, 1, temperature=temperature, generator=generator)
    return texts[:, 1]


@pytest.mark.parametrize(("temperature", "lead"), [(1.0, 2.0), (0.5, 4.0), (4.0, 0.5)])
def test_samples_follow_the_softmax_over_the_temperature(temperature, lead):
    """With a lead of 2 / temperature, token 1 has the share sigmoid(lead)."""
    sampled = texts_after_token_0(with_two_tokens(lead=2), temperature, count=4000)
    expected = 1 / (1 + math.exp(-lead))
    assert sampled.double().mean().item() == pytest.approx(expected, abs=0.02)


def test_generate_does_not_overflow_at_a_low_temperature():
    """The logits divided by 1e-36 are infinite in float32."""
    sampled = texts_after_token_0(with_two_tokens(lead=2000), temperature=1e-36, count=100)
    assert bool((sampled == 1).all())


@each_case(
    ("arguments", "error", "message"),
    {
        "a list of tokens": (
            {"tokens": [[1]]},
            TypeError,
            "an integer tensor [batch, length], got list",
        ),
        "no token": ({"tokens": PROMPT[:, :0]}, ValueError, "at least one token, got shape [1, 0]"),
        "fewer new tokens than 0": (
            {"new_tokens": -1},
            ValueError,
            "new_tokens must be at least 0, got -1",
        ),
        "a negative temperature": (
            {"temperature": -1},
            ValueError,
            "temperature must be a finite number of at least 0, got -1",
        ),
        "an infinite temperature": (
            {"temperature": math.inf},
            ValueError,
            "temperature must be a finite number of at least 0, got inf",
        ),
        "a bool as temperature": (
            {"temperature": True},
            TypeError,
            "temperature must be a number, got True",
        ),
        "a word as flag": (
            {"use_cache": "no"},
            TypeError,
            "use_cache must be True or False, got str",
        ),
        "a number as flag": (
            {"use_cache": 3},
            TypeError,
            "use_cache must be True or False, got int",
        ),
    },
)
def test_a_wrong_argument_of_generate_is_named(arguments, error, message):
    valid = {"tokens": PROMPT, "new_tokens": 1}
    with pytest.raises(error, match=re.escape(message)):
        small_model().generate(**valid | arguments)


def test_an_encoder_generates_without_a_cache():
    model = small_model(causal=False)
    text = model.generate(PROMPT, 3, temperature=0)
    for length in (4, 5, 6):
        most_likely = model(text[:, :length])[:, -1].argmax(-1)
        assert torch.equal(text[:, length], most_likely)


def test_an_encoder_has_no_cache_to_generate_with():
    message = r"an encoder has no cache, .* or generate\(\.\.\., use_cache=False\)"
    with pytest.raises(ValueError, match=message):
        small_model(causal=False).generate(PROMPT, 1, use_cache=True)


@pytest.mark.parametrize("use_cache", [True, False])
def test_generate_reads_as_many_tokens_as_have_positions(use_cache):
    """The last new token is not read."""
    model = small_model(position="learned", max_length=8)
    assert model.generate(PROMPT, 5, use_cache=use_cache).shape == (1, 9)
    with pytest.raises(ValueError, match="not defined beyond max_length=8, got length 9"):
        model.generate(PROMPT, 6, use_cache=use_cache)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_model_whose_logits_are_nan_writes_nothing(temperature):
    model = small_model()
    model.head.weight.data[65] = torch.nan
    with pytest.raises(ValueError, match=r"the model gives no number \(NaN\) after 4 tokens"):
        model.generate(PROMPT[:1, :4], 2, temperature=temperature)
