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
from tests.rows import each_case
from tests.tables import table


@each_case(
    "rows",
    {
        "without rows": results_table([]),
        "with rows": table("gap", {"alibi": [{1: 2.0}]}),
    },
)
def test_a_table_has_the_documented_columns_and_dtypes(rows):
    assert {name: str(dtype) for name, dtype in rows.dtypes.items()} == lab.COLUMNS


def summary_of(values, limits=(-math.inf, math.inf)):
    """The one row for the values of several seeds."""
    rows = pd.DataFrame({"label": "alibi", "x": 64, "value": values})
    return over_seeds(rows, limits=limits).loc["alibi", 64]


# The groups

TWO_LABELS = pd.DataFrame(
    [("rope", 64, 1.0), ("alibi", 64, 10.0), ("rope", 32, 5.0), ("rope", 64, 3.0)],
    columns=["label", "x", "value"],
)


def test_each_group_has_the_mean_and_number_of_its_values_in_the_order_of_the_rows():
    summary = over_seeds(TWO_LABELS)
    assert summary["mean"].to_dict() == {("rope", 64): 2.0, ("alibi", 64): 10.0, ("rope", 32): 5.0}
    assert list(summary["mean"]) == [2.0, 10.0, 5.0]
    assert list(summary["seeds"]) == [2, 1, 1]


def test_other_columns_may_make_the_groups():
    summary = over_seeds(TWO_LABELS, by=["label"])
    assert summary["mean"].to_dict() == {"rope": 3.0, "alibi": 10.0}


# The mean, and how many seeds have a value

DEFINED = st.floats(-10, 10)


@given(st.lists(DEFINED, min_size=1, max_size=6), st.integers(0, 3))
def test_the_mean_is_that_of_the_defined_values(defined, undefined):
    summary = summary_of(defined + [math.nan] * undefined)
    assert summary["mean"] == pytest.approx(np.mean(defined))


def test_seeds_are_those_with_a_defined_value():
    assert summary_of([1.0, math.nan, 2.0])["seeds"] == 2
    assert summary_of([math.nan, math.nan])["seeds"] == 0
    assert math.isnan(summary_of([math.nan, math.nan])["mean"])


# The interval

# Multiples of a quarter: they are either equal, or so far apart that rounding does not matter.
QUARTERS = st.integers(-40, 40).map(lambda number: number / 4)


@given(st.lists(QUARTERS, min_size=2, max_size=6).filter(lambda values: len(set(values)) > 1))
def test_the_interval_is_that_of_student_s_t_distribution(values):
    low, high = t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=sem(values))
    summary = summary_of(values)
    assert summary["low"] == pytest.approx(low)
    assert summary["high"] == pytest.approx(high)
    assert summary["half_width"] == pytest.approx((high - low) / 2)


def test_undefined_values_do_not_change_the_interval():
    with_gaps = summary_of([math.nan, 1.0, math.nan, 2.0, 4.0])
    pd.testing.assert_series_equal(with_gaps, summary_of([1.0, 2.0, 4.0]))


def test_nearly_equal_values_have_a_narrow_interval():
    summary = summary_of([1.0, 1.0 + 2e-9])
    # Two values have the standard error of half their difference, and a quantile of 12.706.
    assert summary["half_width"] == pytest.approx(12.706e-9, rel=1e-4)
    assert summary_of([1.3, 1.3, 1.3])["half_width"] == pytest.approx(0, abs=1e-12)


@each_case(
    "values",
    {
        "one seed": [1.0],
        "one seed with a value": [1.0, math.nan],
        "no seed with a value": [math.nan, math.nan],
    },
)
def test_fewer_than_two_values_have_no_interval(values):
    summary = summary_of(values)
    assert summary[["half_width", "low", "high"]].isna().all()


# Without limits, the interval of these values is from 0.5 - 6.353 to 0.5 + 6.353.
WIDE = [0.0, 1.0]


def test_the_interval_ends_at_the_limits_of_the_values():
    summary = summary_of(WIDE, limits=(-1.0, 2.0))
    assert summary[["low", "high"]].tolist() == [-1.0, 2.0]
    assert summary["half_width"] == pytest.approx(6.353, abs=1e-3)


def test_limits_beyond_the_interval_do_not_change_it():
    pd.testing.assert_series_equal(summary_of(WIDE, limits=(-9.0, 9.0)), summary_of(WIDE))
