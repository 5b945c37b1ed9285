"""Write the records of finished runs into files, and read them again as one table.

A record is written under another name and then renamed, so its file is complete or absent, and two
sweeps may share a folder.
"""

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from alibi_viz import arguments
from alibi_viz.files import write
from alibi_viz.measure.table import Row, results_table

Record = dict[str, Any]  # one finished run as JSON, see `lab.measure`


def read_results(path: str | Path, *, by_block: bool = False) -> pd.DataFrame:
    """The table of the finished runs in a results folder or file; the origin is its name.

    With `by_block`, losses on longer sequences have a row for each of up to sixteen blocks of the
    text, and the table a column "block". Raises FileNotFoundError, and ValueError that names what
    isn't a result.

    >>> from tempfile import TemporaryDirectory
    >>> from alibi_viz import lab
    >>> runs = [lab.Run("alibi", length=16, steps=5, longest=2)]
    >>> with TemporaryDirectory() as folder:
    ...     records = list(lab.sweep(runs, path=folder, progress=False))
    ...     lab.read_results(folder)["origin"].nunique()
    1
    """
    arguments.check_flag("by_block", by_block)
    return record_table(finished_records(path), Path(path).name, by_block=by_block)


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


def finished_records(path: str | Path) -> list[Record]:
    """As `read_records`, but raises ValueError if there are none."""
    records = read_records(path)
    if not records:
        raise ValueError(
            f"{str(path)!r} has no results: `compare` and `sweep` write them there as .json files"
        )
    return records


def read_records(path: str | Path) -> list[Record]:
    """The finished runs in a results folder or a file.

    A file, gzipped or not, has one JSON record per line; a folder has .json files.
    """
    path = arguments.as_path("path", path)
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    records: list[Record] = []
    for file in files:
        records.extend(_records_of_file(file))
    return records


def _records_of_file(file: Path) -> Iterator[Record]:
    data = file.read_bytes()
    try:
        if file.suffix == ".gz":
            data = gzip.decompress(data)
        lines = data.decode("utf-8").splitlines()
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read results from {str(file)!r}: {error}") from error

    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        is_record = isinstance(record, dict) and {"run", "text", "error", "rows"} <= record.keys()
        if not is_record:
            raise ValueError(
                f"line {number} of {str(file)!r} is not a result of this version: {line[:60]!r}; "
                "remove it if it is an old result, or use another folder"
            )
        yield record


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


def create_folder(path: str | Path) -> Path:
    """The path of a folder, created if missing. Raises OSError if it can't be made."""
    folder = arguments.as_path("path", path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def check_new(path: Path) -> None:
    """Raise FileExistsError if there is a folder or file of this name."""
    if path.exists():
        raise FileExistsError(
            f"{str(path)!r} exists already and is not overwritten; choose another name or remove it"
        )
