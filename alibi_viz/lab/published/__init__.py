"""Results and trained models that ship with the package, and their readers."""

from functools import cache
from pathlib import Path

import pandas as pd

from alibi_viz.lab.checkpoints import SavedRun, load_run, save_run
from alibi_viz.lab.comparison import default_comparison
from alibi_viz.lab.experiment import final_answers, new_model, training_steps
from alibi_viz.lab.results import read_records, record_table
from alibi_viz.lab.text import load_text

__all__ = ["PUBLISHED_MODELS", "PUBLISHED_RESULTS", "published_model", "published_results", "train_published_models"]

PUBLISHED_RESULTS = Path(__file__).parent / "comparison.jsonl"
PUBLISHED_MODELS = ("alibi", "rotary", "sinusoidal")


def published_results() -> pd.DataFrame:
    """The results that ship with the package, made by `make reproduce`: a table with the columns of `lab.COLUMNS`.

    >>> results = lab.published_results()
    >>> sorted(results["task"].unique()), results["seed"].unique().tolist()
    (['copy', 'needle', 'text'], [0, 1, 2])
    """
    return _published().copy()


@cache
def _published() -> pd.DataFrame:
    return record_table(read_records(PUBLISHED_RESULTS), "published")


def published_model(name: str) -> SavedRun:
    """A trained model with its settings and results: the run of the published comparison with seed 0.

    Raises ValueError for an unknown name.

    >>> saved = lab.published_model("alibi")
    >>> saved.settings["steps"], saved.model.config.position
    (600, 'alibi')
    """
    if name not in PUBLISHED_MODELS:
        raise ValueError(f"name must be one of {', '.join(PUBLISHED_MODELS)}, got {name!r}")
    return load_run(Path(__file__).parent / "models" / name)


def train_published_models(folder: str | Path) -> None:
    """Train the published models again, in about a minute, and save each in a new folder inside `folder`."""
    text = load_text()
    for run in default_comparison(1):
        if run.task == "text" and run.label in PUBLISHED_MODELS:
            model = new_model(run, text)
            for _ in training_steps(model, text, run):
                pass
            record = {"run": run.settings(), "text": text.fingerprint, "answers": final_answers(model, text, run)}
            results = record_table([record], run.label)
            save_run(Path(folder) / run.label, model, settings=run.settings(), results=results)
