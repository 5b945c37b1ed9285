"""Compare position methods over several seeds, for a paper: one table, verdicts, a LaTeX table and curves to draw."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from alibi_viz.arguments import as_list, check_known, check_positive_integers
from alibi_viz.lab.evaluation import evaluation_lengths
from alibi_viz.lab.modify import evaluation_variants
from alibi_viz.lab.questions import find_question, main_question
from alibi_viz.lab.runs import Record, Run, read_records, record_table
from alibi_viz.lab.say import join, quoted
from alibi_viz.lab.sweep import executor, in_order, sweep
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text
from alibi_viz.models.positions.custom import Law, Method, register_methods
from alibi_viz.table import AS_TRAINED, LEVEL, SEEDS, Axes, over_seeds

LOWER, HIGHER, UNDECIDED = "lower", "higher", "undecided"
MAY_DIFFER = {"position", "label", "seed", "custom"}  # settings in which the runs of one comparison differ


@dataclass(frozen=True, repr=False)
class Comparison:
    """The results of `compare`.

        comparison = lab.compare(["alibi", "rotary", my_law], seeds=5, text=Path("mine.txt"), out="results")
        comparison.summary                                                  # a table of means and intervals
        comparison.verdicts                                                 # sentences: what is decided over the seeds
        figures.curve_figure(comparison.rows(), comparison.axes).show()     # with intervals, and every seed
        comparison.save("results")                                          # CSV, Parquet, LaTeX and the verdicts

    A curve is named after its method, such as "rotary", or after the method and how the trained model was changed
    before it was evaluated, such as "rotary, yarn".

    Attributes:
        table: all results as one tidy table, with the columns of `lab.COLUMNS`.
        methods: the names of the methods.
        run: the settings that all runs share.
        text: the name of the text.
        failures: sentences on runs whose training diverged; they are left out of all means.
    """

    table: pd.DataFrame
    methods: tuple[str, ...]
    run: Run
    text: str
    failures: tuple[str, ...] = ()

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return self.table["seed"].nunique()

    @property
    def curves(self) -> dict[str, list[str]]:
        """The names of the curves of changed models: {method: ["rotary, window", ...]}."""
        labels, variants = self.rows(None)["label"].unique(), self.table["variant"].unique()
        names = {method: [f"{method}, {variant}" for variant in variants] for method in self.methods}
        return {method: [name for name in curves if name in labels] for method, curves in names.items()}

    def rows(self, curves: Iterable[str] | None = ()) -> pd.DataFrame:
        """The losses by length, labeled by curve: those of the methods as trained, of named curves, or all for None.

        Raises ValueError for an unknown name.
        """
        rows = self.table[self.table["question"] == main_question("text").name]
        changed = rows["variant"] != AS_TRAINED
        rows = rows.assign(label=rows["label"].where(~changed, rows["label"] + ", " + rows["variant"]))
        if curves is None:
            return rows
        names = as_list("curves", curves, "names") or list(self.methods)
        check_known("curves", names, dict.fromkeys([*self.methods, *rows["label"]]))
        return rows[rows["label"].isin(names)]

    @property
    def axes(self) -> Axes:
        """The axes of a figure with these `rows`."""
        axes = main_question("text").axes(self.run.length, sorted(self.rows(None)["x"].unique()))
        bars = f", {LEVEL:.0%} t interval (bars)" if self.seeds >= SEEDS else ""
        what = f"mean of {self.seeds} seeds{bars}, each seed (thin)" if self.seeds > 1 else "one seed"
        return replace(axes, title=f"{axes.title}: {what}", low=math.inf, high=-math.inf)

    @property
    def summary(self) -> pd.DataFrame:
        """Bits per byte by curve and window length: mean over seeds, half of the 95% t interval, number of seeds."""
        return over_seeds(self.rows(None))

    @property
    def differences(self) -> pd.DataFrame:
        """The difference between every two methods, and between every changed model and its method as trained.

        Differences are paired by seed. Columns: "first", "second", "x", "mean" (of first minus second), "half_width",
        "seeds" and "verdict": "lower" or "higher" if the interval is on one side of zero, and "undecided" if it
        contains zero or there are fewer than three seeds. Changed models are compared beyond the training length; up to
        it they are equal. A pair is left out where one of the two is not defined.
        """
        rows = self.rows(None)
        values = rows.set_index(["seed", "x", "label"])["value"].unstack("label", sort=False)
        pairs = [(first, second, 0) for first, second in combinations(self.methods, 2)]
        changed = self.curves.items()
        pairs += [(curve, method, self.run.length) for method, curves in changed for curve in curves]
        tables = []
        for first, second, beyond in pairs:
            if {first, second} <= set(values.columns):
                difference = (values[first] - values[second]).rename("value").dropna().reset_index()
                table = over_seeds(difference[difference["x"] > beyond], ["x"]).reset_index()
                tables.append(table.assign(first=first, second=second))
        columns = ["first", "second", "x", "mean", "half_width", "seeds"]
        result = pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns)
        decided = (result["mean"].abs() > result["half_width"]) & (result["seeds"] >= SEEDS)
        side = np.where(result["mean"] < 0, LOWER, HIGHER)
        return result.assign(verdict=np.where(decided, side, UNDECIDED))

    @property
    def verdicts(self) -> list[str]:
        """What can be said over the seeds, in sentences.

        A difference whose interval contains zero is undecided, and so are all with fewer than three seeds. Differences
        are paired by seed, so one may be decided although the intervals of the two means overlap. Each interval is
        about one difference: of many differences that are zero, one in twenty is called lower or higher by chance.
        """
        table = self.differences
        sentences = list(self.failures)
        for (first, second), rows in table.groupby(["first", "second"], sort=False):
            clauses: dict[str, list[str]] = {}
            for row in rows.itertuples():
                interval = "" if math.isnan(row.half_width) else f" ± {row.half_width:.3f}"
                clauses.setdefault(row.verdict, []).append(f"{row.x:,} ({row.mean:+z.3f}{interval})")
            words = [f"{kind} at {join(clauses[kind])}" for kind in (LOWER, HIGHER, UNDECIDED) if kind in clauses]
            sentences.append(f"{quoted(first)} against {quoted(second)}: {'; '.join(words)}.")
        tested = int((table["seeds"] >= SEEDS).sum())
        if tested:
            decided = int((table["verdict"] != UNDECIDED).sum())
            sentences.append(
                f"{decided} of {len(table)} differences {'is' if decided == 1 else 'are'} decided; by chance alone it "
                f"would be {(1 - LEVEL) * tested:.1f}, if no two curves truly differed."
            )
        elif len(table):
            sentences.append(f"With fewer than {SEEDS} seeds, every difference is undecided.")
        return sentences

    @property
    def caption(self) -> str:
        """What the table and the figure show, and how the intervals are made."""
        over = f"mean over {self.seeds} seeds ± half of the {LEVEL:.0%} t interval over seeds"
        return (
            f"Bits per byte on windows of several lengths, always on the same target bytes, after {self.run.steps:,} "
            f"steps of training on windows of L = {self.run.length:,} bytes ({self.text}): "
            f"{over if self.seeds > 1 else 'one seed'}."
        )

    def latex(self) -> str:
        r"""The summary as a LaTeX table, which needs `\usepackage{booktabs}`."""
        rows = []
        for method, curves in self.curves.items():
            rows += [(method, method), *((curve, f" {curve.removeprefix(f'{method}, ')}") for curve in curves)]
        return latex_table(self.summary, rows, self.run.length, self.caption)

    def save(self, folder: str | Path) -> None:
        """Write results.csv, results.tex, verdicts.txt and results.parquet into a folder.

        Raises ImportError, after the others are written, if there is no library for Parquet.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.table.to_csv(folder / "results.csv", index=False)
        (folder / "results.tex").write_text(self.latex(), encoding="utf-8")
        (folder / "verdicts.txt").write_text("".join(f"{verdict}\n" for verdict in self.verdicts), encoding="utf-8")
        try:
            self.table.to_parquet(folder / "results.parquet", index=False)
        except ImportError:
            message = "results.parquet is not written, because it needs pyarrow: pip install 'alibi-viz[parquet]'"
            raise ImportError(message) from None

    def __repr__(self) -> str:
        runs = len(self.methods) * self.seeds
        counted = f"{runs} run{'s' if runs != 1 else ''}"
        return f"Comparison of {join(self.methods)}: {counted}, L = {self.run.length}, {self.run.steps} steps"


def compare(
    methods: Iterable[Method],
    *,
    seeds: int = 3,
    text: Path | None = None,
    out: str | Path | None = None,
    length: int = Run.length,
    steps: int = Run.steps,
    longest: int = Run.longest,
    workers: int = 1,
    scheduler: str | None = None,
    progress: bool = True,
) -> Comparison:
    """Train every method with every seed, and compare their losses on longer and longer windows.

    Models are evaluated as trained and, where the method allows it, with attention limited to a window of the training
    length, without and with sinks; rotary also with PI, NTK and YaRN, and ALiBi with its slopes interpolated (see
    `lab.modify`). For one seed, all methods start from the same weights and read the same batches.

    Args:
        methods: names, or functions or classes of your own, as in `make_model`.
        seeds: how many, from 0.
        text: the `Path` of a text file in UTF-8; by default the built-in text.
        out: a results folder, as in `sweep`: finished runs are saved there at once, and a later call with the same
            settings only does the missing ones, also for more methods or seeds.
        length, steps: of training.
        longest: tests go to this many times the training length.
        workers: processes, with one thread each.
        scheduler: the address of a Dask scheduler, instead of `workers`. Its workers must be able to read the text.
        progress: show a progress bar on standard error.

    Raises, before any training:
        TypeError: methods that are not a list, or a text that is not a `Path`.
        ValueError: no method, two methods of one name, an unknown method, a function that fails at the lengths of the
            tests, an invalid number, a text that is too short or not UTF-8, or a folder whose runs have other settings,
            or lack evaluations that this version makes.
        OSError: the text cannot be read.

    >>> comparison = lab.compare(["none"], seeds=1, length=16, steps=3, longest=2, progress=False)
    >>> comparison
    Comparison of none: 1 run, L = 16, 3 steps
    >>> print(comparison.verdicts[0])
    "none, window" against none: undecided at 32 (...).
    """
    names = register_methods(methods)
    if not names:
        raise ValueError("give at least one position method to compare")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"two methods are called {twice[0]!r}; rename one of them")
    check_positive_integers(seeds=seeds, workers=workers)
    if not isinstance(text, Path | None):
        raise TypeError(f"text must be a pathlib.Path, because the runs of a sweep read it again, got {text!r}")
    runs = [
        Run(name, length=length, steps=steps, longest=longest, path=text, seed=seed)
        for seed in range(seeds)
        for name in names
    ]
    source = runs[0].source()
    for run in runs[: len(names)]:
        _check_method(run, source)
    if out is not None and Path(out).is_dir():
        _check_folder(runs, Path(out), source)
    with executor(workers, scheduler) as pool:
        records = in_order(sweep(runs, pool, path=out, progress=progress), runs)
    failures = tuple(
        f"{record['run']['label']}, seed {record['run']['seed']}, is left out: {record['error']}."
        for record in records
        if record["error"]
    )
    origin = "live" if out is None else Path(out).name
    return Comparison(record_table(records, origin), tuple(names), runs[0], source.name, failures)


def _check_method(run: Run, source: Text | Task) -> None:
    """Raise ValueError if your own method makes no model, or is a function that fails at the longest test."""
    if run.custom is None:
        return
    position = run.new_model(source).transformer.position
    if isinstance(position, Law):
        position.bias(1, max([run.length, *evaluation_lengths(run.length, run.longest)]))


def _check_folder(runs: list[Run], folder: Path, source: Text | Task) -> None:
    """Raise ValueError if the runs in a folder don't belong to the same comparison as `runs`.

    They may have other methods and seeds, but not other settings, another function of the same name, or fewer
    evaluations than this version makes.
    """
    by_position = {run.position: run for run in runs}
    for record in read_records(folder):
        saved = record["run"]
        run = by_position.get(saved["position"], runs[0])
        settings = run.settings()
        names = [*(settings.keys() - MAY_DIFFER), *(["custom"] if saved["position"] == run.position else [])]
        for name in sorted(names):
            if saved.get(name) != settings.get(name):
                raise ValueError(_describe_difference(folder, name, saved, settings))
        if saved["position"] == run.position and not record["error"]:
            expected = evaluation_variants(run.new_model(source), run.length)
            if missing := expected.keys() - {answer[0] for answer in record["answers"]}:
                raise ValueError(
                    f"runs in {str(folder)!r} were made without the evaluation {', '.join(sorted(missing))}: use "
                    "another results folder"
                )


def _describe_difference(folder: Path, name: str, saved: Record, settings: Record) -> str:
    if name == "custom":
        return (
            f"{settings['position']!r} has changed since runs in {str(folder)!r} were made: use another results folder"
        )
    difference = f"{name}={saved.get(name)!r}, not {settings[name]!r}"
    return f"{str(folder)!r} has runs with {difference}: use another results folder"


LATEX = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\~{}", "^": r"\^{}"})


def summary(
    results: pd.DataFrame, question: str, labels: Collection[str] | None = None, xs: Collection[int] | None = None
) -> pd.DataFrame:
    """The mean over seeds and its 95% interval for each trained model, with and without changes, and each x.

    Args:
        results: a table with the columns of `lab.COLUMNS`.
        question: the name of one of `lab.QUESTIONS`.
        labels: of the rows, in their order; all by default. A change to the model follows after a comma: "rotary,
            window". Up to the training length, changed models are equal to unchanged ones and left out.
        xs: of the columns, in their order; all by default.

    Returns strings: "2.165 ± 0.006", or both ends of the interval for a value that has limits, such as a share. The
    last column says how many seeds there are. Raises ValueError for an unknown question and for results of models that
    learned different texts, and KeyError for a label or x without results.
    """
    asked = find_question(question)
    rows = results[results["question"] == asked.name]
    if len(tasks := rows["task"].unique()) > 1:
        raise ValueError(f"results must be on one text, got {', '.join(tasks)}: choose one by the column 'task'")
    rows = rows[(rows["variant"] == AS_TRAINED) | (rows["x"] > rows["length"])]
    curves = rows["label"].where(rows["variant"] == AS_TRAINED, rows["label"] + ", " + rows["variant"])
    table = over_seeds(rows.assign(label=curves), limits=asked.limits)
    cells = table.apply(_cell, axis=1, both_ends=asked.limits[0] > -math.inf).unstack("x", sort=False).fillna("")
    cells = cells[sorted(cells.columns) if xs is None else as_list("xs", xs, "integers")]
    cells["seeds"] = table["seeds"].groupby(level="label", sort=False).max().astype(int)
    cells = cells if labels is None else cells.loc[as_list("labels", labels, "names")]
    return cells.rename_axis(None)


def _cell(row: pd.Series, both_ends: bool = False) -> str:
    if row["seeds"] == 0:
        return "not defined"
    if math.isnan(row["half_width"]):
        return f"{row['mean']:.3f}"
    interval = f"({row['low']:.3f} to {row['high']:.3f})" if both_ends else f"± {row['half_width']:.3f}"
    return f"{row['mean']:.3f} {interval}"


def latex_table(means: pd.DataFrame, rows: Sequence[tuple[str, str]], length: int, caption: str) -> str:
    """A LaTeX table for the package booktabs: a row for each (curve of `means`, its name), a column for each length."""
    cells = means[means["seeds"] > 0].apply(_cell, axis=1).unstack("x", sort=False)
    cells = cells[sorted(cells)].reindex([curve for curve, _ in rows]).fillna("--")
    names = [name.translate(LATEX) for _, name in rows]
    cells.index = pd.Index([rf"\quad {name.strip()}" if name.startswith(" ") else name for name in names])
    cells.columns = pd.Index([f"{x} (${x / length:g}L$)" for x in cells.columns])
    style = {"hrules": True, "position_float": "centering", "label": "tab:comparison"}
    return cells.style.to_latex(column_format="l" + "r" * cells.shape[1], caption=caption.translate(LATEX), **style)
