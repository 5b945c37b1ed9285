"""Many runs, on one core or on many machines, with each finished run saved at once in a JSON file of its own.

A file is written under another name and then renamed, so it is complete or absent: two sweeps may share a folder, and a
killed sweep loses only the runs in progress. When it is restarted, it executes only the missing runs.
"""

import hashlib
import json
import multiprocessing
import os
import pickle
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from queue import SimpleQueue

from tqdm import tqdm

from alibi_viz.arguments import as_list, check_instance, check_positive_integers
from alibi_viz.lab.experiment import Run, measure
from alibi_viz.lab.folders import create_folder
from alibi_viz.lab.results import Record, read_records
from alibi_viz.lab.sources import SOURCES
from alibi_viz.lab.text import Text
from alibi_viz.models import POSITIONS
from alibi_viz.models.positions.custom import custom_method

__all__ = ["executor", "in_order", "process_pool", "sweep"]


def sweep(
    runs: Iterable[Run], executor: Executor | None = None, *, path: str | Path | None = None, progress: bool = True
) -> Iterator[Record]:
    """Execute every run and yield each record when it is finished (see `measure`), saved records first.

    Args:
        runs: the settings of the runs, all different.
        executor: any `concurrent.futures.Executor`, such as a `process_pool`, or Dask's `Client(...).get_executor()`
            for a cluster. None executes the runs in this process, one after the other.
        path: the results folder, created if missing. Without it nothing is saved.
        progress: show a progress bar on standard error.

    Worker processes import your own position methods, so these must be in a file, not in a notebook; Dask also takes
    those in a notebook.

    A run that diverges is a result (its "error" says how). Any other failure ends the sweep and is raised: waiting runs
    are canceled, and finished runs stay in the folder. Leaving the loop early does the same, without an error.

    Raises at the call: TypeError for other objects than runs and executors; ValueError for two equal runs, for a
    position method that a worker process can't import, for a folder with other JSON files, and for a saved run whose
    text has changed since; OSError if the folder can't be created or written in.

    >>> runs = [lab.Run("alibi", length=16, steps=5, longest=2, seed=seed) for seed in range(2)]
    >>> [record["run"]["seed"] for record in lab.sweep(runs, progress=False)]
    [0, 1]
    """
    runs = as_list("runs", runs, "Run objects")
    for run in runs:
        check_instance("each of runs", run, Run)
    if executor is not None:
        check_instance("executor", executor, Executor)
    runs_by_key = {_key(run.settings()): run for run in runs}
    if len(runs_by_key) < len(runs):
        raise ValueError(
            f"runs must be different: {len(runs)} were given, but only {len(runs_by_key)} different; set another seed"
        )
    if isinstance(executor, ProcessPoolExecutor):
        _check_importable(runs)
    folder = None if path is None else Path(path)
    saved: dict[str, Record] = {}
    if folder is not None:
        if folder.is_file():
            raise ValueError(f"{str(folder)!r} is a file, and a sweep saves its results in a folder")
        create_folder(folder)
        saved = {_key(record["run"]): record for record in read_records(folder)}
    finished = [(runs_by_key[key], saved[key]) for key in runs_by_key if key in saved]
    _check_texts(finished, folder)
    missing = [run for key, run in runs_by_key.items() if key not in saved]

    def results() -> Iterator[Record]:
        yield from (record for _, record in finished)
        in_process = (_save(measure(run), folder) for run in missing)
        records = in_process if executor is None else _run_on_executor(missing, executor, folder)
        with tqdm(records, total=len(runs), initial=len(finished), unit="run", disable=not progress) as bar:
            yield from bar

    return results()


def in_order(records: Iterable[Record], runs: Iterable[Run]) -> list[Record]:
    """The records of these runs, in the order of the runs."""
    order = {_key(run.settings()): place for place, run in enumerate(runs)}
    return sorted(records, key=lambda record: order[_key(record["run"])])


def _run_on_executor(runs: list[Run], executor: Executor, folder: Path | None) -> Iterator[Record]:
    results: SimpleQueue[Future[Record]] = SimpleQueue()

    def save(future: Future[Record]) -> None:
        """Save at once, on the executor's thread: the caller may be slow to ask for the next record."""
        result: Future[Record] = Future()
        try:
            result.set_result(_save(future.result(), folder))
        except BaseException as error:
            result.set_exception(error)
        results.put(result)

    futures: list[Future[Record]] = []
    try:
        for run in runs:  # one by one: an interruption here must not lose the runs already submitted
            futures.append(executor.submit(measure, run))
            futures[-1].add_done_callback(save)
        for _ in futures:
            yield results.get().result()
    finally:
        for future in futures:
            future.cancel()


@contextmanager
def executor(workers: int = 1, scheduler: str | None = None) -> Iterator[Executor | None]:
    """Dask's executor, a pool of processes, or None for one run after the other, until the end of a `with` block.

    Files with your own position methods are sent to Dask's workers, which may be on other machines.
    """
    if scheduler:
        try:
            from distributed import Client  # noqa: PLC0415 - an extra that only this option needs
        except ImportError:
            raise ImportError("a scheduler needs Dask: pip install distributed") from None

        with Client(scheduler) as client:
            for file in _files_of_own_methods():
                client.upload_file(file)
            yield client.get_executor()
    elif workers > 1:
        with process_pool(workers) as pool:
            yield pool
    else:
        yield None


def process_pool(workers: int) -> ProcessPoolExecutor:
    """An executor of `workers` processes that end when this process ends, even if it is killed.

    >>> with lab.process_pool(1) as pool:
    ...     pool.submit(abs, -1).result()
    1
    """
    check_positive_integers(workers=workers)
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_exit_with_parent)


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _files_of_own_methods() -> set[str]:
    """The files of your own position methods, except those in packages, which a worker has to have installed."""
    names = {method.__module__ for method in map(custom_method, POSITIONS) if method is not None}
    files = [getattr(sys.modules[name], "__file__", None) for name in names if name != "__main__" and "." not in name]
    return {file for file in files if file}


def _check_importable(runs: Iterable[Run]) -> None:
    """Raise ValueError if a new process cannot import a position method of these runs."""
    for run in runs:
        method = run.own
        if method is None:
            continue
        try:
            pickle.dumps(method)
            importable = hasattr(sys.modules[method.__module__], "__file__")  # the module of a notebook has none
        except (pickle.PicklingError, AttributeError):
            importable = False
        if not importable:
            raise ValueError(
                f"a worker process cannot import position method {run.position!r}, which is defined in a notebook or "
                "inside a function: put it at the top level of a file and import it, or sweep without an executor"
            )


def _check_texts(finished: list[tuple[Run, Record]], folder: Path | None) -> None:
    """Raise ValueError if the text of a saved run has changed since it was measured."""
    fingerprints = {
        (task, path): source.fingerprint if isinstance(source := SOURCES[task](path), Text) else ""
        for task, path in {(run.task, run.path) for run, _ in finished}
    }
    for run, record in finished:
        if record["text"] != fingerprints[run.task, run.path]:
            name = f"the built-in {run.task}" if run.path is None else repr(run.path)
            raise ValueError(f"{name} has changed since runs in {str(folder)!r} were made: use another results folder")


def _key(settings: Record) -> str:
    return json.dumps(settings, sort_keys=True)


def _save(record: Record, folder: Path | None) -> Record:
    """Write the record into the folder, complete or not at all, and return it."""
    if folder is not None:
        run = record["run"]
        digest = hashlib.sha256(_key(run).encode()).hexdigest()[:12]
        label = re.sub(r"[^\w-]+", "-", run["label"])[:40]
        path = folder / f"{run['task'].replace(' ', '-')}-{label}-seed-{run['seed']}-{digest}.json"
        scratch = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
        scratch.write_text(json.dumps(record), encoding="utf-8")
        scratch.replace(path)
    return record
