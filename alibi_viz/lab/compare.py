"""Compare position methods over several seeds, for a paper: one table, verdicts, a LaTeX table and panels to draw."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import pandas as pd

from alibi_viz.arguments import as_list, check_file_name, check_known, check_positive_integers
from alibi_viz.lab.confidence import LEVEL, SEEDS
from alibi_viz.lab.experiment import Run, new_model
from alibi_viz.lab.intervals import differences, differences_in_words, over_seeds
from alibi_viz.lab.latex import latex_table
from alibi_viz.lab.questions import join, main_question
from alibi_viz.lab.race import evaluation_lengths
from alibi_viz.lab.results import AS_TRAINED, record_table
from alibi_viz.lab.results_folder import check_folder
from alibi_viz.lab.sweep import executor, in_order, sweep
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text
from alibi_viz.models import Law, Method
from alibi_viz.models.positions.own import method_names
from alibi_viz.panel import Panel

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, repr=False)
class Comparison:
    """The results of `compare`.

        comparison = lab.compare(["alibi", "rotary", my_law], seeds=5, text="mine.txt", out="results")
        comparison.summary                               # a table of means and intervals
        comparison.verdicts                              # a list of sentences: what is decided over the seeds
        figures.panel_figure(comparison.panel()).show()  # with intervals, and every seed
        comparison.save("results")                       # CSV, Parquet, LaTeX and the verdicts

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
    def variants(self) -> dict[str, list[str]]:
        """How the models of each method were changed before they were evaluated: {method: ["window", ...]}."""
        rows = self._rows()
        evaluated = {method: rows["evaluated"][rows["label"] == method].unique() for method in self.methods}
        return {method: [name for name in names if name != AS_TRAINED] for method, names in evaluated.items()}

    @property
    def summary(self) -> pd.DataFrame:
        """Bits per byte by curve and window length: mean over seeds, half of the 95% t interval, number of seeds."""
        return over_seeds(self._rows())

    @property
    def differences(self) -> pd.DataFrame:
        """The difference between every two methods, and between every changed model and its method as trained.

        See `intervals.differences`. Changed models are compared beyond the training length; up to it they are equal.
        """
        rows = self._rows()
        changed = [(_curve(method, name), method) for method, names in self.variants.items() for name in names]
        beyond = rows[rows["x"] > self.run.length]
        tables = [differences(rows, combinations(self.methods, 2)), differences(beyond, changed)]
        return pd.concat(tables, ignore_index=True)

    @property
    def verdicts(self) -> list[str]:
        """What can be said over the seeds, in sentences.

        A difference whose interval contains zero is undecided, and so are all with fewer than three seeds. Differences
        are paired by seed, so one may be decided although the intervals of the two means overlap. Each interval is
        about one difference: of many differences that are zero, one in twenty is called lower or higher by chance.
        """
        return [*self.failures, *differences_in_words(self.differences)]

    @property
    def caption(self) -> str:
        """What the table and the panels show, and how the intervals are made."""
        over = f"mean over {self.seeds} seeds ± half of the {LEVEL:.0%} t interval over seeds"
        return (
            f"Bits per byte on windows of several lengths, always on the same target bytes, after {self.run.steps:,} "
            f"steps of training on windows of L = {self.run.length:,} bytes ({self.text}): "
            f"{over if self.seeds > 1 else 'one seed'}."
        )

    def latex(self) -> str:
        """The summary as a LaTeX table for the package booktabs."""
        rows = []
        for method, names in self.variants.items():
            rows += [(method, method), *((_curve(method, name), f" {name}") for name in names)]
        return latex_table(self.summary, rows, self.run.length, self.caption)

    def panel(self, curves: Sequence[str] | None = None) -> Panel:
        """The loss by window length, for `figures.panel_figure`: mean, every seed, and the 95% t interval over seeds.

        `curves` are names of curves, by default the methods as trained. Raises ValueError for an unknown name.
        """
        rows, names = self._rows(), as_list("curves", self.methods if curves is None else curves, "names")
        check_known("curves", names, dict.fromkeys([*self.methods, *rows["curve"]]))
        rows = rows[rows["curve"].isin(names)].assign(label=rows["curve"])
        panel = main_question("text").panel(rows, self.run.length, labels=names)
        bars = f", {LEVEL:.0%} t interval (bars)" if self.seeds >= SEEDS else ""
        title = f"{panel.title}: mean of {self.seeds} seeds{bars}, each seed (thin)"
        low, high = rows["value"].agg(["min", "max"]) if len(rows) else (panel.low, panel.high)
        title = title if self.seeds > 1 else f"{panel.title}: one seed"
        return replace(panel, title=title, low=low, high=high)

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

    def _rows(self) -> pd.DataFrame:
        """The answers to the main question, with a column "curve"."""
        rows = self.table[self.table["question"] == main_question("text").name]
        return rows.assign(curve=list(map(_curve, rows["label"], rows["evaluated"])))

    def __repr__(self) -> str:
        runs = len(self.methods) * self.seeds
        counted = f"{runs} run{'s' if runs != 1 else ''}"
        return f"Comparison of {join(self.methods)}: {counted}, L = {self.run.length}, {self.run.steps} steps"


def compare(
    methods: Iterable[Method],
    *,
    seeds: int = 3,
    text: str | Path | None = None,
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
        text: a text file in UTF-8; by default the built-in text.
        out: a results folder, as in `sweep`: finished runs are saved there at once, and a later call with the same
            settings only does the missing ones, also for more methods or seeds.
        length, steps: of training.
        longest: tests go to this many times the training length.
        workers: processes, with one thread each.
        scheduler: the address of a Dask scheduler, instead of `workers`. Its workers must be able to read the text.
        progress: show a progress bar on standard error.

    Raises, before any training:
        TypeError: methods that are not a list, or a text that is not the name of a file.
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
    names = method_names(methods)
    if not names:
        raise ValueError("give at least one position method to compare")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"two methods are called {twice[0]!r}; rename one of them")
    check_positive_integers(seeds=seeds, workers=workers)
    if text is not None:
        check_file_name("text", text)
    runs = [
        Run(name, length=length, steps=steps, longest=longest, path=text, seed=seed)
        for seed in range(seeds)
        for name in names
    ]
    source = runs[0].source()
    for run in runs[: len(names)]:
        _check_method(run, source)
    if out is not None and Path(out).is_dir():
        check_folder(runs, Path(out))
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
    if run.own is None:
        return
    position = new_model(run, source).transformer.position
    if isinstance(position, Law):
        position.bias(1, max([run.length, *evaluation_lengths(run.length, run.longest)]))


def _curve(method: str, evaluated: str) -> str:
    return method if evaluated == AS_TRAINED else f"{method}, {evaluated}"
