"""The sixty lines that the other tests trust, compared with numbers that were computed by hand."""

import math

import pytest
import torch

from alibi_viz import minimal


def test_slopes_of_a_power_of_two_are_geometric():
    assert minimal.slopes(1) == [1 / 256]
    assert minimal.slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]


def test_slopes_of_other_head_counts_continue_with_those_between():
    assert minimal.slopes(6) == [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]
    assert minimal.slopes(12)[8:] == pytest.approx([0.70711, 0.35355, 0.17678, 0.08839], abs=5e-6)


def test_bias_grows_with_the_distance_and_hides_the_future():
    bias = minimal.bias(torch.tensor([0.5]), torch.tensor([2]), torch.arange(4))
    assert bias.tolist() == [[[-1.0, -0.5, 0.0, -math.inf]]]


def test_bias_of_the_symmetric_form_grows_on_both_sides():
    bias = minimal.bias(torch.tensor([0.5]), torch.tensor([2]), torch.arange(4), causal=False)
    assert bias.tolist() == [[[-1.0, -0.5, 0.0, -0.5]]]


def test_attention_divides_the_content_by_the_root_of_head_dim_but_not_the_bias():
    query = torch.full((1, 1, 1, 4), 2.0)
    key = torch.tensor([[0.0] * 4, [1.0] * 4])[None, None]
    value = torch.tensor([[1.0] * 4, [0.0] * 4])[None, None]
    bias = torch.tensor([[[3.0, 0.0]]])
    output, weights = minimal.attention(query, key, value, bias)
    # The logits are 0 / 2 + 3 = 3 and 8 / 2 + 0 = 4.
    assert weights[0, 0, 0].tolist() == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e)])
    assert output[0, 0, 0].tolist() == pytest.approx([1 / (1 + math.e)] * 4)


def test_attention_of_a_query_that_sees_no_key_is_zero():
    tensor = torch.ones(1, 1, 2, 2, requires_grad=True)
    bias = torch.tensor([[[-math.inf, -math.inf], [0.0, -math.inf]]])
    output, weights = minimal.attention(tensor, tensor, tensor, bias)
    assert output.tolist() == [[[[0.0, 0.0], [1.0, 1.0]]]]
    assert weights.tolist() == [[[[0.0, 0.0], [1.0, 0.0]]]]

    (gradient,) = torch.autograd.grad(output.sum(), tensor)
    assert bool(gradient.isfinite().all())


def test_decoding_token_by_token_equals_causal_attention():
    query, key, value = torch.randn(3, 2, 3, 12, 4, dtype=torch.float64)
    slopes = torch.tensor(minimal.slopes(3))
    positions = torch.arange(12)
    expected, _ = minimal.attention(query, key, value, minimal.bias(slopes, positions, positions))
    assert torch.allclose(minimal.decode(query, key, value, slopes), expected, atol=1e-12)


def test_decoding_keeps_the_dtype():
    query, key, value = torch.randn(3, 1, 3, 4, 4)
    assert minimal.decode(query, key, value, torch.ones(3)).dtype == torch.float32


def test_decoding_keeps_the_device():
    query, key, value = torch.zeros(3, 1, 3, 4, 4, device="meta")
    assert minimal.decode(query, key, value, torch.ones(3, device="meta")).is_meta
