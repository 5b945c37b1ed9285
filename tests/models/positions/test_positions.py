"""The interface of all position methods, and the absolute ones compared with a reference implementation."""

import math

import pytest
import torch
from torch import Tensor

from alibi_viz import Transformer, alibi_slopes
from alibi_viz.models import POSITIONS, Alibi, Learned, Position, Sinusoidal, TransformerConfig
from alibi_viz.models.positions import NoPosition
from tests.largest_tensor import LargestTensor
from tests.reference import reference_attention, reference_bias

HEADS, DIM = 3, 6
LENGTHS = [(0, 0), (1, 1), (5, 5), (1, 6), (3, 7)]


def inputs(rows: int, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows * 10 + columns)
    shapes = ((2, HEADS, rows, DIM), (2, HEADS, columns, DIM), (2, HEADS, columns, DIM))
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return q, k, v


def no_bias(rows: int, columns: int) -> Tensor:
    return torch.zeros(HEADS, rows, columns, dtype=torch.float64)


@pytest.mark.parametrize(("rows", "columns"), LENGTHS)
@pytest.mark.parametrize("causal", [True, False])
def test_alibi_matches_the_reference_loop(rows: int, columns: int, causal: bool) -> None:
    q, k, v = inputs(rows, columns)
    form = "relative" if causal else "symmetric"
    bias = reference_bias(alibi_slopes(HEADS), list(range(columns - rows, columns)), list(range(columns)), form)
    expected, _ = reference_attention(q, k, v, bias, causal=causal)
    assert torch.allclose(Alibi(HEADS, causal=causal).attend(q, k, v, causal=causal), expected, atol=1e-12)


@pytest.mark.parametrize(("rows", "columns"), LENGTHS)
@pytest.mark.parametrize("causal", [True, False])
def test_no_position_is_plain_attention(rows: int, columns: int, causal: bool) -> None:
    q, k, v = inputs(rows, columns)
    expected, _ = reference_attention(q, k, v, no_bias(rows, columns), causal=causal)
    assert torch.allclose(NoPosition().attend(q, k, v, causal=causal), expected, atol=1e-12)


def test_sinusoidal_equals_the_formula_of_the_paper() -> None:
    width = 10
    table = Sinusoidal(width).table(torch.arange(2000))
    for i in (0, 1, 7, 1999):
        for k in range(width // 2):
            angle = i / 10000 ** (2 * k / width)
            assert float(table[i, 2 * k]) == pytest.approx(math.sin(angle), abs=1e-6)
            assert float(table[i, 2 * k + 1]) == pytest.approx(math.cos(angle), abs=1e-6)
    assert Sinusoidal(5).table(torch.arange(3)).shape == (3, 5)


@pytest.mark.parametrize("position", [Sinusoidal(8), Learned(8, 16)])
def test_embedding_from_start_equals_a_slice_of_the_full_embedding(position: Position) -> None:
    whole = position.embed(torch.zeros(1, 12, 8))
    assert torch.equal(position.embed(torch.zeros(1, 5, 8), start=7), whole[:, 7:])


def test_learned_adds_rows_of_its_table_and_raises_beyond_it() -> None:
    position = Learned(4, 3)
    tokens = torch.randn(2, 3, 4)
    for i in range(3):
        assert torch.equal(position.embed(tokens)[:, i], tokens[:, i] + position.table.weight[i])
    with pytest.raises(ValueError, match="not defined beyond max_length=3, got length 4"):
        position.embed(torch.zeros(1, 4, 4))
    with pytest.raises(ValueError, match="got length 4"):
        position.embed(torch.zeros(1, 1, 4), start=3)
    assert [position.is_defined_at(length) for length in (3, 4)] == [True, False]


def test_only_absolute_methods_are_not_relative() -> None:
    assert {name for name, method in POSITIONS.items() if not method.is_relative} == {
        "sinusoidal",
        "learned",
        "randomized",
    }


@pytest.mark.parametrize("name", [name for name, method in POSITIONS.items() if method.is_additive])
def test_bias_and_weights_describe_what_attend_computes(name: str) -> None:
    """Figures read `bias` and statistics read `weights`, while models call `attend`."""
    position = POSITIONS[name].from_config(TransformerConfig(d_model=HEADS * DIM, num_heads=HEADS, position=name))
    q, k, v = (t.float() for t in inputs(4, 6))
    x = torch.randn(2, 6, HEADS * DIM)
    bias = position.bias(4, 6, x)
    assert position.has_bias == (bias is not None)
    bias = no_bias(4, 6) if bias is None else bias.double()
    biases = bias if bias.ndim == 4 else bias[None].expand(2, -1, -1, -1)  # per text, if it depends on the text
    batches = zip(*(t.split(1) for t in (*position.transform(q, k), v)), biases, strict=True)
    output, weights = map(torch.cat, zip(*(reference_attention(*batch) for batch in batches), strict=True))
    assert torch.allclose(position.attend(q, k, v, causal=True, x=x).double(), output, atol=1e-6)
    assert torch.allclose(position.weights(q, k, x=x).double(), weights, atol=1e-6)


@pytest.mark.parametrize("name", POSITIONS)
def test_weights_times_values_is_what_attend_returns(name: str) -> None:
    position = POSITIONS[name].from_config(TransformerConfig(d_model=HEADS * DIM, num_heads=HEADS, position=name))
    for parameter in position.parameters():  # some start at zero
        torch.nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(0))
    for rows, columns in LENGTHS[1:]:
        q, k, v = (t.float() for t in inputs(rows, columns))
        x = torch.randn(2, columns, HEADS * DIM)
        weights = position.weights(q, k, x=x)
        torch.testing.assert_close(position.attend(q, k, v, causal=True, x=x), weights @ v, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, HEADS, rows))


DECODER_ONLY = ["xpos", "stick-breaking", "cope"]


def test_decoder_only_methods_are_those_listed() -> None:
    assert [name for name, method in POSITIONS.items() if method.decoder_only] == DECODER_ONLY


@pytest.mark.parametrize("name", DECODER_ONLY)
def test_decoder_only_method_in_an_encoder_raises(name: str) -> None:
    config = TransformerConfig(d_model=HEADS * DIM, num_heads=HEADS, position=name, causal=False)
    with pytest.raises(ValueError, match="is for decoders only: causal must be True, got False"):
        Transformer(config)
    position = POSITIONS[name].from_config(config)
    q, k, v = inputs(3, 3)
    with pytest.raises(ValueError, match="is for decoders only"):
        position.attend(q, k, v, causal=False)
    with pytest.raises(ValueError, match="is for decoders only"):
        position.weights(q, k, causal=False)


@pytest.mark.parametrize("name", ["t5", "sandwich", "fire"])
def test_examples_that_share_a_bias_need_no_attention_weights_in_memory(name: str) -> None:
    """torch's blockwise kernel on CPUs takes a mask [1, heads, query, key], but not [heads, query, key]."""
    position = POSITIONS[name].from_config(TransformerConfig(d_model=HEADS * DIM, num_heads=HEADS, position=name))
    query, key, value = torch.randn(3, 64, HEADS, 50, DIM)
    with torch.inference_mode(), LargestTensor() as largest:
        position.attend(query, key, value, causal=True)
    assert largest.numel < 64 * HEADS * 50 * 50 / 5
