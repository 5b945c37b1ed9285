"""Train the published comparison again, or parts of it."""

import gzip
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path

from alibi_viz.arguments import check_known
from alibi_viz.lab.comparison import PARTS
from alibi_viz.lab.folders import create_folder
from alibi_viz.lab.learning_rates import best_rates, search_runs
from alibi_viz.lab.published import SEARCH, published_rates
from alibi_viz.lab.results import Record
from alibi_viz.lab.sweep import in_order, sweep

__all__ = ["NAMES", "reproduce"]

NAMES = (SEARCH, *PARTS)


def reproduce(
    parts: Sequence[str] = (),
    executor: Executor | None = None,
    out: str | Path = "comparison",
    *,
    seeds: int | None = None,
    publish: str | Path | None = None,
) -> Iterator[list[Record]]:
    """Train some parts of the published comparison, or all, and yield the records of each. A second call resumes.

    Args:
        parts: names of `PARTS`, or "search", in any order; all by default. "search" yields no records: the parts after
            it use the learning rates it finds. Without it, they use the published ones.
        executor, out: as in `sweep`; `out` is its results folder.
        seeds: how many, from 0, instead of the published number.
        publish: a folder, created if missing, in which the records of each part are written to a compressed file, one
            line each.

    Raises ValueError, before any training, for an unknown part.
    """
    names = [name for name in NAMES if not parts or name in parts]
    check_known("parts", parts, NAMES)
    if publish is not None:
        create_folder(publish)  # now, rather than fail after the first part is trained

    def finished() -> Iterator[list[Record]]:
        rates = {} if SEARCH in names else published_rates()
        for name in names:
            runs = search_runs() if name == SEARCH else PARTS[name].runs(rates, seeds)
            records = in_order(sweep(runs, executor, path=out), runs)
            if publish is not None:
                lines = "".join(f"{json.dumps(record)}\n" for record in records)
                (Path(publish) / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
            if name == SEARCH:
                rates = best_rates(records)
            else:
                yield records

    return finished()
