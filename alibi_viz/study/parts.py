"""The runs of the published comparison, and the search that chose their learning rates, so that it is fair.

Runs are paired: for one seed all methods start from the same weights, and runs with the same training length and batch
size read the same batches. The number of steps is fixed, not the time; where training lengths differ, the number of
tokens in a step is equal.

In the search, each run is trained with three or four learning rates and a seed that the comparison doesn't use. The one
with the lowest mean training loss over the last tenth of the steps is chosen; on a tie, the lowest. No test takes part.
"""

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from alibi_viz.lab import Run
from alibi_viz.lab.runs import Record
from alibi_viz.table import TRAINING_LOSS

LENGTH = 64  # L
TEXT_RATES, TASK_RATES = (4e-3, 8e-3, 1.6e-2, 3.2e-2), (2e-3, 4e-3, 8e-3)
SEARCH_SEED = 100
LAST = 0.1  # of the steps, over which the training loss is averaged

Rates = Mapping[tuple[str, str], float]  # {(task, label): learning rate}


@dataclass(frozen=True)
class Part:
    """Runs of the comparison that belong together."""

    name: str  # for the command line, and of the file with its records
    summary: str  # what its runs show, in one sentence
    templates: tuple[Run, ...]  # one run for each label; `runs` sets the seeds and the learning rates
    seeds: int = 5

    def runs(self, rates: Rates, seeds: int | None = None) -> list[Run]:
        """The runs, ordered by seed, so that the first seed can be compared early; by default with all seeds.

        A label without a learning rate takes that of its position method, and a text with passages that of the passages
        alone. Raises KeyError if there is none.
        """
        return [
            replace(run, seed=seed, learning_rate=_rate(run, rates))
            for seed in range(self.seeds if seeds is None else seeds)
            for run in self.templates
        ]


def search_runs() -> list[Run]:
    """The runs of the search. They are trained only, not tested.

    Runs that train for longer, on longer windows, or with another number of heads take the learning rate of their
    position method, with one exception: runs on windows of 16L, the furthest from the others, have their own search.
    """
    return [
        replace(run, seed=SEARCH_SEED, learning_rate=rate, longest=0)
        for part in PARTS.values()
        for run in part.templates
        if run.task != "text with passages"
        and (run.label in (run.position, "alibi, learned slopes") or run.length == 16 * LENGTH)
        for rate in (TEXT_RATES if run.task == "text" else TASK_RATES)
    ]


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
    table = pd.DataFrame(rows, columns=["task", "label", "rate", "loss"])
    return table.pivot_table(index=["task", "label"], columns="rate", values="loss", sort=False).sort_index(axis=1)


def best_rates(records: Iterable[Record]) -> Rates:
    """The learning rate with the lowest training loss, for each task and label."""
    return {(task, label): float(rate) for (task, label), rate in rate_table(records).idxmin(axis=1).items()}


def _rate(run: Run, rates: Rates) -> float:
    task = "passages" if run.task == "text with passages" else run.task
    return rates[task, run.label if (task, run.label) in rates else str(run.position)]


def _part(part: dict[str, Any]) -> Part:
    common = {"length": LENGTH, "model": {"num_heads": 4}, **part["settings"]}
    runs = [*({"position": method} for method in part.get("methods", ())), *part.get("runs", ())]
    templates = tuple(Run(**common | run) for run in runs)
    return Part(part["name"], part["summary"], templates, part.get("seeds", Part.seeds))


STUDY = tomllib.loads((Path(__file__).parent / "runs.toml").read_text(encoding="utf-8"))
PARTS = {part["name"]: _part(part) for part in STUDY["part"]}
