"""The decays of MiniMax-01's layers are ALiBi's slopes, as lesson 6 says."""

import torch
from transformers import MiniMaxConfig
from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention

from alibi_viz import alibi_slopes

HEADS = 64
LAYERS = 80


def decays(layer):
    """How much each head of a layer subtracts per step back."""
    config = MiniMaxConfig(
        num_attention_heads=HEADS,
        num_hidden_layers=LAYERS,
        hidden_size=HEADS,
        block_size=4,
    )
    attention = MiniMaxLightningAttention(config, layer_idx=layer)
    rates = attention.slope_rate.flatten()
    return rates


def test_the_first_layer_decays_by_the_slopes_of_alibi():
    torch.testing.assert_close(decays(0), alibi_slopes(HEADS), rtol=2e-5, atol=0)


def test_the_last_layer_hardly_decays():
    assert torch.all(decays(LAYERS - 1) < 1e-4 * alibi_slopes(HEADS))
