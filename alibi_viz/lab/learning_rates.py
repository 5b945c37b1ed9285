"""Choose a learning rate for each run of the published comparison by a small search, so that the comparison is fair.

Each run is trained with three or four learning rates and a seed that the comparison doesn't use. The one with the
lowest mean training loss over the last tenth of the steps is chosen; on a tie, the lowest. No test takes part in it.
"""

import math
from collections.abc import Iterable
from dataclasses import replace

import pandas as pd

from alibi_viz.lab.comparison import COMPARISON_LENGTH, LEARNED_SLOPES, templates
from alibi_viz.lab.experiment import Run
from alibi_viz.lab.results import TRAINING_LOSS, Record

__all__ = ["TASK_RATES", "TEXT_RATES", "best_rates", "rate_table", "search_runs"]

TEXT_RATES, TASK_RATES = (4e-3, 8e-3, 1.6e-2, 3.2e-2), (2e-3, 4e-3, 8e-3)
SEED = 100
LAST = 0.1  # of the steps, over which the training loss is averaged


def search_runs() -> list[Run]:
    """The runs of the search. They are trained only, not tested.

    Runs that train for longer, on longer windows, or with another number of heads take the learning rate of their
    position method, with one exception: runs on windows of 16L, the furthest from the others, have their own search.

    >>> from alibi_viz.lab.learning_rates import search_runs
    >>> [run.learning_rate for run in search_runs() if (run.task, run.label) == ("text", "alibi")]
    [0.004, 0.008, 0.016, 0.032]
    """
    return [
        replace(run, seed=SEED, learning_rate=rate, longest=0)
        for run in templates()
        if _is_searched(run)
        for rate in (TEXT_RATES if run.task == "text" else TASK_RATES)
    ]


def _is_searched(run: Run) -> bool:
    usual = run.label == run.position or run.length == 16 * COMPARISON_LENGTH or run.model == LEARNED_SLOPES
    return usual and run.task != "text with passages"


def rate_table(records: Iterable[Record]) -> pd.DataFrame:
    """The mean training loss of the last steps, in bits: a row per task and label, a column per learning rate.

    It is infinite where training diverged, and NaN for a learning rate that was not tried.
    """
    rows = []
    for record in records:
        run = record["run"]
        losses = [(x, value) for _, question, x, value, *_ in record["answers"] if question == TRAINING_LOSS]
        last = [value for x, value in losses if x > (1 - LAST) * run["steps"]]
        loss = math.inf if record["error"] or not last else sum(last) / len(last)
        rows.append((run["task"], run["label"], run["learning_rate"], loss))
    table = pd.DataFrame(rows, columns=["task", "label", "learning rate", "loss"])
    return table.pivot_table(index=["task", "label"], columns="learning rate", values="loss", sort=False).sort_index(
        axis=1
    )


def best_rates(records: Iterable[Record]) -> dict[tuple[str, str], float]:
    """The learning rate with the lowest training loss: {(task, label): learning rate}."""
    return {tuple(where): float(rate) for where, rate in rate_table(records).idxmin(axis=1).items()}
