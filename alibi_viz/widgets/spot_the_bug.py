"""SpotTheBug: a wrong heatmap beside the right one, a guess what is wrong, and the code to
repair."""

import html
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np
import plotly.graph_objects as go
from ipywidgets import HTML, GridBox, Label, Layout, Textarea, Widget
from torch import Tensor
from traitlets import HasTraits, observe

from alibi_viz.check import FAULTS, Report
from alibi_viz.check.call import Unusable
from alibi_viz.figures import matrices
from alibi_viz.figures.theme import WEIGHT_SCALE
from alibi_viz.lessons.bugs import BUGS, MATCH, SECONDS, Bug, View, try_repair
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.controls import button, column, row
from alibi_viz.widgets.core.formatting import format_percent
from alibi_viz.widgets.core.traits import Choice, State

POINTS = {"easy": 1, "medium": 2, "hard": 3}  # for a right guess, and again for a repair
_LINE = 19  # pixels of a line of code
_HANGS = """<p>Python cannot stop a running function: yours continues in the background and slows everything down.
Restart the kernel to end it.</p>"""


class Code(State):
    """Source text; empty for the faulty code."""

    info_text = "a string"

    def validate(self, obj: HasTraits, value: Any) -> str:
        return value if isinstance(value, str) else self.error(obj, value)


@dataclass
class Try:
    """What the user did with a case: the guess, the code, and the code that was checked, its report
    and its weights."""

    guess: str | None = None
    code: str = ""
    checked: tuple[str, str, Tensor | None] = ("", "", None)
    solved: bool = False


class SpotTheBug(App):
    """Name the fault of an implementation by its attention weights, see where it happened, and
    repair it.

    The weights of a faulty implementation are beside the correct ones. After a guess, the app
    reveals the fault, a public project that had it, and a few lines of code to repair. `check` runs
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
    >>> app.code = "def bias(num_heads, *lengths):\\n    return av.alibi_bias(av.alibi_slopes(num_heads), *lengths)"
    >>> app.check().ok, app.solved, app.score
    (True, ['case 1'], 2)
    """

    why = Why(
        "Where all content is equal, only the bias decides the weights. So a wrong bias shows in "
        "them, although the "
        "code runs without an error.",
        "09_spot_the_bug",
        "What a correct picture looks like",
    )
    redraw_to_fit = True  # the size of the pictures depends on the width
    bug = Choice("case 1", tuple(BUGS))
    guess = Choice(None, "answers", allow_none=True)
    code = Code("")

    def __init__(self, **state: Any) -> None:
        self._tries = {name: Try() for name in BUGS}
        super().__init__(**state)
        style, controls, message, figure, *words, why, page = self.children
        self.children = [
            style,
            figure,
            *words,
            message,
            controls,
            why,
            page,
        ]  # the picture stays when the code appears

    @property
    def answers(self) -> tuple[str, ...]:
        """The four faults to choose from."""
        return BUGS[self.bug].answers

    @property
    def solved(self) -> list[str]:
        """The cases whose repair was checked and has no fault."""
        return [name for name in BUGS if self._tries[name].solved]

    @property
    def score(self) -> int:
        """A right guess gives 1 point in an easy case, 2 in a medium and 3 in a hard one; a repair
        as many again."""
        pairs = zip(BUGS.values(), self._tries.values(), strict=True)
        return sum(
            POINTS[bug.tier] * ((each.guess == bug.fault) + each.solved) for bug, each in pairs
        )

    def check(self) -> Report:
        """Check the code, and show its report and its weights."""
        bug, this, weights = BUGS[self.bug], self._tries[self.bug], None
        code = self.code or bug.code
        report = try_repair(bug.name, code, SECONDS)
        hangs = any(finding.name == "does not finish" for finding in report.findings)
        with suppress(Unusable):  # the report says why; the picture stays that of the faulty code
            weights = None if hangs else bug.weights(code, SECONDS)
        text = f'<div role="status">{report._repr_html_()}{_HANGS * hangs}</div>'
        this.checked, this.solved = (code, text, weights), this.solved or report.ok
        self.refresh()
        return report

    def reset(self) -> None:
        """Forget the guess and the repair of this case."""
        self._tries[self.bug] = Try()
        self.set_together({"guess": None, "code": ""})
        self.refresh()

    def blank(self) -> go.Figure:
        return matrices.blank("%{customdata}")

    def controls(self) -> list[Widget]:
        self._progress = HTML().add_class(
            "s-progress"
        )  # a Label here would be taken for the menu's name
        tiers = {name: f"{name}, {bug.tier}" for name, bug in BUGS.items()}
        cases = row(
            self.menu("bug", "case", "s-bug", "Which implementation", tiers),
            button("Next", "arrow-right", "s-next", "The case after this one", self._go),
            self._progress,
            button(
                "Reset",
                "undo",
                "s-reset",
                "Forget the guess and the repair of this case",
                self.reset,
            ),
        )
        choose = [partial(self._on_answer, at) for at in range(4)]
        answers = [
            button("", "", f"s-answer-{at}", "Your guess", do, width="auto")
            for at, do in enumerate(choose)
        ]
        self._choices = [(answer, HTML().add_class("s-problem")) for answer in answers]
        table = Layout(
            grid_template_columns="220px 1fr",
            grid_gap="4px 12px",
            align_items="center",
            width="100%",
        )
        tip, layout = "Your repair; empty it for the faulty code", Layout(width="calc(100% - 4px)")
        self._box = Textarea(tooltip=tip, continuous_update=False, layout=layout).add_class(
            "s-code"
        )
        self.link(self._box, "code", self._read_code, lambda code: code or BUGS[self.bug].code)
        self._verdict, self._report = HTML().add_class("s-verdict"), HTML().add_class("s-report")
        check = button(
            "Check",
            "check",
            "s-check",
            "Run the checker on your code",
            lambda: self.attempt(self.check),
        )
        check.button_style = "primary"
        self._revealed = column(
            self._verdict, column(Label("your repair"), self._box), check, self._report
        )
        question = HTML("<b>What is wrong with the implementation on the right?</b>")
        return [
            column(cases, question, GridBox([*chain(*self._choices)], layout=table), self._revealed)
        ]

    def draw(self) -> tuple[str, str]:
        bug, this = BUGS[self.bug], self._tries[self.bug]
        this.guess, this.code = self.guess, self.code
        code = self.code or bug.code
        _, report, repaired = this.checked if this.checked[0] == code else Try.checked
        correct, faulty, found = _faulty(self.bug)
        repaired = None if code == bug.code else repaired
        shown, name = (
            (faulty, "this implementation") if repaired is None else (repaired, "your repair")
        )
        self._draw_pair(bug.view, np.stack([correct, shown]), ("a correct implementation", name))
        for answer, (choice, problem) in zip(self.answers, self._choices, strict=True):
            right = self.guess is not None and answer == bug.fault
            mark = (
                ("check", "success")
                if right
                else ("times", "danger")
                if answer == self.guess
                else ("", "")
            )
            choice.description, (choice.icon, choice.button_style) = answer, mark
            problem.value = html.escape(FAULTS[answer].problem)
        self._box.value, self._box.layout.height = (
            code,
            f"{_LINE * max(8, code.count(chr(10)) + 2)}px",
        )
        self._verdict.value = "" if self.guess is None else _reveal(bug, self.guess, found)
        self._revealed.layout.display = "none" if self.guess is None else None
        self._report.value = report
        most = 2 * sum(POINTS[each.tier] for each in BUGS.values())
        self._progress.value = (
            f"{len(self.solved)} of {len(BUGS)} solved, score {self.score} of {most}"
        )
        words = (
            f"The tokens are {bug.view.words} words in turn, and equal words have the content "
            f"{MATCH:g}."
        )
        details = words if bug.view.words else "All tokens have the same content."
        called, compared = _describe(bug), _compare(bug.view, correct, shown, name)
        return (
            (called, f"{compared} {details}")
            if self.guess is None
            else (f"{called} {compared}", details)
        )

    def _draw_pair(self, view: View, weights: Any, names: tuple[str, str]) -> None:
        """Two matrices of weights side by side, [2, rows, keys]; 0 is masked."""
        masked, kind, numbers = (
            ~(weights > 0),
            "query" if view.head else "head",
            (view.rows, view.keys),
        )
        places = [
            [f"{kind} {at}, key {key}<br>relative weight " for key in view.keys] for at in view.rows
        ]
        texts = np.char.add(
            places, np.where(masked, "masked", np.char.mod("%.3g", weights))
        ).astype(object)
        grid = matrices.page_grid(2, self.page_width)
        labels: dict[str, Any] = {
            "titles": names,
            "numbers": numbers,
            "legend": "weight / largest of its row",
        }
        matrices.draw(self.figure, grid, weights, masked, scale=WEIGHT_SCALE, **labels)
        with self.figure.batch_update():
            matrices.fill_hover(self.figure, grid, texts.shape[1:], texts, (1, 2))
            self.figure.layout.yaxis.title.text = "query position i" if view.head else "head"

    @observe("bug")
    def _change_case(self, change: Any) -> None:
        """Restore the guess and the code of a case."""
        if hasattr(self, "figure"):  # else the constructor sets all traits
            with self.hold_trait_notifications():
                self.guess, self.code = self._tries[change.new].guess, self._tries[change.new].code

    def _read_code(self, text: str) -> str:
        return "" if text.strip() in ("", BUGS[self.bug].code) else text

    def _go(self) -> None:
        names = list(BUGS)
        self.bug = names[(names.index(self.bug) + 1) % len(names)]

    def _on_answer(self, number: int) -> None:
        if self.guess is None:  # the first guess counts; a disabled button would lose the focus
            self.guess = self.answers[number]


@cache
def _faulty(name: str) -> tuple[Tensor, Tensor, Report]:
    """The correct weights in the view of a bug, those of its faulty code, and the checker's report
    on that code."""
    bug = BUGS[name]
    return bug.view.correct(bug.causal), bug.weights(), try_repair(name, bug.code)


def _reveal(bug: Bug, guess: str, report: Report) -> str:
    """Whether the guess is right, what the fault is, the number that shows it, and its public
    origin, as HTML."""
    verdict = (
        "<b>Right:</b> it is" if guess == bug.fault else f"<b>No.</b> You chose {guess}, but it is"
    )
    problem, exhibit = FAULTS[bug.fault].problem, bug.exhibit
    found = "; ".join(finding.evidence for finding in report.findings)
    models = " and ".join(exhibit.trained)
    trained = (
        f"<p>The authors of {models} released their weights with such code: for them it is "
        "no fault.</p>"
    )
    trained *= bool(models)
    return f"""<div role="status"><p>{verdict} <b>{bug.fault}</b>. {html.escape(problem[0].upper() + problem[1:])}.</p>
<p>The checker found: {html.escape(found)}.</p>
<p>Seen in <a href="{exhibit.source}" target="_blank" rel="noopener">{html.escape(exhibit.system)}</a>:<br>
{html.escape(exhibit.effect)}.</p>{trained}</div>
<p>Below is a short version of our own, with this fault alone. Repair it and press Check. <code>torch</code>,
<code>math</code> and <code>av</code> (this library) are imported. Empty the box to get the faulty code back.</p>"""


def _describe(bug: Bug) -> str:
    """The sizes of the call, and which weights are shown."""
    view, model = bug.view, "causal" if bug.causal else "an encoder"
    shown = f"head {view.head}" if view.head else "the last query of each head"
    last = "token" if view.query_length == 1 else f"{view.query_length} tokens"
    decoding = f", decoding the last {last}" * (view.query_length < view.key_length)
    tokens = f"{shown} of {view.num_heads}, {view.key_length:,} tokens{decoding}"
    return f"{bug.name.capitalize()} of {len(BUGS)}, {bug.tier}, {model}: {tokens}."


def _compare(view: View, correct: Tensor, shown: Tensor, subject: str) -> str:
    """The weight that differs most."""
    difference = (shown - correct).abs()
    if float(difference.max()) < 1e-3:
        return "The two pictures are the same."
    row, column = divmod(int(difference.argmax()), len(view.keys))
    got, wanted = (format_percent(weights[row, column]) for weights in (shown, correct))
    place = f"{'query' if view.head else 'head'} {view.rows[row]}: key {view.keys[column]}"
    of = "of the largest weight in its row"
    return f"The largest difference is in {place} has {got} {of} in {subject}; correct is {wanted}."
