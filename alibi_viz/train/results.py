"""Execute many runs, keep the record of each in a folder, and read the records again as one table.

A record is a JSON file of its own, complete or absent, so a killed sweep loses only the runs in
progress, and two sweeps may share a folder. The next sweep executes only what is missing.
"""

import gzip
import hashlib
import json
import multiprocessing
import os
import re
import signal
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import cloudpickle
import pandas as pd

from alibi_viz import arguments
from alibi_viz.files import create_folder, write
from alibi_viz.measure.table import Row, results_table
from alibi_viz.train.run import Record, Run, measure


def sweep(
    runs: Iterable[Run],
    executor: Executor | None = None,
    *,
    out: str | Path | None = None,
    progress: bool = True,
) -> Iterator[Record]:
    """Execute every run and yield each record when it is finished, saved records first.

    Args:
        runs: the settings of the runs. Equal ones are executed once.
        executor: any `concurrent.futures.Executor`, such as one of worker processes, or that of a
            Dask client; by default this process, one run after the other. Your own position methods
            are sent along; a text file of yours must be on the machine of each worker.
        out: the results folder, created if missing. Without it nothing is saved. Saved records are
            kept as they are, whichever version or machine made them ("made_with").
        progress: write a line on standard error for each finished run, and in a terminal, without
            an executor, show a bar for the run in progress.

    A record has "run" (the settings), "text" (the fingerprint of the text, "" for a task), "error"
    (None, or how training diverged), "seconds", "made_with" (versions) and "rows" with the columns
    of `lab.COLUMNS`. A run that diverges is a result. Any other failure ends the sweep and is
    raised: waiting runs are canceled, except for a few that a pool of processes has taken already,
    and finished runs stay in the folder. Leaving the loop early does the same, without an error.

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

    different: dict[str, Run] = {}  # without repetitions, by the key of their settings
    for run in runs:
        first = different.setdefault(settings_key(run.settings()), run)
        if first != run:  # two functions with equal text, such as closures with other values
            raise ValueError(
                f"runs must differ in a setting or the text of their method, got two of "
                f"{run.label!r}: give them different labels"
            )

    saved: dict[str, Record] = {}
    if out is not None:
        out = create_folder(out)
        saved = {settings_key(record["run"]): record for record in read_records(out)}

    finished: list[Record] = []
    missing: list[Run] = []
    for key, run in different.items():
        if key not in saved:
            missing.append(run)
            continue
        if getattr(run.source(), "fingerprint", "") != saved[key]["text"]:
            text = f"the built-in {run.task}" if run.path is None else repr(run.path)
            raise ValueError(
                f"{text} has changed since runs in {str(out)!r} were made: use another results "
                "folder"
            )
        finished.append(saved[key])
    # The checks above are made at the call, and the runs when their records are asked for.
    return _records(finished, missing, executor, out, progress)


def _records(
    finished: list[Record],
    missing: list[Run],
    executor: Executor | None,
    folder: Path | None,
    progress: bool,
) -> Iterator[Record]:
    """The finished records, then those of the missing runs, which are saved in the folder."""
    yield from finished
    new_records: Iterator[Record]
    if executor is None:
        new_records = (measure(run, progress=progress) for run in missing)
    else:
        new_records = _execute(missing, executor, folder)

    total = len(finished) + len(missing)
    for number, record in enumerate(new_records, start=len(finished) + 1):
        if folder is not None:
            save_record(record, folder)
        if progress:
            name = f"{record['run']['label']}, seed {record['run']['seed']}"
            print(f"{number} of {total}: {name} ({record['seconds']:.0f} s)", file=sys.stderr)
        yield record


def _execute(runs: list[Run], executor: Executor, folder: Path | None) -> Iterator[Record]:
    """The records of runs on an executor, as they finish."""
    # Workers may have another working directory.
    folder = None if folder is None else folder.resolve()
    futures = []
    try:
        # One by one: an interruption here must not lose the runs already submitted.
        for run in runs:
            # cloudpickle also sends functions of notebooks, which pickle can't.
            task = cloudpickle.dumps((run, folder))
            futures.append(executor.submit(_measure_pickled, task))
        for future in as_completed(futures):
            yield future.result()
    except BrokenExecutor as error:
        advice = "choose a results folder, which keeps finished runs"
        if folder is not None:
            advice = "finished runs are saved, call again for the rest"
        raise type(error)(f"a worker process died; {advice}") from error
    finally:
        for future in futures:
            future.cancel()


def _measure_pickled(task: bytes) -> Record:
    """What a worker does."""
    run, folder = cloudpickle.loads(task)
    record = measure(run)
    # The caller saves the record, too, and tells what fails. But it may be killed before, or never
    # ask for the record. On another machine, there may be no such folder.
    if folder is not None:
        with suppress(OSError):
            save_record(record, folder)
    return record


def worker_pool(workers: int) -> AbstractContextManager[Executor | None]:
    """For a `with` block: an executor of worker processes, or None for a single worker.

    The processes end with this one, even if it is killed.
    """
    arguments.check_positive_integers(workers=workers)
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


# The records in files


def save_record(record: Record, folder: Path) -> None:
    """Write a record into a folder, complete or not at all, in a file named after its settings."""
    settings = record["run"]
    task = settings["task"].replace(" ", "-")
    label = re.sub(r"[^\w-]+", "-", settings["label"])[:40]
    digest = hashlib.sha256(settings_key(settings).encode()).hexdigest()[:12]
    name = f"{task}-{label}-seed-{settings['seed']}-{digest}.json"
    write(folder / name, json.dumps(record))


def settings_key(settings: Record) -> str:
    """The settings of a run as text, equal for equal settings."""
    return json.dumps(settings, sort_keys=True)


def read_results(path: str | Path, *, by_block: bool = False) -> pd.DataFrame:
    """The table of the finished runs in a results folder or file; the origin is its name.

    With `by_block`, losses on longer sequences have a row for each of up to sixteen blocks of the
    text, and the table a column "block". Raises FileNotFoundError, and ValueError that names what
    isn't a result.

    >>> from tempfile import TemporaryDirectory
    >>> from alibi_viz import lab
    >>> runs = [lab.Run("alibi", length=16, steps=5, longest=2)]
    >>> with TemporaryDirectory() as folder:
    ...     records = list(lab.sweep(runs, out=folder, progress=False))
    ...     lab.read_results(folder)["origin"].nunique()
    1
    """
    arguments.check_flag("by_block", by_block)
    records = read_records(path)
    if not records:
        raise ValueError(
            f"{str(path)!r} has no results: `compare` and `sweep` write them there as .json files"
        )
    return record_table(records, Path(path).name, by_block=by_block)


def read_records(path: str | Path) -> list[Record]:
    """The finished runs in a results folder or a file.

    A file, gzipped or not, has one JSON record per line; a folder has .json files.
    """
    path = arguments.as_path("path", path)
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    records: list[Record] = []
    for file in files:
        data = file.read_bytes()
        try:
            if file.suffix == ".gz":
                data = gzip.decompress(data)
            lines = data.decode("utf-8").splitlines()
        except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError) as error:
            raise ValueError(f"cannot read results from {str(file)!r}: {error}") from error
        for number, line in enumerate(lines, start=1):
            records.append(_record(line, where=f"line {number} of {str(file)!r}"))
    return records


def _record(line: str, where: str) -> Record:
    """The record in a line of JSON. Raises ValueError if it is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not {"run", "text", "error", "rows"} <= record.keys():
        raise ValueError(
            f"{where} is not a result of this version: {line[:60]!r}; "
            "remove it if it is an old result, or use another folder"
        )
    return record


def record_table(records: Iterable[Record], origin: str, *, by_block: bool = False) -> pd.DataFrame:
    """The table of finished runs; with `by_block`, as in `read_results`."""
    rows: list[Row] = []
    blocks: list[int] = []
    for record in records:
        for row in record["rows"]:
            values = [row["value"]]
            if by_block and "blocks" in row:
                values = row["blocks"]
            for block, value in enumerate(values):
                rows.append({**row, "origin": origin, "value": value})
                blocks.append(block)
    table = results_table(rows)
    return table.assign(block=blocks) if by_block else table
