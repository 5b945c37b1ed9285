"""Floor 3: a sweep keeps every finished run at once, and resumes after a kill without repeating or losing one."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor

import pytest

from alibi_viz import lab
from alibi_viz.lab import experiment


def runs(count=4, **settings):
    tiny = {"length": 16, "steps": 4, "longest": 2, **settings}
    return [lab.Run(position, seed=seed, **tiny) for seed in range((count + 1) // 2) for position in ("alibi", "none")][
        :count
    ]


def numbers(records):
    """What must be equal between two sweeps: everything but how long it took."""
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


def test_in_turn_and_in_a_pool_the_numbers_are_equal_to_the_bit(expected, tmp_path):
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert numbers(lab.sweep(runs(), pool, path=tmp_path / "pool.jsonl", progress=False)) == expected
    assert numbers(lab.read_results(tmp_path / "pool.jsonl")) == expected


def test_each_run_is_in_the_file_as_soon_as_it_is_yielded(tmp_path):
    path = tmp_path / "deep" / "results.jsonl"
    for count, record in enumerate(lab.sweep(runs(), path=path, progress=False), start=1):
        assert lab.read_results(path)[-1] == record
        assert len(lab.read_results(path)) == count


def test_a_second_call_does_what_is_missing(expected, tmp_path):
    path = tmp_path / "results.jsonl"
    stream = lab.sweep(runs(), path=path, progress=False)
    next(stream)
    stream.close()
    executor = Counting()
    assert numbers(lab.sweep(runs(), executor, path=path, progress=False)) == expected
    assert len(executor.labels) == 3
    again = Counting()
    assert numbers(lab.sweep(runs(), again, path=path, progress=False)) == expected
    assert again.labels == []


@pytest.mark.parametrize("cut", [1, 2, 50, 10**6])
def test_a_last_line_that_was_cut_is_done_again_and_one_without_its_newline_is_kept(expected, tmp_path, cut):
    path = tmp_path / "results.jsonl"
    list(lab.sweep(runs(), path=path, progress=False))
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    path.write_bytes(whole[: max(last, len(whole) - cut)])
    executor = Counting()
    assert len(list(lab.sweep(runs(5), executor, path=path, progress=False))) == 5
    assert len(executor.labels) == (1 if cut == 1 else 2)  # the fifth run, and the one that was cut
    assert len(lab.read_results(path)) == 5
    assert set(expected) <= set(numbers(lab.read_results(path)))


def test_killed_in_the_middle_and_started_again(expected, tmp_path):
    """A real kill -9 of a real sweep, then the same command once more."""
    path, settings = tmp_path / "results.jsonl", tmp_path / "runs.json"
    slow = runs(4, steps=60)
    settings.write_text(json.dumps([run.settings() for run in slow]))
    command = [sys.executable, "-m", "alibi_viz.lab", "sweep", "--runs", str(settings), "--out", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (path.exists() and path.read_bytes().count(b"\n") >= 1):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    before = lab.read_results(path)
    assert 1 <= len(before) < 4
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr.count("of 4 runs") == 4 - len(before) + 1  # the bar starts at what was there
    after = lab.read_results(path)
    assert after[: len(before)] == before
    assert len({json.dumps(record["run"]) for record in after}) == len(after) == 4


def test_a_worker_that_dies_ends_the_sweep_and_keeps_what_is_done(tmp_path):
    path = tmp_path / "results.jsonl"
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        stream = lab.sweep(runs(6, steps=40), pool, path=path, progress=False)
        next(stream)
        (worker,) = pool._processes
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(Exception, match="terminated abruptly"):
            list(stream)
    assert 1 <= len(lab.read_results(path)) < 6


def test_dask_with_a_worker_killed_in_the_middle_loses_and_repeats_nothing(tmp_path):
    """A scheduler and two workers, processes of their own, over TCP on loopback."""
    distributed = pytest.importorskip("distributed")
    path, many = tmp_path / "results.jsonl", runs(8, steps=30)
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
    assert len(records) == 8
    assert numbers(records) == numbers(lab.read_results(path)) == numbers(lab.sweep(many, progress=False))


def test_divergence_is_a_result_and_any_other_error_ends_the_sweep(tmp_path, monkeypatch):
    path = tmp_path / "results.jsonl"
    first, second = runs(2)

    def diverging(*arguments, **settings):
        raise lab.TrainingDiverged("the loss became nan at step 1 of 4")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(experiment, "train", diverging)
        (record,) = lab.sweep([first], path=path, progress=False)
    assert record["error"] == "the loss became nan at step 1 of 4"
    assert record["curve"] == []
    missing_text = lab.Run("alibi", length=16, steps=4, path=str(tmp_path / "gone.txt"))
    stream = lab.sweep([first, second, missing_text], path=path, progress=False)
    assert next(stream) == record
    next(stream)
    with pytest.raises(FileNotFoundError, match=r"gone\.txt"):
        next(stream)
    assert len(lab.read_results(path)) == 2


def test_progress_is_drawn_on_standard_error(capsys):
    list(lab.sweep(runs(2)))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line[-11:] for line in shown.err.splitlines()] == ["0 of 2 runs", "1 of 2 runs", "2 of 2 runs"]


def test_equal_runs_and_bad_settings_are_refused():
    one = lab.Run("alibi")
    with pytest.raises(ValueError, match="2 runs were given, but only 1 of them differ"):
        lab.sweep([one, lab.Run("alibi")])
    for settings, says in (
        ({"position": "alibba"}, "got 'alibba'"),
        ({"position": "alibi", "task": "juggle"}, "task must be one of text, needle, copy, induction, got 'juggle'"),
        ({"position": "alibi", "steps": 0}, "steps must be a whole number from 1 up, got 0"),
        ({"position": "alibi", "model": {"d_model": 30}}, "d_model=30 must be a multiple"),
    ):
        with pytest.raises(ValueError, match=says):
            lab.Run(**settings)
