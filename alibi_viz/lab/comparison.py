"""The default comparison: which runs `make reproduce` does, and where its published results are.

Everything is paired: for one seed all methods start from the same weights, and all but two controls read the same
batches. Steps are fixed,
not time; tokens are equal where training lengths differ.
"""

import math
from collections.abc import Iterable
from functools import partial
from importlib.resources import files

from alibi_viz.lab.experiment import Record, Run
from alibi_viz.lab.sweep import read_results
from alibi_viz.lab.tasks import TASKS
from alibi_viz.models import POSITIONS

__all__ = ["COMPARISON_LENGTH", "default_comparison", "published_curves", "published_results"]

COMPARISON_LENGTH = 64  # L; tests go to 16 L and, for the needle, to 32 L, beyond 4 / m of ALiBi's flattest head
PUBLISHED = "published/comparison.jsonl"
TEXT_TABLES = ("by_length", "by_context", "gap", "window", "pi", "ntk")


def default_comparison(seeds: int = 3) -> list[Run]:
    """The runs, seed by seed, so that what is done first is already a comparison. Raises ValueError below 1 seed.

    >>> runs = default_comparison()
    >>> len(runs), len({run.label for run in runs if run.task == "text"})
    (93, 14)
    """
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise ValueError(f"seeds must be a whole number from 1 up, got {seeds!r}")
    return [run for seed in range(seeds) for run in (*_texts(seed), *_needles(seed), *_copies(seed))]


def published_results() -> list[Record]:
    """The records that ship with the package, made by `make reproduce` on one machine: "published seeds", not yours."""
    return read_results(str(files("alibi_viz.lab") / PUBLISHED))


def published_curves(
    task: str, table: str, records: Iterable[Record] | None = None
) -> dict[str, dict[int, dict[int, float]]]:
    """One kind of measurement of all runs: {label: {seed: {length, distance or step: number}}}.

    Args:
        task: "text", or one of `TASKS`.
        table: for text "by_length", "by_context", "gap" (by step, how far the loss at four times a run's own training
            length is above the loss at that length), or "by_length" under a changed evaluation, "window", "pi" or
            "ntk"; for a task "accuracy".
        records: of a sweep of your own, whose labels differ for different settings; the published ones by default.

    What is not defined is NaN. Runs without that table, as those that diverged, are left out.
    Raises ValueError for an unknown task or table, and for two records of one task, label and seed.

    >>> curves = lab.published_curves("text", "by_length")
    >>> sorted(curves["alibi"]), list(curves["alibi"][0])
    ([0, 1, 2], [64, 128, 256, 512, 1024])
    """
    tasks, tables = ("text", *TASKS), TEXT_TABLES if task == "text" else ("accuracy",)
    for name, value, allowed in (("task", task, tasks), ("table", table, tables)):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    found: dict[str, dict[int, dict[int, float]]] = {}
    for record in published_results() if records is None else records:
        run = record["run"]
        values = _table(record, table) if run["task"] == task else None
        if values:
            seeds = found.setdefault(run["label"], {})
            if run["seed"] in seeds:
                raise ValueError(f"two records of task {task}, label {run['label']!r} and seed {run['seed']}")
            seeds[run["seed"]] = {int(at): math.nan if value is None else float(value) for at, value in values.items()}
    return found


def _table(record: Record, table: str) -> dict[str, float | None] | None:
    if table != "gap":
        return record[table] if table in record else record.get("changed", {}).get(table)
    gaps: dict[str, float | None] = {}
    for step, losses in record.get("by_step", {}).items():
        near, far = min(losses, key=int), max(losses, key=int)
        if far == near:
            return None  # trained where others are tested, and not tested beyond
        known = losses[near] is not None and losses[far] is not None
        gaps[step] = losses[far] - losses[near] if known else None
    return gaps


def _texts(seed: int) -> list[Run]:
    length = COMPARISON_LENGTH
    return [
        *(Run(position, length=length, seed=seed) for position in POSITIONS),
        Run("alibi", length=length, seed=seed, model={"learned_slopes": True}, label="alibi, learned slopes"),
        # Equal tokens: twice the length, half the batch. And an oracle that was trained where the others are tested.
        Run("sinusoidal", length=2 * length, batch_size=16, longest=8, seed=seed, label="sinusoidal trained at 2L"),
        Run("rotary", length=16 * length, batch_size=2, longest=1, seed=seed, label="rotary trained at 16L"),
    ]


def _needles(seed: int) -> list[Run]:
    methods = ("alibi", "sinusoidal", "rotary", "none", "t5", "kerple-log", "fire", "decay", "forget")
    needle = partial(Run, task="needle", length=COMPARISON_LENGTH, steps=300, learning_rate=4e-3, longest=32, seed=seed)
    return [needle(method) for method in methods]


def _copies(seed: int) -> list[Run]:
    methods = ("alibi", "sinusoidal", "rotary", "none", "t5", "kerple-log", "fire", "forget")
    copy = partial(Run, task="copy", length=COMPARISON_LENGTH, steps=1500, learning_rate=4e-3, longest=16, seed=seed)
    return [copy(method) for method in methods]
