"""Many runs, on one core or on many, with each finished run saved at once in a JSON file of its own.

A file is written under another name and then renamed, so it is complete or absent: two sweeps may share a folder, and a
killed sweep loses only the runs in progress. When it is restarted, it executes only the missing runs.
"""

import hashlib
import json
import multiprocessing
import os
import re
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import cloudpickle
from tqdm import tqdm

from alibi_viz.arguments import as_list, check_file_name, check_instance
from alibi_viz.lab.runs import Record, Run, measure, read_records


def sweep(
    runs: Iterable[Run], executor: Executor | None = None, *, path: str | Path | None = None, progress: bool = True
) -> Iterator[Record]:
    """Execute every run and yield each record when it is finished (see `measure`), saved records first.

    Args:
        runs: the settings of the runs. Equal ones are executed once.
        executor: any `concurrent.futures.Executor`, such as a `process_pool`; by default this process, one run after
            the other. Your own position methods are sent along.
        path: the results folder, created if missing. Without it nothing is saved.
        progress: show a progress bar on standard error.

    A run that diverges is a result (its "error" says how). Any other failure ends the sweep and is raised: waiting runs
    are canceled, and finished runs stay in the folder. Leaving the loop early does the same, without an error.

    Raises at the call TypeError for other objects than runs and executors; ValueError for a folder with other JSON
    files, and a saved run whose text has changed since; OSError if the folder can't be made.

    >>> runs = [lab.Run("alibi", length=16, steps=5, longest=2, seed=seed) for seed in range(2)]
    >>> [record["run"]["seed"] for record in lab.sweep(runs, progress=False)]
    [0, 1]
    """
    runs = as_list("runs", runs, "Run objects")
    for run in runs:
        check_instance("each of runs", run, Run)
    if executor is not None:
        check_instance("executor", executor, Executor)
    by_key = {_key(run.settings()): run for run in runs}
    folder = None if path is None else create_folder(path)
    saved = {_key(record["run"]): record for record in (read_records(folder) if folder else ())}
    finished = [saved[key] for key in by_key if key in saved]
    missing = [run for key, run in by_key.items() if key not in saved]
    for run, record in [(by_key[_key(record["run"])], record) for record in finished]:
        if getattr(run.source(), "fingerprint", "") != record["text"]:
            name = f"the built-in {run.task}" if run.path is None else repr(run.path)
            raise ValueError(f"{name} has changed since runs in {str(folder)!r} were made: use another results folder")

    def records() -> Iterator[Record]:
        yield from finished
        in_turn = (_save(measure(run), folder) for run in missing)
        made = in_turn if executor is None else _submit(missing, executor, folder)
        with tqdm(made, total=len(by_key), initial=len(finished), unit="run", disable=not progress) as bar:
            yield from bar

    return records()


def _submit(runs: list[Run], executor: Executor, folder: Path | None) -> Iterator[Record]:
    """The saved records of runs on an executor, as they finish."""
    futures: list[Future[Record]] = []
    try:
        for run in runs:  # one by one: an interruption here must not lose the runs already submitted
            futures.append(executor.submit(_measure_pickled, cloudpickle.dumps((run, folder))))
        for future in as_completed(futures):
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


def _measure_pickled(task: bytes) -> Record:
    """What a worker does. It saves at once: the caller may be slow to ask for the next record, or never ask.

    cloudpickle sends functions of notebooks too, which pickle can't.
    """
    run, folder = cloudpickle.loads(task)
    return _save(measure(run), folder)


def executor(workers: int) -> AbstractContextManager[Executor | None]:
    """A `process_pool` for a `with` block or, for one worker, None: one run after the other."""
    return process_pool(workers) if workers > 1 else nullcontext()


def process_pool(workers: int) -> ProcessPoolExecutor:
    """An executor of `workers` processes that end when this process ends, even if it is killed."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_exit_with_parent)


def _exit_with_parent() -> None:
    def watch() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def create_folder(path: str | Path) -> Path:
    """The path of a folder, created if missing. Raises OSError if it can't be made."""
    check_file_name("path", path)
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def check_new(path: Path) -> None:
    """Raise FileExistsError if there is a folder or file of this name."""
    if path.exists():
        raise FileExistsError(f"{str(path)!r} exists already and is not overwritten; choose another name or remove it")


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
