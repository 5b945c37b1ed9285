"""Results and trained models that ship with the package: read them, or train them again."""

import gzip
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from functools import cache
from pathlib import Path

import pandas as pd

from alibi_viz.arguments import check_flag, check_integer, check_known
from alibi_viz.files import write
from alibi_viz.lab import Run, load_run, load_text, save_run, sweep, tales_text
from alibi_viz.study.parts import PARTS, SEARCH, SEEDS, STUDY, Rates, best_rates, part_runs
from alibi_viz.train.results import Record, check_new, create_folder, read_records, record_table
from alibi_viz.train.saved_models import SavedRun
from alibi_viz.train.training import limited_threads

PUBLISHED = Path(__file__).parent / "published"
NAMES = (SEARCH, *PARTS)
LARGE_TEXT = 5_000_000  # bytes of tales, for the large model
MODELS = tuple(Run(**model) for model in STUDY["model"])
PUBLISHED_MODELS = tuple(run.label for run in MODELS)


def published_results(*, by_block: bool = False) -> pd.DataFrame:
    """The results that ship with the package: a table with the columns of `lab.COLUMNS`.

    Models have eight heads and were trained on sequences of 64 bytes (one setting: 128) of the
    tales ("text") or the language reference of Python 3.11 ("python reference"), or on a task. With
    `by_block`, losses on longer sequences have a row for each of sixteen blocks of the held-out
    text, and the table a column "block".

    >>> from alibi_viz import study
    >>> results = study.published_results()
    >>> sorted(results["task"].unique())
    ['induction', 'needle', 'python reference', 'text']
    """
    check_flag("by_block", by_block)
    return _published_table(by_block).copy()


@cache
def _published_table(by_block: bool) -> pd.DataFrame:
    return record_table(published_records(), "published", by_block=by_block)


def published_records(names: Iterable[str] = tuple(PARTS)) -> list[Record]:
    """The finished runs of some parts of the study."""
    records: list[Record] = []
    for name in names:
        records.extend(read_records(PUBLISHED / f"{name}.jsonl.gz"))
    return records


@cache
def published_rates() -> Rates:
    """The learning rates of the study, as the search found them."""
    return best_rates(published_records([SEARCH]))


def reproduce(
    parts: Sequence[str] = (),
    executor: Executor | None = None,
    out: str | Path = "comparison",
    *,
    seeds: int = SEEDS,
    publish: str | Path | None = None,
) -> pd.DataFrame:
    """Train some parts of the study, or all, and return their results block by block.

    A second call resumes.

    Args:
        parts: "search" or names in runs.toml, in any order; all by default. The parts use the
            learning rates that "search" finds in the same call, and without it the published ones.
        executor, out: as in `sweep`; `out` is its results folder.
        seeds: how many, from 0, instead of the published number.
        publish: a folder, created if missing, for a compressed file with the records of each part,
            one line each.

    Raises ValueError, before any training, for an unknown part, and fewer than one seed.
    """
    check_known("parts", parts, NAMES)
    check_integer("seeds", seeds, 1)
    if publish is not None:
        create_folder(publish)  # now, rather than fail after the first part is trained
    chosen_parts = [name for name in NAMES if not parts or name in parts]
    rates: Rates = {}
    if SEARCH not in chosen_parts:
        rates = published_rates()

    finished: list[Record] = []
    for name in chosen_parts:
        runs = part_runs(name, rates, seeds)
        order = [run.settings() for run in runs]
        records = list(sweep(runs, executor, path=out))
        records.sort(key=lambda record: order.index(record["run"]))
        if publish is not None:
            lines = "".join(f"{json.dumps(record)}\n" for record in records)
            compressed = gzip.compress(lines.encode(), mtime=0)  # no date: equal files stay equal
            write(Path(publish) / f"{name}.jsonl.gz", compressed)
        if name == SEARCH:
            rates = best_rates(records)
        else:
            finished += records
    return record_table(finished, Path(out).name, by_block=True)


def published_model(name: str) -> SavedRun:
    """A model trained on the tales, with its settings and results.

    `alibi`, `rotary` and `sinusoidal` are those of the default race with seed 0: 130,000 weights,
    trained for 400 steps on sequences of 64 bytes. `alibi-large` has 860,000 weights and was
    trained for 1,200 steps on sequences of 256 bytes of 5 MB of tales, about ten minutes on two
    cores. All were tested on the same validation part. Raises ValueError for an unknown name.

    >>> from alibi_viz import study
    >>> saved = study.published_model("alibi")
    >>> saved.settings["steps"], saved.model.config.position
    (400, 'alibi')
    """
    check_known("name", [name], PUBLISHED_MODELS)
    return load_run(PUBLISHED / "models" / name)


def train_published_models(folder: str | Path) -> None:
    """Train the published models again, in a quarter of an hour.

    Each is saved in a new folder inside `folder`. Raises FileExistsError, before any training, if
    one is there.
    """
    folder = create_folder(folder)
    for run in MODELS:
        check_new(folder / run.label)
    for run in MODELS:
        text = tales_text(LARGE_TEXT) if run.label == "alibi-large" else load_text()
        model = run.new_model(text)
        with limited_threads(run.threads):
            *_, last_row = run.train(model, text)
        answers = {"rows": run.test(model, text, last_row)}
        results = record_table([answers], run.label)
        save_run(folder / run.label, model, settings=run.settings(), results=results)
