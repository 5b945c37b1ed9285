"""Compare position methods over several seeds: one table, a verdict for each pair, a figure."""

import math
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from alibi_viz.arguments import as_path, check_integer
from alibi_viz.data.text import Text
from alibi_viz.files import create_folder, write
from alibi_viz.measure.questions import find_question, main_question
from alibi_viz.measure.sentences import join, learned_by_heart, quoted
from alibi_viz.measure.table import (
    AS_TRAINED,
    FEWEST_SEEDS,
    LEVEL,
    TRAINING_LOSS,
    Axes,
    check_table,
    over_seeds,
)
from alibi_viz.models.positions.methods import Method, named_methods
from alibi_viz.train.results import record_table, sweep
from alibi_viz.train.run import Run

# Verdicts on the difference of two methods, by its interval over seeds
LOWER = "lower"
HIGHER = "higher"
UNDECIDED = "undecided"
NO_VERDICT = "no verdict"  # too few seeds for an interval to be trusted


@dataclass(frozen=True)
class MethodComparison:
    """The results of `compare`.

        from pathlib import Path
        from alibi_viz import figures, lab

        text = Path("mine.txt")
        comparison = lab.compare(["alibi", "rotary", my_law], seeds=5, text=text, out="results")
        comparison.summary    # a table of means and intervals
        comparison.verdicts   # a sentence for each pair of methods
        figures.curve_figure(comparison.rows, comparison.axes).show()  # with every seed
        comparison.save("results")  # the table as CSV, and the verdicts

    Attributes:
        table: all results, with the columns of `lab.COLUMNS`.
        methods: the names of the methods.
        run: the settings that all runs share.
        text: the name of the text.
        yardsticks: the losses of models that only count in the text, see `Text.yardsticks`.
        failures: sentences on runs whose training diverged; they are left out of all means.
    """

    table: pd.DataFrame = field(repr=False)
    methods: tuple[str, ...]
    run: Run = field(repr=False)
    text: str
    failures: tuple[str, ...] = ()
    yardsticks: Mapping[str, float] = field(default_factory=dict, repr=False)

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return self.rows["seed"].nunique()

    @property
    def rows(self) -> pd.DataFrame:
        """The losses by length."""
        return self.table[self.table["question"] == main_question("text").name]

    @property
    def axes(self) -> Axes:
        """The axes of a figure with these `rows`."""
        axes = main_question("text").axes(self.run.length, self.rows["x"].tolist())
        if self.seeds >= FEWEST_SEEDS:
            lines = f"mean of {self.seeds} seeds, {LEVEL:.0%} t interval (bars), each seed (thin)"
        elif self.seeds > 1:
            lines = f"mean of {self.seeds} seeds, each seed (thin)"
        elif self.seeds == 1:
            lines = "one seed"
        else:
            lines = "every run failed"
        return replace(
            axes,
            title=f"{axes.title}: {lines}",
            # The vertical axis includes nothing but the values.
            low=None,
            high=None,
            yardsticks=self.yardsticks,
        )

    @property
    def summary(self) -> pd.DataFrame:
        """Bits per byte by method and length, as `lab.summary` writes them."""
        return summary(self.rows, main_question("text").name)

    @property
    def differences(self) -> pd.DataFrame:
        """The difference between every two methods at each length, paired by seed.

        Columns: "first", "second", "x", "mean" (of first minus second), "half_width", "seeds" and
        "verdict": "lower" or "higher" if the interval is on one side of zero, else "undecided"; and
        "no verdict" with fewer than three seeds.
        """
        values = self.rows[["label", "seed", "x", "value"]]
        pairs = values.merge(values, on=["seed", "x"], suffixes=("_first", "_second"))
        pairs = pairs.rename(columns={"label_first": "first", "label_second": "second"})
        # Each pair once, in the order of the methods.
        first = pairs["first"].map(self.methods.index)
        second = pairs["second"].map(self.methods.index)
        pairs = pairs[first < second]
        pairs = pairs.assign(value=pairs["value_first"] - pairs["value_second"])
        pairs = pairs.dropna(subset="value")

        table = over_seeds(pairs, ["first", "second", "x"]).reset_index()
        verdict = np.select(
            [table["seeds"] < FEWEST_SEEDS, table["high"] < 0, table["low"] > 0],
            [NO_VERDICT, LOWER, HIGHER],
            UNDECIDED,
        )
        return table.drop(columns=["low", "high"]).assign(verdict=verdict)

    @property
    def verdicts(self) -> list[str]:
        """One sentence for each pair of methods, after those on failures and learning by heart."""
        training = self.table[self.table["question"] == TRAINING_LOSS]
        sentences = [*self.failures, *learned_by_heart(training, self.rows)]
        for (first, second), rows in self.differences.groupby(["first", "second"], sort=False):
            clauses = []
            for verdict, group in rows.groupby("verdict", sort=False):
                lengths = []
                for row in group.itertuples():
                    difference = _cell(row, number_format="+z.3f")
                    lengths.append(f"{row.x:,} ({difference})")
                words = verdict
                if verdict == NO_VERDICT:
                    seeds = group["seeds"].max()
                    with_seeds = "1 seed" if seeds == 1 else f"{seeds} seeds"
                    words = f"no verdict with {with_seeds} ({FEWEST_SEEDS} are needed)"
                clauses.append(f"{words} at {join(lengths)}")
            sentences.append(f"{quoted(first)} against {quoted(second)}: {'; '.join(clauses)}.")
        return sentences

    def save(self, folder: str | Path) -> None:
        """Write results.csv and verdicts.txt into a folder."""
        folder = create_folder(folder)
        write(folder / "results.csv", self.table.to_csv(index=False))
        write(folder / "verdicts.txt", "".join(f"{verdict}\n" for verdict in self.verdicts))


def compare(
    methods: Iterable[Method] | Mapping[str, Method],
    *,
    seeds: int = 3,
    text: Path | None = None,
    out: str | Path | None = None,
    length: int = Run.length,
    steps: int = Run.steps,
    longest: int = Run.longest,
    executor: Executor | None = None,
    progress: bool = True,
) -> MethodComparison:
    """Train every method with every seed, and compare their losses on longer and longer texts.

    All have the same learning rate, so a difference may be due to it. `lab.sweep` takes runs with
    others.

    Args:
        methods: position methods, as in `make_model`: a list, or {name: method} with names of your
            own.
        seeds: how many, from 0. For one seed, all methods start from the same weights and read the
            same batches.
        text: the `Path` of a text file in UTF-8; by default the built-in text.
        out: a results folder, as in `sweep`. A later call only does what is missing, also for more
            methods or seeds.
        length, steps: of training.
        longest: tests are at L, 2L, 4L, ... up to this many times the training length L.
        executor, progress: as in `sweep`.

    Raises, before any training, TypeError for a text that is not a `Path`; ValueError for missing,
    repeated or unknown methods and a text that is too short; OSError for a text that isn't there.

    >>> from alibi_viz import lab
    >>> comparison = lab.compare(
    ...     ["none", "alibi"], seeds=1, length=16, steps=3, longest=2, progress=False
    ... )
    >>> comparison
    MethodComparison(methods=('none', 'alibi'), text='tales', failures=())
    >>> print(comparison.verdicts[0])
    none against alibi: no verdict with 1 seed (3 are needed) at 16 (...) and 32 (...).
    """
    methods = named_methods(methods)
    names = list(methods)
    if out is not None:
        as_path("out", out)
    check_integer("seeds", seeds, 1, 1000)
    check_integer("longest", longest, 1)
    if not isinstance(text, Path | None):
        raise TypeError(
            f"text must be a pathlib.Path, because the runs of a sweep read it again, got {text!r}"
        )
    common = Run(
        methods[names[0]], length=length, steps=steps, longest=longest, path=text, variants=()
    )
    source = common.source()
    assert isinstance(source, Text)  # of the task "text"
    runs = []
    for seed in range(seeds):
        for name, method in methods.items():
            run = replace(common, position=method, label=name, seed=seed)
            runs.append(run)
            if seed == 0:
                run.new_model(source)  # a law that fails does so before anything is trained

    records = list(sweep(runs, executor, out=out, progress=progress))
    records.sort(key=lambda record: (record["run"]["seed"], names.index(record["run"]["label"])))
    failures = []
    for record in records:
        if record["error"]:
            label = record["run"]["label"]
            seed = record["run"]["seed"]
            failures.append(f"{label}, seed {seed}, is left out: {record['error']}.")
    origin = "live" if out is None else Path(out).name
    table = record_table(records, origin)
    return MethodComparison(
        table,
        tuple(names),
        common,
        source.name,
        tuple(failures),
        yardsticks=source.yardsticks,
    )


def summary(results: pd.DataFrame, question: str) -> pd.DataFrame:
    """The mean over seeds and its 95% interval for each trained model and each x.

    Args:
        results: a table with the columns of `lab.COLUMNS`.
        question: the name of one of `lab.QUESTIONS`.

    Returns strings: "2.165 ± 0.006", or both ends of the interval for a value that has limits; the
    last column is the number of seeds. The rows are the labels; a change to the model follows after
    a comma: "rotary, window". Up to the training length, changed models are equal to unchanged ones
    and left out. Raises ValueError where models learned different texts, or several share a label.
    """
    check_table("results", results)
    limits = find_question(question).figure.limits
    rows = results[results["question"] == question]
    is_changed = rows["variant"] != AS_TRAINED
    labels = rows["label"].mask(is_changed, rows["label"] + ", " + rows["variant"])
    rows = rows.assign(label=labels)
    rows = rows[~is_changed | (rows["x"] > rows["length"])]
    check_comparable(rows)

    table = over_seeds(rows, limits=limits)
    has_limits = limits[0] > -math.inf
    texts = [_cell(row, both_ends=has_limits) for row in table.itertuples()]
    cells = pd.Series(texts, table.index, dtype="str").unstack("x", sort=False).fillna("")
    seeds = table["seeds"].groupby(level="label", sort=False).max().astype(int)
    return cells[sorted(cells.columns)].assign(seeds=seeds).rename_axis(None)


def check_comparable(rows: pd.DataFrame) -> None:
    """Raise ValueError for rows on several texts, or with several models of one seed and label."""
    # The gap has a row for each step, sliding windows for each length: these are no other models.
    step = rows["step"].mask(rows["question"] == "gap", 0)
    length = rows["length"].mask(rows["question"] == "sliding windows", 0)
    rows = rows.assign(step=step, length=length)

    texts = rows.groupby("question")[["task", "text"]].nunique().max()
    _check_single(texts, "")
    models = rows.groupby(["question", "label", "variant"])[["length", "step"]].nunique().max()
    _check_single(models, ", or label the models apart")
    if rows.duplicated(["question", "label", "variant", "seed", "x"]).any():
        cure = "read them without `by_block`" if "block" in rows else "label the models apart"
        raise ValueError(f"results must have one row for a label, seed and x: {cure}")


def _check_single(counts: pd.Series, cure: str) -> None:
    """Raise ValueError if a column has several values; `counts` says how many each has."""
    mixed = [repr(name) for name in counts.index[counts > 1]]
    if mixed:
        raise ValueError(f"results must have one {join(mixed)}: choose by that column{cure}")


def _cell(row: Any, number_format: str = ".3f", *, both_ends: bool = False) -> str:
    """The mean and interval in a row of `over_seeds`."""
    if row.seeds == 0:
        return "not defined"
    if math.isnan(row.half_width):
        return f"{row.mean:{number_format}}"
    interval = f"({row.low:.3f} to {row.high:.3f})" if both_ends else f"± {row.half_width:.3f}"
    return f"{row.mean:{number_format}} {interval}"
