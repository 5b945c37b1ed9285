"""`python -m alibi_viz.study`: what its commands print, and what they pass on."""

import json
import re
from contextlib import redirect_stdout
from io import StringIO
from unittest.mock import Mock

import pytest

from alibi_viz import study
from alibi_viz.study.__main__ import main
from alibi_viz.study.records import PUBLISHED
from alibi_viz.train.results import read_records
from tests.rows import each_case

ADAMW = PUBLISHED / "adamw.jsonl.gz"


def verdict_lines(output):
    """The lines of verdicts, without the spaces that align them."""
    table, _, _ = output.partition("\n\n")
    return [" ".join(line.split()) for line in table.splitlines()[1:]]


@pytest.fixture(scope="module")
def shown():
    """What the command prints about the published results."""
    with redirect_stdout(StringIO()) as output:
        assert main(["claims"]) == 0
    return output.getvalue()


def test_claims_prints_tables_of_verdicts_and_claims_and_a_conclusion(shown):
    table = study.verdict_table(study.published_results(by_block=True))
    lines = verdict_lines(shown)
    assert len(lines) == len(table)
    for line, row in zip(lines, table.itertuples(), strict=True):
        verdict = study.VERDICTS[row.verdict]
        words = [row.setting_name, row.slopes, row.claim, verdict, row.numbers]
        assert line == " ".join(word for word in words if word)
    for row in study.reach_table(table).itertuples():
        assert re.search(rf"{re.escape(row.claim)} +{re.escape(row.reach)}\n", shown)
    assert shown.endswith(f"\n\n{study.conclusion(table)}\n")


def test_claims_about_a_file_are_judged_by_its_blocks(shown, capsys):
    published = set(verdict_lines(shown))
    assert main(["claims", str(ADAMW)]) == 0
    of_file = set(verdict_lines(capsys.readouterr().out))
    assert of_file
    assert of_file < published, "the claims have the same intervals"


@pytest.fixture
def results_of_mine(tmp_path):
    """A folder with one run on another text than the published ones, which diverged."""
    record = read_records(ADAMW)[0]
    record["run"]["steps"] = 123  # a run of no setting
    record["rows"] = [{**row, "text": "of mine"} for row in record["rows"]]
    record["error"] = "it diverged"
    (tmp_path / "run.json").write_text(json.dumps(record))
    return tmp_path


def test_claims_about_a_text_of_your_own_say_so(results_of_mine, capsys):
    assert main(["claims", str(results_of_mine)]) == 0
    shown = capsys.readouterr()
    assert "these results are about another text than the published ones: of mine" in shown.err
    lines = verdict_lines(shown.out)
    assert len(lines) == len(study.CLAIMS)
    assert all(line.startswith("these results ") for line in lines)
    assert "too few seeds have all results: 1 of" in shown.out


def test_claims_names_runs_that_diverged(results_of_mine, capsys):
    main(["claims", str(results_of_mine)])
    assert ", seed 0, is left out: it diverged\n" in capsys.readouterr().err


@each_case(
    ("arguments", "message"),
    {
        "no such file": (["claims", "nowhere.jsonl"], "nowhere.jsonl"),
        "negative workers": (
            ["--workers", "-1"],
            "workers must be an integer of at least 1, got -1",
        ),
        "unknown setting": (["--setting", "mine"], "settings must be among main"),
        "unknown claim": (["--claim", "It holds"], "claims must be among ALiBi"),
    },
)
def test_bad_input_is_one_line_and_exits_with_2(
    arguments,
    message,
    tmp_path,
    capsys,
    monkeypatch,
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("alibi_viz.study: ")
    assert message in line


def test_interrupt_exits_with_130(monkeypatch):
    monkeypatch.setattr(study, "retrain", Mock(side_effect=KeyboardInterrupt))
    assert main(["--workers", "1"]) == 130


def test_options_reach_the_study(monkeypatch, capsys):
    retrain = Mock(return_value=study.published_results().head(0))
    monkeypatch.setattr(study, "retrain", retrain)
    options = ["--claim", "ALiBi holds", "--setting", "adamw", "--seeds", "2", "--out", "runs"]
    assert main([*options, "--workers", "1"]) == 0
    retrain.assert_called_once_with(["ALiBi holds"], ["adamw"], None, "runs", seeds=2, publish=None)
    assert "There are no results on any claim." in capsys.readouterr().out


def test_only_the_claims_asked_for_are_printed(monkeypatch, capsys):
    results = study.published_results(by_block=True)
    main_setting = results[results["setting"] == "main"]
    monkeypatch.setattr(study, "retrain", Mock(return_value=main_setting))
    assert main(["--claim", "ALiBi holds", "--workers", "1"]) == 0
    lines = verdict_lines(capsys.readouterr().out)
    assert len(lines) == 2
    assert lines[0].startswith("main official ALiBi holds ")
    assert lines[1].startswith("main times 8 ALiBi holds ")


@pytest.mark.parametrize(
    ("command", "function"),
    [("report", "write_report"), ("models", "train_published_models")],
)
def test_folder_reaches_what_writes_into_it(command, function, monkeypatch):
    write = Mock()
    monkeypatch.setattr(study, function, write)
    assert main([command, "--out", "folder"]) == 0
    write.assert_called_once_with("folder")
