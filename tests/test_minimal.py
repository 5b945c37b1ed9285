"""The sixty lines that the other tests trust, compared with numbers that were computed by hand."""

import math

import pytest
import torch

from alibi_viz import minimal


def test_slopes_are_those_of_the_paper() -> None:
    assert minimal.slopes(8) == [2.0**-head for head in range(1, 9)]
    assert minimal.slopes(1) == [2.0**-8] and minimal.slopes(6) == [
        0.25,
        0.0625,
        0.015625,
        0.00390625,
        0.5,
        0.125,
    ]
    assert minimal.slopes(12)[8:] == pytest.approx([0.70711, 0.35355, 0.17678, 0.08839], abs=5e-6)


def test_bias_grows_with_the_distance_and_hides_the_future() -> None:
    inputs = torch.tensor([0.5]), torch.tensor([2]), torch.tensor([0, 1, 2, 3])
    assert minimal.bias(*inputs).tolist() == [[[-1.0, -0.5, 0.0, -math.inf]]]
    assert minimal.bias(*inputs, causal=False).tolist() == [[[-1.0, -0.5, 0.0, -0.5]]]


def test_attention_divides_the_content_by_the_root_of_head_dim_but_not_the_bias() -> None:
    query, key = torch.full((1, 1, 1, 4), 2.0), torch.tensor([[0.0] * 4, [1.0] * 4])[None, None]
    value = torch.tensor([[1.0] * 4, [0.0] * 4])[None, None]
    output, weights = minimal.attention(
        query, key, value, torch.tensor([[[3.0, 0.0]]])
    )  # logits 3 and 8 / 2 = 4
    assert weights[0, 0, 0].tolist() == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e)])
    assert output[0, 0, 0].tolist() == pytest.approx([1 / (1 + math.e)] * 4)


def test_attention_of_a_query_that_sees_no_key_is_zero() -> None:
    tensor = torch.ones(1, 1, 2, 2, requires_grad=True)
    output, weights = minimal.attention(
        tensor, tensor, tensor, torch.tensor([[[-math.inf] * 2, [0.0, -math.inf]]])
    )
    assert (output.tolist(), weights.tolist()) == (
        [[[[0.0, 0.0], [1.0, 1.0]]]],
        [[[[0.0, 0.0], [1.0, 0.0]]]],
    )
    output.sum().backward()
    assert tensor.grad is not None and tensor.grad.isfinite().all()


def test_decoding_token_by_token_equals_causal_attention() -> None:
    query, key, value = torch.randn(3, 2, 3, 12, 4, dtype=torch.float64)
    slopes, positions = torch.tensor(minimal.slopes(3)), torch.arange(12)
    expected, _ = minimal.attention(query, key, value, minimal.bias(slopes, positions, positions))
    assert torch.allclose(minimal.decode(query, key, value, slopes), expected, atol=1e-12)
    assert minimal.decode(query.float(), key.float(), value.float(), slopes).dtype == torch.float32
    assert minimal.decode(*torch.zeros(3, 1, 3, 4, 4, device="meta"), slopes.to("meta")).is_meta
