"""SpotTheBug: a wrong heatmap beside the right one, a guess what is wrong, and the code to repair."""

import html
from contextlib import suppress
from functools import cache, partial
from typing import Any

import plotly.graph_objects as go
from ipywidgets import HTML, HBox, Label, Layout, Textarea, Widget
from torch import Tensor
from traitlets import HasTraits, observe

from alibi_viz import lessons
from alibi_viz.check import FAULTS, Report
from alibi_viz.check.call import Unusable
from alibi_viz.figures.matrices import blank_pair, draw_pair
from alibi_viz.lessons import BUGS, Bug
from alibi_viz.lessons.bugs import MATCH, SECONDS
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.controls import button, column, row
from alibi_viz.widgets.core.formatting import format_percent
from alibi_viz.widgets.core.traits import Choice, State

MAX_WIDTH = 1000  # pixels of the figure
_EQUAL = 1e-3  # weights that differ by less look the same
_LINE = 19  # pixels of a line of code
_STYLE = """<style>
.alibi-app .s-code textarea { font-family: var(--jp-code-font-family, monospace); line-height: 1.4; white-space: pre; }
.alibi-app :is(.s-verdict, .s-problem) .widget-html-content { line-height: 1.5; }
.alibi-app .s-verdict p { margin: 4px 0; }
.alibi-app .s-verdict a { color: var(--jp-content-link-color, inherit); text-decoration: underline; }
</style>"""
_VERDICT = """<div role="status"><p>{verdict} {problem}.</p>
<p>The checker found: {evidence}.</p>
<p>Seen in <a href="{source}" target="_blank" rel="noopener">{system}</a>:<br>{effect}.</p></div>
<p>Below is a short version of our own, with this fault alone. Repair it and press Check. <code>torch</code>,
<code>math</code> and <code>av</code> (this library) are imported. Empty the box to get the faulty code back.</p>"""
_REPORT = '<div role="status">{}{}</div>'
_HANGS = """<p>Python cannot stop a running function: yours continues in the background and slows everything down.
Restart the kernel to end it.</p>"""


class Code(State):
    """Source text; empty for the faulty code."""

    info_text = "a string"

    def validate(self, obj: HasTraits, value: Any) -> str:
        if not isinstance(value, str):
            self.error(obj, value)
        return value


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
        "09_spot_the_bug",
        "What a correct picture looks like",
    )
    bug = Choice("case 1", tuple(BUGS))
    guess = Choice(None, "answers", allow_none=True)
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
        if not _hangs(report):
            with suppress(Unusable):  # the report says why; the picture stays that of the faulty code
                weights = BUGS[name].weights(code, SECONDS)
        self._checked[name] = code, report, weights
        if report.ok:
            self._solved.add(name)
        self.refresh()
        return report

    def reset(self) -> None:
        """Forget the guess and the repair of this case."""
        self._checked.pop(self.bug, None)
        self._solved.discard(self.bug)
        self.set_together({"guess": None, "code": ""})
        self.refresh()

    # Methods that `App` requires.

    def blank(self) -> go.Figure:
        return blank_pair()

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
            button("", "", f"s-answer-{at}", "Your guess", partial(self._on_answer, at), flex="none", width="220px")
            for at in range(4)
        ]
        self._problems = [HTML(layout=Layout(flex="1 1 0", min_width="0")).add_class("s-problem") for _ in range(4)]
        side_by_side = Layout(align_items="center", grid_gap="12px", overflow="visible")
        rows = [HBox(pair, layout=side_by_side) for pair in zip(self._answers, self._problems, strict=True)]
        tip, layout = "Your repair; empty it for the faulty code", Layout(width="calc(100% - 4px)")
        self._box = Textarea(tooltip=tip, continuous_update=False, layout=layout).add_class("s-code")
        self.link(self._box, "code", self._read_code, lambda code: code or BUGS[self.bug].code)
        self._verdict, self._report = HTML().add_class("s-verdict"), HTML().add_class("s-report")
        check = button("Check", "check", "s-check", "Run the checker on your code", lambda: self.attempt(self.check))
        check.button_style = "primary"
        self._revealed = column(self._verdict, column(Label("your repair"), self._box), check, self._report)
        question = HTML("<b>What is wrong with the implementation on the right?</b>")
        return [column(HTML(_STYLE), cases, question, *rows, self._revealed)]

    def draw(self) -> tuple[str, str]:
        bug, code, view = BUGS[self.bug], self._current_code(), BUGS[self.bug].view
        checked, report, repaired = self._checked.get(self.bug, (None, None, None))
        if checked != code:  # changed since it was checked
            report, repaired = None, None
        correct, faulty, found = _faulty(self.bug)
        shown, name = (faulty, "this implementation") if repaired is None else (repaired, "your repair")
        row_name, names = "head" if view.head is None else "query", ("a correct implementation", name)
        draw_pair(self.figure, correct, shown, rows=view.rows, keys=view.keys, row_name=row_name, names=names)
        for answer, choice, problem in zip(self.answers, self._answers, self._problems, strict=True):
            right = self.guess is not None and answer == bug.fault
            mark = ("check", "success") if right else ("times", "danger") if answer == self.guess else ("", "")
            choice.description, (choice.icon, choice.button_style) = answer, mark
            problem.value = html.escape(FAULTS[answer].problem)
        self._box.value, self._box.layout.height = code, f"{_LINE * max(8, code.count(chr(10)) + 2)}px"
        self._verdict.value = "" if self.guess is None else _reveal(bug, self.guess, found)
        self._revealed.layout.display = "none" if self.guess is None else None
        self._report.value = _REPORT.format(report._repr_html_(), _HANGS * _hangs(report)) if report else ""
        self._progress.value = f"{len(self._solved)} of {len(BUGS)} solved"
        content = "All tokens have the same content."
        if view.words:
            content = f"The tokens are {view.words} words in turn, and equal words have the content {MATCH:g}."
        details = f"{content} Colors are relative to the largest weight of a row; empty cells are masked."
        return f"{_describe(bug)} {_compare(bug, correct, shown, name)}", details

    def fit(self, width: int) -> None:
        super().fit(min(width, MAX_WIDTH))

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

    def _go(self, step: int) -> None:
        names = list(BUGS)
        self.bug = names[(names.index(self.bug) + step) % len(names)]

    def _on_answer(self, number: int) -> None:
        if self.guess is None:  # the first guess counts; a disabled button would lose the focus
            self.guess = self.answers[number]


@cache
def _faulty(name: str) -> tuple[Tensor, Tensor, Report]:
    """The correct weights in the view of a bug, those of its faulty code, and the checker's report on that code."""
    bug = BUGS[name]
    return bug.view.correct(bug.causal), bug.weights(), lessons.try_repair(name, bug.code)


def _hangs(report: Report) -> bool:
    return any(finding.name == "does not finish" for finding in report.findings)


def _reveal(bug: Bug, guess: str, report: Report) -> str:
    """Whether the guess is right, what the fault is, the number that shows it, and its public origin, as HTML."""
    problem, evidence = FAULTS[bug.fault].problem, "; ".join(finding.evidence for finding in report.findings)
    texts = {
        "problem": problem[0].upper() + problem[1:],
        "evidence": evidence,
        "source": bug.exhibit.source,
        "system": bug.exhibit.system,
        "effect": bug.exhibit.effect,
    }
    verdict = "<b>Right:</b> it" if guess == bug.fault else f"<b>No.</b> You chose {html.escape(guess)}, but it"
    verdict += f" is <b>{html.escape(bug.fault)}</b>."
    return _VERDICT.format(verdict=verdict, **{name: html.escape(text) for name, text in texts.items()})


def _describe(bug: Bug) -> str:
    """The sizes of the call, and which weights are shown."""
    view, model = bug.view, "causal" if bug.causal else "an encoder"
    cached = view.query_length < view.key_length
    decoding = f", decoding: the last {view.query_length} are queries, the others are cached" * cached
    shown = f"head {view.head}" if view.head else "the last query of each head"
    number = [*BUGS].index(bug.name) + 1
    sizes = f"{shown} of {view.num_heads}, {view.key_length:,} tokens{decoding}"
    return f"Case {number} of {len(BUGS)}, {model}: {sizes}."


def _compare(bug: Bug, correct: Tensor, shown: Tensor, subject: str) -> str:
    """Which heads are correct, and the row that differs most: its first visible key, the middle one, the last two."""
    view, by_row = bug.view, (shown - correct).abs().amax(-1)  # the largest difference of each row
    if float(by_row.max()) < _EQUAL:
        return "The two pictures are the same."
    at, name, start = int(by_row.argmax()), "query", "The"
    if view.head is None:
        same = [str(head) for head, difference in zip(view.rows, by_row, strict=True) if difference < _EQUAL]
        name, start = "head", f"Correct heads: {', '.join(same) or 'none'}; the"
    visible = (correct[at] > 0).nonzero().flatten().tolist()
    columns = sorted({visible[0], visible[len(visible) // 2], *visible[-2:]})
    keys = ", ".join(str(view.keys[column]) for column in columns)
    got, wanted = (", ".join(format_percent(weights[at, column]) for column in columns) for weights in (shown, correct))
    return (
        f"{start} largest difference is in {name} {view.rows[at]}: keys {keys} get {got} in {subject}; correct are "
        f"{wanted}."
    )
