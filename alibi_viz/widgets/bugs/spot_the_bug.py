"""SpotTheBug: a wrong heatmap beside the right one, a guess what is wrong, and the code to repair."""

import html
from contextlib import suppress
from functools import cache, partial
from typing import Any

import plotly.graph_objects as go
from ipywidgets import HTML, HBox, Label, Layout, Textarea, Widget
from torch import Tensor
from traitlets import observe, validate

from alibi_viz import lessons
from alibi_viz.check import FAULTS, Report
from alibi_viz.check.call import Unusable
from alibi_viz.figures import weight_pair as picture
from alibi_viz.lessons import BUGS
from alibi_viz.lessons.repair import SECONDS
from alibi_viz.widgets.bugs import caption
from alibi_viz.widgets.bugs.traits import Code, Guess
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.controls import button, column, row
from alibi_viz.widgets.core.traits import BadValue, Choice

__all__ = ["SpotTheBug"]

MAX_WIDTH = 1000  # pixels of the figure
_LINE = 19  # pixels of a line of code
_STYLE = """<style>
.alibi-app .s-code textarea { font-family: var(--jp-code-font-family, monospace); line-height: 1.4; white-space: pre; }
.alibi-app :is(.s-verdict, .s-problem) .widget-html-content { line-height: 1.5; }
.alibi-app .s-verdict p { margin: 4px 0; }
.alibi-app .s-verdict a { color: var(--jp-content-link-color, inherit); text-decoration: underline; }
</style>"""


class SpotTheBug(App):
    """Name the fault of an implementation by its attention weights, see where it happened, and repair it.

    The weights of a faulty implementation are beside the correct ones. After a guess, the app reveals the fault, a
    public project that had it, and a few lines of code to repair. `check` runs the checker on them, and the picture
    then shows what they compute. A case is solved when the checker finds no fault.

    The code runs in the kernel, with a time limit of 10 seconds per call.

    Traits:
        bug: "case 1" to "case 14", from easy to hard; see `alibi_viz.lessons.BUGS`. Each keeps its guess and its code.
        guess: one of the four answers, or None.
        code: your repair; empty for the faulty code.

    >>> from alibi_viz.widgets import SpotTheBug
    >>> app = SpotTheBug()
    >>> app
    SpotTheBug(bug='case 1', guess=None, code='')
    >>> app.answers
    ('no bias', 'sign reversed', 'bias before scaling', 'first slope is 1')
    >>> app.guess = "sign reversed"
    >>> app.code = "def bias(num_heads, *lengths):\\n    return av.alibi_bias(av.alibi_slopes(num_heads), *lengths)"
    >>> app.check().ok, app.solved
    (True, ['case 1'])
    """

    why = Why(
        "Where all content is equal, only the bias decides the weights. So a wrong bias shows in them, although the "
        "code runs without an error.",
        "08_spot_the_bug",
        "What a correct picture looks like",
    )
    bug = Choice("case 1", tuple(BUGS))
    guess = Guess(None, allow_none=True)
    code = Code("")

    def __init__(self, **state: Any) -> None:
        self._visited: dict[str, tuple[str | None, str]] = {}  # {bug: its guess and code}, of the other cases
        self._checked: dict[str, tuple[str, Report, Tensor | None]] = {}  # {bug: the code, its report and weights}
        self._solved: set[str] = set()
        super().__init__(**state)
        style, controls, message, figure, *words, why, page = self.children
        self.children = [style, figure, *words, message, controls, why, page]  # the picture stays when the code appears

    # Results and actions.

    @property
    def answers(self) -> tuple[str, str, str, str]:
        """The four faults to choose from."""
        return BUGS[self.bug].answers

    @property
    def solved(self) -> list[str]:
        """The cases whose repair was checked and has no fault."""
        return [name for name in BUGS if name in self._solved]

    def check(self) -> Report:
        """Check the code, and show its report and its weights."""
        name, code = self.bug, self._current_code()
        report, weights = lessons.try_repair(name, code, SECONDS), None
        if not any(finding.name == "does not finish" for finding in report.findings):
            with suppress(Unusable):  # the report says why; the picture stays that of the faulty code
                weights = lessons.shown_weights(BUGS[name], code, SECONDS)
        self._checked[name] = code, report, weights
        if report.ok:
            self._solved.add(name)
        self.refresh()
        return report

    def reset(self) -> None:
        """Forget the guess and the repair of this case."""
        self._checked.pop(self.bug, None)
        self._solved.discard(self.bug)
        with self.hold_trait_notifications():
            self.guess, self.code = None, ""
        self.refresh()

    # Methods that `App` requires.

    def blank(self) -> go.Figure:
        return picture.blank()

    def controls(self) -> list[Widget]:
        self._progress = HTML().add_class("s-progress")  # a Label here would be taken for the menu's name
        cases = row(
            button("Previous", "arrow-left", "s-previous", "The case before this one", lambda: self._go(-1)),
            self.menu("bug", "case", "s-bug", "Which implementation"),
            button("Next", "arrow-right", "s-next", "The case after this one", lambda: self._go(1)),
            self._progress,
            button("Reset", "undo", "s-reset", "Forget the guess and the repair of this case", self.reset),
        )
        self._answers = [
            button(
                "",
                "",
                f"s-answer-{number}",
                "Your guess",
                partial(self._on_answer, number),
                flex="none",
                width="220px",
            )
            for number in range(4)
        ]
        self._problems = [
            HTML(layout=Layout(flex="1 1 0", min_width="0")).add_class("s-problem") for _ in self._answers
        ]
        question = HTML("<b>What is wrong with the implementation on the right?</b>")
        side_by_side = Layout(align_items="center", grid_gap="12px", overflow="visible")
        rows = [HBox(pair, layout=side_by_side) for pair in zip(self._answers, self._problems, strict=True)]
        self._verdict = HTML().add_class("s-verdict")
        self._box = Textarea(
            tooltip="Your repair; empty it for the faulty code",
            continuous_update=False,
            layout=Layout(width="calc(100% - 4px)"),
        ).add_class("s-code")
        self.link(self._box, "code", self._read_code, lambda code: code or BUGS[self.bug].code)
        self._check = button("Check", "check", "s-check", "Run the checker on your code", self._on_check)
        self._check.button_style = "primary"
        self._report = HTML().add_class("s-report")
        code = column(Label("your repair"), self._box)
        self._revealed = column(self._verdict, code, self._check, self._report)
        return [column(HTML(_STYLE), cases, question, *rows, self._revealed)]

    def draw(self) -> str:
        bug = BUGS[self.bug]
        code, report, repaired = self._checked.get(self.bug, (None, None, None))
        if code != self._current_code():  # changed since it was checked
            report, repaired = None, None
        correct, faulty = _weights(self.bug)
        shown, name = (faulty, "this implementation") if repaired is None else (repaired, "your repair")
        picture.draw(
            self.figure,
            correct,
            shown,
            rows=bug.view.rows,
            keys=bug.view.keys,
            row_name="head" if bug.view.head is None else "query",
            names=("a correct implementation", name),
        )
        self._show_answers()
        self._box.value = self._current_code()
        self._box.layout.height = f"{_LINE * max(8, self._box.value.count(chr(10)) + 2)}px"
        self._verdict.value = "" if self.guess is None else caption.reveal(bug, self.guess, _faulty_report(self.bug))
        self._revealed.layout.display = "none" if self.guess is None else None
        self._report.value = "" if report is None else caption.show_report(report)
        self._progress.value = f"{len(self._solved)} of {len(BUGS)} solved"
        return caption.describe(bug, correct, shown, name)

    def fit(self, width: int) -> None:
        super().fit(min(width, MAX_WIDTH))

    @validate("guess")
    def _check_guess(self, proposal: Any) -> str | None:
        if proposal.value not in (None, *self.answers):
            raise BadValue(f"guess must be None or one of {', '.join(self.answers)}, got {proposal.value!r}")
        return proposal.value

    @observe("bug")
    def _change_case(self, change: Any) -> None:
        """Store the guess and the code of the case before, and restore those of the new one."""
        if hasattr(self, "figure"):  # else the constructor sets all traits
            self._visited[change.old] = self.guess, self.code
            with self.hold_trait_notifications():
                self.guess, self.code = self._visited.get(change.new, (None, ""))

    def _current_code(self) -> str:
        return self.code or BUGS[self.bug].code

    def _read_code(self, text: str) -> str:
        return "" if text.strip() in ("", BUGS[self.bug].code) else text

    def _show_answers(self) -> None:
        for name, answer, problem in zip(self.answers, self._answers, self._problems, strict=True):
            answer.description, problem.value = name, html.escape(FAULTS[name].problem)
            is_right = self.guess is not None and name == BUGS[self.bug].fault
            is_wrong = name == self.guess and not is_right
            answer.icon = "check" if is_right else "times" if is_wrong else ""
            answer.button_style = "success" if is_right else "danger" if is_wrong else ""

    def _go(self, step: int) -> None:
        names = list(BUGS)
        self.bug = names[(names.index(self.bug) + step) % len(names)]

    def _on_answer(self, number: int) -> None:
        if self.guess is None:  # the first guess counts; a disabled button would lose the focus
            self.guess = self.answers[number]

    def _on_check(self) -> None:
        self._check.description = "Checking"
        try:
            self.attempt(self.check)
        finally:
            self._check.description = "Check"


@cache
def _weights(name: str) -> tuple[Tensor, Tensor]:
    """The weights of a correct implementation in the view of a bug, and those of its faulty code."""
    bug = BUGS[name]
    return bug.view.correct(bug.causal), lessons.shown_weights(bug)


@cache
def _faulty_report(name: str) -> Report:
    return lessons.try_repair(name, BUGS[name].code)
