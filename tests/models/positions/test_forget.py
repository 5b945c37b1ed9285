"""The forget gate: a literal triple loop, its constant case is ALiBi, and a model reads with it."""

import math

import pytest
import torch

from alibi_viz import LanguageModel, TransformerConfig, alibi_slopes
from alibi_viz.models.positions import Alibi
from alibi_viz.models.positions.forget import Forget


def gated(heads: int = 3, width: int = 5) -> Forget:
    torch.manual_seed(0)
    forget = Forget(width, alibi_slopes(heads))
    torch.nn.init.normal_(forget.gate.weight)
    return forget


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (4, 4), (1, 6), (3, 7)])
def test_the_bias_is_the_sum_of_log_gates_after_the_key(rows: int, columns: int) -> None:
    forget, x = gated(), torch.randn(2, columns, 5)
    found = forget.bias(rows, columns, x)
    assert found.shape == (2, 3, rows, columns)
    for b in range(2):
        for h in range(3):
            for row in range(rows):
                i = columns - rows + row
                for j in range(i + 1):
                    logits = [x[b, t] @ forget.gate.weight[h] + forget.gate.bias[h] for t in range(j + 1, i + 1)]
                    expected = sum(math.log(1 / (1 + math.exp(-float(logit)))) for logit in logits)
                    assert float(found[b, h, row, j]) == pytest.approx(expected, abs=1e-5)


def test_a_constant_gate_is_alibi_at_any_length() -> None:
    forget = Forget(5, alibi_slopes(8))  # as it starts: w = 0
    x = torch.randn(1, 3000, 5)
    visible = torch.ones(3, 3000, dtype=torch.bool).tril(2997)
    found, expected = forget.bias(3, 3000, x)[0], Alibi(8).bias(3, 3000)
    torch.testing.assert_close(found[:, visible], expected[:, visible], atol=1e-3, rtol=1e-6)


def test_neighbours_stay_apart_far_into_a_text() -> None:
    """The sum over 20,000 tokens is large; the step between two neighbours must not drown in it."""
    forget = Forget(5, alibi_slopes(8))
    steps = forget.bias(1, 20_000, torch.zeros(1, 20_000, 5))[0, :, 0].diff()
    torch.testing.assert_close(steps, alibi_slopes(8)[:, None].expand_as(steps), atol=2e-3, rtol=0)
    recent = steps[:, -100:]
    torch.testing.assert_close(recent, alibi_slopes(8)[:, None].expand_as(recent), atol=1e-6, rtol=1e-4)


def test_each_layer_has_gates_of_its_own_and_all_of_them_learn() -> None:
    sizes = {"num_layers": 3, "d_model": 24, "num_heads": 3, "dropout": 0.0, "vocabulary": 16}
    model = LanguageModel(TransformerConfig(**sizes, position="forget"))
    gates = [block.attention.position.gate for block in model.transformer.blocks]
    assert len({id(gate) for gate in gates}) == 3
    model(torch.randint(16, (2, 20))).logsumexp(-1).sum().backward()
    assert all(gate.weight.grad is not None and bool(gate.weight.grad.any()) for gate in gates)


def test_a_gate_without_its_input_says_so() -> None:
    with pytest.raises(ValueError, match=r"a forget gate reads the layer's input, \[batch, key=4, d_model\], got None"):
        gated().bias(2, 4)
    with pytest.raises(ValueError, match=r"got shape \[1, 2, 5\]"):
        gated().bias(2, 4, torch.zeros(1, 2, 5))
