"""Many runs, on one core or on many machines, with every finished one kept at once.

The results file holds one JSON record a line. A line is written in one piece under a lock, so that two sweeps may share
a file, and a kill costs the runs in flight and nothing else: started again, the sweep does what is missing.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from alibi_viz.lab.experiment import Record, Run, measure

try:
    import fcntl
except ImportError:  # Windows: appends are still in one piece, but two sweeps should not share a file
    fcntl = None  # type: ignore[assignment]

__all__ = ["read_results", "sweep"]


def sweep(
    runs: Iterable[Run], executor: Executor | None = None, *, path: str | Path | None = None, progress: bool = True
) -> Iterator[Record]:
    """Do every run, yielding each record as it comes (see `measure`); those already in the file come first.

    Args:
        runs: their settings, no two alike.
        executor: any `concurrent.futures.Executor`: None does the runs here, one after the other; a
            `ProcessPoolExecutor` uses the cores of this machine; Dask's `Client(...).get_executor()` uses a cluster.
        path: the results file, made if it is missing. Without it nothing is kept.
        progress: draw a bar on standard error.

    A run that diverges is a result ("error" says how). Any other failure ends the sweep: runs that wait are cancelled,
    the error is raised, and what is finished stays in the file. Leaving the loop early does the same, without an error.

    Raises ValueError for two equal runs, and when the file holds something else than results (at the call).

    >>> runs = [lab.Run("alibi", length=16, steps=5, longest=2, seed=seed) for seed in range(2)]
    >>> [record["run"]["seed"] for record in lab.sweep(runs, progress=False)]
    [0, 1]
    """
    todo = list(runs)
    wanted = {_key(run.settings()): run for run in todo}
    if len(wanted) < len(todo):
        raise ValueError(f"{len(todo)} runs were given, but only {len(wanted)} of them differ; set another seed")
    kept = {_key(record["run"]): record for record in read_results(path)} if path and Path(path).exists() else {}
    done = [kept[key] for key in wanted if key in kept]
    missing = [run for key, run in wanted.items() if key not in kept]
    return _results(done, missing, executor, path, progress)


def _results(
    done: list[Record], missing: list[Run], executor: Executor | None, path: str | Path | None, progress: bool
) -> Iterator[Record]:
    total = len(done) + len(missing)
    yield from done
    futures: list[Future[Record]] = []
    if executor is None:
        fresh = (measure(run) for run in missing)
    else:
        futures = [executor.submit(measure, run) for run in missing]
        fresh = (future.result() for future in as_completed(futures))
    try:
        if progress:
            _draw(len(done), total)
        for count, record in enumerate(fresh, start=len(done) + 1):
            if path is not None:
                _append(path, record)
            if progress:
                _draw(count, total)
            yield record
    finally:
        for future in futures:
            future.cancel()


def read_results(path: str | Path) -> list[Record]:
    """The records of a results file, oldest first. A last line that a kill cut short is left out.

    Raises FileNotFoundError, and ValueError that names the line which is no result.
    """
    lines = Path(path).read_bytes().split(b"\n")
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            Run(**record["run"])
        except (ValueError, KeyError, TypeError):
            if number == len(lines):  # not ended by a newline: it was being written, or is the nothing after the last
                continue
            raise ValueError(f"line {number} of {str(path)!r} is not a result of this version: {line[:60]!r}") from None
        records.append(record)
    return records


def _key(settings: Record) -> str:
    return json.dumps(settings, sort_keys=True)


def _append(path: str | Path, record: Record) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as file, _locked(file):
        _mend_last_line(file)
        file.write(json.dumps(record).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _mend_last_line(file: BinaryIO) -> None:
    """End the last line if only its newline is missing, and drop it if it was cut short."""
    file.seek(0)
    start = file.read().rfind(b"\n") + 1
    file.seek(start)
    try:
        if torn := file.read():
            json.loads(torn)
            file.write(b"\n")
    except ValueError:
        file.truncate(start)


@contextmanager
def _locked(file: BinaryIO) -> Iterator[None]:
    if fcntl is None:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _draw(done: int, total: int) -> None:
    """A bar that is drawn over itself on a screen, and a line a run in a log."""
    filled = 30 * done // max(total, 1)
    bar = f"[{'#' * filled}{'.' * (30 - filled)}] {done} of {total} runs"
    live = sys.stderr.isatty()
    print(f"\r{bar}" if live else bar, end="" if live and done < total else "\n", file=sys.stderr, flush=True)
