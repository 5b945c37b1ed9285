"""Padded tokens get zeros, and change nothing else."""

import pytest
import torch

from alibi_viz import alibi_attention, alibi_slopes
from tests.attention.cases import MASKING, normal, qkv


@pytest.fixture
def padded_left():
    """Five real tokens after three that are padding, with large numbers in them."""
    padding = 1e6 * normal(1, 2, 3, 16)
    q, k, v = (torch.cat((padding, tensor), dim=2) for tensor in qkv(5, heads=2))
    is_real = torch.tensor([[False] * 3 + [True] * 5])
    return {"query": q, "key": k, "value": v, "key_padding_mask": is_real}


@pytest.mark.parametrize("backend", MASKING)
def test_padded_tokens_get_zeros_and_change_nothing_else(padded_left, backend):
    output = alibi_attention(**padded_left, slopes=alibi_slopes(2), backend=backend)
    without_padding = alibi_attention(*qkv(5, heads=2), alibi_slopes(2))
    assert torch.allclose(output[:, :, 3:], without_padding, atol=1e-9)
    assert not output[:, :, :3].any()


@pytest.mark.parametrize("backend", MASKING)
def test_gradients_of_padded_tokens_are_finite(padded_left, backend):
    slopes = alibi_slopes(2).requires_grad_()
    trained = [padded_left[name].requires_grad_() for name in ("query", "key", "value")]
    output = alibi_attention(**padded_left, slopes=slopes, backend=backend)
    gradients = torch.autograd.grad(output.square().sum(), [*trained, slopes])
    for gradient in gradients:
        assert bool(gradient.isfinite().all())


def test_too_small_a_scale_to_hide_padding_is_refused():
    q = torch.full((1, 1, 3, 64), 100.0).half()
    is_real = torch.tensor([[False, True, True]])
    with pytest.raises(ValueError, match="a scale of 1e-08 is too small to hide padded keys"):
        alibi_attention(q, q, q, None, key_padding_mask=is_real, scale=1e-8, backend="folded")
