"""Compare position methods over several seeds, for a paper: one table, verdicts, a LaTeX table and
curves to draw."""

import math
from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from alibi_viz.arguments import check_integer
from alibi_viz.files import write
from alibi_viz.measure.questions import find_question, main_question
from alibi_viz.measure.sentences import join, quoted
from alibi_viz.measure.table import AS_TRAINED, LEVEL, SEEDS, Axes, check_table, over_seeds
from alibi_viz.models.positions.custom import Method, register_methods
from alibi_viz.train.runs import Run, create_folder, record_table, sweep

UNDECIDED = "undecided"
LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\~{}", "^": r"\^{}"}
)


@dataclass(frozen=True)
class Comparison:
    """The results of `compare`.

        comparison = lab.compare(["alibi", "rotary", my_law], seeds=5, text=Path("mine.txt"), out="results")
        comparison.summary                                                  # a table of means and intervals
        comparison.verdicts                                                 # sentences: what is decided over the seeds
        figures.curve_figure(comparison.rows, comparison.axes).show()       # with intervals, and every seed
        comparison.save("results")                                          # CSV, LaTeX and the verdicts

    Attributes:
        table: all results, with the columns of `lab.COLUMNS`.
        methods: the names of the methods.
        run: the settings that all runs share.
        text: the name of the text.
        failures: sentences on runs whose training diverged; they are left out of all means.
    """

    table: pd.DataFrame = field(repr=False)
    methods: tuple[str, ...]
    run: Run = field(repr=False)
    text: str
    failures: tuple[str, ...] = ()

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
        bars = f", {LEVEL:.0%} t interval (bars)" if self.seeds >= SEEDS else ""
        what = (
            f"mean of {self.seeds} seeds{bars}, each seed (thin)" if self.seeds > 1 else "one seed"
        )
        return replace(axes, title=f"{axes.title}: {what}", low=math.inf, high=-math.inf)

    @property
    def summary(self) -> pd.DataFrame:
        """Bits per byte by method and length, as `lab.summary` writes them."""
        return summary(self.rows, main_question("text").name)

    @property
    def differences(self) -> pd.DataFrame:
        """The difference between every two methods at each length, paired by seed.

        Columns: "first", "second", "x", "mean" (of first minus second), "half_width", "seeds" and
            "verdict": "lower" or
        "higher" if the interval is on one side of zero, else "undecided", as with fewer than three
        seeds.
        """
        values = self.rows[["label", "seed", "x", "value"]]
        both = values.merge(values, on=["seed", "x"]).rename(
            columns={"label_x": "first", "label_y": "second"}
        )
        first, second = (both[side].map(self.methods.index) for side in ("first", "second"))
        both = both.assign(value=both["value_x"] - both["value_y"])[first < second].dropna(
            subset="value"
        )
        table = over_seeds(both, ["first", "second", "x"]).reset_index()
        decided = [
            (table["seeds"] >= SEEDS) & side for side in (table["high"] < 0, table["low"] > 0)
        ]
        return table.drop(columns=["low", "high"]).assign(
            verdict=np.select(decided, ["lower", "higher"], UNDECIDED)
        )

    @property
    def verdicts(self) -> list[str]:
        """The differences in sentences, one for each pair, and how many of them chance alone would
        decide."""
        table, sentences = self.differences, list(self.failures)
        for (first, second), rows in table.groupby(["first", "second"], sort=False):
            at = rows.assign(at=[f"{row.x:,} ({_cell(row, '+z.3f')})" for row in rows.itertuples()])
            clauses = [
                f"{verdict} at {join(list(each))}"
                for verdict, each in at.groupby("verdict", sort=False)["at"]
            ]
            sentences.append(f"{quoted(first)} against {quoted(second)}: {'; '.join(clauses)}.")
        tested, decided = (
            int((table["seeds"] >= SEEDS).sum()),
            int((table["verdict"] != UNDECIDED).sum()),
        )
        chance = (
            f"by chance alone {(1 - LEVEL) * tested:.1f} would be, if no two curves truly differed"
        )
        return [
            *sentences,
            f"Decided, which takes {SEEDS} seeds: {decided} of {len(table)}; {chance}.",
        ]

    @property
    def caption(self) -> str:
        """What the table and the figure show, and how the intervals are made."""
        over = f"mean over {self.seeds} seeds ± half of the {LEVEL:.0%} t interval over seeds"
        trained = (
            f"{self.run.steps:,} steps of training on sequences of L = {self.run.length:,} "
            f"bytes ({self.text})"
        )
        what = (
            "Bits per byte on sequences of several lengths, always on the same target bytes, "
            f"after {trained}"
        )
        return " ".join([f"{what}: {over if self.seeds > 1 else 'one seed'}.", *self.failures])

    def latex(self) -> str:
        r"""The summary as a LaTeX table, which needs `\usepackage{booktabs}`."""
        cells = self.summary.drop(columns="seeds")
        cells.columns = pd.Index([f"{x} ({x / self.run.length:g} L)" for x in cells.columns])
        return cells.to_latex(
            escape=True, caption=self.caption.translate(LATEX), label="tab:comparison"
        )

    def save(self, folder: str | Path) -> None:
        """Write results.csv, results.tex and verdicts.txt into a folder."""
        folder = create_folder(folder)
        write(folder / "results.csv", self.table.to_csv(index=False))
        write(folder / "results.tex", self.latex())
        write(folder / "verdicts.txt", "".join(f"{verdict}\n" for verdict in self.verdicts))


def compare(
    methods: Iterable[Method],
    *,
    seeds: int = 3,
    text: Path | None = None,
    out: str | Path | None = None,
    length: int = Run.length,
    steps: int = Run.steps,
    longest: int = Run.longest,
    executor: Executor | None = None,
    progress: bool = True,
) -> Comparison:
    """Train every method with every seed, and compare their losses on longer and longer sequences.

    All have the same learning rate, so a difference may be due to it. `lab.sweep` takes runs with
    others.

    Args:
        methods: names, or functions or classes of your own, as in `make_model`.
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

    >>> comparison = lab.compare(["none", "alibi"], seeds=1, length=16, steps=3, longest=2, progress=False)
    >>> comparison
    Comparison(methods=('none', 'alibi'), text='tales', failures=())
    >>> print(comparison.verdicts[0])
    none against alibi: undecided at 16 (...) and 32 (...).
    """
    names = register_methods(methods)
    check_integer("seeds", seeds, 1, 1000)
    check_integer("longest", longest, 1)
    if not isinstance(text, Path | None):
        raise TypeError(
            f"text must be a pathlib.Path, because the runs of a sweep read it again, got {text!r}"
        )
    common = Run(names[0], length=length, steps=steps, longest=longest, path=text, variants=())
    runs = [
        replace(common, position=name, label="", seed=seed)
        for seed in range(seeds)
        for name in names
    ]
    source = common.source()
    for run in runs[: len(names)]:
        run.new_model(source)  # a law that fails does so before anything is trained
    records = list(sweep(runs, executor, path=out, progress=progress))
    records.sort(key=lambda record: (record["run"]["seed"], names.index(record["run"]["position"])))
    failed = [record["run"] | record for record in records if record["error"]]
    failures = ("{label}, seed {seed}, is left out: {error}.".format_map(each) for each in failed)
    origin = "live" if out is None else Path(out).name
    return Comparison(
        record_table(records, origin), tuple(names), common, source.name, tuple(failures)
    )


def summary(results: pd.DataFrame, question: str) -> pd.DataFrame:
    """The mean over seeds and its 95% interval for each trained model, with and without changes,
    and each x.

    Args:
        results: a table with the columns of `lab.COLUMNS`.
        question: the name of one of `lab.QUESTIONS`.

    Returns strings: "2.165 ± 0.006", or both ends of the interval for a value that has limits; the
    last column is the number of seeds. The rows are the labels; a change to the model follows after
    a comma: "rotary, window". Up to the training length, changed models are equal to unchanged ones
    and left out. Raises ValueError where models learned different texts, or several share a label.
    """
    check_table("results", results)
    limits = find_question(question).scale.limits
    rows = results[results["question"] == question]
    changed = rows["variant"] != AS_TRAINED
    rows = rows.assign(label=rows["label"].mask(changed, rows["label"] + ", " + rows["variant"]))
    rows = rows[~changed | (rows["x"] > rows["length"])]
    check_comparable(rows)
    table = over_seeds(rows, limits=limits)
    words = [_cell(row, both_ends=limits[0] > -math.inf) for row in table.itertuples()]
    cells = pd.Series(words, table.index, dtype="str").unstack("x", sort=False).fillna("")
    seeds = table["seeds"].groupby(level="label", sort=False).max().astype(int)
    return cells[sorted(cells.columns)].assign(seeds=seeds).rename_axis(None)


def check_comparable(rows: pd.DataFrame) -> None:
    """Raise ValueError for rows on several texts, or with several models of one seed and label, as
    if they were one."""
    many = {
        "step": "gap",
        "length": "sliding windows",
    }  # the question whose curve has several of them
    rows = rows.assign(
        **{name: rows[name].mask(rows["question"] == many[name], 0) for name in many}
    )
    texts = rows.groupby("question")[["task", "text"]].nunique().max()
    models = rows.groupby(["question", "label", "variant"])[["length", "step"]].nunique().max()
    for counts, cure in ((texts, ""), (models, ", or label the models apart")):
        if mixed := [repr(name) for name in counts.index[counts > 1]]:
            raise ValueError(f"results must have one {join(mixed)}: choose by that column{cure}")
    if rows.duplicated(["question", "label", "variant", "seed", "x"]).any():
        cure = "read them without `by_block`" if "block" in rows else "label the models apart"
        raise ValueError(f"results must have one row for a label, seed and x: {cure}")


def _cell(row: Any, number: str = ".3f", *, both_ends: bool = False) -> str:
    """The mean and interval in a row of `over_seeds`."""
    if row.seeds == 0:
        return "not defined"
    if math.isnan(row.half_width):
        return f"{row.mean:{number}}"
    interval = f"({row.low:.3f} to {row.high:.3f})" if both_ends else f"± {row.half_width:.3f}"
    return f"{row.mean:{number}} {interval}"
