"""The published results that LengthLab draws beside those of a race."""

from functools import lru_cache

import pandas as pd

from alibi_viz import lab
from alibi_viz.lab import Question
from alibi_viz.lab.results import AS_TRAINED

__all__ = ["published_seeds"]


@lru_cache(32)
def published_seeds(question: Question, methods: tuple[str, ...], length: int) -> pd.DataFrame:
    """The published rows of these methods, with each x at the same multiple of `length`."""
    results = lab.published_results()
    of_question = (results["question"] == question.name) & (results["evaluated"] == AS_TRAINED)
    rows = results[of_question & results["label"].isin(methods)]
    pairs = zip(rows["x"], rows["length"], strict=True)
    return rows.assign(x=[question.rescale(int(x), int(trained), length) for x, trained in pairs])
