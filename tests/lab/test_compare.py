"""A comparison over seeds: its table, verdicts, LaTeX and curves, what it resumes, and what it refuses."""

import json
import math
import re
import statistics
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from alibi_viz import lab, laws
from alibi_viz.figures.curves import curve_figure
from alibi_viz.lab.compare import Comparison
from tests.lab.comparison_settings import TINY
from tests.lab.test_runs import steep
from tests.tables import table

compare_module = sys.modules["alibi_viz.lab.compare"]  # lab.compare is the function


def compared(values: dict[str, dict[int, list[float]]]) -> Comparison:
    """A comparison with these values: {label: {x: one per seed}}."""
    seeds = {
        label: [{x: each[n] for x, each in xs.items() if n < len(each)} for n in range(4)]
        for label, xs in values.items()
    }
    return Comparison(table("longer windows", seeds, length=64), tuple(values), lab.Run("alibi"), "a text")


def test_runs_of_one_method_with_other_labels_stay_out_of_its_curves() -> None:
    """A table may hold more than was compared: here, the same method with eight heads, as trained and changed."""
    rows = table("longer windows", {"alibi": [{64: 2.0, 128: 2.0}], "alibi, 8 heads": [{64: 1.0, 128: 1.0}]}, length=64)
    rows = pd.concat([rows.assign(method="alibi"), rows.assign(method="alibi", variant="window")], ignore_index=True)
    compared = Comparison(rows, ("alibi",), lab.Run("alibi"), "a text")
    assert compared.curves == {"alibi": ["alibi, window"]} and compared.differences["first"].unique() == [
        "alibi, window"
    ]


def test_table_and_curves_have_every_method_seed_and_variant(comparison: Comparison, folder: Path) -> None:
    assert comparison.curves == {
        "alibi": ["alibi, window", "alibi, window and sinks", "alibi, slopes interpolated"],
        "rotary": ["rotary, window", "rotary, pi", "rotary, ntk", "rotary, yarn"],
        "square_root": ["square_root, window", "square_root, window and sinks"],
    }
    pd.testing.assert_frame_equal(
        lab.read_results(folder).drop(columns="origin").sort_values(list(lab.COLUMNS)[1:], ignore_index=True),
        comparison.table.drop(columns="origin").sort_values(list(lab.COLUMNS)[1:], ignore_index=True),
    )
    rows = comparison.rows(["rotary, yarn"])
    assert (set(rows["variant"]), set(rows["seed"]), set(rows["x"])) == ({"yarn"}, {0, 1, 2}, {16, 32})
    assert comparison.summary.loc[("rotary, yarn", 32), "mean"] == pytest.approx(rows[rows["x"] == 32]["value"].mean())
    with pytest.raises(ValueError, match=r"curves must be some of alibi, .*, got 'rotary, yarrn'"):
        comparison.rows(["rotary", "rotary, yarrn"])


def test_differences_are_paired_by_seed_and_decided_by_their_interval() -> None:
    first, second = [2.0, 2.1, 2.3], [2.1, 2.0, 2.4]
    rows = compared({"a": {64: first, 128: [2.0, 2.0, 2.1]}, "b": {64: second, 128: [3.0, 3.1, 3.3]}}).differences
    each = [a - b for a, b in zip(first, second, strict=True)]
    assert rows["mean"][0] == pytest.approx(statistics.mean(each))
    assert rows["half_width"][0] == pytest.approx(4.302653 * statistics.stdev(each) / math.sqrt(3), rel=1e-5)
    assert rows["verdict"].tolist() == ["undecided", "lower"]


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ([1.0, 1.1, 1.2], [2.0, 2.1, 2.2], "lower"),
        ([2.0, 2.1, 2.2], [1.0, 1.1, 1.2], "higher"),
        ([1.0, 1.1], [2.0, 2.1], "undecided"),
        ([1.0], [2.0], "undecided"),
        ([2.0, 2.0, 2.0], [2.0, 2.0, 2.0], "undecided"),
        ([2.0, 1.0, 1.9], [2.1, 3.0, 2.0], "undecided"),  # lower in every seed, but how much differs
        ([1.0, 1.1, 1.2, math.nan], [2.0, 2.1, 2.2], "lower"),  # the seed that is not defined is left out
    ],
)
def test_a_difference_is_decided_with_three_seeds_and_an_interval_without_zero(
    first: list[float], second: list[float], verdict: str
) -> None:
    comparison = compared({"a": {64: first}, "b": {64: second}, "c": {64: [math.nan] * 3}})
    assert comparison.differences[["second", "verdict", "seeds"]].values.tolist() == [
        ["b", verdict, min(3, len(first))]
    ]
    sentence, last = comparison.verdicts
    assert re.match(rf"a against b: {verdict} at 64 \([+-]?\d\.\d\d\d", sentence)
    assert ("fewer than 3 seeds" in last) == (len(first) < 3)


def test_changed_models_are_compared_with_their_method_beyond_the_training_length(comparison: Comparison) -> None:
    rows = comparison.differences.set_index(["first", "second"])
    pairs = list(rows.index.unique())
    assert pairs[:3] == [("alibi", "rotary"), ("alibi", "square_root"), ("rotary", "square_root")] and len(pairs) == 12
    assert rows.loc[[("rotary, yarn", "rotary")]]["x"].tolist() == [32]
    assert len(comparison.verdicts) == 12 + 1 and '"rotary, yarn" against rotary: ' in "".join(comparison.verdicts)


def test_the_latex_table_has_a_line_per_curve_and_is_escaped(comparison: Comparison) -> None:
    lines = comparison.latex().splitlines()
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert len(body) == 3 + 9 and all(line.count("&") == 2 and line.endswith(r"\\") for line in body)
    mean, half = comparison.summary.loc[("alibi", 32), ["mean", "half_width"]]
    assert body[0].startswith("alibi &") and f"{mean:.3f} ± {half:.3f}" in body[0]
    assert any(line.startswith(r"\quad window and sinks &") for line in body)
    assert "my text.txt" in comparison.latex() and r"95\% t interval" in comparison.latex()
    assert comparison.latex().count("{") == comparison.latex().count("}")


def test_the_figure_has_the_means_and_intervals_of_the_summary(comparison: Comparison) -> None:
    figure = curve_figure(comparison.rows(["rotary", "rotary, yarn"]), comparison.axes)
    means = [trace for trace in figure.data if trace.visible and trace.showlegend]
    assert [trace.name for trace in means] == ["rotary", "rotary, yarn"]
    summary = comparison.summary.loc["rotary, yarn"]
    np.testing.assert_allclose(means[1].y, summary["mean"])
    np.testing.assert_allclose(means[1].error_y.array, summary["half_width"])
    assert "95% t interval" in comparison.axes.title and "3 seeds" in comparison.axes.title


def test_what_is_saved_is_read_back(comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("pyarrow") is None:
        with pytest.raises(
            ImportError, match=r"results\.parquet is not written, .* pip install 'alibi-viz\[parquet\]'"
        ):
            comparison.save(tmp_path)
    else:
        comparison.save(tmp_path)
        read = pd.read_parquet(tmp_path / "results.parquet").astype(lab.COLUMNS)
        pd.testing.assert_frame_equal(read, comparison.table.reset_index(drop=True))
    read = pd.read_csv(tmp_path / "results.csv", keep_default_na=False, na_values={"value": [""]})
    pd.testing.assert_frame_equal(read.astype(lab.COLUMNS), comparison.table.reset_index(drop=True))
    assert (tmp_path / "results.tex").read_text() == comparison.latex()
    assert (tmp_path / "verdicts.txt").read_text().splitlines() == comparison.verdicts


def test_a_second_call_trains_only_what_is_missing(
    comparison: Comparison, folder: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["alibi_viz.lab.sweep"], "measure", lambda run: pytest.fail(f"{run} again"))
    again = lab.compare(["alibi", "rotary", laws.square_root], seeds=3, text=text, out=folder, **TINY)
    pd.testing.assert_frame_equal(again.table, comparison.table)
    fewer = lab.compare(["rotary"], seeds=2, text=text, out=folder, **TINY)
    assert (set(fewer.table["label"]), fewer.seeds) == ({"rotary"}, 2)


def test_a_seed_that_diverges_is_named_and_left_out(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverging(runs: list[lab.Run], *_: object, **__: object) -> list[dict[str, Any]]:
        first, second = map(lab.measure, runs)
        return [{**first, "answers": [], "error": "the loss became nan"}, second]

    monkeypatch.setattr(compare_module, "sweep", diverging)
    failed = lab.compare(["alibi", "none"], seeds=1, text=text, **TINY)
    assert failed.verdicts[0] == "alibi, seed 0, is left out: the loss became nan."
    assert re.search(r"\nalibi +& -- & -- \\\\\n", failed.latex())
    assert set(failed.rows()["label"]) == {"none"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 4}, "has runs with steps=3, not 4: use another results folder"),
        ({"length": 17}, "has runs with length=16, not 17"),
        ({"longest": 4}, "has runs with longest=2, not 4"),
        ({"text": None}, r"has runs with path='.*my text\.txt', not None"),
        ({"methods": [steep(1.0)], "folder": steep(2.0)}, "'law' has changed since runs in .* were made"),
    ],
)
@pytest.mark.usefixtures("comparison")
def test_a_folder_whose_runs_differ_in_one_setting_is_refused(
    settings: dict[str, Any], message: str, folder: Path, text: Path, tmp_path: Path
) -> None:
    if law := settings.pop("folder", None):
        folder = tmp_path
        lab.compare([law], seeds=1, text=text, out=folder, **TINY)
    before = sorted(folder.iterdir())
    with pytest.raises(ValueError, match=message):
        lab.compare(**{"methods": ["alibi"], "text": text, "out": folder, **TINY, **settings})
    assert sorted(folder.iterdir()) == before


@pytest.mark.usefixtures("comparison")
def test_a_folder_that_lacks_an_evaluation_is_refused(folder: Path, text: Path, tmp_path: Path) -> None:
    path = next(folder.glob("*rotary-seed-0*"))
    record = json.loads(path.read_text())
    record["answers"] = [answer for answer in record["answers"] if answer[0] != "yarn"]
    (tmp_path / path.name).write_text(json.dumps(record))
    with pytest.raises(ValueError, match="without the evaluation yarn: use another results folder"):
        lab.compare(["rotary"], text=text, out=tmp_path, **TINY)


def table_of_160(distance: Tensor, head: int, num_heads: int) -> Tensor:
    return -torch.arange(160.0)[distance]


def logarithm(distance: Tensor, head: int, num_heads: int) -> Tensor:
    return distance.float().log()


@pytest.mark.parametrize(
    ("methods", "settings", "message"),
    [
        ([], {}, "give at least one position method"),
        (["alibi", "alibi"], {}, "two methods are called 'alibi'"),
        (["alibi"], {"longest": 4096}, "is too short to test at length 65,552"),
        (["alibi", table_of_160], {"longest": 16}, "law 'table_of_160', head 1 of 8: IndexError: index 160 is out of"),
        (["alibi", logarithm], {}, "law 'logarithm', head 1 of 8: the bias at distance 0 is -inf"),
    ],
)
def test_what_can_not_be_compared_is_refused_before_anything_is_written(
    methods: list[Any], settings: dict[str, Any], message: str, text: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        lab.compare(methods, text=text, out=tmp_path / "out", **{**TINY, **settings})
    assert not (tmp_path / "out").exists()
