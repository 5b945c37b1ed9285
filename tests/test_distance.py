import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz.bias import causal_mask, grid_distance, right_aligned

LENGTHS = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted)


@given(LENGTHS)
def test_query_positions_are_the_last_key_positions(lengths: list[int]) -> None:
    queries, keys = right_aligned(*lengths)
    assert queries.dtype == keys.dtype == torch.int64
    assert keys.tolist() == list(range(lengths[1]))
    assert queries.tolist() == list(range(lengths[1] - lengths[0], lengths[1]))


@given(LENGTHS)
def test_causal_mask_equals_its_definition(lengths: list[int]) -> None:
    rows, columns = lengths
    mask = causal_mask(rows, columns)
    assert mask.shape == (rows, columns)
    for i in range(rows):
        for j in range(columns):
            assert bool(mask[i, j]) == (j <= i + columns - rows)


@pytest.mark.parametrize("metric", ["manhattan", "euclidean"])
def test_grid_distance_equals_its_definition(metric: str) -> None:
    height, width = 3, 4
    distance = grid_distance(height, width, metric)
    for first in range(height * width):
        for second in range(height * width):
            rows = abs(first // width - second // width)
            columns = abs(first % width - second % width)
            expected = rows + columns if metric == "manhattan" else math.hypot(rows, columns)
            assert float(distance[first, second]) == pytest.approx(expected, rel=1e-6)


def test_empty_and_single_patch_grids() -> None:
    assert grid_distance(0, 3).shape == (0, 0)
    assert grid_distance(1, 1).tolist() == [[0.0]]


def test_invalid_arguments_raise_with_their_name() -> None:
    with pytest.raises(ValueError, match="at most key_length=2, got 3"):
        right_aligned(3, 2)
    with pytest.raises(ValueError, match="query_length must be at least 0, got -1"):
        right_aligned(-1)
    with pytest.raises(TypeError, match=r"key_length must be an integer, got 2\.0"):
        causal_mask(1, 2.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="metric must be 'manhattan' or 'euclidean', got 'city'"):
        grid_distance(2, 2, "city")
    with pytest.raises(ValueError, match="height must be at least 0, got -1"):
        grid_distance(-1, 2)
