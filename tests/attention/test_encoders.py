"""Attention in both directions: which backend `auto` selects, and that masks are cached or not needed."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz import AlibiBias, alibi_attention, alibi_slopes, choose_backend
from alibi_viz.attention.inputs import AttentionInputs
from tests.attention.test_attention import unit_normal
from tests.largest_tensor import LargestTensor


def test_auto_selects_a_mask_for_encoders_while_it_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    q = k = torch.zeros(1, 8, 1025, 4)
    slopes = alibi_slopes(8)
    for case, name in (((q, k), "windowed"), ((q[:, :, :-1], k[:, :, :-1]), "mask"), ((q[:, :, :500], k), "mask")):
        assert choose_backend(*case, slopes, causal=False).name == name
    short = k[:, :, :-1]
    alibi_attention(short, short, short, slopes, causal=False)
    monkeypatch.setattr(AlibiBias, "_build", None)  # the second call uses the bias of the first
    monkeypatch.setattr(AttentionInputs, "bias", None)
    alibi_attention(short, short, short, slopes, causal=False)


def test_without_bias_encoders_need_no_mask() -> None:
    q, k, v = unit_normal(1, 2, 3000, 3000, 4)
    with LargestTensor() as largest:
        output = alibi_attention(q, k, v, None, causal=False)
    assert largest.numel < 3000 * 3000
    assert torch.allclose(output, scaled_dot_product_attention(q, k, v), atol=1e-12)
