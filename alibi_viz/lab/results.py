"""One tidy table of results: a row per measured value, whatever run or app it comes from.

origin     "live" (a race in this session), "published" (shipped with the package), or the name of a results file
task       what was trained on: "text" or a task such as "needle"
method     position method
label      name in tables and legends; the method unless a run has special settings
seed       of the starting weights and the batches
length     training length L
evaluated  "as trained", or how the model was changed for the evaluation: "window", "pi", "ntk"
question   what was measured, see `lab.questions`; or "training loss"
x          where on the question's axis: a length, distance, position or step
value      the measurement; NaN where a method is not defined
unit       of the value, such as "bits per byte"
count      how many targets or samples the value is a mean over
text       fingerprint of the text, "" for a task
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from alibi_viz.lab.version_1 import upgrade

__all__ = [
    "AS_TRAINED",
    "COLUMNS",
    "TRAINING_LOSS",
    "Record",
    "read_records",
    "read_results",
    "results_table",
    "seed_curves",
]

AS_TRAINED = "as trained"
TRAINING_LOSS = "training loss"
COLUMNS = {
    "origin": "str",
    "task": "str",
    "method": "str",
    "label": "str",
    "seed": "int64",
    "length": "int64",
    "evaluated": "str",
    "question": "str",
    "x": "int64",
    "value": "float64",
    "unit": "str",
    "count": "int64",
    "text": "str",
}
ANSWER = ("evaluated", "question", "x", "value", "unit", "count")  # of a record's "answers", in this order
Record = dict[str, Any]  # one finished run as JSON, see `measure`


def results_table(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A table with the columns above, also when there are no rows.

    >>> from alibi_viz.lab.results import results_table
    >>> list(results_table([]).columns)[:4]
    ['origin', 'task', 'method', 'label']
    """
    return pd.DataFrame(list(rows), columns=list(COLUMNS)).astype(COLUMNS)


def record_table(records: Iterable[Record], origin: str) -> pd.DataFrame:
    """The table of finished runs. Runs that diverged have their training loss only."""
    return results_table(row for record in records for row in _rows(record, origin))


def _rows(record: Record, origin: str) -> Iterable[dict[str, Any]]:
    run = record["run"]
    common = {
        "origin": origin,
        "task": run["task"],
        "method": run["position"],
        "label": run["label"],
        "seed": run["seed"],
        "length": run["length"],
        "text": record["text"] or "",
    }
    for answer in record["answers"]:
        yield common | dict(zip(ANSWER, answer, strict=True))


def read_records(path: str | Path) -> list[Record]:
    """The finished runs in a results folder (one JSON file per run), or in a file with one JSON record per line.

    Records written by version 0.1 are converted.
    Raises FileNotFoundError, and ValueError that names the file or line that is not a record.
    """
    path = Path(path)
    if path.is_dir():
        sources = [(file.name, file.read_text(encoding="utf-8")) for file in sorted(path.glob("*.json"))]
    else:
        lines = path.read_text(encoding="utf-8").splitlines()
        sources = [(f"line {number}", line) for number, line in enumerate(lines, start=1)]
    return [_record(text, f"{name} of {str(path)!r}") for name, text in sources]


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
        record = upgrade(json.loads(text))
        if not {"run", "text", "error", "answers"} <= record.keys():
            raise KeyError
        return record
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{source} is not a result of this version or of version 0.1: {text[:60]!r}") from None


def seed_curves(results: pd.DataFrame) -> dict[str, dict[int, dict[int, float]]]:
    """The rows of one question as curves, {label: {seed: {x: value}}}, in the order of the table.

    >>> from alibi_viz.lab.results import seed_curves
    >>> results = lab.published_results()
    >>> curves = seed_curves(results[(results["question"] == "needle")])
    >>> list(curves["alibi"][0])
    [63, 127, 255, 511, 1023, 2047]
    """
    curves: dict[str, dict[int, dict[int, float]]] = {}
    columns: Sequence[Any] = [results[name].tolist() for name in ("label", "seed", "x", "value")]
    for label, seed, x, value in zip(*columns, strict=True):
        curves.setdefault(label, {}).setdefault(seed, {})[x] = value
    return curves
