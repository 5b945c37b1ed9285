"""Many runs, on one core or on many machines, with every finished one kept at once.

The results file holds one JSON record a line. A line is written in one piece under a lock, as soon as its run is
finished. So two sweeps may share a file (a run that both have done stands there once), and a kill costs the runs in
flight and nothing else: started again, the sweep does what is missing.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO

from alibi_viz.lab.experiment import Record, Run, measure, text_mark

try:
    import fcntl
except ImportError:  # Windows: appends are still in one piece, but two sweeps should not share a file
    fcntl = None  # type: ignore[assignment]

__all__ = ["read_results", "sweep"]

_BEGINNING = b'{"run": {'  # of every line: `measure` puts the settings first


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

    Raises at the call: ValueError for two equal runs, when the file holds something else than results, and when a run
    in it read another text than is at its path today; OSError when the file cannot be written.

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
    _check_texts(done, path)
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).open("ab").close()  # better to fail now than after the first run
    missing = [run for key, run in wanted.items() if key not in kept]
    return _results(done, missing, executor, path, progress)


def _results(
    done: list[Record], missing: list[Run], executor: Executor | None, path: str | Path | None, progress: bool
) -> Iterator[Record]:
    total = len(done) + len(missing)
    yield from done
    finished: SimpleQueue[Future[Record]] = SimpleQueue()

    def kept(record: Record) -> Record:
        if path is not None:
            _append(path, record)
        return record

    def keep(future: Future[Record]) -> None:
        """On the executor's thread, at once: whoever asks for the next record may take his time."""
        told: Future[Record] = Future()
        try:
            told.set_result(kept(future.result()))
        except BaseException as error:
            told.set_exception(error)
        finished.put(told)

    futures: list[Future[Record]] = []
    try:
        if progress:
            _draw(len(done), total)
        if executor is None:
            fresh = (kept(measure(run)) for run in missing)
        else:
            for run in missing:  # one by one: an interruption here must not lose those that are on their way
                futures.append(executor.submit(measure, run))
                futures[-1].add_done_callback(keep)
            fresh = (finished.get().result() for _ in futures)
        for count, record in enumerate(fresh, start=len(done) + 1):
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
        except (ValueError, KeyError, TypeError, RecursionError):
            if number == len(lines) and _torn(line):  # not ended by a newline
                continue
            raise ValueError(f"line {number} of {str(path)!r} is not a result of this version: {line[:60]!r}") from None
        records.append(record)
    return records


def _torn(line: bytes) -> bool:
    """Whether a kill cut this line short while it was being written: it must begin as every record does."""
    return line[: len(_BEGINNING)] == _BEGINNING[: len(line)]


def _check_texts(records: list[Record], path: str | Path | None) -> None:
    for record in records:
        own = record["run"]["path"]
        if own is not None and record.get("text") != text_mark(own):
            raise ValueError(
                f"{own!r} is not the text any more that its runs in {str(path)!r} have read: use another results file"
            )


def _key(settings: Record) -> str:
    return json.dumps(settings, sort_keys=True)


def _append(path: str | Path, record: Record) -> None:
    with open(path, "a+b") as file, _locked(file):
        _mend_last_line(file)
        if _key(record["run"]) in {_key(known["run"]) for known in read_results(path)}:
            return  # another sweep has done it meanwhile
        file.write(json.dumps(record).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _mend_last_line(file: BinaryIO) -> None:
    """End the last line if only its newline is missing, and drop it if a kill cut it short."""
    file.seek(0)
    start = file.read().rfind(b"\n") + 1
    file.seek(start)
    line = file.read()
    try:
        if line:
            json.loads(line)
            file.write(b"\n")
            file.flush()
    except ValueError:
        if not _torn(line):
            raise ValueError(f"{file.name!r} does not end in a result any more: {line[:60]!r}") from None
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
