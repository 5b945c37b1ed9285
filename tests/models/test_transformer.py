import pytest
import torch

from alibi_viz import AlibiSelfAttention, LanguageModel, Transformer, TransformerConfig
from alibi_viz.models import POSITIONS

SMALL = {"num_layers": 2, "d_model": 24, "num_heads": 3, "dropout": 0.0}


def test_the_quick_start_with_its_defaults() -> None:
    assert Transformer(TransformerConfig())(torch.randn(8, 100, 256)).shape == (8, 100, 256)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("length", [0, 1, 17])
def test_every_position_method_at_any_length(position: str, length: int) -> None:
    model = LanguageModel(TransformerConfig(**SMALL, position=position, vocabulary=50))
    logits = model(torch.randint(50, (2, length)))
    assert logits.shape == (2, length, 50)
    assert bool(logits.isfinite().all())


@pytest.mark.parametrize("position", POSITIONS)
def test_a_decoder_never_looks_ahead_and_an_encoder_does(position: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 10, 24)
    changed = x.clone()
    changed[:, 6:] *= -1
    for causal in (True, False):
        model = Transformer(TransformerConfig(**SMALL, position=position, causal=causal)).eval()
        with torch.no_grad():
            same = torch.allclose(model(x)[:, :6], model(changed)[:, :6], atol=1e-6)
        assert same == causal


@pytest.mark.parametrize("position", ["alibi", "sinusoidal", "rotary", "learned"])
def test_an_encoder_with_positions_can_tell_order_and_without_cannot(position: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 9, 24)
    order = torch.randperm(9)
    for name, blind in ((position, False), ("none", True)):
        model = Transformer(TransformerConfig(**SMALL, position=name, causal=False)).eval()
        with torch.no_grad():
            assert torch.allclose(model(x)[:, order], model(x[:, order]), atol=1e-5) == blind


def test_an_alibi_encoder_is_symmetric_in_time() -> None:
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
        ({"num_layers": 0}, "num_layers must be a whole number from 1 up, got 0"),
        ({"num_heads": 2.0}, r"num_heads must be a whole number from 1 up, got 2\.0"),
        ({"d_model": 30, "num_heads": 4}, "d_model=30 must be a multiple of num_heads=4"),
        ({"dropout": 1.0}, r"dropout must be at least 0 and below 1, got 1\.0"),
        ({"position": "alibaba"}, "position must be one of alibi, .*, got 'alibaba'"),
        ({"scheme": "steep"}, "scheme must be one of official, .*, got 'steep'"),
    ],
)
def test_a_wrong_configuration_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**change)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_bytes_are_tokens(dtype: torch.dtype) -> None:
    model, tokens = LanguageModel(TransformerConfig(**SMALL)).eval(), torch.tensor([[0, 7, 100]])
    assert torch.equal(model(tokens.to(dtype)), model(tokens))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_every_method_computes_in_every_dtype(position: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**SMALL, position=position)).eval()
    x = torch.randn(2, 9, 24)
    with torch.no_grad():
        right, found = model(x), model.to(dtype)(x.to(dtype))
    assert found.dtype == dtype
    assert torch.allclose(found.float(), right, atol=0.1 if dtype == torch.bfloat16 else 1e-5)


def test_wrong_input_is_named() -> None:
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
def test_a_model_made_on_the_meta_device_computes_once_it_is_filled(learned_slopes: bool) -> None:
    config = TransformerConfig(**SMALL, learned_slopes=learned_slopes)
    with torch.device("meta"):
        model = LanguageModel(config)
    right = LanguageModel(config).eval()
    model = model.to_empty(device="cpu").eval()
    model.load_state_dict(right.state_dict())
    tokens = torch.tensor([[1, 2, 3]])
    assert torch.equal(model(tokens), right(tokens))


def test_a_quantized_module_still_attends() -> None:
    module, x = AlibiSelfAttention(32, 4).eval(), torch.randn(1, 9, 32)
    quantized = torch.ao.quantization.quantize_dynamic(module, {torch.nn.Linear}, dtype=torch.qint8)
    assert torch.allclose(quantized(x), module(x), atol=0.1)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(TypeError, match=r"x must be torch\.float32"):
        module(x.long())
