"""A comparison over seeds: its table, verdicts, LaTeX and panels, what it resumes, and what it refuses."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from alibi_viz import lab, laws
from alibi_viz.arguments import load_function
from alibi_viz.figures import panel_figure
from alibi_viz.lab.compare import Comparison

compare_module = sys.modules["alibi_viz.lab.compare"]  # lab.compare is the function
TINY = {"length": 16, "steps": 3, "longest": 2, "progress": False}
LAW = """
def root(distance, head, num_heads):
    return -{factor} * distance.float().sqrt() / head
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short text, because every test of a model takes time."""
    path = tmp_path_factory.mktemp("text") / "my text.txt"
    path.write_bytes(lab.load_text().data.numpy().tobytes()[:30_000])
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results") / "deep" / "results"


@pytest.fixture(scope="module")
def comparison(text: Path, folder: Path) -> Comparison:
    return lab.compare(["alibi", "rotary", laws.square_root], seeds=3, text=text, out=folder, **TINY)


def longer_windows(comparison: Comparison, label: str, evaluated: str = "as trained") -> pd.DataFrame:
    table = comparison.table
    rows = table[(table["question"] == "longer windows") & (table["label"] == label)]
    return rows[rows["evaluated"] == evaluated].pivot(index="seed", columns="x", values="value")


def test_table_has_every_method_seed_and_variant(comparison: Comparison, folder: Path) -> None:
    assert list(comparison.table.columns) == list(lab.COLUMNS)
    assert comparison.variants == {
        "alibi": ["window", "slopes interpolated"],
        "rotary": ["window", "pi", "ntk", "yarn"],
        "square_root": ["window"],
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
    assert len(pairs) == 3 + 2 + 4 + 1
    assert [x for first, _, x in rows.index if first == "rotary, yarn"] == [32]


def test_verdicts_follow_the_differences(comparison: Comparison) -> None:
    lines = comparison.verdicts
    assert len(lines) == 10 + 1
    for (first, second), rows in comparison.differences.groupby(["first", "second"], sort=False):
        (line,) = (line for line in lines if line.replace('"', "").startswith(f"{first} against {second}:"))
        for verdict, x in zip(rows["verdict"], rows["x"], strict=True):
            clause = next(clause for clause in re.split("[:;]", line) if f"{x} (" in clause)
            assert clause.split()[0] == verdict
    assert not any("Press" in line for line in lines), "claims are about longer training"


def test_claims_are_judged_with_the_settings_of_the_published_comparison() -> None:
    table = lab.published_results().query("label == 'alibi' or label == 'rotary'")
    published = Comparison(table, ("alibi", "rotary"), lab.Run("alibi"), "the built-in text")
    assert any(line.startswith("reproduced: alibi holds") for line in published.verdicts)
    assert not any("not testable" in line for line in published.verdicts)
    other = Comparison(table, ("alibi", "rotary"), lab.Run("alibi", steps=300), "the built-in text")
    assert not any(line.startswith("reproduced") for line in other.verdicts)


def test_published_results_without_the_new_variants_can_be_compared() -> None:
    published = Comparison(lab.published_results(), ("alibi", "rotary"), lab.Run("alibi"), "the built-in text")
    assert published.variants == {"alibi": ["window"], "rotary": ["window", "pi", "ntk"]}
    first = published.differences.query("first == 'alibi' and second == 'rotary' and x == 1024").iloc[0]
    assert (first["verdict"], first["seeds"]) == ("lower", 3)
    assert "rotary" in published.latex()


def test_latex_table_is_balanced_and_escaped(comparison: Comparison) -> None:
    lines = comparison.latex().splitlines()
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert [line.split(" & ")[0] for line in body][-2:] == [r"square\_root", r"\quad window"]
    assert len(body) == 3 + 7
    assert all(line.count("&") == 2 and line.endswith(r"\\") for line in body)
    mean, half = comparison.summary.loc[("alibi", 32)][["mean", "half_width"]]
    assert f"{mean:.3f} $\\pm$ {half:.3f}" in body[0]
    caption = next(line for line in lines if line.startswith(r"\caption"))
    assert "my text.txt" in caption and r"95\% t interval over seeds" in caption
    assert comparison.latex().count("{") == comparison.latex().count("}")


def test_panel_has_the_mean_every_seed_and_the_interval(comparison: Comparison) -> None:
    panel = comparison.panel()
    assert list(panel.curves) == ["alibi", "rotary", "square_root"]
    assert "95% t interval" in panel.title
    curves, summary = panel.curves["alibi"], comparison.summary.loc["alibi"]
    assert curves.mean == pytest.approx(summary["mean"].to_dict())
    assert curves.errors == pytest.approx(summary["half_width"].to_dict())
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


def test_without_a_library_for_parquet_the_rest_is_written_and_the_error_says_what_to_install(
    comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyarrow", "fastparquet"):
        monkeypatch.setitem(sys.modules, name, None)
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
    assert len(failed.verdicts) == 3, "the window of none, and how many differences are decided"
    assert "\nalibi & -- & -- \\\\\n" in failed.latex()
    legend = [trace.name for trace in panel_figure(failed.panel()).data if trace.visible and trace.showlegend]
    assert legend == ["alibi", "none"]


@pytest.mark.parametrize(
    ("methods", "settings", "message"),
    [
        ([], {}, "give at least one position method"),
        (["alibi", "alibbi"], {}, "position must be one of .* got 'alibbi'"),
        (["alibi", "alibi"], {}, "two methods are called 'alibi'"),
        (["alibi"], {"seeds": 0}, "seeds must be an integer of at least 1, got 0"),
        (["alibi"], {"seeds": 1.5}, "seeds must be an integer of at least 1, got 1.5"),
        (["alibi"], {"workers": 0}, "workers must be an integer of at least 1, got 0"),
        (["alibi"], {"length": 0}, "length must be an integer of at least 1, got 0"),
        (["alibi"], {"longest": 4096}, "is too short for tests up to 4096 times 16"),
    ],
)
def test_bad_arguments_raise_before_anything_is_written(
    methods: list[str], settings: dict[str, object], message: str, text: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        lab.compare(methods, text=text, out=tmp_path / "out", **{**TINY, **settings})  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"too short", r"mine\.txt is too short for tests"),
        ("Käse und Brot. ".encode("latin-1") * 999, r"mine\.txt is not UTF-8 text: byte 0xe4"),
        (b"", r"mine\.txt is empty"),
    ],
)
def test_bad_text_raises(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        lab.compare(["alibi"], text=tmp_path / "mine.txt", out=tmp_path / "out", **TINY)
    assert not (tmp_path / "out").exists()


def test_folder_with_other_settings_raises(comparison: Comparison, folder: Path, text: Path) -> None:
    with pytest.raises(ValueError, match=r"has runs with steps=3, not 4: use another results folder"):
        lab.compare(["none"], text=text, out=folder, **{**TINY, "steps": 4})
    with pytest.raises(ValueError, match=r"has runs with path='.*my text\.txt', not None"):
        lab.compare(["alibi"], out=folder, **TINY)
    assert len(list(folder.glob("*.json"))) == 9


def test_folder_of_another_version_raises(comparison: Comparison, folder: Path, text: Path, tmp_path: Path) -> None:
    """Models of versions before were not evaluated with YaRN."""
    path = next(folder.glob("*rotary-seed-0*"))
    record = json.loads(path.read_text())
    record["answers"] = [answer for answer in record["answers"] if answer[0] != "yarn"]
    (tmp_path / path.name).write_text(json.dumps(record))
    with pytest.raises(ValueError, match="by a version of alibi_viz without the evaluation yarn: use another results"):
        lab.compare(["rotary"], text=text, out=tmp_path, **TINY)
    lab.compare(["none"], text=text, out=tmp_path, seeds=1, **TINY)  # doesn't need that run
    (tmp_path / path.name).write_text(json.dumps({"format": 99}))
    with pytest.raises(ValueError, match=r"is not a result of this version or of version 0\.1"):
        lab.compare(["none"], text=text, out=tmp_path, **TINY)


def test_folder_with_another_law_of_the_same_name_raises(text: Path, tmp_path: Path) -> None:
    for factor in (0.5, 0.7):
        (tmp_path / f"laws_{factor * 10:.0f}.py").write_text(LAW.format(factor=factor))
    one, other = (load_function(f"{tmp_path}/laws_{name}.py:root") for name in (5, 7))
    lab.compare([one], seeds=1, text=text, out=tmp_path / "out", **TINY)
    with pytest.raises(ValueError, match=r"'root' has changed since runs in .* were made: use another results folder"):
        lab.compare([other], seeds=1, text=text, out=tmp_path / "out", **TINY)
    with pytest.raises(ValueError, match="two methods are called 'root'"):
        lab.compare([one, other], seeds=1, text=text, **TINY)
