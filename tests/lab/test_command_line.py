"""Floor 3: `python -m alibi_viz.lab` does the same without a notebook."""

import json
from concurrent.futures.process import BrokenProcessPool

import pytest

from alibi_viz import lab
from alibi_viz.lab.__main__ import main


def test_race_prints_a_table_and_keeps_models_that_evaluate_reads(tmp_path, capsys):
    assert main(["race", "alibi", "none", "--steps", "3", "--length", "16", "--save", str(tmp_path)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[-5:] == ["16", "32", "64", "128", "256"]
    assert [line.split()[0] for line in table[1:]] == ["alibi", "none"]
    assert main(["evaluate", str(tmp_path / "alibi"), "16", "64"]) == 0
    row = capsys.readouterr().out.splitlines()[1].split()
    model = lab.load_run(tmp_path / "alibi").model
    expected = lab.loss_by_length(model, lab.load_text(), [16, 64])
    assert row == ["alibi", *(f"{bits:.3f}" for bits in expected.values())]


def test_sweep_writes_what_it_prints_and_goes_on(tmp_path, capsys):
    out = tmp_path / "results.jsonl"
    command = ["sweep", "alibi", "learned", "--steps", "3", "--length", "16", "--seeds", "2", "--out", str(out)]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert len(lab.read_results(out)) == len(shown.out.splitlines()) == 4
    assert "learned (text, seed 1)" in shown.out
    assert "32: not defined" in shown.out
    assert main(command) == 0
    assert capsys.readouterr().err.splitlines() == [f"[{'#' * 30}] 4 of 4 runs"]


def test_sweep_takes_runs_from_a_file_and_other_tasks(tmp_path, capsys):
    settings = tmp_path / "runs.json"
    settings.write_text(json.dumps([{"position": "none", "task": "needle", "length": 8, "steps": 2, "longest": 2}]))
    assert main(["sweep", "--runs", str(settings), "--out", str(tmp_path / "r.jsonl")]) == 0
    assert "none (needle, seed 0)  7: " in capsys.readouterr().out


def test_claims_of_the_published_results(capsys):
    assert main(["claims"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(lab.judge([]))
    assert lines[0].startswith("- reproduced: alibi does not break")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["race", "alibbi"], "got 'alibbi'"),
        (["race", "alibi", "--steps", "0"], "steps must be a whole number from 1 up, got 0"),
        (["race", "--text", "nowhere.txt"], "there is no file 'nowhere.txt'"),
        (["evaluate", "nowhere", "32"], "there is no run 'nowhere'"),
        (["sweep", "alibi", "--device", "nope", "--steps", "1"], "device must be auto, cpu, cuda or another"),
        (["claims", "nowhere.jsonl"], "nowhere.jsonl"),
        (["reproduce", "--seeds", "0"], "seeds must be a whole number from 1 up, got 0"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments, says, capsys):
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert says in error
    assert error.count("\n") == 1


def test_a_race_with_learned_positions_is_kept_and_nothing_is_trained_to_be_thrown_away(tmp_path, capsys, monkeypatch):
    race = ["race", "learned", "--steps", "2", "--length", "16", "--save", str(tmp_path)]
    assert main(race) == 0
    assert lab.load_run(tmp_path / "learned").curves["by_length"]["32"] is None
    monkeypatch.setattr("alibi_viz.lab.__main__.race", lambda *_, **__: pytest.fail("trained for nothing"))
    assert main(race) == 1
    assert "exists already and is not overwritten" in capsys.readouterr().err


def test_runs_of_a_file_must_be_a_list(tmp_path, capsys):
    (tmp_path / "runs.json").write_text('{"position": "alibi"}')
    assert main(["sweep", "--runs", str(tmp_path / "runs.json")]) == 1
    assert "must hold a JSON list of settings" in capsys.readouterr().err


def test_a_worker_that_dies_is_said_in_one_line(tmp_path, capsys, monkeypatch):
    def dying(*_, **__):
        raise BrokenProcessPool("a worker was killed")

    monkeypatch.setattr("alibi_viz.lab.__main__.sweep", dying)
    assert main(["sweep", "alibi", "--out", str(tmp_path / "r.jsonl")]) == 1
    assert "a worker process has died; what was finished is kept" in capsys.readouterr().err


def test_a_sweep_takes_the_larger_preset_where_there_is_a_gpu(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("alibi_viz.lab.__main__.sweep", lambda runs, *_, **__: asked.extend(runs) or [])
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert main(["sweep", "alibi", "--seeds", "1", "--steps", "7", "--out", str(tmp_path / "r.jsonl")]) == 0
    assert main(["sweep", "alibi", "--seeds", "1", "--device", "cpu", "--out", str(tmp_path / "r.jsonl")]) == 0
    larger, usual = asked
    assert (larger.length, larger.steps, larger.model["d_model"]) == (256, 7, 384)
    assert (usual.length, usual.steps, usual.model, usual.device) == (64, 600, {}, "cpu")
