"""Means with intervals over seeds, and differences that are decided or undecided, compared with the formulas."""

import math
import statistics

import numpy as np
import pandas as pd
import pytest

from alibi_viz.lab.intervals import differences, differences_in_words, over_seeds

VALUES = {"a": {64: [2.0, 2.1, 2.3], 128: [2.0, 2.0, 2.1]}, "b": {64: [2.1, 2.0, 2.4], 128: [3.0, 3.1, 3.3]}}


def table(values: dict[str, dict[int, list[float]]]) -> pd.DataFrame:
    rows = [(c, s, x, v) for c, xs in values.items() for x, each in xs.items() for s, v in enumerate(each)]
    return pd.DataFrame(rows, columns=["curve", "seed", "x", "value"])


def test_an_interval_is_the_mean_and_t_times_the_standard_error() -> None:
    summary = over_seeds(table(VALUES))
    assert list(summary.index) == [("a", 64), ("a", 128), ("b", 64), ("b", 128)]
    for (curve, x), row in summary.iterrows():
        seeds = VALUES[curve][x]
        assert row["mean"] == pytest.approx(statistics.mean(seeds))
        assert row["half_width"] == pytest.approx(4.302653 * statistics.stdev(seeds) / math.sqrt(3), rel=1e-5)
        assert row["seeds"] == 3


def test_95_of_100_intervals_contain_the_true_mean() -> None:
    draws = np.random.default_rng(0).normal(5.0, 2.0, (2000, 4))
    summary = over_seeds(table({str(number): {64: list(draw)} for number, draw in enumerate(draws)}))
    covered = (summary["mean"] - 5.0).abs() <= summary["half_width"]
    assert 0.935 < covered.mean() < 0.965


def test_differences_are_paired_by_seed() -> None:
    result = differences(table(VALUES), [("a", "b")])
    each = [a - b for a, b in zip(VALUES["a"][64], VALUES["b"][64], strict=True)]
    assert result["mean"][0] == pytest.approx(statistics.mean(each))
    assert result["half_width"][0] == pytest.approx(4.302653 * statistics.stdev(each) / math.sqrt(3), rel=1e-5)
    assert result["verdict"].tolist() == ["undecided", "lower"]
    swapped = differences(table(VALUES), [("b", "a")])
    assert swapped["verdict"].tolist() == ["undecided", "higher"]
    assert swapped["mean"].tolist() == pytest.approx((-result["mean"]).tolist())


def test_a_difference_is_undecided_where_its_interval_contains_zero_or_there_are_fewer_than_three_seeds() -> None:
    def verdict(first: list[float], second: list[float]) -> str:
        (only,) = differences(table({"a": {64: first}, "b": {64: second}}), [("a", "b")])["verdict"]
        return only

    assert verdict([1.0, 1.1, 1.2], [2.0, 2.1, 2.2]) == "lower"
    assert verdict([1.0, 1.1], [2.0, 2.1]) == "undecided"
    assert verdict([1.0], [2.0]) == "undecided"
    assert verdict([2.0, 2.0, 2.0], [2.0, 2.0, 2.0]) == "undecided"
    assert verdict([2.0, 1.0, 1.9], [2.1, 3.0, 2.0]) == "undecided"  # lower in every seed, but how much differs


def test_a_seed_that_is_missing_or_not_defined_is_left_out() -> None:
    values = {"a": {64: [1.0, 1.1, 1.2, math.nan]}, "b": {64: [2.0, 2.1, 2.2]}, "c": {64: [math.nan] * 4}}
    result = differences(table(values), [("a", "b"), ("a", "c"), ("a", "unknown")])
    assert result[["second", "seeds"]].values.tolist() == [["b", 3]]
    summary = over_seeds(table(values))
    assert summary["seeds"].tolist() == [3, 3, 0]
    assert math.isnan(summary["mean"].iloc[2])


def test_differences_in_words_name_every_length_once() -> None:
    first, last = differences_in_words(differences(table(VALUES), [("a", "b")]))
    assert first == "a against b: lower at 128 (-1.100 ± 0.248); undecided at 64 (-0.033 ± 0.287)."
    assert last == "1 of 2 differences is decided; by chance alone it would be 0.1, if no two curves truly differed."
    assert differences_in_words(differences(table(VALUES), [])) == []


def test_one_seed_has_no_interval() -> None:
    assert math.isnan(over_seeds(table({"a": {64: [1.0]}}))["half_width"].iloc[0])
    words = differences_in_words(differences(table({"a": {64: [1.0]}, "a, b": {64: [2.0]}}), [("a, b", "a")]))
    assert words == [
        '"a, b" against a: undecided at 64 (+1.000).',
        "With fewer than 3 seeds, every difference is undecided.",
    ]
