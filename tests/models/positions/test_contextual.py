"""CoPE and stick-breaking attention compared with their formulas in a plain loop."""

import math

import pytest
import torch
from torch import Tensor

from alibi_viz import lab
from alibi_viz.models.positions import Cope, Position, StickBreaking
from tests.models.positions.references import reference_cope, reference_stick_breaking

HEADS, DIM = 4, 6
LENGTHS = [(1, 1), (5, 5), (1, 6), (3, 7)]
METHODS = ["cope", "stick-breaking"]


def position_of(name: str, max_position: int = 3) -> Position:
    if name == "stick-breaking":
        return StickBreaking()
    cope = Cope(DIM, max_position)
    torch.nn.init.normal_(cope.vectors, generator=torch.Generator().manual_seed(0))
    return cope


def inputs(rows: int, columns: int, key_heads: int = HEADS) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows * 10 + columns)
    shapes = ((2, HEADS, rows, DIM), (2, key_heads, columns, DIM), (2, key_heads, columns, DIM))
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return q, k, v


def reference(position: Position, query: Tensor, key: Tensor, window: int | None = None) -> Tensor:
    if isinstance(position, Cope):
        return reference_cope(query, key, position.vectors, window)
    return reference_stick_breaking(query, key, window)


@pytest.mark.parametrize("key_heads", [HEADS, 2])
@pytest.mark.parametrize(("rows", "columns"), LENGTHS)
@pytest.mark.parametrize("name", METHODS)
def test_weights_and_output_match_the_reference_loop(name: str, rows: int, columns: int, key_heads: int) -> None:
    position = position_of(name).double()
    query, key, value = inputs(rows, columns, key_heads)
    expected = reference(position, query, key)
    torch.testing.assert_close(position.weights(query, key), expected.float())
    output = position.attend(query, key, value, causal=True)
    torch.testing.assert_close(output, expected @ value.repeat_interleave(HEADS // key_heads, 1), atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", METHODS)
def test_window_hides_keys_further_back_and_keeps_positions_of_nearer_ones(name: str) -> None:
    model = lab.make_model(name, d_model=HEADS * DIM, num_heads=HEADS, max_length=3)
    position = model.transformer.position.double()  # type: ignore[operator]
    for parameter in position.parameters():
        torch.nn.init.normal_(parameter)
    windowed = lab.modify(model, window=4).transformer.position
    query, key, value = inputs(6, 9)
    expected = reference(position, query, key, window=4)
    torch.testing.assert_close(windowed.weights(query, key), expected.float())  # type: ignore[operator]
    output = windowed.attend(query, key, value, causal=True)  # type: ignore[operator]
    torch.testing.assert_close(output, expected @ value)


@pytest.mark.parametrize("name", METHODS)
def test_empty_inputs_give_empty_outputs(name: str) -> None:
    for rows, columns in ((0, 0), (0, 4)):
        query, key, value = inputs(rows, columns)
        assert position_of(name).double().attend(query, key, value, causal=True).shape == (2, HEADS, rows, DIM)


@pytest.mark.parametrize("name", METHODS)
def test_extreme_content_gives_finite_weights_and_gradients(name: str) -> None:
    position = position_of(name)
    query, key, value = (tensor.float() for tensor in inputs(300, 300))
    query = (query * 300).requires_grad_()
    output = position.attend(query, key, value, causal=True)
    output.sum().backward()
    assert bool(output.isfinite().all())
    assert query.grad is not None
    assert bool(query.grad.isfinite().all())
    torch.testing.assert_close(position.weights(query, key).sum(-1), torch.ones(2, HEADS, 300))


@pytest.mark.parametrize("name", METHODS)
def test_dropout_drops_weights(name: str) -> None:
    position = position_of(name).double()
    query, key, value = inputs(50, 50)
    torch.manual_seed(0)
    output = position.attend(query, key, torch.ones_like(value), causal=True, dropout=0.5).detach()
    assert output.std() > 0.1  # without dropout, every row of weights adds up to one
    assert output.mean() == pytest.approx(1, abs=0.1)


def test_cope_position_is_capped_at_the_largest() -> None:
    cope = Cope(DIM, max_position=2)
    positions = cope.positions(torch.full((1, 1, 1, 6), 50.0), torch.ones(1, 6, dtype=torch.bool))
    assert positions.flatten().tolist() == [2, 2, 2, 2, 2, 1]


def test_cope_without_position_vectors_is_plain_attention() -> None:
    query, key, value = inputs(5, 5)
    plain = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(Cope(DIM, 3).double().attend(query, key, value, causal=True), plain)


def test_cope_has_vectors_for_each_layer_and_all_get_gradients() -> None:
    model = lab.make_model("cope", max_length=8)
    layers = [block.attention.position for block in model.transformer.blocks]  # type: ignore[union-attr]
    assert [layer.vectors.shape for layer in layers] == [(9, 8), (9, 8)]  # type: ignore[union-attr]
    model(torch.arange(20)[None]).logsumexp(-1).sum().backward()
    assert all(bool(layer.vectors.grad.any()) for layer in layers)  # type: ignore[union-attr]


def test_stick_breaking_ignores_keys_beyond_one_that_takes_everything() -> None:
    query = torch.full((1, 1, 4, 1), 50.0)
    key = torch.tensor([1.0, 1.0, -1.0, 1.0]).view(1, 1, 4, 1)
    weights = StickBreaking().weights(query, key)[0, 0]
    expected = torch.tensor([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]])
    torch.testing.assert_close(weights, expected, atol=1e-6, rtol=0)


def test_stick_breaking_of_many_equal_keys_is_geometric() -> None:
    """Products of 4,000 factors underflow; far keys get weight 0 and near ones the exact share."""
    query = key = torch.zeros(1, 1, 4000, 2)
    last = StickBreaking().weights(query[:, :, -1:], key)[0, 0, 0]
    torch.testing.assert_close(last[-2:], torch.tensor([0.5, 0.0]), atol=1e-6, rtol=0)
    assert float(last[-21]) == pytest.approx(2.0**-20)
    assert bool(last.isfinite().all())
    assert math.isclose(float(last.sum()), 1, abs_tol=1e-6)
