"""The smallest windows of given weights, and the share that windows leave out."""

import math

import pytest
import torch
from alibi_viz.attention.windows import key_windows, needed_windows, share_left_out
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from alibi_viz import attention_trace
from alibi_viz.attention.inputs import AttentionInputs
from tests.attention.test_windows import calls, normal, share_beyond


def loop_window(weights: Tensor, tolerance: float) -> int:
    """The smallest window of one head, weights [batch, query, key], by trying all."""
    batch, rows, columns = weights.shape
    for window in range(columns + 1):
        fits = True
        for b in range(batch):
            for row in range(rows):
                position, beyond = row + columns - rows, 0.0
                for column in range(columns):
                    if abs(position - column) > window:
                        beyond += float(weights[b, row, column])
                fits = fits and beyond <= tolerance
        if fits:
            return window
    raise AssertionError("no key is further away than the number of keys")


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("rows", [1, 4, 9])
def test_windows_of_the_trace_are_the_smallest(rows: int, causal: bool) -> None:
    query, key = normal(2, 3, rows, 4), normal(2, 3, 9, 4, seed=1)
    trace = attention_trace(query, key, torch.tensor([2.0, 0.4, 0.0]), causal=causal)
    for tolerance in (0.3, 1e-2, 1e-5):
        expected = tuple(loop_window(trace.weights[:, head], tolerance) for head in range(3))
        assert trace.windows(tolerance) == expected


@given(calls())
def test_windows_of_the_trace_are_at_most_those_of_the_bound_and_minimal(inputs: AttentionInputs) -> None:
    query, key, _, slopes, causal = inputs[:5]
    trace = attention_trace(query.double(), key.double(), slopes, causal=causal, scale=inputs.scale)
    tolerance = torch.finfo(query.dtype).eps / 2 if inputs.tolerance is None else inputs.tolerance
    smallest, bound = trace.windows(2 * tolerance), key_windows(inputs)  # twice: for the rounding of sums in float64
    assert all(one <= other for one, other in zip(smallest, bound, strict=True)), (smallest, bound)
    exact = trace.windows(tolerance)
    for head, window in enumerate(exact):
        if window and tolerance > 1e-12:
            less = tuple(w - (h == head) for h, w in enumerate(exact))
            assert float(share_beyond(inputs, less)[head]) > tolerance * (1 - 1e-9)
            assert float(share_beyond(inputs, exact)[head]) <= tolerance * (1 + 1e-9)


@pytest.mark.parametrize(("batch", "rows", "columns"), [(0, 3, 5), (2, 0, 5), (2, 0, 0)])
def test_windows_of_a_trace_without_queries_are_zero(batch: int, rows: int, columns: int) -> None:
    trace = attention_trace(torch.zeros(batch, 2, rows, 4), torch.zeros(batch, 2, columns, 4), torch.ones(2))
    assert trace.windows() == (0, 0)


def test_smallest_windows_of_weights_with_nan_are_all_keys() -> None:
    weights = torch.eye(4)[None, None].repeat(1, 2, 1, 1)
    weights[0, 1, 2, 1] = math.nan
    assert needed_windows(weights, 1e-6) == (0, 4)


@given(length=st.integers(1, 30), rows=st.integers(1, 30), window=st.integers(0, 40), causal=st.booleans())
def test_share_left_out_counts_pairs(length: int, rows: int, window: int, causal: bool) -> None:
    rows = min(rows, length)
    query, key = torch.zeros(1, 2, rows, 1), torch.zeros(1, 2, length, 1)
    visible = seen = 0
    for i in range(length - rows, length):
        for j in range(length if not causal else i + 1):
            visible += 2
            seen += 1 + (abs(i - j) <= window)  # the first head sees everything
    share = share_left_out(AttentionInputs(query, key, key, None, causal=causal), (length, window))
    assert share == pytest.approx(1 - seen / visible)
