"""A sweep saves every finished run at once, and resumes after a kill without repeating, mixing or
losing one."""

import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest
from torch import Tensor

from alibi_viz import lab
from alibi_viz.measure.table import TRAINING_LOSS
from alibi_viz.train.runs import executor, read_records
from tests.tables import SMALL
from tests.train.test_runs import steep
from tests.widgets.race.small_race import until


def runs(count: int = 4, **settings: Any) -> list[lab.Run]:
    tiny = {"length": 16, "steps": 4, "longest": 2, "model": SMALL, **settings}
    return [
        lab.Run(("alibi", "none")[number % 2], seed=3 + number // 2, **tiny)
        for number in range(count)
    ]


def numbers(records: Any) -> list[str]:
    """What must be equal between two sweeps: everything except how long it took."""
    return sorted(json.dumps({**record, "seconds": 0}, sort_keys=True) for record in records)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[lab.Run]:
    """Runs are listed here instead of being trained."""
    done: list[lab.Run] = []

    def measure(run: lab.Run, progress: bool = False) -> dict[str, Any]:
        done.append(run)
        return {
            "run": run.settings(),
            "text": lab.load_text().fingerprint,
            "error": None,
            "rows": [],
        }

    monkeypatch.setattr("alibi_viz.train.runs.measure", measure)
    return done


def test_a_pool_gives_the_same_numbers_bit_for_bit_and_keeps_finished_runs_when_a_worker_dies(
    tmp_path: Path,
) -> None:
    def local(distance: Tensor, head: int, num_heads: int) -> Tensor:  # pickle could not send it
        return -distance.float() / head

    many = [
        *runs(2),
        *(replace(runs(1)[0], position=method, label="") for method in (local, steep(2.0))),
    ]
    with executor(2) as pool:
        assert pool.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_DFL, (
            "Ctrl-C ends a worker"
        )
        records = list(lab.sweep(many, pool, path=tmp_path, progress=False))
        stream = lab.sweep(
            [*runs(1), *runs(3, steps=100_000)], pool, path=tmp_path / "dies", progress=False
        )
        first = next(stream)
        os.kill(next(iter(pool._processes)), signal.SIGKILL)
        with pytest.raises(Exception, match="terminated abruptly"):
            list(stream)
    assert read_records(tmp_path / "dies") == [first]
    assert (
        numbers(records)
        == numbers(read_records(tmp_path))
        == numbers(lab.sweep(many, progress=False))
    )
    assert {record["run"]["label"] for record in records} == {"alibi", "none", "local", "law"}
    assert numbers(lab.sweep(many, path=tmp_path, progress=False)) == numbers(records), (
        "nothing is missing"
    )


def test_each_run_is_saved_when_yielded_and_a_closed_stream_ends(
    measured: list[lab.Run], tmp_path: Path
) -> None:
    folder = tmp_path / "deep" / "results"
    stream = lab.sweep(runs(), path=folder, progress=False)
    assert not measured and not list(folder.iterdir()), (
        "nothing starts before the first record is asked for"
    )
    for count in (1, 2):
        assert next(stream) in read_records(folder) and len(read_records(folder)) == count
    stream.close()
    assert (len(measured), next(stream, None)) == (2, None)
    assert len(list(lab.sweep(runs(), path=folder, progress=False))) == 4
    assert len(measured) == 4, "only the missing ones"


def test_closing_cancels_waiting_runs_and_saves_those_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, closed = [], Event()

    def measure(run: lab.Run, progress: bool = False) -> dict[str, Any]:
        started.append(run)
        if len(started) > 1:
            closed.wait(60)
        return {"run": run.settings(), "text": "", "error": None, "rows": []}

    monkeypatch.setattr("alibi_viz.train.runs.measure", measure)
    with ThreadPoolExecutor(1) as pool:
        stream = lab.sweep(runs(6), pool, path=tmp_path, progress=False)
        next(stream)
        until(lambda: len(started) == 2, "the second run")
        stream.close()
        closed.set()
    assert len(started) == len(read_records(tmp_path)) == 2


OTHER: dict[str, Any] = {
    "position": "rotary",
    "task": "needle",
    "length": 17,
    "steps": 5,
    "batch_size": 3,
    "learning_rate": 0.5,
    "seed": 9,
    "longest": 4,
    "targets": 99,
    "variants": ("window",),
    "threads": 2,
    "path": "other.txt",
    "device": "cpu",
    "model": {**SMALL, "num_layers": 2},
    "label": "../x" * 99,
}


def test_a_run_that_differs_in_one_setting_is_not_a_finished_one(
    measured: list[lab.Run], tmp_path: Path
) -> None:
    (run,) = runs(1)
    others = [
        replace(run, **{"label": run.label * (name != "position"), name: value})
        for name, value in OTHER.items()
    ]
    others += [
        replace(run, position=steep(slope), label="") for slope in (0.25, 0.5)
    ]  # equal text, another value
    assert OTHER.keys() == {field.name for field in fields(lab.Run)} - {"custom"}
    list(lab.sweep([run], path=tmp_path, progress=False))
    list(lab.sweep([run, *others], path=tmp_path, progress=False))
    assert measured == [run, *others]
    assert len(read_records(tmp_path)) == len(measured), "each in a file of its own"
    assert (
        len(
            list(
                lab.sweep([run, replace(run, model=dict(reversed(SMALL.items())))], progress=False)
            )
        )
        == 1
    )


SCRIPT = """
from alibi_viz import lab
from alibi_viz.train.runs import executor
from tests.train.test_sweep import runs

if __name__ == "__main__":
    with executor(2) as pool:
        list(lab.sweep([*runs(1), *runs(3, steps=100_000)], pool, path={folder!r}, progress=False))
"""


def test_a_killed_sweep_resumes_with_finished_runs_and_its_workers_end(
    measured: list[lab.Run], tmp_path: Path
) -> None:
    file, folder = tmp_path / "script.py", tmp_path / "results"
    file.write_text(SCRIPT.format(folder=str(folder)))
    process = psutil.Popen(
        [sys.executable, file], env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    )
    try:
        # the resource tracker is a child, too
        until(lambda: list(folder.glob("*.json")) and len(process.children()) >= 3, "a record")
        workers = process.children(recursive=True)
    finally:
        process.kill()
        process.wait()
    assert psutil.wait_procs(workers, timeout=60)[1] == []
    (before,) = read_records(folder)
    missing = runs(3, steps=100_000)
    after = list(lab.sweep([*runs(1), *missing], path=folder, progress=False))
    assert measured == missing and before in after and len(after) == len(read_records(folder)) == 4


def test_divergence_is_a_result_and_other_errors_end_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diverging, missing = (
        replace(runs(1)[0], learning_rate=1e30),
        replace(runs(1)[0], path=str(tmp_path / "gone.txt")),
    )
    stream = lab.sweep([diverging, missing, *runs(2)], path=tmp_path / "results")
    record = next(stream)
    assert "the loss became" in record["error"]
    assert {row["question"] for row in record["rows"]} <= {TRAINING_LOSS}, (
        "a diverged model is not tested"
    )
    with pytest.raises(FileNotFoundError, match=r"gone\.txt"):
        next(stream)
    assert len(read_records(tmp_path / "results")) == 1
    shown = capsys.readouterr()
    assert (shown.out, "1/4" in shown.err) == ("", True), "progress is shown on standard error"


def test_foreign_json_is_refused_and_unfinished_or_other_files_ignored(
    measured: list[lab.Run], tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text("my results")
    (tmp_path / ".text-alibi.json.123-456").write_text(
        '{"run": {'
    )  # an unfinished file of a killed sweep
    assert len(list(lab.sweep(runs(2), path=tmp_path, progress=False))) == 2
    (tmp_path / "notes.json").write_text("my notes")
    with pytest.raises(ValueError, match=r"notes\.json' is not a result of this version"):
        lab.sweep(runs(3), path=tmp_path)
    for path in (
        tmp_path / "README.md",
        tmp_path / "README.md" / "below",
    ):  # no folders can be made there
        with pytest.raises(OSError, match=r"README\.md"):
            lab.sweep(runs(3), path=path)
    assert (tmp_path / "notes.json").read_text() == "my notes" and len(measured) == 2


def test_a_text_that_has_changed_since_is_refused(tmp_path: Path) -> None:
    path, folder = tmp_path / "text.txt", tmp_path / "results"
    path.write_text(
        "".join(f"to be or not to be, that is question {number}. " for number in range(600))
    )
    (run,) = runs(1, path=str(path))
    first = list(lab.sweep([run], path=folder, progress=False))
    assert list(lab.sweep([run], path=folder, progress=False)) == first
    path.write_text(
        "".join(f"something else, and more of it than {number}. " for number in range(600))
    )
    with pytest.raises(ValueError, match=r"text\.txt' has changed since runs in .* were made"):
        lab.sweep([run], path=folder)
