"""The runs of the study, and the search that chose their learning rates, so that the comparison is
fair.

Runs are paired: for one seed all methods start from the same weights, and runs with the same
training length and batch size read the same batches. In the search, each run of the tales and of
the tasks is trained with three learning rates and a seed that the study doesn't use otherwise. The
one with the lowest mean training loss over the last tenth of the steps is chosen. No test takes
part. Runs on Python's reference take the rates of the tales.
"""

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from alibi_viz.lab import TASKS, Run
from alibi_viz.measure.table import TRAINING_LOSS
from alibi_viz.train.runs import Record

LENGTH = 64  # L
SEEDS = 8
TARGETS = 65_536  # held-out bytes that a model predicts at each length
TEXT_RATES, TASK_RATES = (6e-3, 1.2e-2, 2.4e-2), (2e-3, 4e-3, 8e-3)
SEARCH, SEARCH_SEED = "search", 100  # the part that finds the learning rates

Rates = Mapping[tuple[str, str], float]  # {(task, label): learning rate}


def part_runs(name: str, rates: Rates, seeds: int = SEEDS) -> list[Run]:
    """The runs of a part, ordered by seed, so that the first seed can be compared early."""
    if name != SEARCH:
        return [
            replace(
                run,
                seed=seed,
                learning_rate=rates[run.task if run.task in TASKS else "text", run.label],
            )
            for seed in range(seeds)
            for run in PARTS[name]
        ]
    return [
        replace(run, seed=SEARCH_SEED, learning_rate=rate, longest=0)
        for part in PARTS.values()
        for run in part
        if run.task == "text" or run.task in TASKS
        for rate in (TASK_RATES if run.task in TASKS else TEXT_RATES)
    ]


def rate_table(records: Iterable[Record]) -> pd.DataFrame:
    """The mean training loss of the last steps, infinite where training diverged, with a column per
    learning rate."""
    rows = []
    for record in records:
        run, losses = (
            record["run"],
            [row for row in record["rows"] if row["question"] == TRAINING_LOSS],
        )
        last = [row["value"] for row in losses if row["step"] > 0.9 * run["steps"]]
        loss = math.inf if record["error"] else math.fsum(last) / len(last)
        rows.append((run["task"], run["label"], run["learning_rate"], loss))
    table = pd.DataFrame(rows, columns=["task", "label", "rate", "loss"])
    return table.pivot_table(
        index=["task", "label"], columns="rate", values="loss", sort=False
    ).sort_index(axis=1)


def best_rates(records: Iterable[Record]) -> Rates:
    """The learning rate with the lowest training loss, for each task and label."""
    return {
        (task, label): float(rate)
        for (task, label), rate in rate_table(records).idxmin(axis=1).items()
    }


def _templates(part: dict[str, Any]) -> list[Run]:
    common = {"length": LENGTH, "targets": TARGETS, "variants": (), **part["settings"]}
    runs = [*part.get("runs", ()), *({"position": method} for method in part["methods"])]
    return [Run(**common | run) for run in runs]


STUDY = tomllib.loads((Path(__file__).parent / "runs.toml").read_text(encoding="utf-8"))
PARTS = {
    part["name"]: _templates(part) for part in STUDY["part"]
}  # {name: one run for each label, without a seed}
SUMMARIES = {
    part["name"]: part["summary"] for part in STUDY["part"]
}  # what the runs show, in one sentence
