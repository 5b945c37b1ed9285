"""Compare the forget gate with a plain loop, and with ALiBi where the gate is constant."""

import math

import pytest
import torch

from alibi_viz import LanguageModel, TransformerConfig, alibi_slopes
from alibi_viz.models.positions import Alibi, Forget


def random_gate() -> Forget:
    torch.manual_seed(0)
    forget = Forget(5, alibi_slopes(3))
    torch.nn.init.normal_(forget.gate.weight)
    return forget


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (4, 4), (1, 6), (3, 7)])
def test_bias_is_the_sum_of_log_gates_after_the_key(rows: int, columns: int) -> None:
    forget, x = random_gate(), torch.randn(2, columns, 5)
    bias = forget.bias(rows, columns, x)
    assert bias.shape == (2, 3, rows, columns)
    for b in range(2):
        for h in range(3):
            for row in range(rows):
                i = columns - rows + row
                for j in range(i + 1):
                    logits = [x[b, t] @ forget.gate.weight[h] + forget.gate.bias[h] for t in range(j + 1, i + 1)]
                    expected = sum(math.log(1 / (1 + math.exp(-float(logit)))) for logit in logits)
                    assert float(bias[b, h, row, j]) == pytest.approx(expected, abs=1e-5)


def test_constant_gate_equals_alibi() -> None:
    forget = Forget(5, alibi_slopes(8))  # w = 0 at the start
    x = torch.randn(1, 3000, 5)
    visible = torch.ones(3, 3000, dtype=torch.bool).tril(2997)
    bias, expected = forget.bias(3, 3000, x)[0], Alibi(8).bias(3, 3000)
    torch.testing.assert_close(bias[:, visible], expected[:, visible], atol=1e-3, rtol=1e-6)


def test_differences_between_neighbors_are_exact_after_20000_tokens() -> None:
    """The sum over 20,000 tokens is large; rounding it would lose the difference between two neighbors."""
    forget = Forget(5, alibi_slopes(8))
    steps = forget.bias(1, 20_000, torch.zeros(1, 20_000, 5))[0, :, 0].diff()
    torch.testing.assert_close(steps, alibi_slopes(8)[:, None].expand_as(steps), atol=2e-3, rtol=0)
    recent = steps[:, -100:]
    torch.testing.assert_close(recent, alibi_slopes(8)[:, None].expand_as(recent), atol=1e-6, rtol=1e-4)


def test_each_layer_has_its_own_gates_and_all_get_gradients() -> None:
    sizes = {"num_layers": 3, "d_model": 24, "num_heads": 3, "dropout": 0.0, "vocabulary": 16}
    model = LanguageModel(TransformerConfig(**sizes, position="forget"))
    gates = [block.attention.position.gate for block in model.transformer.blocks]
    assert len({id(gate) for gate in gates}) == 3
    model(torch.randint(16, (2, 20))).logsumexp(-1).sum().backward()
    assert all(gate.weight.grad is not None and bool(gate.weight.grad.any()) for gate in gates)


def test_bias_without_the_input_of_the_layer_raises() -> None:
    with pytest.raises(ValueError, match=r"a forget gate reads the layer's input, \[batch, key=4, d_model\], got None"):
        random_gate().bias(2, 4)
    with pytest.raises(ValueError, match=r"got shape \[1, 2, 5\]"):
        random_gate().bias(2, 4, torch.zeros(1, 2, 5))
