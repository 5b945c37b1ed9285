"""Results and trained models that ship with the package, and their readers."""

from functools import cache
from pathlib import Path

import pandas as pd

from alibi_viz.lab.published.models import PUBLISHED_MODELS, published_model, train_published_models
from alibi_viz.lab.results import read_records, record_table

__all__ = ["PUBLISHED_MODELS", "PUBLISHED_RESULTS", "published_model", "published_results", "train_published_models"]

PUBLISHED_RESULTS = Path(__file__).parent / "comparison.jsonl"


def published_results() -> pd.DataFrame:
    """The results that ship with the package, made by `make reproduce`: a table with the columns of `lab.results`.

    >>> results = lab.published_results()
    >>> sorted(results["task"].unique()), results["seed"].unique().tolist()
    (['copy', 'needle', 'text'], [0, 1, 2])
    """
    return _published().copy()


@cache
def _published() -> pd.DataFrame:
    return record_table(read_records(PUBLISHED_RESULTS), "published")
