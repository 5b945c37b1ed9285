"""Attention that skips keys of negligible weight gives the output and the gradients of full
attention."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from alibi_viz import alibi_attention, alibi_slopes
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.attention.skipping import tiles
from alibi_viz.attention.skipping.spans import attention_spans
from alibi_viz.attention.skipping.windowed import _calls
from alibi_viz.train.training import limited_threads
from tests.attention.cases import (
    HALF,
    assert_equal,
    expected,
    largest_error,
    normal,
    output_and_gradients,
    qkv,
)

SLOPES = (0.0, -0.02, 1e-30, 1e-4, 0.004, 0.05, 0.3, 4.0, 1e4)


@st.composite
def calls(draw: st.DrawFn) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
    key_length = draw(st.integers(1, 330))
    query_length = draw(
        st.sampled_from([key_length, min(key_length, draw(st.integers(0, 5))), key_length // 2 + 1])
    )
    batch, key_heads, group_size = (
        draw(st.integers(0, 3)),
        draw(st.integers(1, 2)),
        draw(st.integers(1, 2)),
    )
    head_dim, heads, seed = (
        draw(st.sampled_from([1, 3, 8])),
        key_heads * group_size,
        draw(st.integers(0, 999)),
    )
    query = draw(st.sampled_from([0.1, 1.0, 10.0])) * normal(
        batch, heads, query_length, head_dim, seed=seed
    )
    key, value = normal(2, batch, key_heads, key_length, head_dim, seed=seed + 1)
    slopes = torch.tensor(
        [draw(st.sampled_from(SLOPES)) for _ in range(heads)], dtype=torch.float64
    )
    return (query, key, value, slopes), {
        "causal": draw(st.booleans()),
        "scale": draw(st.sampled_from([0.7, -1, 0])),
    }


def test_heads_with_equal_spans_share_a_call_when_decoding_grouped_ones_with_those_of_their_key_head_only() -> (
    None
):
    for key_heads, calls in ((4, [(slice(0, 4), 4)]), (2, [(slice(0, 2), 4), (slice(2, 4), 4)])):
        query, key = normal(2, 4, 1, 8), normal(2, key_heads, 900, 8, seed=1)
        assert _calls(AttentionInputs(query, key, key, None), (3, 3, 3, 3)) == calls
        assert (
            largest_error(query, key, key, torch.tensor([2.0, 0.5, 0.1, 0.001]), backend="windowed")
            < 1e-12
        )


@settings(max_examples=60)
@given(call=calls(), threads=st.sampled_from([1, 2, 4]))
def test_output_and_gradients_are_those_of_eager(
    call: tuple[tuple[Tensor, ...], dict[str, Any]], threads: int
) -> None:
    tensors, options = call
    names, learned = ("windowed", "eager"), options["causal"] and options["scale"] != 0
    with limited_threads(threads):
        results = [
            output_and_gradients(tensors, name, learned=learned, **options) for name in names
        ]
    assert_equal(*results, tolerance=1e-9)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("rows", "columns"), [(1700, 1700), (700, 1710), (5, 1700), (1, 1700)])
def test_wide_spans_with_bands_and_neighbors_equal_eager(
    rows: int, columns: int, causal: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "_NARROW", 1024)
    _, key, value = qkv(columns, heads=1, dim=4)
    tensors = (
        0.3 * normal(1, 2, rows, 4, seed=5),
        key,
        value,
        torch.tensor([0.048, 0.001], dtype=torch.float64),
    )
    tolerance = 1e-22  # more than 1024 steps for the first head
    spans = attention_spans(AttentionInputs(*tensors, causal, tolerance=tolerance)).tolist()
    assert 1024 < spans[0] < 0.75 * columns and spans[1] == columns
    with limited_threads(threads):
        results = output_and_gradients(
            tensors, "windowed", learned=causal, causal=causal, tolerance=tolerance
        )
    assert_equal(
        results,
        output_and_gradients(tensors, "eager", learned=causal, causal=causal),
        tolerance=1e-9,
    )


def test_float32_is_exact_to_rounding() -> None:
    single = (*qkv(777, dim=32, dtype=torch.float32), alibi_slopes(4))
    exact = output_and_gradients([tensor.double() for tensor in single], "eager")
    results = output_and_gradients(single, "windowed")
    assert_equal(results[:4], exact[:4], tolerance=5e-6)
    assert_equal(results[4:], exact[4:], tolerance=1e-4)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("causal", [True, False])
def test_half_precision_is_as_exact_as_the_mask(dtype: torch.dtype, causal: bool) -> None:
    tensors = (*qkv(530, dim=32, dtype=dtype), alibi_slopes(4))
    exact = output_and_gradients(
        [t.double() for t in tensors], "eager", learned=False, causal=causal
    )
    results = [
        output_and_gradients(tensors, name, learned=False, causal=causal)
        for name in ("windowed", "mask")
    ]
    for result, other, reference in zip(*results, exact, strict=True):
        assert result.dtype == dtype
        assert float((result.double() - reference).norm()) <= 1.2 * float(
            (other.double() - reference).norm()
        )


def test_the_default_device_does_not_matter() -> None:
    query, *others = (*qkv(530, dim=32, dtype=torch.bfloat16), alibi_slopes(4))
    with torch.device("meta"):
        output = alibi_attention(query.requires_grad_(), *others, backend="windowed")
        assert torch.autograd.grad(output, query, torch.ones_like(output))[0].is_cpu
        assert alibi_attention(query[:, :, -1:].detach(), *others, backend="windowed").is_cpu


def test_extreme_content_is_as_exact_as_the_mask() -> None:
    """Norms of 100: the softmax is almost a maximum, and logits are large."""
    query, key, value = qkv(900, heads=8, dtype=torch.float32)
    tensors = (
        *(100 * each / each.norm(dim=-1, keepdim=True) for each in (query, key)),
        value,
        alibi_slopes(8),
    )
    windowed, mask = (largest_error(*tensors, backend=backend) for backend in ("windowed", "mask"))
    assert windowed <= 1.5 * mask


def test_double_backward_raises() -> None:
    query, key, value = (tensor.requires_grad_() for tensor in qkv(600, heads=1))
    output = alibi_attention(query, key, value, torch.tensor([0.5]), backend="windowed")
    (gradient,) = torch.autograd.grad(output.square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="'windowed' has no second derivatives: use 'eager'"):
        torch.autograd.grad(gradient.sum(), key)


@pytest.mark.parametrize("needed", [(0,), (1,), (2,), (3,), (0, 3)])
def test_only_tensors_that_require_a_gradient_get_one(needed: tuple[int, ...]) -> None:
    tensors, gradients = [*qkv(200, heads=2), torch.tensor([0.5, 0.01], dtype=torch.float64)], []
    for backend in ("windowed", "eager"):
        leaves = [
            t.detach().clone().requires_grad_(index in needed) for index, t in enumerate(tensors)
        ]
        alibi_attention(
            *leaves, backend=backend
        ).sum().backward()  # a gradient that is one expanded number
        assert [leaf.grad is not None for leaf in leaves] == [index in needed for index in range(4)]
        gradients.append([leaf.grad for leaf in leaves if leaf.grad is not None])
    assert_equal(*gradients, tolerance=1e-10)


LAYOUTS = {
    "heads joined": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "channels strided": lambda t: t.transpose(2, 3).contiguous().transpose(2, 3),
    "part of a larger tensor": lambda t: torch.cat((t, t, t), dim=-1)[
        ..., t.shape[-1] : 2 * t.shape[-1]
    ],
    "every second token": lambda t: t.repeat_interleave(2, dim=2)[:, :, ::2],
    "one head for all": lambda t: t[:, :1].expand_as(t),
    "one batch row for all": lambda t: t[:1].expand_as(t),
    "one token for all": lambda t: t[:, :, :1].expand_as(t),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [1, 5])
def test_any_memory_layout_gives_the_output_and_the_gradients_of_eager(
    layout: str, dim: int
) -> None:
    gradients = []
    for backend in ("windowed", "eager"):
        leaves = [tensor.requires_grad_() for tensor in qkv(150, heads=2, dim=dim, batch=2)]
        output = alibi_attention(
            *map(LAYOUTS[layout], leaves), torch.tensor([0.9, 0.01]), backend=backend
        )
        gradients.append([output.detach(), *torch.autograd.grad(output.square().sum(), leaves)])
    assert_equal(*gradients, tolerance=1e-8)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("tensor", [0, 1, 2])
@pytest.mark.parametrize("causal", [True, False])
def test_nan_and_inf_reach_the_rows_that_full_attention_gives_them(
    causal: bool, tensor: int, bad: float
) -> None:
    """inf * 0 is NaN, so eager and the mask differ where a weight rounds to 0, or a key behind the
    query has inf."""
    for slope, first, last in ((0.7, 70, 71), (0.001, 70, 71), (0.7, 0, 1), (0.001, 130, 280)):
        tensors = [t.float() for t in qkv(300, heads=1, dim=4)]
        tensors[0], tensors[1] = (
            tensors[0].abs(),
            tensors[1].abs(),
        )  # so inf in one of them has logits of one sign
        tensors[tensor][:, :, first:last] = bad
        output, eager, mask = (
            alibi_attention(*tensors, torch.tensor([slope]), causal=causal, backend=backend)[0, 0]
            for backend in ("windowed", "eager", "mask")
        )
        equal = [torch.isclose(output, other, atol=1e-5, equal_nan=True) for other in (eager, mask)]
        assert bool((equal[0] | equal[1] | ~(eager.isfinite() | output.isfinite())).all()), (
            first,
            last,
        )
        reached = (
            slice(first, last) if tensor == 0 else slice(first, None) if causal else slice(None)
        )
        assert not math.isnan(bad) or not bool(output[reached].isfinite().any())


def test_a_larger_tolerance_changes_the_output_by_at_most_twice_its_share() -> None:
    tensors, errors = (*qkv(500, heads=2), torch.tensor([0.2, 0.1], dtype=torch.float64)), []
    for tolerance in (1e-1, 1e-3, 1e-6):
        output = alibi_attention(*tensors, backend="windowed", tolerance=tolerance)
        errors.append(float((output - expected(*tensors)).abs().max()))
        assert errors[-1] <= 2 * tolerance * float(tensors[2].abs().max())
    assert errors[0] > 1e-6 > errors[-1] > 0  # so the tolerance does leave something out
