"""Execute many runs, in this process or in several, and save each as soon as it is finished.

Each record is saved in a JSON file of its own, so a killed sweep loses only the runs in progress.
When it is restarted, it executes only the missing runs.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import cloudpickle
from tqdm import tqdm

from alibi_viz import arguments
from alibi_viz.train.results import (
    Record,
    create_folder,
    read_records,
    save_record,
    settings_key,
)
from alibi_viz.train.run import Run, measure


def sweep(
    runs: Iterable[Run],
    executor: Executor | None = None,
    *,
    path: str | Path | None = None,
    progress: bool = True,
) -> Iterator[Record]:
    """Execute every run and yield each record when it is finished, saved records first.

    Args:
        runs: the settings of the runs. Equal ones are executed once.
        executor: any `concurrent.futures.Executor`, such as one of worker processes; by default
            this process, one run after the other. Your own position methods are sent along.
        path: the results folder, created if missing. Without it nothing is saved. Saved records are
            kept as they are, whichever version or machine made them ("made_with").
        progress: show a progress bar on standard error, and without an executor, one for the run in
            progress.

    The records are those of `measure`. A run that diverges is a result (its "error" says how). Any
    other failure ends the sweep and is raised: waiting runs are canceled, except for a few that a
    pool of processes has taken already, and finished runs stay in the folder. Leaving the loop
    early does the same, without an error.

    Raises at the call TypeError for other objects than runs and executors; ValueError for a folder
    with other JSON files, a saved run whose text has changed since, and two methods of your own
    that only their values tell apart; OSError if the folder can't be made.

    >>> from alibi_viz import lab
    >>> runs = [lab.Run("alibi", length=16, steps=5, longest=2, seed=seed) for seed in range(2)]
    >>> [record["run"]["seed"] for record in lab.sweep(runs, progress=False)]
    [0, 1]
    """
    runs = arguments.as_list("runs", runs, "Run objects", Run)
    if executor is not None:
        arguments.check_instance("executor", executor, Executor)
    different_runs = _different_runs(runs)

    saved: dict[str, Record] = {}
    folder = None
    if path is not None:
        folder = create_folder(path)
        for record in read_records(folder):
            saved[settings_key(record["run"])] = record

    finished: list[Record] = []
    missing: list[Run] = []
    for key, run in different_runs.items():
        if key in saved:
            _check_same_text(run, saved[key], str(folder))
            finished.append(saved[key])
        else:
            missing.append(run)
    return _records(finished, missing, executor, folder, progress)


def _different_runs(runs: list[Run]) -> dict[str, Run]:
    """The runs without repetitions, by the key of their settings."""
    different: dict[str, Run] = {}
    for run in runs:
        first = different.setdefault(settings_key(run.settings()), run)
        if first != run:  # two functions with equal text, such as closures with other values
            raise ValueError(
                f"runs must differ in a setting or the text of their method, got two of "
                f"{run.label!r}: give them different labels"
            )
    return different


def _check_same_text(run: Run, saved: Record, folder: str) -> None:
    """Raise ValueError if the text of a run is another one than that of its saved record."""
    if getattr(run.source(), "fingerprint", "") == saved["text"]:
        return
    text = f"the built-in {run.task}" if run.path is None else repr(run.path)
    raise ValueError(
        f"{text} has changed since runs in {folder!r} were made: use another results folder"
    )


def _records(
    finished: list[Record],
    missing: list[Run],
    executor: Executor | None,
    folder: Path | None,
    progress: bool,
) -> Iterator[Record]:
    """The finished records, then those of the missing runs."""
    yield from finished
    new_records: Iterator[Record]
    if executor is None:
        new_records = (_measure_and_save(run, folder, progress) for run in missing)
    else:
        new_records = _execute(missing, executor, folder)
    total = len(finished) + len(missing)
    bar = tqdm(new_records, total=total, initial=len(finished), unit="run", disable=not progress)
    with bar:
        yield from bar


def _execute(runs: list[Run], executor: Executor, folder: Path | None) -> Iterator[Record]:
    """The saved records of runs on an executor, as they finish."""
    futures: list[Future[Record]] = []
    try:
        # One by one: an interruption here must not lose the runs already submitted.
        for run in runs:
            # cloudpickle also sends functions of notebooks, which pickle can't.
            task = cloudpickle.dumps((run, folder))
            futures.append(executor.submit(_measure_pickled, task))
        for future in as_completed(futures):
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


def _measure_pickled(task: bytes) -> Record:
    """What a worker does."""
    run, folder = cloudpickle.loads(task)
    # Saved by the worker: the caller may be slow to ask for the next record, or never ask.
    return _measure_and_save(run, folder, progress=False)


def _measure_and_save(run: Run, folder: Path | None, progress: bool) -> Record:
    record = measure(run, progress=progress)
    if folder is not None:
        save_record(record, folder)
    return record


def worker_pool(workers: int) -> AbstractContextManager[Executor | None]:
    """For a `with` block: an executor of worker processes, or None for a single worker.

    The processes end with this one, even if it is killed.
    """
    if workers == 1:
        return nullcontext()
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_exit_with_parent,
    )


def _exit_with_parent() -> None:
    # Ctrl-C ends a worker; a KeyboardInterrupt would end one of its runs.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent: Any = multiprocessing.parent_process()

    def wait_and_exit() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait_and_exit, daemon=True).start()
