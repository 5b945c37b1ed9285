"""The commands of `python -m alibi_viz.lab`: output, saved files and error messages."""

import json
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool

import pytest

from alibi_viz import lab
from alibi_viz.lab.__main__ import main
from alibi_viz.lab.claims import CLAIMS


def test_race_prints_a_table_and_saves_models_that_evaluate_reads(tmp_path, capsys):
    assert main(["race", "alibi", "none", "--steps", "3", "--length", "16", "--save", str(tmp_path)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[-5:] == ["16", "32", "64", "128", "256"]
    assert [line.split()[0] for line in table[1:]] == ["alibi", "none"]
    assert main(["evaluate", str(tmp_path / "alibi"), "16", "64"]) == 0
    row = capsys.readouterr().out.splitlines()[1].split()
    model = lab.load_run(tmp_path / "alibi").model
    expected = lab.loss_by_length(model, lab.load_text(), [16, 64])
    assert row == ["alibi", *(f"{bits:.3f}" for bits in expected.values())]


def test_sweep_saves_the_runs_it_prints_and_resumes(tmp_path, capsys):
    out = tmp_path / "results"
    command = ["sweep", "alibi", "learned", "--steps", "3", "--length", "16", "--seeds", "2", "--out", str(out)]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert len(lab.read_results(out).groupby(["label", "seed"])) == len(shown.out.splitlines()) == 4
    assert "learned (text, seed 1)" in shown.out
    assert "32: not defined" in shown.out
    assert main(command) == 0
    assert "4/4" in capsys.readouterr().err


def test_sweep_takes_runs_from_a_file_and_other_tasks(tmp_path, capsys):
    settings = tmp_path / "runs.json"
    settings.write_text(json.dumps([{"position": "none", "task": "needle", "length": 8, "steps": 2, "longest": 2}]))
    assert main(["sweep", "--runs", str(settings), "--out", str(tmp_path / "r")]) == 0
    assert "none (needle, seed 0)  7: " in capsys.readouterr().out


def test_claims_judges_the_published_results(capsys):
    assert main(["claims"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(CLAIMS)
    assert lines[0].startswith("- reproduced: alibi holds")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["race", "alibi", "--steps", "0"], "steps must be an integer of at least 1, got 0"),
        (["race", "--text", "nowhere.txt"], "there is no file 'nowhere.txt'"),
        (["evaluate", "nowhere", "32"], "there is no run 'nowhere'"),
        (["sweep", "alibi", "--device", "nope", "--steps", "1"], "device must be auto, cpu, cuda or another"),
        (["claims", "nowhere.jsonl"], "nowhere.jsonl"),
        (["show", "gap", "--evaluated", "pi"], "there are no results on 'gap', evaluated 'pi'"),
    ],
)
def test_an_error_is_one_line_on_standard_error(arguments, message, capsys):
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


def test_race_does_not_train_if_a_model_of_that_name_is_saved_already(tmp_path, capsys, monkeypatch):
    race = ["race", "learned", "--steps", "2", "--length", "16", "--save", str(tmp_path)]
    assert main(race) == 0
    values = lab.load_run(tmp_path / "learned").results.set_index("x")["value"]
    assert values.notna().tolist() == [True, False, False, False, False]
    monkeypatch.setattr("alibi_viz.lab.__main__.race", lambda *_, **__: pytest.fail("trained for nothing"))
    assert main(race) == 1
    assert "exists already and is not overwritten" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"position": "alibi"}', "must hold a JSON list of settings"),
        ('[{"position": "alibi", "stepps": 3}]', 'unknown stepps in {"position": "alibi", "stepps": 3}; settings are'),
        ("[{}]", "no position in {}; settings are position, task"),
        ("[", "Expecting value"),
    ],
)
def test_an_invalid_file_of_runs_is_reported_in_one_line(tmp_path, capsys, content, message):
    (tmp_path / "runs.json").write_text(content)
    assert main(["sweep", "--runs", str(tmp_path / "runs.json"), "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("option", ["--workers", "--seeds"])
@pytest.mark.parametrize("value", ["0", "-1", "two"])
@pytest.mark.parametrize("command", ["sweep", "reproduce"])
def test_counts_below_one_exit_with_a_message(command, option, value, capsys):
    with pytest.raises(SystemExit):
        main([command, option, value])
    assert f"{option}: must be an integer of at least 1, got '{value}'" in capsys.readouterr().err


def test_a_closed_pipe_exits_without_an_error_message():
    """As `head -1` closes it."""
    command = [sys.executable, "-m", "alibi_viz.lab", "claims"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    _, error = process.communicate()
    assert error == ""
    assert process.returncode == 1


def test_show_prints_means_and_findings(capsys):
    assert main(["show", "longer windows"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["bits", "per", "byte", "64", "128", "256", "512", "1024"]
    alibi = next(line for line in lines if line.startswith("alibi "))
    mean = (
        lab.published_results()
        .query("label == 'alibi' and question == 'longer windows' and evaluated == 'as trained' and x == 64")["value"]
        .mean()
    )
    assert alibi.split()[1] == f"{mean:.3f}"
    assert any("alibi" in line and "hold" in line for line in lines)


def test_a_dead_worker_is_reported_in_one_line(tmp_path, capsys, monkeypatch):
    def dying(*_, **__):
        raise BrokenProcessPool("a worker was killed")

    monkeypatch.setattr("alibi_viz.lab.__main__.sweep", dying)
    assert main(["sweep", "alibi", "--out", str(tmp_path / "r")]) == 1
    assert "a worker process died; finished runs are saved" in capsys.readouterr().err
