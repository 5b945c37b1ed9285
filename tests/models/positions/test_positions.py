import math

import pytest
import torch
from torch import Tensor

from alibi_viz import alibi_slopes
from alibi_viz.models import POSITIONS, Alibi, Learned, Position, Rotary, Sinusoidal, TransformerConfig
from alibi_viz.models.transformer import make_position
from tests.literal import literal_attention, literal_bias

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
def test_alibi_is_its_literal_double_loop(rows: int, columns: int, causal: bool) -> None:
    q, k, v = inputs(rows, columns)
    form = "relative" if causal else "symmetric"
    bias = literal_bias(alibi_slopes(HEADS), list(range(columns - rows, columns)), list(range(columns)), form)
    expected, _ = literal_attention(q, k, v, bias, causal=causal)
    found = Alibi(HEADS, causal=causal).attend(q, k, v, causal=causal)
    assert torch.allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(("rows", "columns"), LENGTHS)
@pytest.mark.parametrize("causal", [True, False])
def test_no_position_is_plain_attention(rows: int, columns: int, causal: bool) -> None:
    q, k, v = inputs(rows, columns)
    expected, _ = literal_attention(q, k, v, no_bias(rows, columns), causal=causal)
    assert torch.allclose(Position().attend(q, k, v, causal=causal), expected, atol=1e-12)


@pytest.mark.parametrize(("rows", "columns"), LENGTHS)
@pytest.mark.parametrize("causal", [True, False])
def test_rotary_turns_each_pair_by_its_angle(rows: int, columns: int, causal: bool) -> None:
    q, k, v = inputs(rows, columns)

    def turned(vectors: Tensor, first: int) -> Tensor:
        out = vectors.clone()
        for position in range(vectors.shape[2]):
            for pair in range(DIM // 2):
                angle = (first + position) * 10000 ** (-2 * pair / DIM)
                x, y = vectors[:, :, position, pair], vectors[:, :, position, pair + DIM // 2]
                out[:, :, position, pair] = x * math.cos(angle) - y * math.sin(angle)
                out[:, :, position, pair + DIM // 2] = x * math.sin(angle) + y * math.cos(angle)
        return out

    expected, _ = literal_attention(turned(q, columns - rows), turned(k, 0), v, no_bias(rows, columns), causal=causal)
    assert torch.allclose(Rotary(DIM).attend(q, k, v, causal=causal), expected, atol=1e-6)


def test_rotary_depends_on_the_distance_only() -> None:
    vectors = torch.randn(2, 1, 1, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    rotary = Rotary(DIM)

    def product(i: int, j: int) -> float:
        turned = rotary.rotate(vectors[0], torch.tensor([i])), rotary.rotate(vectors[1], torch.tensor([j]))
        return float((turned[0] * turned[1]).sum())

    assert product(3, 1) == pytest.approx(product(903, 901), abs=1e-5)
    assert abs(product(3, 1) - product(3, 2)) > 1e-3


def test_sinusoidal_is_the_papers_formula() -> None:
    width = 10
    table = Sinusoidal(width).table(torch.arange(2000))
    for i in (0, 1, 7, 1999):
        for k in range(width // 2):
            angle = i / 10000 ** (2 * k / width)
            assert float(table[i, 2 * k]) == pytest.approx(math.sin(angle), abs=1e-6)
            assert float(table[i, 2 * k + 1]) == pytest.approx(math.cos(angle), abs=1e-6)
    assert Sinusoidal(5).table(torch.arange(3)).shape == (3, 5)


@pytest.mark.parametrize("make", [lambda: Sinusoidal(8), lambda: Learned(8, 16)])
def test_embeddings_start_where_they_are_told(make: type[Position]) -> None:
    position = make()
    whole = position.embed(torch.zeros(1, 12, 8))
    assert torch.equal(position.embed(torch.zeros(1, 5, 8), start=7), whole[:, 7:])


def test_learned_looks_its_row_up_and_is_not_defined_beyond_its_table() -> None:
    position = Learned(4, 3)
    tokens = torch.randn(2, 3, 4)
    for i in range(3):
        assert torch.equal(position.embed(tokens)[:, i], tokens[:, i] + position.table.weight[i])
    with pytest.raises(ValueError, match="not defined beyond max_length=3, got length 4"):
        position.embed(torch.zeros(1, 4, 4))
    with pytest.raises(ValueError, match="got length 4"):
        position.embed(torch.zeros(1, 1, 4), start=3)


def test_rotary_needs_pairs() -> None:
    with pytest.raises(ValueError, match="head_dim must be even, got 7"):
        Rotary(7)


@pytest.mark.parametrize("name", POSITIONS)
def test_the_bias_that_is_shown_is_the_bias_that_is_used(name: str) -> None:
    """`bias` feeds the pictures and `attend` the models; they must be the same thing."""
    position = make_position(TransformerConfig(d_model=HEADS * DIM, num_heads=HEADS, position=name))
    q, k, v = (t.float() for t in inputs(4, 6))
    x = torch.randn(2, 6, HEADS * DIM)
    shown = position.bias(4, 6, x)
    turned = position.transform(q, k)
    bias = no_bias(4, 6) if shown is None else shown.double()
    each = bias if bias.ndim == 4 else bias[None].expand(2, -1, -1, -1)  # one bias a text, when it reads the text
    pairs = zip(*(t.split(1) for t in (*turned, v)), each, strict=True)
    expected = torch.cat([literal_attention(*one, its)[0] for *one, its in pairs])
    assert torch.allclose(position.attend(q, k, v, causal=True, x=x).double(), expected, atol=1e-6)
