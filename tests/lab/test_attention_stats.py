"""Attention statistics, where they can be computed by hand and where ALiBi's slopes decide them."""

import pytest
import torch

from alibi_viz import lab


def test_uniform_attention_has_known_statistics():
    """With zero queries every visible key has the same weight."""
    model = lab.make_model("none")
    for block in model.transformer.blocks:
        torch.nn.init.zeros_(block.attention.qkv.weight)
    stats = lab.attention_stats(model, lab.load_text(), 64, trained=16, windows=2, queries=1)
    assert stats.entropy.shape == (2, 4)
    torch.testing.assert_close(stats.entropy, torch.full((2, 4), 6.0))  # log2(64)
    torch.testing.assert_close(stats.distance, torch.full((2, 4), 31.5))
    torch.testing.assert_close(stats.beyond, torch.full((2, 4), 48 / 64))


def test_heads_with_flatter_slopes_attend_further_back():
    model, text = lab.make_model("alibi"), lab.load_text()
    list(lab.train(model, text, steps=40))
    stats = lab.attention_stats(model, text, 256, trained=32)
    assert bool((stats.distance[:, 3] > stats.distance[:, 0]).all())
    assert bool((stats.beyond[:, 0] < 0.01).all())
    with pytest.raises(ValueError, match="8 windows of 100000 bytes need 800,000"):
        lab.attention_stats(model, text, 100_000, trained=32)
