"""A sweep saves every finished run at once, and resumes after a kill without repeating, mixing or
losing one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import fields, replace
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest
from torch import Tensor

from alibi_viz import lab
from alibi_viz.measure.table import TRAINING_LOSS
from alibi_viz.train.results import read_records
from alibi_viz.train.sweep import worker_pool
from tests.tables import SMALL
from tests.train.test_run import steep


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

    monkeypatch.setattr("alibi_viz.train.sweep.measure", measure)
    return done


@pytest.fixture(scope="module")
def many() -> list[lab.Run]:
    """Two runs of methods with a name, and two of own functions."""

    def local(distance: Tensor, head: int, num_heads: int) -> Tensor:  # pickle could not send it
        return -distance.float() / head

    (run,) = runs(1)
    own_methods = [replace(run, position=method, label="") for method in (local, steep(2.0))]
    return [*runs(2), *own_methods]


@pytest.fixture(scope="module")
def saved_by_workers(many: list[lab.Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results folder of a sweep by two worker processes."""
    folder = tmp_path_factory.mktemp("saved")
    with worker_pool(2) as pool:
        records = list(lab.sweep(many, pool, path=folder, progress=False))
    assert {record["run"]["label"] for record in records} == {"alibi", "none", "local", "law"}
    return folder


def test_worker_processes_give_the_same_numbers_bit_for_bit(
    many: list[lab.Run], saved_by_workers: Path
) -> None:
    assert numbers(read_records(saved_by_workers)) == numbers(lab.sweep(many, progress=False))


def test_runs_that_workers_have_finished_are_not_repeated(
    many: list[lab.Run], saved_by_workers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alibi_viz.train.sweep.measure", pytest.fail)
    records = lab.sweep(many, path=saved_by_workers, progress=False)
    assert numbers(records) == numbers(read_records(saved_by_workers))


def test_interrupt_ends_a_worker() -> None:
    """As a KeyboardInterrupt it would only end one of its runs."""
    with worker_pool(2) as pool:
        assert pool.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_DFL


def test_finished_runs_are_kept_when_a_worker_dies(tmp_path: Path) -> None:
    many = [*runs(1), *runs(3, steps=100_000)]
    with worker_pool(2) as pool:
        stream = lab.sweep(many, pool, path=tmp_path, progress=False)
        finished = next(stream)
        os.kill(next(iter(pool._processes)), signal.SIGKILL)
        with pytest.raises(BrokenProcessPool):
            list(stream)
    assert read_records(tmp_path) == [finished]


def test_each_run_is_saved_when_yielded_and_a_closed_stream_ends(
    measured: list[lab.Run], tmp_path: Path
) -> None:
    folder = tmp_path / "deep" / "results"
    stream = lab.sweep(runs(), path=folder, progress=False)
    assert not measured, "nothing starts before the first record is asked for"
    assert not list(folder.iterdir())

    for count in (1, 2):
        record = next(stream)
        saved = read_records(folder)
        assert record in saved
        assert len(saved) == count

    stream.close()
    assert len(measured) == 2
    assert next(stream, None) is None

    assert len(list(lab.sweep(runs(), path=folder, progress=False))) == 4
    assert len(measured) == 4, "only the missing ones"


def test_closing_cancels_waiting_runs_and_saves_those_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[lab.Run] = []
    second_has_started = Event()
    closed = Event()

    def measure(run: lab.Run, progress: bool = False) -> dict[str, Any]:
        started.append(run)
        if len(started) == 2:
            second_has_started.set()
            closed.wait()
        return {"run": run.settings(), "text": "", "error": None, "rows": []}

    monkeypatch.setattr("alibi_viz.train.sweep.measure", measure)
    with ThreadPoolExecutor(1) as pool:
        stream = lab.sweep(runs(6), pool, path=tmp_path, progress=False)
        next(stream)
        second_has_started.wait()
        stream.close()
        closed.set()
    assert len(started) == 2
    assert len(read_records(tmp_path)) == 2


OTHER_SETTINGS: dict[str, Any] = {
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


@pytest.mark.parametrize("name", [field.name for field in fields(lab.Run) if field.init])
def test_run_that_differs_in_one_setting_is_not_a_finished_one(
    name: str, measured: list[lab.Run], tmp_path: Path
) -> None:
    (run,) = runs(1)
    other = replace(run, **{name: OTHER_SETTINGS[name]})
    list(lab.sweep([run], path=tmp_path, progress=False))
    list(lab.sweep([run, other], path=tmp_path, progress=False))
    assert measured == [run, other]
    assert len(read_records(tmp_path)) == 2, "each in a file of its own"


def test_own_law_with_another_text_is_not_a_finished_run(
    measured: list[lab.Run], tmp_path: Path
) -> None:
    def law(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -distance.float() / head

    first = replace(runs(1)[0], position=steep(0.25), label="mine")
    second = replace(runs(1)[0], position=law, label="mine")
    list(lab.sweep([first], path=tmp_path, progress=False))
    list(lab.sweep([first, second], path=tmp_path, progress=False))
    assert measured == [first, second]


def test_two_laws_with_equal_text_and_label_are_refused(measured: list[lab.Run]) -> None:
    both = [replace(runs(1)[0], position=steep(slope), label="mine") for slope in (0.25, 0.5)]
    with pytest.raises(ValueError, match="got two of 'mine': give them different labels"):
        lab.sweep(both, progress=False)


def test_equal_runs_are_executed_once(measured: list[lab.Run]) -> None:
    (run,) = runs(1)
    equal = replace(run, model=dict(reversed(SMALL.items())))
    assert len(list(lab.sweep([run, equal], progress=False))) == 1


# It prints a line when a record is saved; the other runs take longer than the test.
SCRIPT = """
from alibi_viz import lab
from alibi_viz.train.sweep import worker_pool
from tests.train.test_sweep import runs

if __name__ == "__main__":
    endless = runs(3, steps=100_000)
    with worker_pool(2) as pool:
        for record in lab.sweep([*runs(1), *endless], pool, path={folder!r}, progress=False):
            print("saved", flush=True)
"""


@pytest.fixture(scope="module")
def killed_sweep(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Path, list[psutil.Process]]]:
    """The results folder of a sweep that was killed after its first record, and its workers."""
    file = tmp_path_factory.mktemp("killed") / "script.py"
    folder = file.parent / "results"
    file.write_text(SCRIPT.format(folder=str(folder)))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with psutil.Popen(
        [sys.executable, file], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "saved\n"
        workers = process.children(recursive=True)
        process.kill()
    yield folder, workers
    for worker in workers:
        if worker.is_running():
            worker.kill()


def test_workers_of_a_killed_sweep_end(
    killed_sweep: tuple[Path, list[psutil.Process]],
) -> None:
    _, workers = killed_sweep
    assert len(workers) >= 2
    psutil.wait_procs(workers)


def test_killed_sweep_resumes_with_its_finished_run(
    measured: list[lab.Run], killed_sweep: tuple[Path, list[psutil.Process]]
) -> None:
    folder, _ = killed_sweep
    (finished,) = read_records(folder)
    missing = runs(3, steps=100_000)
    records = list(lab.sweep([*runs(1), *missing], path=folder, progress=False))
    assert measured == missing
    assert finished in records
    assert len(read_records(folder)) == 4


def test_divergence_is_a_result_and_other_errors_end_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run,) = runs(1)
    diverging = replace(run, learning_rate=1e30)
    missing = replace(run, path=str(tmp_path / "gone.txt"))
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
    assert shown.out == ""
    assert "1/4" in shown.err, "progress is shown on standard error"


def test_foreign_json_is_refused_and_unfinished_or_other_files_ignored(
    measured: list[lab.Run], tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text("my results")
    unfinished = tmp_path / ".text-alibi.json.123-456"  # of a killed sweep
    unfinished.write_text('{"run": {')
    assert len(list(lab.sweep(runs(2), path=tmp_path, progress=False))) == 2
    (tmp_path / "notes.json").write_text("my notes")
    with pytest.raises(ValueError, match=r"notes\.json' is not a result of this version"):
        lab.sweep(runs(3), path=tmp_path)
    # No folder can be made at a file, or below it.
    for path in (tmp_path / "README.md", tmp_path / "README.md" / "below"):
        with pytest.raises(OSError, match=r"README\.md"):
            lab.sweep(runs(3), path=path)
    assert (tmp_path / "notes.json").read_text() == "my notes"
    assert len(measured) == 2


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
