"""The decays of MiniMax-01's layers are ALiBi's slopes, as the list of methods says."""

import pytest
import torch

from alibi_viz import alibi_slopes

minimax = pytest.importorskip(
    "transformers.models.minimax.modeling_minimax", reason="pip install transformers"
)

HEADS = 64
LAYERS = 80


def decays(layer):
    """How much each head of a layer subtracts per step back."""
    config = minimax.MiniMaxConfig(
        num_attention_heads=HEADS,
        num_hidden_layers=LAYERS,
        hidden_size=HEADS,
        block_size=4,
    )
    attention = minimax.MiniMaxLightningAttention(config, layer_idx=layer)
    return attention.slope_rate.flatten()


def test_the_first_layer_decays_by_the_slopes_of_alibi():
    torch.testing.assert_close(decays(0), alibi_slopes(HEADS), rtol=2e-5, atol=0)


def test_the_last_layer_hardly_decays():
    assert torch.all(decays(LAYERS - 1) < 1e-4 * alibi_slopes(HEADS))
