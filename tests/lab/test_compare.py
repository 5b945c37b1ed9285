"""A comparison over seeds: its table, verdicts, LaTeX and panels, what it resumes, and what it refuses."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from alibi_viz import lab, laws, study
from alibi_viz.figures import panel_figure
from alibi_viz.lab.compare import Comparison
from tests.lab.comparison_settings import TINY

compare_module = sys.modules["alibi_viz.lab.compare"]  # lab.compare is the function


def longer_windows(comparison: Comparison, label: str, evaluated: str = "as trained") -> pd.DataFrame:
    table = comparison.table
    rows = table[(table["question"] == "longer windows") & (table["label"] == label)]
    return rows[rows["evaluated"] == evaluated].pivot(index="seed", columns="x", values="value")


def test_table_has_every_method_seed_and_variant(comparison: Comparison, folder: Path) -> None:
    assert list(comparison.table.columns) == list(lab.COLUMNS)
    assert comparison.variants == {
        "alibi": ["window", "window and sinks", "slopes interpolated"],
        "rotary": ["window", "pi", "ntk", "yarn"],
        "square_root": ["window", "window and sinks"],
    }
    saved = lab.read_results(folder)
    assert len(saved) == len(comparison.table)
    assert longer_windows(comparison, "rotary", "yarn").shape == (3, 2)


def test_summary_is_the_mean_over_seeds(comparison: Comparison) -> None:
    for curve, label, evaluated in (("alibi", "alibi", "as trained"), ("rotary, yarn", "rotary", "yarn")):
        expected = longer_windows(comparison, label, evaluated).mean()
        np.testing.assert_allclose(comparison.summary.loc[curve]["mean"], expected)


def test_differences_are_between_methods_and_beyond_the_training_length_between_variants(
    comparison: Comparison,
) -> None:
    rows = comparison.differences.set_index(["first", "second", "x"]).sort_index()
    expected = longer_windows(comparison, "alibi") - longer_windows(comparison, "rotary")
    np.testing.assert_allclose(rows.loc[("alibi", "rotary")]["mean"], expected.mean(), atol=1e-9)
    pairs = {(first, second) for first, second, _ in rows.index}
    assert {("alibi", "rotary"), ("alibi", "square_root"), ("rotary", "square_root")} <= pairs
    assert len(pairs) == 3 + 3 + 4 + 2
    assert [x for first, _, x in rows.index if first == "rotary, yarn"] == [32]


def test_verdicts_follow_the_differences(comparison: Comparison) -> None:
    lines = comparison.verdicts
    assert len(lines) == 12 + 1
    for (first, second), rows in comparison.differences.groupby(["first", "second"], sort=False):
        (line,) = (line for line in lines if line.replace('"', "").startswith(f"{first} against {second}:"))
        for verdict, x in zip(rows["verdict"], rows["x"], strict=True):
            clause = next(clause for clause in re.split("[:;]", line) if f"{x} (" in clause)
            assert clause.split()[0] == verdict


def test_published_results_can_be_compared_with_their_variants() -> None:
    published = Comparison(study.published_results(), ("alibi", "rotary"), lab.Run("alibi"), "the built-in text")
    assert published.variants["alibi"] == ["window", "window and sinks", "slopes interpolated"]
    assert published.variants["rotary"] == ["window", "pi", "ntk", "yarn"]
    first = published.differences.query("first == 'alibi' and second == 'rotary' and x == 1024").iloc[0]
    assert (first["verdict"], first["seeds"]) == ("lower", 8)
    assert "rotary" in published.latex()


def test_latex_table_is_balanced_and_escaped(comparison: Comparison) -> None:
    lines = comparison.latex().splitlines()
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert [line.split(" & ")[0] for line in body][-2:] == [r"\quad window", r"\quad window and sinks"]
    assert len(body) == 3 + 9
    assert all(line.count("&") == 2 and line.endswith(r"\\") for line in body)
    mean, half = comparison.summary.loc[("alibi", 32)][["mean", "half_width"]]
    assert f"{mean:.3f} ± {half:.3f}" in body[0]
    caption = next(line for line in lines if line.startswith(r"\caption"))
    assert "my text.txt" in caption and r"95\% t interval over seeds" in caption
    assert comparison.latex().count("{") == comparison.latex().count("}")


def test_panel_has_the_mean_every_seed_and_the_interval(comparison: Comparison) -> None:
    panel = comparison.panel()
    assert list(panel.curves) == ["alibi", "rotary", "square_root"]
    assert "95% t interval" in panel.title
    curves, summary = panel.curves["alibi"], comparison.summary.loc["alibi"]
    assert curves.mean == pytest.approx(summary["mean"].to_dict())
    half_widths = {x: (high - low) / 2 for x, (low, high) in curves.intervals.items()}
    assert half_widths == pytest.approx(summary["half_width"].to_dict())
    assert list(curves.seeds) == longer_windows(comparison, "alibi").to_dict("records")
    figure = panel_figure(comparison.panel(["rotary", "rotary, yarn"]))
    means = [trace for trace in figure.data if trace.visible and trace.showlegend]
    assert [trace.name for trace in means] == ["rotary", "rotary, yarn"]
    np.testing.assert_allclose(means[1].error_y.array, comparison.summary.loc["rotary, yarn"]["half_width"])
    with pytest.raises(ValueError, match=r"curves must be some of alibi, .*, got 'rotary, yarrn'"):
        comparison.panel(["rotary, yarrn"])


def test_saved_table_is_the_table_that_is_read_back(
    comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pd.DataFrame, "to_parquet", lambda *_, **__: None)
    comparison.save(tmp_path)
    read = pd.read_csv(tmp_path / "results.csv", keep_default_na=False, na_values={"value": [""]})
    pd.testing.assert_frame_equal(read.astype(lab.COLUMNS), comparison.table.reset_index(drop=True))
    assert (tmp_path / "results.tex").read_text() == comparison.latex()
    assert (tmp_path / "verdicts.txt").read_text().splitlines() == comparison.verdicts


def test_parquet_holds_the_same_table(comparison: Comparison, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    comparison.save(tmp_path)
    read = pd.read_parquet(tmp_path / "results.parquet").astype(lab.COLUMNS)
    pd.testing.assert_frame_equal(read, comparison.table.reset_index(drop=True))


@pytest.mark.skipif(find_spec("pyarrow") is not None, reason="pyarrow is installed")
def test_without_a_library_for_parquet_the_rest_is_written_and_the_error_says_what_to_install(
    comparison: Comparison, tmp_path: Path
) -> None:
    with pytest.raises(ImportError, match=r"results\.parquet is not written, .* pip install 'alibi-viz\[parquet\]'"):
        comparison.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"results.csv", "results.tex", "verdicts.txt"}


def test_second_call_trains_only_what_is_missing(
    comparison: Comparison, folder: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    assert len(before) == 9
    again = lab.compare(["alibi", "rotary", laws.square_root], seeds=3, text=text, out=folder, **TINY)
    pd.testing.assert_frame_equal(again.table, comparison.table)
    fewer = lab.compare(["rotary"], seeds=2, text=text, out=folder, **TINY)
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*.json")} == before
    assert set(fewer.table["label"]) == {"rotary"} and fewer.seeds == 2


def test_interrupted_comparison_gives_the_same_numbers_when_it_is_continued(text: Path, tmp_path: Path) -> None:
    def interrupting(*arguments: object, **options: object) -> object:
        stream = lab.sweep(*arguments, **options)  # type: ignore[arg-type]
        yield next(stream)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare_module, "sweep", interrupting)
        with pytest.raises(KeyboardInterrupt):
            lab.compare(["none", "alibi"], seeds=1, text=text, out=tmp_path, **TINY)
    assert len(list(tmp_path.glob("*.json"))) == 1
    continued = lab.compare(["none", "alibi"], seeds=1, text=text, out=tmp_path, **TINY)
    whole = lab.compare(["none", "alibi"], seeds=1, text=text, **TINY)
    pd.testing.assert_frame_equal(continued.table.drop(columns="origin"), whole.table.drop(columns="origin"))


def test_seed_that_diverges_is_named_and_left_out(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverging(runs: list[lab.Run], *_: object, **__: object) -> list[lab.Record]:
        first, second = map(lab.measure, runs)
        return [{**first, "answers": [], "error": "the loss became nan"}, second]

    monkeypatch.setattr(compare_module, "sweep", diverging)
    failed = lab.compare(["alibi", "none"], seeds=1, text=text, **TINY)
    assert failed.verdicts[0] == "alibi, seed 0, is left out: the loss became nan."
    assert len(failed.verdicts) == 4, "two windows of none, and how many differences are decided"
    assert "\nalibi & -- & -- \\\\\n" in failed.latex()
    legend = [trace.name for trace in panel_figure(failed.panel()).data if trace.visible and trace.showlegend]
    assert legend == ["alibi", "none"]
