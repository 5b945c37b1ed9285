"""ComparisonExplorer: results of many runs, question by question: every seed, the mean, and what holds in all seeds."""

from collections.abc import Iterable
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from ipywidgets import VBox, Widget

from alibi_viz import lab, study
from alibi_viz.figures import curves as picture
from alibi_viz.figures import forest_figure
from alibi_viz.lab import say
from alibi_viz.lab.modify import VARIANTS
from alibi_viz.lab.questions import QUESTIONS, SLIDING_WINDOWS, Question
from alibi_viz.lab.say import join, quoted
from alibi_viz.table import AS_TRAINED, LEVEL, SEEDS
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.controls import column, row, unfold_button
from alibi_viz.widgets.core.figure import LiveFigure
from alibi_viz.widgets.core.traits import Choice, Names
from alibi_viz.widgets.race.state import COMMON_METHODS, alibi_marks

WINDOWED = "rotary, window"  # the baseline that needs no training, so it is a method of its own beside ALiBi
FIRST = ("alibi", "sinusoidal", "rotary", WINDOWED, "none", "kerple-log")
PUBLISHED, PUBLISHED_HEADS = "published", 8
CLAIMS = "twelve claims"
IN_VIEW = 9  # checkboxes; those of further labels are shown on demand


class ComparisonExplorer(App):
    """Finished runs, compared method by method. Nothing is trained.

    Runs with the same seed start from the same weights and, if they have the same training length, read the same
    batches. The caption only claims what holds in every seed.

    Args:
        results: a table with the columns of `lab.COLUMNS`, such as `lab.read_results("results")` or, for pretrained
            models, tables of `lab.length_curve` joined with `pandas.concat`; by default the published results, with a
            training length of 64 unless the label says otherwise, where "rotary, window" is a method of its own.

    Traits:
        question: the name of one of `lab.QUESTIONS`, or "sliding windows", that the results answer. The published
            results also have "twelve claims": `app.figure` then is the forest plot of `study.verdict_table`.
        methods: at most seven labels of the table. Those without an answer are left out.
        variant: "as trained", or a change to the models that the results include: "window" (a query sees as many keys
            as the training length), "window and sinks" (and the first 4 tokens), "pi", "ntk" or "yarn" (for rotary), or
            "slopes interpolated" (for ALiBi). Questions that are not asked of changed models are shown as trained.

    Raises ValueError if the table answers no question.

    >>> from alibi_viz.widgets import ComparisonExplorer
    >>> app = ComparisonExplorer(methods=["rotary", "alibi"], variant="window")
    >>> app
    ComparisonExplorer(question='longer windows', methods=('alibi', 'rotary'), variant='window')
    >>> app.results["label"].unique().tolist()
    ['alibi', 'rotary']
    """

    why = Why(
        "A single seed may be an exception. So every seed is drawn, and the interval of the mean says how far "
        "chance alone could have moved it.",
        "06_train_short_test_long",
        "Your race and the published seeds",
    )
    question = Choice("longer windows", "views")
    methods = Names(FIRST, "labels", picture.MAX_METHODS)
    variant = Choice(AS_TRAINED, "variants")
    redraw_to_fit = True  # the legend needs more rows on a narrow page

    def __init__(self, results: pd.DataFrame | None = None, **state: Any) -> None:
        self._verdicts = study.verdict_table(study.published_results(by_block=True)) if results is None else None
        self._holders: list[VBox] = []  # of the figure of curves and of the forest plot
        table = _published() if results is None else results
        _check_table(table)
        questions = (*QUESTIONS, SLIDING_WINDOWS)
        self.questions = {q.name: q for q in questions if q.name in set(table["question"])}
        if not self.questions:
            expected = ", ".join(question.name for question in questions)
            given = ", ".join(map(str, table["question"].unique())) or "none"
            raise ValueError(f"results must answer a question out of {expected}, got {given}")
        self.views = [*self.questions, *([] if self._verdicts is None else [CLAIMS])]
        self._table = table[table["question"].isin(list(self.questions))]
        labels = list(self._table["label"].unique())
        self.labels = list(dict.fromkeys([*(name for name in COMMON_METHODS if name in labels), *labels]))
        self.variants = list(dict.fromkeys([AS_TRAINED, *self._table["variant"]]))
        state.setdefault("question", next(iter(self.questions)))
        chosen = [name for name in FIRST if name in labels] or self.labels[: picture.MAX_METHODS]
        state.setdefault("methods", tuple(chosen))
        super().__init__(**state)
        figures = [self.figure, *([] if self._verdicts is None else [LiveFigure(forest_figure(self._verdicts))])]
        self._holders = [VBox([figure]) for figure in figures]
        at = self.children.index(self.figure)
        self.children = [*self.children[:at], *self._holders, *self.children[at + 1 :]]
        self._show_figure()

    @property
    def results(self) -> pd.DataFrame:
        """The rows that are shown."""
        table = self._table
        shown = (table["question"] == self.question) & (table["variant"] == self._change())
        return table[shown & table["label"].isin(self.methods)]

    def fit(self, width: int) -> None:
        for holder in self._holders:
            holder.children[0].layout.width = width
        super().fit(width)

    # Methods that `App` requires.

    def blank(self) -> go.Figure:
        return picture.blank(430)

    def controls(self) -> list[Widget]:
        tip = "How the trained models were changed before they were measured"
        self._variant = self.menu("variant", "variant", "s-variant", tip)
        boxes = self.boxes("methods", self.labels, "Show or hide {}".format)
        self._boxes = dict(zip(self.labels, boxes, strict=True))
        self._more = unfold_button(
            "More methods",
            "Show every method that has results for this question",
            lambda _: self._show_boxes(self.methods),
        )
        self._show_boxes(self.methods)
        methods = row(*self._boxes.values(), self._more, self.reset_button())
        self._of_curves = methods
        return [column(row(self.tabs("question", "What was measured", self._summary), self._variant), methods)]

    def draw(self) -> tuple[str, str]:
        self._show_figure()
        if self.question == CLAIMS:
            self._variant.disabled = True
            return self._claims_in_words()
        question, results = self.questions[self.question], self.results
        visible = [label for label, box in self._boxes.items() if box.layout.display is None]
        self._show_boxes((*visible, *self.methods))  # a box that was just unchecked doesn't vanish
        self._variant.disabled = len(question.variants) == 1
        shown = [name for name in self.methods if name in set(results["label"])]
        length = int(self._table["length"][self._table["question"] == question.name].mode()[0])
        published = set(self._table["origin"]) == {PUBLISHED}  # other tables don't give the number of heads
        marks = alibi_marks(PUBLISHED_HEADS) if published and "alibi" in shown else {}
        axes = question.axes(length, sorted(results["x"].unique()), marks)
        slots = picture.assign_slots(shown, COMMON_METHODS)
        picture.draw(self.figure, slots, axes, results, notes=question.notes(results))
        sentences = say.sentences([*self._left_out(results), *question.say(results, length)])
        return " ".join(sentences[:2]), " ".join([*sentences[2:], self._shown(question, results)])

    def _show_figure(self) -> None:
        """Show the forest plot or the curves, and the methods only with the latter.

        The page gets both figures and hides one, because it can't update a figure that is not on it.
        """
        show_claims = self.question == CLAIMS
        self._of_curves.layout.display = "none" if show_claims else None
        if not self._holders:
            return  # not yet: the first drawing is on the way
        for holder, is_shown in zip(self._holders, (not show_claims, show_claims), strict=False):
            holder.layout.display = None if is_shown else "none"
        self.figure = self._holders[show_claims].children[0]

    def _claims_in_words(self) -> tuple[str, str]:
        assert self._verdicts is not None  # otherwise there is no such view
        table = self._verdicts
        counts = table[table["setting"] == table["setting"].iloc[0]]["verdict"].value_counts()
        seen, not_seen, open_ = (
            int(counts.get(verdict, 0)) for verdict in ("seen here", "not seen here", "can't tell")
        )
        agree = table.groupby("claim")["verdict"].agg(["nunique", "size"]).query("size > 1")["nunique"].eq(1)
        caption = (
            f"Of twelve claims, tested on models that learned the tales, {seen} are seen here and {not_seen} are not; "
            f"of {open_}, one can't tell. On Python's reference, {agree.sum()} of {len(agree)} get the same verdict."
        )
        lines = [
            f"{row.claim} ({row.setting}, {row.source}): {row.verdict}; {row.numbers}." for row in table.itertuples()
        ]
        covers = (
            f"A bar is the {LEVEL:.0%} interval over seeds and blocks of held-out text: it covers other seeds and "
            "other passages of the same kind of text, not other sizes of models."
        )
        return caption, " ".join([covers, *lines])

    def _summary(self, question: str) -> str:
        return "By how much each claim of the study holds" if question == CLAIMS else self.questions[question].summary

    def _show_boxes(self, kept: Iterable[str]) -> None:
        """Show a checkbox for the first labels that answer the question and for the kept ones, or for all."""
        answered = set(self._table.loc[self._table["question"] == self.question, "label"])
        labels = [label for label in self.labels if label in answered]
        shown = labels if self._more.value else [*labels[:IN_VIEW], *(answered & {*kept})]
        for label, box in self._boxes.items():
            box.layout.display = None if label in {*shown, *self.methods} else "none"
        self._more.layout.display = None if len(labels) > IN_VIEW else "none"

    def _change(self) -> str:
        """How the models shown were changed, where that applies to the question."""
        is_asked = self.question in self.questions and self.variant in self.questions[self.question].variants
        return self.variant if is_asked else AS_TRAINED

    def _shown(self, question: Question, results: pd.DataFrame) -> str:
        """What is shown; empty for nothing."""
        if results.empty:
            return ""
        origins = join(list(results["origin"].unique()))
        seeds = results["seed"].nunique()
        bars = f", with its {LEVEL:.0%} interval (bars)" if seeds >= SEEDS else ""
        lines = f"{seeds} seeds (thin) and their mean (thick){bars}" if seeds > 1 else "a single seed"
        change = "" if self._change() == AS_TRAINED else f", {VARIANTS.get(self.variant, self.variant)}"
        return f"{question.summary} Results: {origins}{change}; {lines}."

    def _left_out(self, results: pd.DataFrame) -> list[str]:
        """What was asked for and isn't shown."""
        if not self.methods:
            return ["No method is chosen: select at least one."]
        notes = []
        if missing := [name for name in self.methods if name not in set(results["label"])]:
            notes.append(f"Left out, because there are no such results: {join([quoted(name) for name in missing])}.")
        if self._change() != self.variant:
            notes.append(f"Shown as trained, because this question is not asked of models changed by {self.variant}.")
        return notes


def _check_table(table: Any) -> None:
    """Raise TypeError or ValueError unless it has the columns of a table of results."""
    if not isinstance(table, pd.DataFrame):
        raise TypeError(f"results must be a table with the columns of lab.COLUMNS, got {type(table).__name__}")
    if missing := [name for name in lab.COLUMNS if name not in table.columns]:
        raise ValueError(f"results must have the columns of lab.COLUMNS, and {', '.join(missing)} are missing")


def _published() -> pd.DataFrame:
    """The published results on the tales, in which rotary with a window is also a method of its own."""
    table = study.published_results()
    table = table[table["task"] != "python reference"]  # the same labels, so they would be drawn as further seeds
    windowed = table[(table["label"] == "rotary") & (table["variant"] == "window")]
    return pd.concat([table, windowed.assign(label=WINDOWED, variant=AS_TRAINED)], ignore_index=True)
