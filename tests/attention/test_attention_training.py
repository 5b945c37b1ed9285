"""Attention in training: gradients, dropout, and tensors made without autograd."""

from contextlib import contextmanager
from functools import partial

import pytest
import torch

from alibi_viz import alibi_attention, alibi_slopes
from tests.attention.cases import MASKING, assert_equal, largest_error, output_and_gradients, qkv
from tests.rows import each_case


@each_case(
    ("backend", "causal", "length", "learned"),
    {
        "mask": ("mask", True, 5, False),
        "mask in blocks": ("mask", True, 600, False),
        "mask, learned slopes": ("mask", True, 600, True),
        "mask in both directions": ("mask", False, 600, True),
        "folded": ("folded", True, 600, False),
        "folded, learned slopes": ("folded", True, 600, True),
    },
)
def test_gradients_equal_those_of_eager(backend, *, causal, length, learned):
    """The gradients of eager, by autograd, equal those of windowed, by hand: see
    test_windowed.py."""
    tensors = (*qkv(length, heads=2, dim=4), alibi_slopes(2).double())
    results = output_and_gradients(tensors, backend, learned=learned, causal=causal)
    exact = output_and_gradients(tensors, "eager", learned=learned, causal=causal)
    assert_equal(results, exact, tolerance=1e-9)


@pytest.mark.parametrize("backend", MASKING)
@each_case(
    "shape",
    {
        "empty batch": (0, 4, 3, 8),
        "no tokens": (2, 4, 0, 8),
    },
)
def test_learned_slopes_have_a_gradient_without_any_query(backend, shape):
    slopes = alibi_slopes(4).requires_grad_()
    q = torch.zeros(shape)
    alibi_attention(q, q, q, slopes, backend=backend).sum().backward()
    assert slopes.grad is not None
    assert not slopes.grad.any()


@each_case(
    ("backend", "trained"),
    {
        "auto, inputs": ("auto", ("query", "key", "value")),
        "windowed, inputs": ("windowed", ("query", "key", "value")),
        "mask, slopes": ("mask", ("slopes",)),
        "windowed, slopes": ("windowed", ("slopes",)),
        "folded, slopes": ("folded", ("slopes",)),
    },
)
def test_tensors_made_in_inference_mode_serve_the_training_of_others(trained, backend):
    with torch.inference_mode():
        q, k, v = (tensor.clone() for tensor in qkv(100, dtype=torch.float32))
        tensors = {"query": q, "key": k, "value": v, "slopes": alibi_slopes(4).clone()}
    for name in trained:
        tensors[name] = tensors[name].clone().requires_grad_()
    leaves = [tensors[name] for name in trained]

    def gradients(backend):
        loss = alibi_attention(**tensors, backend=backend).square().sum()
        return torch.autograd.grad(loss, leaves)

    assert_equal(gradients(backend), gradients("eager"), tolerance=1e-4)


@contextmanager
def bfloat16_by_default():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@each_case(
    ("setting", "causal"),
    {
        "inference mode": (torch.inference_mode, True),
        "inference mode, both directions": (torch.inference_mode, False),
        "meta device": (partial(torch.device, "meta"), True),
        "bfloat16 by default": (bfloat16_by_default, False),
    },
)
def test_cached_bias_does_not_depend_on_the_first_callers_setting(setting, *, causal):
    q, k, v = qkv(100, dtype=torch.float32)
    slopes = torch.rand(4)  # which no other test has cached
    with setting():
        alibi_attention(q, k, v, slopes, causal=causal)
        alibi_attention(q[:, :, -1:], k, v, slopes, causal=causal)

    assert largest_error(q, k, v, slopes, causal=causal) < 5e-6
    results = output_and_gradients((q, k, v, slopes), "auto", causal=causal)
    exact = output_and_gradients((q, k, v, slopes), "eager", causal=causal)
    assert_equal(results, exact, tolerance=1e-4)


@pytest.mark.parametrize("backend", MASKING)
def test_dropout_zeroes_weights_and_preserves_their_mean(backend):
    q, k, _ = qkv(8, heads=1, dim=4)
    v = torch.eye(8, dtype=torch.float64)[None, None, :, :4]  # so the output is the weights
    attention = partial(alibi_attention, q, k, v, alibi_slopes(1))
    runs = torch.stack([attention(dropout=0.5, backend=backend) for _ in range(400)])
    is_visible = attention() > 0
    assert bool((runs == 0)[:, is_visible].any())
    # A weight w becomes 0 or 2 w, so the mean of 400 runs deviates by w / 20. This is six times it.
    assert torch.allclose(runs.mean(0), attention(), atol=0.3)
