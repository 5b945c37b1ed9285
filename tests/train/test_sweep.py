"""A sweep saves every finished run at once, and resumes after a kill without repeating, mixing or
losing one."""

import json
import os
import subprocess
import sys
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import fields, replace
from pathlib import Path
from threading import Event
from typing import NamedTuple

import psutil
import pytest

from alibi_viz import lab
from alibi_viz.measure.table import TRAINING_LOSS
from alibi_viz.train.results import read_records
from tests.custom_laws import steep
from tests.rows import each_case
from tests.tables import SMALL
from tests.train.tiny_runs import endless, finite, runs, tiny_run

DEADLINE = 600  # seconds until a test gives up waiting for processes: no result depends on them


def numbers(records):
    """What must be equal between two sweeps: not how long they took, or on which day and commit."""
    equal = [{**record, "seconds": 0, "made_with": {}} for record in records]
    return sorted(json.dumps(record, sort_keys=True) for record in equal)


def sweep(*runs, **options):
    """All records of a sweep that shows no progress."""
    return list(lab.sweep(runs, **options, progress=False))


def untrained_record(run):
    text = getattr(run.source(), "fingerprint", "")
    return {"run": run.settings(), "text": text, "error": None, "rows": [], "seconds": 0}


@pytest.fixture
def measured(monkeypatch):
    """Runs are listed here instead of being trained."""
    done = []

    def measure(run, progress=False):
        done.append(run)
        return untrained_record(run)

    monkeypatch.setattr("alibi_viz.train.results.measure", measure)
    return done


# A sweep by worker processes that is killed. Its first line is how workers take an interrupt, and
# then it prints one when a record is saved.
SCRIPT = """
import signal

from alibi_viz import lab
from alibi_viz.train.results import worker_pool
from tests.train.tiny_runs import endless, finite

if __name__ == "__main__":
    with worker_pool(2) as pool:
        # Two at once, so that both workers start at once.
        handlers = [pool.submit(signal.getsignal, signal.SIGINT) for _ in range(2)]
        print(repr(handlers[0].result()), flush=True)
        for record in lab.sweep([*finite(), *endless()], pool, out={folder!r}, progress=False):
            print("saved", flush=True)
"""


class KilledSweep(NamedTuple):
    """What is left of a sweep that was killed when all but its endless runs were saved."""

    folder: Path
    workers: list[psutil.Process]
    interrupt_handler: str  # of the workers


@pytest.fixture(scope="module")
def killed_sweep(tmp_path_factory):
    script = tmp_path_factory.mktemp("killed") / "script.py"
    folder = script.parent / "results"
    script.write_text(SCRIPT.format(folder=str(folder)))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with psutil.Popen(
        [sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        handler = process.stdout.readline().strip()
        for _ in finite():
            assert process.stdout.readline() == "saved\n"
        workers = process.children(recursive=True)
        process.kill()
    yield KilledSweep(folder, workers, handler)
    for worker in workers:
        if worker.is_running():
            worker.kill()


def test_workers_of_a_killed_sweep_end(killed_sweep):
    assert len(killed_sweep.workers) >= 2
    _, alive = psutil.wait_procs(killed_sweep.workers, timeout=DEADLINE)
    assert alive == []


def test_interrupt_ends_a_worker(killed_sweep):
    """As a KeyboardInterrupt it would only end one of its runs."""
    assert "SIG_DFL" in killed_sweep.interrupt_handler


def test_workers_give_the_same_numbers_bit_for_bit(killed_sweep):
    assert numbers(read_records(killed_sweep.folder)) == numbers(sweep(*finite()))


def test_workers_run_methods_with_a_name_and_own_functions(killed_sweep):
    labels = {record["run"]["label"] for record in read_records(killed_sweep.folder)}
    assert labels == {"alibi", "none", "local", "law"}


def test_runs_that_workers_have_finished_are_not_repeated(killed_sweep, measured):
    saved = read_records(killed_sweep.folder)
    records = sweep(*finite(), out=killed_sweep.folder)
    assert measured == []
    assert numbers(records) == numbers(saved)


def test_killed_sweep_resumes_with_the_runs_that_it_has_not_finished(
    killed_sweep, measured, tmp_path
):
    for file in killed_sweep.folder.iterdir():  # a copy, because the sweep adds to it
        (tmp_path / file.name).write_bytes(file.read_bytes())
    sweep(*finite(), *endless(), out=tmp_path)
    assert measured == endless()
    assert len(read_records(tmp_path)) == len(finite()) + len(endless())


# What is saved when


class SecondWorkerDies(Executor):
    """An executor whose first task is done at once, and whose other workers die at their task."""

    def __init__(self):
        self.tasks = 0

    def submit(self, task, /, *arguments, **options):
        self.tasks += 1
        future = Future()
        if self.tasks == 1:
            future.set_result(task(*arguments, **options))
        else:
            future.set_exception(BrokenProcessPool("a worker died"))
        return future


def test_death_of_a_worker_ends_the_sweep_and_keeps_what_is_finished(measured, tmp_path):
    message = "a worker process died; finished runs are saved, call again for the rest"
    with pytest.raises(BrokenProcessPool, match=message):
        list(lab.sweep(runs(4), SecondWorkerDies(), out=tmp_path, progress=False))
    (record,) = read_records(tmp_path)
    assert record["run"] == tiny_run(0).settings()


class OtherMachine(Executor):
    """An executor whose worker doesn't see the folder of the caller."""

    def __init__(self, folder):
        self.folder = folder

    def submit(self, task, /, *arguments, **options):
        hidden = self.folder.rename(self.folder.with_name("hidden"))
        future = Future()
        future.set_result(task(*arguments, **options))
        hidden.rename(self.folder)
        return future


def test_records_of_workers_without_the_folder_are_saved_by_the_caller(measured, tmp_path):
    folder = tmp_path / "results"
    records = list(lab.sweep(runs(2), OtherMachine(folder), out=folder, progress=False))
    assert numbers(read_records(folder)) == numbers(records)


@pytest.mark.weekly
def test_dask_gives_the_same_numbers_bit_for_bit_and_saves_them(tmp_path):
    distributed = pytest.importorskip("dask.distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=tmp_path / "dask"
    )
    folder = tmp_path / "results"
    with cluster, distributed.Client(cluster) as client:
        records = sweep(*finite(), executor=client.get_executor(), out=folder)
    assert numbers(records) == numbers(sweep(*finite()))
    assert numbers(read_records(folder)) == numbers(records)


def test_nothing_starts_before_the_first_record_is_asked_for(measured, tmp_path):
    folder = tmp_path / "deep" / "results"
    lab.sweep(runs(4), out=folder, progress=False)
    assert measured == []
    assert list(folder.iterdir()) == []


def test_each_record_is_saved_when_it_is_yielded(measured, tmp_path):
    stream = lab.sweep(runs(4), out=tmp_path, progress=False)
    first = next(stream)
    assert read_records(tmp_path) == [first]

    second = next(stream)
    saved = read_records(tmp_path)
    assert second in saved
    assert len(saved) == 2


def test_closed_stream_measures_no_further(measured):
    stream = lab.sweep(runs(4), progress=False)
    next(stream)
    stream.close()
    assert next(stream, None) is None
    assert measured == runs(1)


def test_next_sweep_measures_only_the_missing_runs(measured, tmp_path):
    sweep(*runs(2), out=tmp_path)
    measured.clear()
    records = sweep(*runs(4), out=tmp_path)
    assert len(records) == 4
    assert measured == runs(4)[2:]


def test_closing_cancels_waiting_runs_and_saves_those_begun(tmp_path, monkeypatch):
    started = []
    second_has_started = Event()
    closed = Event()

    def measure(run, progress=False):
        started.append(run)
        if len(started) == 2:
            second_has_started.set()
            assert closed.wait(DEADLINE)
        return untrained_record(run)

    monkeypatch.setattr("alibi_viz.train.results.measure", measure)
    with ThreadPoolExecutor(1) as pool:
        stream = lab.sweep(runs(6), pool, out=tmp_path, progress=False)
        next(stream)
        assert second_has_started.wait(DEADLINE)
        stream.close()
        closed.set()
    assert len(started) == 2
    assert len(read_records(tmp_path)) == 2


# Which runs are the same


OTHER_SETTINGS = {
    "position": "rotary",
    "task": "needle",
    "length": 17,
    "steps": 5,
    "batch_size": 3,
    "optimizer": "adamw",
    "learning_rate": 0.5,
    "seed": 9,
    "longest": 4,
    "targets": 99,
    "variants": ("window",),
    "threads": 2,
    "path": __file__,
    "device": "cpu",
    "model": {**SMALL, "num_layers": 2},
    "label": "../x" * 99,
}


def test_runs_that_differ_in_one_setting_are_different_runs(measured, tmp_path):
    assert OTHER_SETTINGS.keys() == {field.name for field in fields(lab.Run) if field.init}
    run = tiny_run()
    others = [replace(run, **{name: value}) for name, value in OTHER_SETTINGS.items()]
    sweep(run, out=tmp_path)
    sweep(run, *others, out=tmp_path)
    assert measured == [run, *others]
    assert len(read_records(tmp_path)) == 1 + len(others), "each in a file of its own"


def test_own_law_with_another_text_is_not_a_finished_run(measured, tmp_path):
    def law(distance, head, num_heads):
        return -distance.float() / head

    first = replace(tiny_run(), position=steep(0.25), label="mine")
    second = replace(tiny_run(), position=law, label="mine")
    sweep(first, out=tmp_path)
    sweep(first, second, out=tmp_path)
    assert measured == [first, second]


def test_two_laws_with_equal_text_and_label_are_refused(measured):
    flat = replace(tiny_run(), position=steep(0.25), label="mine")
    steeper = replace(tiny_run(), position=steep(0.5), label="mine")
    with pytest.raises(ValueError, match="got two of 'mine': give them different labels"):
        lab.sweep([flat, steeper], progress=False)


def test_equal_runs_are_executed_once(measured):
    run = tiny_run()
    equal = replace(run, model=dict(reversed(SMALL.items())))
    assert len(sweep(run, equal)) == 1
    assert measured == [run]


# What goes wrong


@pytest.fixture
def diverged(tmp_path):
    """The record of a run whose loss became NaN."""
    (record,) = sweep(tiny_run(learning_rate=1e30), out=tmp_path)
    return record


def test_divergence_is_a_result(diverged, tmp_path):
    assert "the loss became" in diverged["error"]
    assert read_records(tmp_path) == [diverged]


def test_model_that_diverged_is_not_tested(diverged):
    assert {row["question"] for row in diverged["rows"]} == {TRAINING_LOSS}


def test_sweep_goes_on_after_a_divergence():
    _, record = sweep(tiny_run(learning_rate=1e30), tiny_run())
    assert record["error"] is None


def test_other_errors_end_a_sweep_and_keep_what_is_finished(measured, tmp_path):
    first, last = runs(2)
    missing = replace(first, path=str(tmp_path / "gone.txt"))
    folder = tmp_path / "results"
    with pytest.raises(FileNotFoundError, match=r"gone\.txt"):
        sweep(first, missing, last, out=folder)
    (record,) = read_records(folder)
    assert record["run"] == first.settings()


def test_progress_is_a_line_on_standard_error_for_each_finished_run(capsys):
    list(lab.sweep(runs(2, longest=0)))
    shown = capsys.readouterr()
    assert shown.out == ""
    first, second = shown.err.splitlines()
    assert first.startswith("1 of 2: alibi, seed 3 (")
    assert second.startswith("2 of 2: none, seed 3 (")


def test_a_terminal_shows_the_run_in_progress(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    list(lab.sweep(runs(1, longest=0)))
    assert "train alibi, seed 3:" in capsys.readouterr().err


def test_unfinished_and_other_files_in_the_folder_are_ignored(measured, tmp_path):
    (tmp_path / "README.md").write_text("my results")
    unfinished = tmp_path / ".text-alibi.json.123-456"  # of a killed sweep
    unfinished.write_text('{"run": {')
    assert len(sweep(*runs(2), out=tmp_path)) == 2


def test_json_that_is_no_result_is_refused_and_kept(tmp_path):
    notes = tmp_path / "notes.json"
    notes.write_text("my notes")
    with pytest.raises(ValueError, match=r"notes\.json' is not a result of this version"):
        lab.sweep(runs(3), out=tmp_path)
    assert notes.read_text() == "my notes"


@each_case(
    "path",
    {
        "a file": Path("README.md"),
        "below a file": Path("README.md") / "below",
    },
)
def test_path_at_which_no_folder_can_be_made_is_refused(tmp_path, path):
    (tmp_path / "README.md").write_text("my results")
    with pytest.raises(OSError, match=r"README\.md"):
        lab.sweep(runs(3), out=tmp_path / path)


def own_text(sentence):
    """A text that is long enough to test on, in which no sentence is repeated."""
    return "".join(f"{sentence} {number}. " for number in range(600))


@pytest.fixture
def saved_on_own_text(measured, tmp_path):
    """A run on a text file, and the folder in which it was saved."""
    text = tmp_path / "text.txt"
    text.write_text(own_text("to be or not to be, that is question"))
    folder = tmp_path / "results"
    run = tiny_run(path=str(text))
    sweep(run, out=folder)
    return run, folder


def test_run_on_an_own_text_is_resumed(saved_on_own_text, measured):
    run, folder = saved_on_own_text
    sweep(run, out=folder)
    assert measured == [run], "and only once"


def test_text_that_has_changed_since_is_refused(saved_on_own_text):
    run, folder = saved_on_own_text
    Path(run.path).write_text(own_text("something else, and more of it than"))
    with pytest.raises(ValueError, match=r"text\.txt' has changed since runs in .* were made"):
        lab.sweep([run], out=folder)
