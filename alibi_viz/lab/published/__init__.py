"""Results and trained models that ship with the package, and their readers."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pandas as pd

from alibi_viz.lab.checkpoints import SavedRun, load_run, save_run
from alibi_viz.lab.comparison import PARTS, Part
from alibi_viz.lab.experiment import Run, final_answers, limited_threads, new_model, training_steps
from alibi_viz.lab.folders import check_new, create_folder
from alibi_viz.lab.learning_rates import best_rates
from alibi_viz.lab.results import Record, read_records, record_table
from alibi_viz.lab.text import load_text, tales_text

__all__ = [
    "PUBLISHED",
    "PUBLISHED_MODELS",
    "SEARCH",
    "published_model",
    "published_parts",
    "published_rates",
    "published_records",
    "published_results",
    "train_published_models",
]

PUBLISHED = Path(__file__).parent
SEARCH = "search"  # the file with the records of the search for learning rates
LARGE_TEXT = 5_000_000  # bytes of tales to train on
LARGE_RUN = Run(
    "alibi",
    length=256,
    steps=1200,
    learning_rate=4e-3,
    threads=2,
    model={"num_layers": 4, "d_model": 128},
    label="alibi-large",
)
RUNS = (Run("alibi"), Run("rotary"), Run("sinusoidal"), LARGE_RUN)
PUBLISHED_MODELS = tuple(run.label for run in RUNS)


def published_results() -> pd.DataFrame:
    """The results that ship with the package: a table with the columns of `lab.COLUMNS`.

    They were made with version 0.1, on the language reference of Python 3.11.7. Models have four heads unless their
    label says otherwise.

    >>> results = lab.published_results()
    >>> sorted(results["task"].unique())
    ['copy', 'induction', 'needle', 'passages', 'text', 'text with passages']
    """
    return _published().copy()


@cache
def _published() -> pd.DataFrame:
    return record_table(published_records(), "published")


def published_parts() -> list[Part]:
    """The parts of the comparison whose results ship with the package."""
    return [part for part in PARTS.values() if (PUBLISHED / f"{part.name}.jsonl.gz").exists()]


def published_records(parts: Iterable[str] | None = None) -> list[Record]:
    """The finished runs of some parts of the published comparison, by default of all parts.

    The search for learning rates is not one of them: ask for it with `[SEARCH]`.
    """
    names = [part.name for part in published_parts()] if parts is None else parts
    return [record for name in names for record in read_records(PUBLISHED / f"{name}.jsonl.gz")]


@cache
def published_rates() -> dict[tuple[str, str], float]:
    """The learning rates of the published comparison, {(task, label): learning rate}, as the search found them."""
    return best_rates(published_records([SEARCH]))


def published_model(name: str) -> SavedRun:
    """A model trained on the tales, with its settings and results.

    `alibi`, `rotary` and `sinusoidal` are those of the default race with seed 0: 130,000 weights, trained for 800 steps
    on windows of 64 bytes. `alibi-large` has 860,000 weights and was trained for 1,200 steps on windows of 256 bytes of
    5 MB of tales, about ten minutes on two cores. All were tested on the same validation part.

    Raises ValueError for an unknown name.

    >>> saved = lab.published_model("alibi")
    >>> saved.settings["steps"], saved.model.config.position
    (800, 'alibi')
    """
    if name not in PUBLISHED_MODELS:
        raise ValueError(f"name must be one of {', '.join(PUBLISHED_MODELS)}, got {name!r}")
    return load_run(PUBLISHED / "models" / name)


def train_published_models(folder: str | Path) -> None:
    """Train the published models again, in a quarter of an hour, and save each in a new folder inside `folder`."""
    folder = create_folder(folder)
    for run in RUNS:
        check_new(folder / run.label)
    for run in RUNS:
        text = tales_text(LARGE_TEXT) if run is LARGE_RUN else load_text()
        model = new_model(run, text)
        with limited_threads(run.threads):
            for _ in training_steps(model, text, run):
                pass
        record = {"run": run.settings(), "text": text.fingerprint, "answers": final_answers(model, text, run)}
        results = record_table([record], run.label)
        save_run(folder / run.label, model, settings=run.settings(), results=results)
