"""`python -m alibi_viz.study`: what its commands print, and what they pass on."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from alibi_viz import study
from alibi_viz.study.__main__ import main
from alibi_viz.study.records import PUBLISHED
from alibi_viz.train.results import read_records

TALES = PUBLISHED / "tales.jsonl.gz"


def verdict_lines(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("- ")]


def test_claims_prints_a_line_for_each_verdict_and_a_conclusion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["claims"]) == 0
    table = study.verdict_table(study.published_results(by_block=True))
    shown = capsys.readouterr().out
    assert verdict_lines(shown) == [
        f"- {row.setting}, {row.verdict}: {row.claim}. {row.text} [{row.numbers}]"
        for row in table.itertuples()
    ]
    assert shown.endswith(f"{study.conclusion(table)}\n")


def test_claims_about_a_file_are_judged_by_its_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    main(["claims"])
    published = set(verdict_lines(capsys.readouterr().out))
    assert main(["claims", str(TALES)]) == 0
    of_tales = set(verdict_lines(capsys.readouterr().out))
    assert len(published & of_tales) == 11, "the claims on the tales have the same intervals"


@pytest.fixture
def results_of_mine(tmp_path: Path) -> Path:
    """A folder with one run on another text than the published ones, which diverged."""
    record = read_records(TALES)[0]
    record["rows"] = [{**row, "text": "of mine"} for row in record["rows"]]
    record["error"] = "it diverged"
    (tmp_path / "run.json").write_text(json.dumps(record))
    return tmp_path


def test_claims_about_a_text_of_your_own_say_so(
    results_of_mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["claims", str(results_of_mine)]) == 0
    shown = capsys.readouterr()
    assert "these results are about another text than the published ones: of mine" in shown.err
    assert shown.out.count("- your text, can't tell: ") == 12
    assert "too few seeds have all results: 1 of" in shown.out


def test_claims_names_runs_that_diverged(
    results_of_mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["claims", str(results_of_mine)])
    assert ", seed 0, is left out: it diverged\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["claims", "nowhere.jsonl"], "nowhere.jsonl", id="no such file"),
        pytest.param(["claims", "."], "has no results", id="empty folder"),
        pytest.param(
            ["reproduce", "--workers", "-1"],
            "workers must be an integer of at least 1, got -1",
            id="negative workers",
        ),
        pytest.param(["reproduce", "tails"], "parts must be among search", id="unknown part"),
    ],
)
def test_bad_input_is_one_line_and_exits_with_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("alibi_viz.study: ")
    assert message in line


def test_interrupt_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "reproduce", Mock(side_effect=KeyboardInterrupt))
    assert main(["reproduce"]) == 130


def test_options_of_reproduce_reach_the_study(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reproduce = Mock(return_value=study.published_results().head(0))
    monkeypatch.setattr(study, "reproduce", reproduce)
    assert main(["reproduce", "needle", "--seeds", "2", "--publish", "new", "--out", "runs"]) == 0
    reproduce.assert_called_once_with(["needle"], None, "runs", seeds=2, publish="new")
    assert "There are no results on any claim." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "function"),
    [("report", "write_report"), ("models", "train_published_models")],
)
def test_folder_reaches_what_writes_into_it(
    command: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Mock()
    monkeypatch.setattr(study, function, write)
    assert main([command, "--out", "folder"]) == 0
    write.assert_called_once_with("folder")
