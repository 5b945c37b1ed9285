"""One tidy table of results: a row per measured value, whatever run or app it comes from."""

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = ["AS_TRAINED", "COLUMNS", "TRAINING_LOSS", "read_records", "read_results", "results_table", "seed_curves"]

AS_TRAINED = "as trained"
TRAINING_LOSS = "training loss"
COLUMNS = {
    "origin": "str",  # "live" (a race in this session), "published" (shipped), or the name of a results file
    "task": "str",  # what was trained on: "text" or a task such as "needle"
    "method": "str",  # position method
    "label": "str",  # name in tables and legends; the method unless a run has special settings
    "seed": "int64",  # of the starting weights and the batches
    "length": "int64",  # training length L
    "evaluated": "str",  # "as trained", or how the model was changed before evaluation, such as "window"
    "question": "str",  # what was measured, see `lab.questions`; or "training loss"
    "x": "int64",  # position on the question's axis: a length, distance, position or step
    "value": "float64",  # the measurement; NaN where a method is not defined
    "unit": "str",  # of the value, such as "bits per byte"
    "count": "int64",  # how many targets or samples the value is a mean over
    "text": "str",  # fingerprint of the text, "" for a task
}
ANSWER = ("evaluated", "question", "x", "value", "unit", "count")  # of a record's "answers", in this order
Record = dict[str, Any]  # one finished run as JSON, see `measure`


def results_table(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A table with the columns of `COLUMNS`, also when there are no rows.

    >>> lab.results_table([]).columns.tolist()[:4]
    ['origin', 'task', 'method', 'label']
    """
    return pd.DataFrame(list(rows), columns=list(COLUMNS)).astype(COLUMNS)


def record_table(records: Iterable[Record], origin: str) -> pd.DataFrame:
    """The table of finished runs. Runs that diverged have their training loss only."""
    rows: list[dict[str, Any]] = []
    for record in records:
        run = record["run"]
        common = {name: run[name] for name in ("task", "label", "seed", "length")}
        common |= {"origin": origin, "method": run["position"], "text": record["text"] or ""}
        rows += [common | dict(zip(ANSWER, answer, strict=True)) for answer in record["answers"]]
    return results_table(rows)


def read_records(path: str | Path) -> list[Record]:
    """The finished runs in a results folder (one JSON file per run), or in a file with one JSON record per line.

    A file whose name ends in .gz is decompressed. Raises FileNotFoundError, and ValueError that names the file that
    cannot be read, or the file or line that is not a record.
    """
    path = Path(path)
    if path.is_dir():
        sources = [(file.name, _read(file)) for file in sorted(path.glob("*.json"))]
    else:
        sources = [(f"line {number}", line) for number, line in enumerate(_read(path).splitlines(), start=1)]
    return [_record(text, f"{name} of {str(path)!r}") for name, text in sources]


def _read(file: Path) -> str:
    data = file.read_bytes()
    try:
        return (gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8")
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read results from {str(file)!r}: {error}") from error


def read_results(path: str | Path) -> pd.DataFrame:
    """The table of the finished runs in a results folder or file; the origin is its name.

    Raises as `read_records`.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = list(lab.sweep([lab.Run("alibi", length=16, steps=5, longest=2)], path=folder, progress=False))
    ...     results = lab.read_results(folder)
    >>> results["x"][results["question"] == "longer windows"].unique().tolist()
    [16, 32]
    """
    return record_table(read_records(path), Path(path).name)


def _record(text: str, source: str) -> Record:
    try:
        record = json.loads(text)
        if not {"run", "text", "error", "answers"} <= record.keys():
            raise KeyError
        return record
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{source} is not a result of this version: {text[:60]!r}") from None


def seed_curves(results: pd.DataFrame) -> dict[str, dict[int, dict[int, float]]]:
    """The rows of one question as curves, {label: {seed: {x: value}}}, in the order of the table."""
    curves: dict[str, dict[int, dict[int, float]]] = {}
    for label, seed, x, value in results[["label", "seed", "x", "value"]].itertuples(index=False):
        curves.setdefault(label, {}).setdefault(seed, {})[x] = value
    return curves
