"""The runs of the study, and the search that chose their learning rates.

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
from alibi_viz.train.results import Record

LENGTH = 64  # L
SEEDS = 8
TARGETS = 65_536  # held-out bytes that a model predicts at each length

SEARCH = "search"  # the part that finds the learning rates
SEARCH_SEED = 100
TEXT_RATES = (6e-3, 1.2e-2, 2.4e-2)
TASK_RATES = (2e-3, 4e-3, 8e-3)

Rates = Mapping[tuple[str, str], float]  # {(task, label): learning rate}


def part_runs(name: str, rates: Rates, seeds: int = SEEDS) -> list[Run]:
    """The runs of a part, ordered by seed, so that the first seed can be compared early."""
    if name == SEARCH:
        return _search_runs()
    runs = []
    for seed in range(seeds):
        for template in PARTS[name]:
            # Runs on another text take the rates of the tales.
            searched_task = template.task if template.task in TASKS else "text"
            rate = rates[searched_task, template.label]
            runs.append(replace(template, seed=seed, learning_rate=rate))
    return runs


def _search_runs() -> list[Run]:
    """The runs on the tales and on tasks, with three learning rates and without tests."""
    runs = []
    for templates in PARTS.values():
        for template in templates:
            is_task = template.task in TASKS
            if not is_task and template.task != "text":
                continue
            for rate in TASK_RATES if is_task else TEXT_RATES:
                runs.append(replace(template, seed=SEARCH_SEED, learning_rate=rate, longest=0))
    return runs


def rate_table(records: Iterable[Record]) -> pd.DataFrame:
    """The mean training loss of the last steps, with a column per learning rate.

    It is infinite where training diverged.
    """
    rows = []
    for record in records:
        run = record["run"]
        if record["error"]:
            loss = math.inf
        else:
            last_losses = [
                row["value"]
                for row in record["rows"]
                if row["question"] == TRAINING_LOSS and row["step"] > 0.9 * run["steps"]
            ]
            loss = math.fsum(last_losses) / len(last_losses)
        rows.append((run["task"], run["label"], run["learning_rate"], loss))
    table = pd.DataFrame(rows, columns=["task", "label", "rate", "loss"])
    table = table.pivot_table(index=["task", "label"], columns="rate", values="loss", sort=False)
    return table.sort_index(axis=1)


def best_rates(records: Iterable[Record]) -> Rates:
    """The learning rate with the lowest training loss, for each task and label."""
    best = rate_table(records).idxmin(axis=1)
    return {(task, label): float(rate) for (task, label), rate in best.items()}


def _templates(part: dict[str, Any]) -> list[Run]:
    """The runs of a part of runs.toml, one for each label, without a seed."""
    entries = [*part.get("runs", []), *({"position": method} for method in part["methods"])]
    common = {"length": LENGTH, "targets": TARGETS, "variants": (), **part["settings"]}
    runs = []
    for entry in entries:
        model = {**common["model"], **entry.get("model", {})}
        runs.append(Run(**{**common, **entry, "model": model}))
    return runs


STUDY = tomllib.loads((Path(__file__).parent / "runs.toml").read_text(encoding="utf-8"))

# {name of a part: one run for each label, without a seed}
PARTS = {part["name"]: _templates(part) for part in STUDY["part"]}

# {name of a part: what its runs show, in one sentence}
SUMMARIES = {part["name"]: part["summary"] for part in STUDY["part"]}
