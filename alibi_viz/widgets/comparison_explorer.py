"""ComparisonExplorer: results of many runs, question by question: every seed, the mean, and what
holds in all seeds."""

from typing import Any

import pandas as pd
from ipywidgets import Widget
from traitlets import Tuple, Unicode

from alibi_viz import study
from alibi_viz.data.text import find_built_in
from alibi_viz.figures.curve_plot import (
    COMMON_METHODS,
    MAX_METHODS,
    assign_slots,
    curve_picture,
)
from alibi_viz.formatting import in_prose
from alibi_viz.measure.questions import QUESTIONS, Question, in_letters
from alibi_viz.measure.sentences import compared_with_counting, findings, join, quoted
from alibi_viz.measure.table import AS_TRAINED, check_table
from alibi_viz.surgery.modify import VARIANTS
from alibi_viz.train.compare import check_comparable
from alibi_viz.widgets.core.app import App, Drawn, Why
from alibi_viz.widgets.core.controls import column, fold, row

# The baseline that needs no training, so it is a method of its own beside ALiBi
WINDOWED_ROTARY = "rotary, window"
FIRST = ("alibi", "sinusoidal", "rotary", WINDOWED_ROTARY, "none", "kerple-log")


class ComparisonExplorer(App):
    """Finished runs, compared method by method. Nothing is trained.

    Runs with the same seed start from the same weights and, if they have the same training length,
    read the same batches. The caption only claims what holds in every seed.

    Args:
        results: a table with the columns of `lab.COLUMNS`, such as `lab.read_results("results")`
            or, for pretrained models, tables of `lab.length_curve` joined with `pandas.concat`; by
            default the published results of the main settings, with a training length of 64 unless
            the label says otherwise, where "rotary, window" is a method of its own.

    Traits:
        question: the name of one of `lab.QUESTIONS` that the results answer.
        methods: at most seven labels of the table. Those without an answer are left out.
        variant: "as trained", or a change to the models that the results include: "window" (a query
            sees as many keys as the training length), "window and sinks" (and the first 4 tokens),
            "far share" (keys beyond the training length get at most 5% of the attention), "pi",
            "ntk" or "yarn" (for rotary), or "slopes interpolated" or "flat beyond L" (for ALiBi).
            Questions that are not asked of changed models are shown as trained.

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
        "of the mean says how far chance alone could have moved it.",
        "09_the_study",
        "How sure are we?",
    )
    question = Unicode("longer sequences").tag(choices="questions")
    methods = Tuple(FIRST).tag(choices="labels")
    variant = Unicode(AS_TRAINED).tag(choices="variants")

    def __init__(self, results: pd.DataFrame | None = None, **state: Any) -> None:
        table = _published() if results is None else results
        check_table("results", table)
        self.questions = _answered_questions(table)
        if results is None:  # those of the lessons
            self.questions = {name: in_letters(asked) for name, asked in self.questions.items()}
        self._table = table[table["question"].isin(self.questions)]
        check_comparable(self._table)

        # What the controls offer, in their order
        in_table = list(self._table["label"].unique())
        common = [name for name in COMMON_METHODS if name in in_table]
        self.labels = list(dict.fromkeys([*common, *in_table]))
        self.variants = list(dict.fromkeys([AS_TRAINED, *self._table["variant"]]))

        # What is shown at first
        methods = self.labels
        if results is None:
            methods = [name for name in self.labels if name in FIRST]
        first_view = {
            "question": next(iter(self.questions)),
            "methods": tuple(methods[:MAX_METHODS]),
            "variant": min(self._table["variant"], key=self.variants.index),
        }
        super().__init__(**(first_view | state))

    @property
    def results(self) -> pd.DataFrame:
        """The rows that are shown."""
        table = self._table
        is_measured = self.variant in self.questions[self.question].variants
        variant = self.variant if is_measured else AS_TRAINED
        is_shown = (
            (table["question"] == self.question)
            & (table["variant"] == variant)
            & table["label"].isin(self.methods)
        )
        return table[is_shown]

    def controls(self) -> list[Widget]:
        titles = {name: question.figure.title for name, question in self.questions.items()}
        question = self.menu("question", "question", "s-question", "What was measured", titles)
        self._variant = self.menu(
            "variant",
            "models",
            "s-variant",
            "How the trained models were changed before they were measured",
            VARIANTS,
        )
        boxes = self.boxes("methods", self.labels, "Show or hide {}".format)
        more, methods = fold("Methods", "Choose up to seven methods", row(*boxes))
        return [column(row(question, self._variant, more, self.reset_button()), methods)]

    def draw(self) -> Drawn:
        question = self.questions[self.question]
        self._variant.disabled = len(question.variants) == 1

        if len(self.methods) > MAX_METHODS:
            names = "; ".join(self.methods)
            raise ValueError(f"methods must be at most {MAX_METHODS} names, got {names}")
        results = self.results
        labels = set(results["label"])
        shown = [name for name in self.methods if name in labels]
        answers = self._table[self._table["question"] == question.name]
        length = int(answers["length"].mode()[0])  # the most common one
        # They are on one text, of which they have the fingerprint.
        text = find_built_in(answers["text"].iloc[0]) if question.is_loss else None
        axes = question.axes(length, sorted(results["x"].unique()), text)
        picture = curve_picture(
            assign_slots(shown, COMMON_METHODS),
            axes,
            results,
            names=True,
            height=376,
            page_width=self.page_width,
        )
        told = results.assign(label=results["label"].map(in_prose))
        sentences = [
            *self._notes(question, shown),
            *findings(question, told),
            *compared_with_counting(question, told, axes.yardsticks),
        ]
        return Drawn(picture, " ".join(sentences[:2]), " ".join(sentences[2:]))

    def _notes(self, question: Question, shown: list[str]) -> list[str]:
        """What is not shown although it was chosen."""
        if not self.methods:
            return ["No method is chosen: select at least one."]
        notes = []
        if self.variant not in (*question.variants, AS_TRAINED):
            change = VARIANTS[self.variant]
            notes.append(f"This is as trained, because it wasn't measured {change}.")
        missing = [quoted(name) for name in self.methods if name not in shown]
        if missing:
            notes.append(f"Left out, because there are no such results: {join(missing)}.")
        return notes


def _answered_questions(table: pd.DataFrame) -> dict[str, Question]:
    """{name: question} of those that the table answers.

    Raises ValueError if there are none.
    """
    in_table = set(table["question"])
    answered = {question.name: question for question in QUESTIONS if question.name in in_table}
    if not answered:
        names = ", ".join(question.name for question in QUESTIONS)
        got = ", ".join(map(str, table["question"].unique()))
        raise ValueError(f"results must answer a question out of {names}, got {got or 'none'}")
    return answered


def _published() -> pd.DataFrame:
    """The published results in the main settings, in which rotary with a window is also a method of
    its own."""
    table = study.published_results()
    # The other settings have the same labels, which would be drawn as further seeds.
    main_settings = [name for name, setting in study.SETTINGS.items() if not setting.factor]
    table = table[table["setting"].isin(main_settings)]
    windowed = table[(table["label"] == "rotary") & (table["variant"] == "window")]
    windowed = windowed.assign(label=WINDOWED_ROTARY, variant=AS_TRAINED)
    return pd.concat([table, windowed], ignore_index=True)
