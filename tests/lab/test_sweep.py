"""A sweep saves every finished run at once, and resumes after a kill without repeating or losing one."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import psutil
import pytest

from alibi_viz import lab
from alibi_viz.lab import experiment
from alibi_viz.lab.results import read_records


def runs(count=4, **settings):
    model = {"num_layers": 1, "num_heads": 1, "d_model": 8}
    tiny = {"length": 16, "steps": 4, "longest": 2, "model": model, **settings}
    seeds = range((count + 1) // 2)
    return [lab.Run(position, seed=seed, **tiny) for seed in seeds for position in ("alibi", "none")][:count]


def numbers(records):
    """What must be equal between two sweeps: everything except how long it took."""
    timed = {"seconds", "tokens_per_second"}
    return sorted(
        json.dumps({key: value for key, value in record.items() if key not in timed}, sort_keys=True)
        for record in records
    )


@pytest.fixture(scope="module")
def expected():
    return numbers(lab.sweep(runs(), progress=False))


class Counting(Executor):
    """Does the work at once, and counts it."""

    def __init__(self):
        self.labels = []

    def submit(self, fn, /, *args):
        self.labels.append((args[0].label, args[0].seed))
        future = Future()
        try:
            future.set_result(fn(*args))
        except Exception as error:
            future.set_exception(error)
        return future


def test_a_pool_gives_the_same_numbers_bit_for_bit(expected, tmp_path):
    with lab.process_pool(2) as pool:
        assert numbers(lab.sweep(runs(), pool, path=tmp_path / "pool", progress=False)) == expected
    assert numbers(read_records(tmp_path / "pool")) == expected


def test_each_run_is_in_the_folder_when_it_is_yielded(tmp_path):
    path = tmp_path / "deep" / "results"
    for count, record in enumerate(lab.sweep(runs(), path=path, progress=False), start=1):
        assert record in read_records(path)
        assert len(read_records(path)) == count


def test_a_second_call_does_only_the_missing_runs(expected, tmp_path):
    stream = lab.sweep(runs(), path=tmp_path, progress=False)
    next(stream)
    stream.close()
    executor = Counting()
    assert numbers(lab.sweep(runs(), executor, path=tmp_path, progress=False)) == expected
    assert len(executor.labels) == 3
    again = Counting()
    assert numbers(lab.sweep(runs(), again, path=tmp_path, progress=False)) == expected
    assert again.labels == []


def sweep_command(tmp_path, count, *options, **settings):
    """The command line of a sweep over `count` runs into tmp_path / "results"."""
    listed = tmp_path / "runs.json"
    listed.write_text(json.dumps([run.settings() for run in runs(count, **settings)]))
    out = str(tmp_path / "results")
    return [sys.executable, "-m", "alibi_viz.lab", "sweep", "--runs", str(listed), "--out", out, *options]


def until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_killed_sweep_resumes_with_the_finished_runs(tmp_path):
    """A real kill -9 of a real sweep, then the same command once more."""
    path, command = tmp_path / "results", sweep_command(tmp_path, 4, steps=60)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    until(lambda: list(path.glob("*.json")))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    before = read_records(path)
    assert 1 <= len(before) < 4
    subprocess.run(command, capture_output=True, text=True, check=True)
    after = read_records(path)
    assert all(record in after for record in before)
    assert len({json.dumps(record["run"]) for record in after}) == len(after) == 4


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_a_sweep_that_is_killed(tmp_path, how):
    command = sweep_command(tmp_path, 4, "--workers", "2", steps=2000)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: len(psutil.Process(process.pid).children()) >= 2)
    workers = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, how)
    process.wait(60)
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert alive == []


def test_a_worker_that_dies_ends_the_sweep_and_keeps_finished_runs(tmp_path):
    with lab.process_pool(1) as pool:
        stream = lab.sweep(runs(4, steps=40), pool, path=tmp_path, progress=False)
        next(stream)
        (worker,) = pool._processes
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(Exception, match="terminated abruptly"):
            list(stream)
    assert 1 <= len(read_records(tmp_path)) < 4


def test_a_dask_sweep_survives_a_killed_worker(tmp_path):
    """A scheduler and two workers, processes of their own, over TCP on loopback."""
    distributed = pytest.importorskip("distributed")
    path, many = tmp_path / "results", runs(6, steps=20)
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(host="127.0.0.1", protocol="tcp://", **settings) as cluster:
        assert cluster.scheduler_address.startswith("tcp://127.0.0.1:")
        with distributed.Client(cluster.scheduler_address) as client:
            workers = client.run(os.getpid)
            assert len(set(workers.values())) == 2
            assert os.getpid() not in workers.values()
            stream = lab.sweep(many, client.get_executor(), path=path, progress=False)
            first = next(stream)
            os.kill(next(iter(workers.values())), signal.SIGKILL)
            records = [first, *stream]
    assert len(records) == 6
    assert numbers(records) == numbers(read_records(path)) == numbers(lab.sweep(many, progress=False))


def test_divergence_is_a_result_and_other_errors_end_the_sweep(tmp_path, monkeypatch):
    first, second = runs(2)

    def diverging(*arguments, **settings):
        raise lab.TrainingDiverged("the loss became nan at step 1 of 4")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(experiment, "train", diverging)
        (record,) = lab.sweep([first], path=tmp_path, progress=False)
    assert record["error"] == "the loss became nan at step 1 of 4"
    assert record["answers"] == []
    missing_text = lab.Run("alibi", length=16, steps=4, path=str(tmp_path / "gone.txt"))
    stream = lab.sweep([first, second, missing_text], path=tmp_path, progress=False)
    assert next(stream) == record
    next(stream)
    with pytest.raises(FileNotFoundError, match=r"gone\.txt"):
        next(stream)
    assert len(read_records(tmp_path)) == 2


def test_progress_is_shown_on_standard_error(capsys):
    list(lab.sweep(runs(2)))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "0/2" in shown.err
    assert "2/2" in shown.err


def test_equal_runs_and_bad_settings_raise():
    with pytest.raises(ValueError, match="runs must be different: 2 were given, but only 1 different"):
        lab.sweep([lab.Run("alibi"), lab.Run("alibi")])
    for settings, message in (
        ({"position": "alibba"}, "got 'alibba'"),
        ({"position": "alibi", "task": "juggle"}, "task must be one of text, passages, .* induction, got 'juggle'"),
        ({"position": "alibi", "steps": 0}, "steps must be an integer of at least 1, got 0"),
        ({"position": "alibi", "learning_rate": -1.0}, r"learning_rate must be a positive number, got -1\.0"),
        ({"position": "alibi", "model": {"d_model": 30}}, "d_model=30 must be a multiple"),
        ({"position": "alibi", "model": {"num_heads": 128}}, "d_model=64 must be a multiple of num_heads=128"),
    ):
        with pytest.raises(ValueError, match=message):
            lab.Run(**settings)


def test_an_interruption_while_runs_are_submitted_keeps_those_that_finish(tmp_path):
    class Interrupted(ThreadPoolExecutor):
        given = 0

        def submit(self, *arguments, **options):
            self.given += 1
            if self.given == 3:
                raise KeyboardInterrupt
            return super().submit(*arguments, **options)

    with Interrupted(1) as pool, pytest.raises(KeyboardInterrupt):
        list(lab.sweep(runs(4), pool, path=tmp_path, progress=False))
    assert len(read_records(tmp_path)) >= 1
