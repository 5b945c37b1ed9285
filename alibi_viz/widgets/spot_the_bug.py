"""SpotTheBug: a wrong heatmap beside the right one, a guess what is wrong, and code to repair."""

import html
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from ipywidgets import HTML, Button, Label, Layout, Textarea, Widget
from torch import Tensor
from traitlets import Enum, Unicode, observe

from alibi_viz.check import FAULTS, Report
from alibi_viz.check.call import Unusable
from alibi_viz.figures import matrices
from alibi_viz.figures.matrices import weights_picture
from alibi_viz.figures.tile_grid import Grid
from alibi_viz.formatting import format_percent
from alibi_viz.lessons.bugs import BUGS, MATCH, SECONDS, Bug, CaseView, try_repair
from alibi_viz.widgets.core.app import App, Drawn, Why
from alibi_viz.widgets.core.controls import button, column, row, show

POINTS = {"easy": 1, "medium": 2, "hard": 3}  # for a right guess, and again for a repair
_LINE = 19  # pixels of a line of code
# Pixels: on a page that is at least so wide, the answers are beside the picture. They get a share
# of its width, and the picture the rest.
_WIDE = 620
_ANSWERS = 230
_ANSWERS_SHARE = 0.32
_SPACE = 16
_SIDE = 260  # of a matrix, at most
_LOW_SIDE = 180  # the same above the answers, so that one sees them all
_TWO_ACROSS = 400  # on a narrower page, one matrix stands below the other
_HANGS = """<p>Python cannot stop a running function: yours continues in the background and slows
everything down. Restart the kernel to end it.</p>"""
_HINT = """<p>This is a short version of our own, with this fault alone. Repair it and press Check.
<code>torch</code>, <code>math</code> and <code>av</code> (this library) are imported. Empty the box
to get the faulty code back.</p>"""


@dataclass
class Checked:
    """Code that was checked, and what came out."""

    code: str
    report: str  # HTML
    weights: Tensor | None  # [rows, keys]; None if the code gives none


@dataclass
class Attempt:
    """What the user did with a case."""

    guess: str | None = None
    code: str = ""
    checked: Checked | None = None  # the last code that was checked
    solved: bool = False  # whether any code that was checked had no fault


class SpotTheBug(App):
    """Name the fault of an implementation by its attention weights, see where it happened, and
    repair it.

    The weights of a faulty implementation are beside the correct ones, with four answers. After a
    guess, the app reveals the fault, a public project that had it, and a few lines of code to
    repair. `check` runs
    the checker on them, and the picture then shows what they compute. A case is solved when the
    checker finds no fault.

    The code runs in the kernel, with a time limit of 10 seconds per call.

    Traits:
        bug: "case 1" to "case 14", from easy to hard; see `alibi_viz.lessons.BUGS`. Each keeps its
            guess and its code.
        guess: one of the four answers, or None.
        code: your repair; empty for the faulty code.

    >>> from alibi_viz.widgets import SpotTheBug
    >>> app = SpotTheBug()
    >>> app
    SpotTheBug(bug='case 1', guess=None, code='')
    >>> app.answers
    ('no bias', 'sign reversed', 'bias before scaling', 'first slope is 1')
    >>> app.guess = "sign reversed"
    >>> app.code = (
    ...     "def bias(num_heads, *lengths):\\n"
    ...     "    return av.alibi_bias(av.alibi_slopes(num_heads), *lengths)"
    ... )
    >>> app.check().ok, app.solved, app.score
    (True, ['case 1'], 2)
    """

    why = Why(
        "Where all content is equal, only the bias decides the weights. So a wrong bias shows in "
        "them, although the code runs without an error.",
        "07_spot_the_bug",
        "What a correct picture looks like",
    )
    min_width = None  # the picture is as wide as the answers beside it leave room
    bug = Enum(tuple(BUGS), "case 1")
    guess = Unicode(None, allow_none=True).tag(choices="answers")
    code = Unicode("")

    def __init__(self, **state: Any) -> None:
        self._attempts = {name: Attempt() for name in BUGS}
        super().__init__(**state)

    @property
    def answers(self) -> tuple[str, ...]:
        """The four faults to choose from."""
        return BUGS[self.bug].answers

    @property
    def solved(self) -> list[str]:
        """The cases whose repair was checked and has no fault."""
        return [name for name, attempt in self._attempts.items() if attempt.solved]

    @property
    def score(self) -> int:
        """The points of all guesses and repairs.

        A right guess gives 1 point in an easy case, 2 in a medium and 3 in a hard one; a repair as
        many again.
        """
        score = 0
        for name, attempt in self._attempts.items():
            bug = BUGS[name]
            if attempt.guess == bug.fault:
                score += POINTS[bug.tier]
            if attempt.solved:
                score += POINTS[bug.tier]
        return score

    def check(self) -> Report:
        """Check the code, and show its report and its weights."""
        bug = BUGS[self.bug]
        attempt = self._attempts[self.bug]
        code = self.code or bug.code
        report = try_repair(bug.name, code, SECONDS)

        page = _describe_report(bug, report)
        weights = None
        if any(finding.name == "does not finish" for finding in report.findings):
            page += _HANGS
        else:
            # Without weights, the report says why, and the picture stays that of the faulty code.
            with suppress(Unusable):
                weights = bug.weights(code, SECONDS)

        attempt.checked = Checked(code, f'<div role="status">{page}</div>', weights)
        if report.ok:
            attempt.solved = True
        self.refresh()
        return report

    def reset(self) -> None:
        """Forget the guess and the repair of this case."""
        self._attempts[self.bug] = Attempt()
        self.set_together({"guess": None, "code": ""})
        self.refresh()

    def controls(self) -> list[Widget]:
        self._revealed = self._repair_controls().add_class("s-repair")
        beside = row(self.plot, self._answer_controls()).add_class("s-beside")
        beside.layout.align_items = "flex-start"
        parts = column(
            self._case_controls(),
            self.message_line,
            beside,
            self.caption_line,
            self.details_line,
            self._revealed,
        )
        return [parts]

    def body(self) -> list[Widget]:
        # The picture and the words are among the controls.
        return [self.controls_row, self.reason]

    def _case_controls(self) -> Widget:
        """The menu of cases, and how many are solved."""
        tiers = {name: f"{name}, {bug.tier}" for name, bug in BUGS.items()}
        # A Label here would be taken for the menu's name.
        self._progress = HTML().add_class("s-progress")
        forget = "Forget the guess and the repair of this case"
        return row(
            self.menu("bug", "case", "s-bug", "Which implementation", tiers),
            button("Next", "arrow-right", "s-next", "The case after this one", self._go),
            self._progress,
            button("Reset", "undo", "s-reset", forget, self.reset),
        )

    def _answer_controls(self) -> Widget:
        """The question, a button per answer with what that fault does, and the verdict."""
        self._answers: list[tuple[Button, HTML]] = []
        question = HTML("<b>What is wrong with this one?</b>", layout=Layout(width="100%"))
        self._verdict = HTML(layout=Layout(width="100%")).add_class("s-verdict")
        pairs = []
        for number in range(4):
            answer = button(
                "",
                "",
                f"s-answer-{number}",
                "Your guess",
                partial(self._on_answer, number),
                width="auto",
            )
            problem = HTML().add_class("s-problem")
            self._answers.append((answer, problem))
            # Two beside each other where they are below the picture
            pair = column(answer, problem)
            pair.layout.flex = f"1 1 {_ANSWERS - 10}px"
            pair.layout.grid_gap = "0px"
            pairs.append(pair)
        guess = row(question, *pairs, self._verdict)
        guess.layout.align_items = "flex-start"
        guess.layout.grid_gap = "0px 20px"
        guess.layout.flex = f"1 1 {_ANSWERS}px"
        return guess

    def _repair_controls(self) -> Widget:
        """What is shown after a guess: the code, and the report on it."""
        hint = HTML(_HINT).add_class("s-hint")
        self._report = HTML().add_class("s-report")
        self._box = Textarea(
            tooltip="Your repair; empty it for the faulty code",
            continuous_update=False,
            layout=Layout(width="calc(100% - 4px)"),
        )
        self._box.add_class("s-code")
        self.link(
            self._box,
            "code",
            read=self._read_code,
            show=lambda code: code or BUGS[self.bug].code,
        )
        check = button(
            "Check",
            "check",
            "s-check",
            "Run the checker on your code",
            lambda: self.attempt(self.check),
        )
        check.button_style = "primary"
        repair = column(Label("your repair"), hint, self._box)
        return column(repair, check, self._report)

    def draw(self) -> Drawn:
        bug = BUGS[self.bug]
        attempt = self._attempts[self.bug]
        attempt.guess = self.guess
        attempt.code = self.code
        code = self.code or bug.code
        correct, faulty = _faulty(self.bug)

        # A report and weights belong to the code that was checked, not to what it became since.
        checked = attempt.checked
        if checked and checked.code != code:
            checked = None

        weights = faulty
        subject = "this implementation"
        title = "this one"
        if checked and checked.weights is not None and code != bug.code:
            weights = checked.weights
            subject = "your repair"
            title = subject
        picture = weights_picture(
            _grid(self.page_width),
            np.stack([correct, weights]),
            ("correct", title),
            bug.view.rows,
            bug.view.keys,
            row="query" if bug.view.head else "head",
        )

        self._mark_answers(bug)
        self._box.value = code
        lines = code.count("\n") + 1
        self._box.layout.height = f"{_LINE * max(6, lines + 1)}px"
        self._verdict.value = "" if self.guess is None else _reveal(bug, self.guess)
        show(self.guess is not None, self._verdict, self._revealed)
        self._report.value = checked.report if checked else ""

        highest_score = 2 * sum(POINTS[case.tier] for case in BUGS.values())
        self._progress.value = (
            f"{len(self.solved)} of {len(BUGS)} solved, score {self.score} of {highest_score}"
        )

        call = _describe(bug)
        comparison = _compare(bug.view, correct, weights, subject)
        content = "All tokens have the same content."
        if bug.view.words:
            content = (
                f"The tokens are {bug.view.words} words in turn, and equal words have the content "
                f"{MATCH:g}."
            )
        if self.guess is None:
            return Drawn(picture, call, f"{comparison} {content}")
        return Drawn(picture, f"{call} {comparison}", content)

    def _mark_answers(self, bug: Bug) -> None:
        """Label the four buttons. After a guess, mark the right one, and the guess if wrong."""
        for answer, (choice, problem) in zip(bug.answers, self._answers, strict=True):
            choice.description = answer
            problem.value = html.escape(FAULTS[answer].problem)
            # After a guess, the verdict takes the room of the answers that don't matter any more.
            show(self.guess in (None, answer) or answer == bug.fault, problem)
            if self.guess is not None and answer == bug.fault:
                choice.icon = "check"
                choice.button_style = "success"
            elif answer == self.guess:
                choice.icon = "times"
                choice.button_style = "danger"
            else:
                choice.icon = ""
                choice.button_style = ""

    @observe("bug")
    def _change_case(self, change: Any) -> None:
        """Restore the guess and the code of a case."""
        if not hasattr(self, "plot"):
            return  # the constructor sets all traits
        attempt = self._attempts[change.new]
        with self.hold_trait_notifications():
            self.guess = attempt.guess
            self.code = attempt.code

    def _read_code(self, text: str) -> str:
        return "" if text.strip() in ("", BUGS[self.bug].code) else text

    def _go(self) -> None:
        names = list(BUGS)
        following = names.index(self.bug) + 1
        self.bug = names[following % len(names)]

    def _on_answer(self, number: int) -> None:
        # The first guess counts. The buttons stay enabled: a disabled one would lose the focus.
        if self.guess is None:
            self.guess = self.answers[number]


def _grid(page_width: int) -> Grid:
    """Where the two matrices stand: on a wide page, the answers stand beside them."""
    if page_width < _TWO_ACROSS:
        return matrices.page_grid(2, page_width)
    if page_width < _WIDE:
        return matrices.page_grid(2, page_width, height=_LOW_SIDE)
    answers = max(_ANSWERS, int(_ANSWERS_SHARE * page_width))
    return matrices.page_grid(2, page_width - answers - _SPACE, height=_SIDE)


@cache
def _faulty(name: str) -> tuple[Tensor, Tensor]:
    """The correct weights in the view of a bug, and those of its code."""
    bug = BUGS[name]
    return bug.view.correct(bug.causal), bug.weights()


def _reveal(bug: Bug, guess: str) -> str:
    """Whether the guess is right, and where the fault happened, as HTML."""
    if guess == bug.fault:
        verdict = "<b>Right:</b> it is"
    else:
        verdict = f"<b>No.</b> You chose {guess}, but it is"
    exhibit = bug.exhibit
    system = html.escape(exhibit.system)

    trained = ""
    if exhibit.trained:
        models = " and ".join(exhibit.trained)
        trained = (
            f"<p>The authors of {models} trained them with such code, so for these models it is no "
            "fault.</p>"
        )
    return f"""<div role="status"><p>{verdict} <b>{bug.fault}</b>.</p>
<p>Seen in <a href="{exhibit.source}" target="_blank" rel="noopener">{system}</a>:
{html.escape(exhibit.effect)}.</p>{trained}</div>"""


def _describe_report(bug: Bug, report: Report) -> str:
    """What the checker found in the reader's code, as HTML.

    It leaves out what the verdict says: what the fault of this case does, and where it was seen.
    """
    if report.ok:
        return "<p><b>Repaired:</b> no fault found.</p>"
    paragraphs = []
    for finding in report.findings:
        fault = FAULTS[finding.name]
        if finding.name == bug.fault:
            found = f"<b>Still {fault.name}:</b> {html.escape(finding.evidence)}."
        else:
            problem = html.escape(fault.problem)
            evidence = html.escape(finding.evidence)
            found = f"<b>{fault.name}:</b> {problem}. The checker found: {evidence}."
        paragraphs.append(f"<p>{found}<br>To repair it, {html.escape(fault.fix)}.</p>")
    return "".join(paragraphs)


def _describe(bug: Bug) -> str:
    """The sizes of the call, and which weights are shown."""
    view = bug.view
    model = "causal" if bug.causal else "an encoder"
    rows = f"head {view.head}" if view.head else "the last query of each head"
    tokens = f"{view.key_length:,} tokens"
    if view.query_length < view.key_length:
        last = "token" if view.query_length == 1 else f"{view.query_length} tokens"
        tokens += f", decoding the last {last}"
    return (
        f"{bug.name.capitalize()} of {len(BUGS)}, {bug.tier}, {model}: {rows} of "
        f"{view.num_heads}, {tokens}."
    )


def _compare(view: CaseView, correct: Tensor, weights: Tensor, subject: str) -> str:
    """The weight that differs most."""
    difference = (weights - correct).abs()
    if float(difference.max()) < 1e-3:
        return "The two pictures are the same."
    row, column = divmod(int(difference.argmax()), len(view.keys))
    weight = format_percent(weights[row, column])
    expected = format_percent(correct[row, column])
    place = f"{'query' if view.head else 'head'} {view.rows[row]}: key {view.keys[column]}"
    return (
        f"The largest difference is in {place} has {weight} of the largest weight in its row in "
        f"{subject}; correct is {expected}."
    )
