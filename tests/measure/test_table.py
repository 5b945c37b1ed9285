"""Means with intervals over seeds, compared with their definition."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import sem, t

from alibi_viz import lab
from alibi_viz.measure.table import over_seeds, results_table
from tests.tables import table

VALUES = st.lists(st.one_of(st.floats(-10, 10), st.just(math.nan)), min_size=1, max_size=6)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(results_table([]), id="without rows"),
        pytest.param(table("gap", {"alibi": [{1: 2.0}]}), id="with rows"),
    ],
)
def test_a_table_has_the_documented_columns_and_dtypes(rows: pd.DataFrame) -> None:
    assert {name: str(dtype) for name, dtype in rows.dtypes.items()} == lab.COLUMNS


@given(st.dictionaries(st.tuples(st.sampled_from("abc"), st.integers(1, 99)), VALUES, min_size=1))
def test_each_group_has_mean_and_t_interval_of_its_defined_values(
    groups: dict[tuple[str, int], list[float]],
) -> None:
    rows = []
    for (label, x), values in groups.items():
        for seed, value in enumerate(values):
            rows.append((label, seed, x, value))
    summary = over_seeds(
        pd.DataFrame(rows, columns=["label", "seed", "x", "value"]), limits=(-9.0, 9.0)
    )
    assert list(summary.index) == list(groups), "in the order of the rows"
    for group, values in groups.items():
        row = summary.loc[group]
        defined = [value for value in values if not math.isnan(value)]
        assert row["seeds"] == len(defined)
        assert row["mean"] == pytest.approx(np.mean(defined) if defined else math.nan, nan_ok=True)
        if len(defined) < 2:
            assert row[["half_width", "low", "high"]].isna().all()
        elif np.ptp(defined) > 1e-6:
            low, high = t.interval(0.95, len(defined) - 1, np.mean(defined), sem(defined))
            assert row["half_width"] == pytest.approx((high - low) / 2)
            assert row["low"] == pytest.approx(max(low, -9))
            assert row["high"] == pytest.approx(min(high, 9))
