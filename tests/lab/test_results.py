"""Results from a race, a sweep or the package are rows of one tidy table."""

import gzip
import json
import math

import pandas as pd
import pytest

from alibi_viz import lab, study
from alibi_viz.lab.results import COLUMNS, record_table, seed_curves
from alibi_viz.study.records import published_records


@pytest.fixture(scope="module")
def published() -> pd.DataFrame:
    return study.published_results()


def values(results: pd.DataFrame, question: str, evaluated: str = "as trained") -> dict[int, float]:
    rows = results[(results["question"] == question) & (results["evaluated"] == evaluated)]
    return dict(zip(rows["x"], rows["value"], strict=True))


def test_a_table_has_the_same_columns_with_and_without_rows(published):
    empty = lab.results_table([])
    assert list(empty.columns) == list(published.columns) == list(COLUMNS)
    assert (empty.dtypes == published.dtypes).all()


def test_the_published_results_have_every_run_once_and_no_failure(published):
    records = published_records()
    assert len({json.dumps(record["run"], sort_keys=True) for record in records}) == len(records)
    assert [record["error"] for record in records] == [None] * len(records)
    assert len({record["made_with"]["torch"] for record in records}) == 1
    runs = published.groupby(["task", "label", "seed"])
    assert len(runs) == len(records) == sum(len(part.templates) * part.seeds for part in study.PARTS.values())
    assert set(published["origin"]) == {"published"}


def test_published_text_results_name_one_text_and_task_results_none(published):
    """The fingerprint is that of the text of the Python that trained them, not of the one that reads them."""
    texts = published.groupby("task")["text"].unique()
    assert len(texts["text"]) == 1
    assert len(texts["text"][0]) == 16
    assert list(texts["needle"]) == list(texts["copy"]) == [""]


def test_nothing_is_measured_twice(published):
    where = ["task", "label", "seed", "evaluated", "question", "x"]
    assert not published.duplicated(where).any()


def test_a_change_of_the_published_table_does_not_reach_the_next_caller():
    results = study.published_results()
    results.loc[:, "value"] = 0.0
    assert study.published_results()["value"].abs().max() > 0


def test_evaluation_variants_are_there_for_the_methods_that_have_them(published):
    rows = published[published["question"] == "longer windows"]
    labels = {evaluated: set(group["label"]) for evaluated, group in rows.groupby("evaluated")}
    rotary = {label for label in labels["as trained"] if label.startswith("rotary")}
    assert labels["pi"] == labels["ntk"] == labels["yarn"] == rotary
    assert "alibi" in labels["slopes interpolated"] and not labels["slopes interpolated"] & rotary
    assert {"alibi", "rotary", "none"} <= labels["window"]
    assert not labels["window"] & {"learned", "sinusoidal", "sinusoidal trained at 2L"}


def test_a_value_that_is_not_defined_is_nan():
    learned = record_table([lab.measure(lab.Run("learned", length=16, steps=20, longest=4))], "test")
    assert [math.isnan(value) for value in values(learned, "longer windows").values()] == [False, True, True]
    assert values(learned, "gap") and all(math.isnan(value) for value in values(learned, "gap").values())


def test_a_record_is_the_same_table_after_saving_and_reading(tmp_path):
    (record,) = lab.sweep([lab.Run("none", length=16, steps=4, longest=2)], path=tmp_path, progress=False)
    results = lab.read_results(tmp_path)
    pd.testing.assert_frame_equal(results, record_table([record], tmp_path.name))
    losses, attention = {"longer windows", "same targets", "by position"}, {"attention beyond L", "softmax denominator"}
    assert set(results["question"]) == {"training loss", "facts", "attention sinks", *losses, *attention}
    assert set(results["evaluated"]) == {"as trained", "window", "window and sinks"}
    assert list(values(results, "longer windows")) == [16, 32]
    assert results["text"].unique().tolist() == [lab.load_text().fingerprint]


def test_a_record_of_a_task_has_its_accuracies(tmp_path):
    run = lab.Run("alibi", task="needle", length=8, steps=2, longest=2)
    results = record_table([lab.measure(run)], "test")
    assert list(values(results, "needle")) == [7, 15]
    assert results["count"][results["question"] == "needle"].tolist() == [512, 512]
    assert list(values(results, "needle margin")) == [7, 15]
    assert results["text"].unique().tolist() == [""]


@pytest.mark.parametrize("line", ["notes", "{}", '{"run": 1}', "[]", "null", '{"run": {}, "curve": []}'])
def test_a_line_that_is_not_a_record_is_named(tmp_path, line):
    record = {"run": {}, "text": "", "error": None, "answers": []}
    (tmp_path / "old.jsonl").write_text(json.dumps(record) + "\n" + line)
    with pytest.raises(ValueError, match=r"line 2 of .*old\.jsonl' is not a result of this version"):
        lab.read_results(tmp_path / "old.jsonl")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("not-utf-8.jsonl", b"\xff\n"),
        ("truncated.jsonl.gz", gzip.compress(b"{}\n")[:-4]),
        ("damaged.jsonl.gz", gzip.compress(b"{}\n")[:10] + b"\xff" * 20),
        ("not-compressed.jsonl.gz", b"{}\n"),
    ],
    ids=["not UTF-8", "truncated", "damaged", "not compressed"],
)
def test_an_unreadable_file_is_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"cannot read results from '.*{name}': "):
        lab.read_results(tmp_path / name)


def test_an_unreadable_file_in_a_folder_is_named(tmp_path):
    (tmp_path / "run.json").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"cannot read results from '.*run\.json': "):
        lab.read_results(tmp_path)


def test_a_missing_path_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        lab.read_results(tmp_path / "nowhere")


def test_curves_are_grouped_by_label_and_seed():
    row, cells = {**dict.fromkeys(COLUMNS, ""), "length": 8, "count": 1}, [("b", 1, 2.0), ("a", 0, 1.0)]
    rows = [{**row, "label": label, "seed": seed, "x": 8, "value": value} for label, seed, value in cells]
    assert seed_curves(lab.results_table(rows)) == {"b": {1: {8: 2.0}}, "a": {0: {8: 1.0}}}
