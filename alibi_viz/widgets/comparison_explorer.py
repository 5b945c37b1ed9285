"""ComparisonExplorer: results of many runs, question by question: every seed, the mean, and what
holds in all seeds."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go
from ipywidgets import Widget

from alibi_viz import study
from alibi_viz.figures import curve_plot as picture
from alibi_viz.figures import forest_figure
from alibi_viz.measure import sentences as say
from alibi_viz.measure.questions import QUESTIONS, SLIDING_WINDOWS
from alibi_viz.measure.sentences import join, quoted
from alibi_viz.measure.table import AS_TRAINED, LEVEL, check_table
from alibi_viz.train.compare import check_comparable
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.controls import column, fold, row
from alibi_viz.widgets.core.traits import ChoiceFrom, Names

# The baseline that needs no training, so it is a method of its own beside ALiBi
WINDOWED = "rotary, window"
FIRST = ("alibi", "sinusoidal", "rotary", WINDOWED, "none", "kerple-log")
CLAIMS, OPEN = "twelve claims", "can't tell"


class ComparisonExplorer(App):
    """Finished runs, compared method by method. Nothing is trained.

    Runs with the same seed start from the same weights and, if they have the same training length,
    read the same batches. The caption only claims what holds in every seed.

    Args:
        results: a table with the columns of `lab.COLUMNS`, such as `lab.read_results("results")`
            or, for pretrained models, tables of `lab.length_curve` joined with `pandas.concat`; by
            default the published results, with a training length of 64 unless the label says
            otherwise, where "rotary, window" is a method of its own.

    Traits:
        question: the name of one of `lab.QUESTIONS`, or "sliding windows", that the results answer.
            An app of the published results that is opened with "twelve claims" shows the forest
            plot of `study.verdict_table`.
        methods: at most seven labels of the table. Those without an answer are left out.
        variant: "as trained", or a change to the models that the results include: "window" (a query
            sees as many keys as the training length), "window and sinks" (and the first 4 tokens),
            "pi", "ntk" or "yarn" (for rotary), or "slopes interpolated" (for ALiBi). Questions that
            are not asked of changed models are shown as trained.

    Raises ValueError if the table answers no question, is on several texts, or has several models
    of a seed and label.

    >>> from alibi_viz.widgets import ComparisonExplorer
    >>> app = ComparisonExplorer(methods=["rotary", "alibi"], variant="window")
    >>> app
    ComparisonExplorer(question='longer sequences', methods=('alibi', 'rotary'), variant='window')
    >>> app.results["label"].unique().tolist()
    ['alibi', 'rotary']
    """

    why = Why(
        "A single seed may be an exception. So a curve is drawn for every seed, and the interval "
        "of the mean says how "
        "far chance alone could have moved it.",
        "06_train_short_test_long",
        "Your race and the published seeds",
    )
    question = ChoiceFrom("views", "longer sequences")
    methods = Names("labels", FIRST, most=picture.MAX_METHODS)
    variant = ChoiceFrom("variants", AS_TRAINED)

    def __init__(self, results: pd.DataFrame | None = None, **state: Any) -> None:
        claims = results is None and state.get("question") == CLAIMS
        self._verdicts = (
            study.verdict_table(study.published_results(by_block=True)) if claims else None
        )
        table = _published() if results is None else results
        check_table("results", table)
        questions = {question.name: question for question in (*QUESTIONS, SLIDING_WINDOWS)}
        self.questions = {
            name: questions[name] for name in questions if name in set(table["question"])
        }
        if not self.questions:
            given = ", ".join(map(str, table["question"].unique())) or "none"
            raise ValueError(
                f"results must answer a question out of {', '.join(questions)}, got {given}"
            )
        self.views = [CLAIMS] if claims else [*self.questions]
        self._table = table[table["question"].isin(self.questions)]
        check_comparable(self._table)
        labels = list(self._table["label"].unique())
        self.labels = list(
            dict.fromkeys([*(name for name in picture.COMMON_METHODS if name in labels), *labels])
        )
        self.variants = list(dict.fromkeys([AS_TRAINED, *self._table["variant"]]))
        state = {
            "question": self.views[0],
            "variant": min(self._table["variant"], key=self.variants.index),
        } | state
        chosen = [name for name in self.labels if name in FIRST or results is not None]
        super().__init__(**({"methods": tuple(chosen[: picture.MAX_METHODS])} | state))

    @property
    def results(self) -> pd.DataFrame:
        """The rows that are shown."""
        table, question = self._table, self.questions.get(self.question)
        variant = self.variant if question and self.variant in question.variants else AS_TRAINED
        shown = (table["question"] == self.question) & (table["variant"] == variant)
        return table[shown & table["label"].isin(self.methods)]

    def blank(self) -> go.Figure:
        return picture.blank(430) if self._verdicts is None else forest_figure(self._verdicts)

    def controls(self) -> list[Widget]:
        tip = "How the trained models were changed before they were measured"
        self._variant = self.menu("variant", "variant", "s-variant", tip)
        question = self.menu("question", "question", "s-question", "What was measured")
        boxes = self.boxes("methods", self.labels, "Show or hide {}".format)
        more, methods = fold("Methods", "Choose up to seven methods", row(*boxes))
        more.disabled = CLAIMS in self.views  # they are about all methods
        return [column(row(question, self._variant, more, self.reset_button()), methods)]

    def draw(self) -> tuple[str, str]:
        question, results = self.questions.get(self.question), self.results
        self._variant.disabled = question is None or len(question.variants) == 1
        if question is None:
            return _claims_in_words(self._verdicts)
        shown = [name for name in self.methods if name in set(results["label"])]
        length = int(self._table["length"][self._table["question"] == question.name].mode()[0])
        axes = question.axes(length, sorted(results["x"].unique()))
        picture.draw(
            self.figure, picture.assign_slots(shown, picture.COMMON_METHODS), axes, results
        )
        missing = [quoted(name) for name in self.methods if name not in shown]
        left_out = (
            [f"Left out, because there are no such results: {join(missing)}."] if missing else []
        )
        if self.variant not in (*question.variants, AS_TRAINED):
            left_out.insert(
                0, f"This is as trained, because it wasn't measured with {self.variant}."
            )
        if not self.methods:
            left_out = ["No method is chosen: select at least one."]
        sentences = say.sentences([*left_out, *question.findings(results)])
        return " ".join(sentences[:2]), " ".join(sentences[2:])


def _claims_in_words(table: Any) -> tuple[str, str]:
    """How many of the claims are seen in the verdicts, and what their intervals cover."""
    counts = table[table["setting"] == table["setting"].iloc[0]]["verdict"].value_counts()
    agree = (
        table.groupby("claim")["verdict"]
        .agg(["nunique", "size"])
        .query("size > 1")["nunique"]
        .eq(1)
    )
    caption = (
        f"Of twelve claims, eleven on the tales and one on needles, {counts.get('seen here', 0)} "
        "are seen here "
        f"and {counts.get('not seen here', 0)} are not; of {counts.get(OPEN, 0)}, one can't tell. "
        "On Python's "
        f"reference, {agree.sum()} of {len(agree)} get the same verdict."
    )
    covers = "other seeds and other passages of the same kind of text, not other sizes of models"
    return (
        caption,
        f"A bar is the {LEVEL:.0%} interval over seeds and blocks of held-out text: it covers "
        f"{covers}.",
    )


def _published() -> pd.DataFrame:
    """The published results on the tales, in which rotary with a window is also a method of its
    own."""
    table = study.published_results()
    table = table[
        table["task"] != "python reference"
    ]  # the same labels, so they would be drawn as further seeds
    windowed = table[(table["label"] == "rotary") & (table["variant"] == "window")]
    return pd.concat(
        [table, windowed.assign(label=WINDOWED, variant=AS_TRAINED)], ignore_index=True
    )
