"""Transformers with every position method: shapes, causality, dtypes and errors."""

import pytest
import torch

from alibi_viz import LanguageModel, Transformer, TransformerConfig
from alibi_viz.models import POSITIONS

SMALL = {"num_layers": 2, "d_model": 24, "num_heads": 3, "dropout": 0.0}


def test_default_transformer_keeps_the_shape() -> None:
    assert Transformer(TransformerConfig())(torch.randn(8, 100, 256)).shape == (8, 100, 256)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("length", [0, 1, 17])
def test_logits_are_finite_at_any_length(position: str, length: int) -> None:
    model = LanguageModel(TransformerConfig(**SMALL, position=position, vocabulary=50))
    logits = model(torch.randint(50, (2, length)))
    assert logits.shape == (2, length, 50)
    assert bool(logits.isfinite().all())


@pytest.mark.parametrize("position", POSITIONS)
def test_only_an_encoder_depends_on_later_tokens(position: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 10, 24)
    changed = x.clone()
    changed[:, 6:] *= -1
    for causal in (True,) if POSITIONS[position].decoder_only else (True, False):
        model = Transformer(TransformerConfig(**SMALL, position=position, causal=causal)).eval()
        with torch.no_grad():
            same = torch.allclose(model(x)[:, :6], model(changed)[:, :6], atol=1e-6)
        assert same == causal


@pytest.mark.parametrize("position", POSITIONS)
def test_the_last_positions_alone_equal_those_of_all_positions(position: str) -> None:
    torch.manual_seed(0)
    tokens = torch.randint(50, (2, 11))
    for causal in (True,) if POSITIONS[position].decoder_only else (True, False):
        model = LanguageModel(TransformerConfig(**SMALL, position=position, causal=causal, vocabulary=50)).eval()
        with torch.no_grad():
            for last in (1, 4, 11, 12):
                torch.testing.assert_close(model(tokens, last=last), model(tokens)[:, -last:], atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="last must be an integer of at least 1, got 0"):
        model(tokens, last=0)


@pytest.mark.parametrize("position", ["alibi", "sinusoidal", "rotary", "learned"])
def test_only_an_encoder_without_positions_is_permutation_equivariant(position: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 9, 24)
    order = torch.randperm(9)
    for name, equivariant in ((position, False), ("none", True)):
        model = Transformer(TransformerConfig(**SMALL, position=name, causal=False)).eval()
        with torch.no_grad():
            assert torch.allclose(model(x)[:, order], model(x[:, order]), atol=1e-5) == equivariant


def test_an_alibi_encoder_commutes_with_reversal() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 9, 24)
    model = Transformer(TransformerConfig(**SMALL, causal=False)).eval()
    with torch.no_grad():
        assert torch.allclose(model(x).flip(1), model(x.flip(1)), atol=1e-5)


def test_every_parameter_gets_a_gradient() -> None:
    model = LanguageModel(TransformerConfig(**SMALL, position="learned"))
    model(torch.randint(256, (2, 256))).logsumexp(-1).sum().backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())]
    assert missing == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_layers": 0}, "num_layers must be an integer of at least 1, got 0"),
        ({"num_heads": 2.0}, r"num_heads must be an integer of at least 1, got 2\.0"),
        ({"d_model": 30, "num_heads": 4}, "d_model=30 must be a multiple of num_heads=4"),
        ({"dropout": 1.0}, r"dropout must be at least 0 and below 1, got 1\.0"),
        ({"position": "alibaba"}, "position must be one of alibi, .*, got 'alibaba'"),
        ({"scheme": "steep"}, "scheme must be one of official, .*, got 'steep'"),
    ],
)
def test_invalid_configuration_raises(change: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        TransformerConfig(**change)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["dropout", "slope_scale"])
def test_setting_that_is_not_a_number_raises(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be a number, got 'x'"):
        TransformerConfig(**{name: "x"})  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_tokens_can_have_any_integer_dtype(dtype: torch.dtype) -> None:
    model, tokens = LanguageModel(TransformerConfig(**SMALL)).eval(), torch.tensor([[0, 7, 100]])
    assert torch.equal(model(tokens.to(dtype)), model(tokens))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_every_method_supports_other_dtypes(position: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**SMALL, position=position)).eval()
    x = torch.randn(2, 9, 24)
    with torch.no_grad():
        expected, output = model(x), model.to(dtype)(x.to(dtype))
    assert output.dtype == dtype
    assert torch.allclose(output.float(), expected, atol=0.1 if dtype == torch.bfloat16 else 1e-5)


def test_invalid_input_raises() -> None:
    model = LanguageModel(TransformerConfig(**SMALL))
    with pytest.raises(ValueError, match=r"tokens must be \[batch, length\], got shape \[3\]"):
        model(torch.zeros(3, dtype=torch.long))
    with pytest.raises(TypeError, match=r"tokens must be an integer tensor \[batch, length\], got torch\.float32"):
        model(torch.zeros(1, 3))
    with pytest.raises(ValueError, match=r"tokens must be between 0 and 255, got 256"):
        model(torch.tensor([[3, 256]]))
    with pytest.raises(ValueError, match=r"x must be \[batch, length, d_model=24\], got shape \[2, 5, 25\]"):
        model.transformer(torch.zeros(2, 5, 25))
    learned = LanguageModel(TransformerConfig(**SMALL, position="learned", max_length=8))
    with pytest.raises(ValueError, match="not defined beyond max_length=8, got length 9"):
        learned(torch.zeros(1, 9, dtype=torch.long))


@pytest.mark.parametrize("learned_slopes", [False, True])
def test_a_model_created_on_the_meta_device_works_after_loading_weights(learned_slopes: bool) -> None:
    config = TransformerConfig(**SMALL, learned_slopes=learned_slopes)
    with torch.device("meta"):
        model = LanguageModel(config)
    expected = LanguageModel(config).eval()
    model = model.to_empty(device="cpu").eval()
    model.load_state_dict(expected.state_dict())
    tokens = torch.tensor([[1, 2, 3]])
    assert torch.equal(model(tokens), expected(tokens))
