"""ComparisonExplorer: the published runs of every method, each seed beside the mean, and what holds in all of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import plotly.graph_objects as go
from ipywidgets import Checkbox, Layout, Widget
from traitlets import HasTraits, TraitType

from alibi_viz import lab
from alibi_viz.figures import comparison as picture
from alibi_viz.figures import race_panels as panels
from alibi_viz.figures.panel import Curves, Panel
from alibi_viz.lab.comparison import COMPARISON_LENGTH
from alibi_viz.models import Alibi
from alibi_viz.slopes import e_fold, reach
from alibi_viz.widgets.comparison import words
from alibi_viz.widgets.comparison.words import listed
from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.layout import column, row
from alibi_viz.widgets.core.traits import BadValue, Choice, shown
from alibi_viz.widgets.race.report import mean_of
from alibi_viz.widgets.race.traits import METHODS

__all__ = ["ComparisonExplorer"]

Found = dict[str, dict[int, dict[int, float]]]  # {label: {seed: {length, distance or step: number}}}
LONGER = "longer windows"
TASKS = {  # what is asked: which table of which runs
    LONGER: ("text", "by_length"),
    "same targets": ("text", "by_context"),
    "needle": ("needle", "accuracy"),
    "copy": ("copy", "accuracy"),
    "gap": ("text", "gap"),
}
AS_TRAINED = "as trained"
RULES = {AS_TRAINED: "", "window": f"a window of {COMPARISON_LENGTH}", "pi": "rule pi", "ntk": "rule ntk"}


@cache
def _curves(task: str, table: str) -> Found:
    return lab.published_curves(task, table)


@cache
def _labels() -> tuple[str, ...]:
    """Every label of the published runs; those that are raced in the laboratory come first, in its order."""
    found = dict.fromkeys(label for task in TASKS.values() for label in _curves(*task))
    return (*(name for name in METHODS if name in found), *(name for name in found if name not in METHODS))


@cache
def _marks() -> dict[str, float]:
    """How far the flattest head of the published ALiBi model looks."""
    position = lab.published_model("alibi").model.transformer.position
    assert isinstance(position, Alibi)
    flattest = position.slopes.min()
    return {"alibi 1/m": float(e_fold(flattest)), "alibi 4/m": float(reach(flattest))}


class Labels(TraitType[Any, Any]):
    """Labels of published runs, each at most once, kept in one order; there may be none yet."""

    def __init__(self, default: tuple[str, ...]) -> None:
        super().__init__(default)
        self.tag(state=True)

    def validate(self, obj: HasTraits, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
            raise BadValue(f"{self.name} must be {self.info()}, got {shown(value)}")
        if not set(value) <= set(_labels()) or len(set(value)) < len(value) or len(value) > picture.SLOTS:
            raise BadValue(f"{self.name} must be {self.info()}, got {shown(list(value))}")
        return tuple(name for name in _labels() if name in value)

    def info(self) -> str:
        """What is allowed, in words."""
        return f"at most {picture.SLOTS} different ones among {'; '.join(_labels())}"


class ComparisonExplorer(App):
    """The runs of `make reproduce` that ship with the package, to be looked at method by method. Nothing is trained.

    All were trained on 64 bytes or tokens, unless their label says otherwise, in three seeds. For one seed all methods
    started from the same weights, and those trained on 64 read the same batches. The caption says what holds in every
    seed, and no more.

    Traits:
        task: "longer windows", "same targets" (with more context), "needle", "copy", or "gap" (between L and 4 L, as
            training goes on).
        methods: at most seven labels of published runs. Those that have no such runs are left out.
        rule: "as trained", "window" (a query sees 64 keys), "pi" or "ntk" (for rotary); for longer windows only.

    >>> from alibi_viz.widgets import ComparisonExplorer
    >>> app = ComparisonExplorer(methods=["rotary", "alibi"], rule="window")
    >>> app
    ComparisonExplorer(task='longer windows', methods=('alibi', 'rotary'), rule='window')
    >>> "rotary is best in every seed" in app.caption
    True
    """

    task = Choice(LONGER, tuple(TASKS))
    methods = Labels(("alibi", "sinusoidal", "rotary", "none", "t5", "kerple-log"))
    rule = Choice(AS_TRAINED, tuple(RULES))

    @property
    def curves(self) -> Found:
        """What is shown: {label: {seed: {length, distance or step: number}}}."""
        found = self._found()
        return {name: found[name] for name in self.methods if name in found}

    def fit(self, width: int) -> None:
        super().fit(width)
        self.refresh()  # a narrow page has more rows of legend

    # What an app says.

    def blank(self) -> go.Figure:
        return picture.blank()

    def controls(self) -> list[Widget]:
        task = self.menu("task", "task", "s-task", "What the models were asked")
        self._rule = self.menu("rule", "evaluated", "s-rule", "A rule that is applied when the model is tested")
        boxes = [self._box(label, f"s-method-{number}") for number, label in enumerate(_labels())]
        return [column(row(task, self._rule), row(*boxes))]

    def draw(self) -> str:
        curves = self.curves
        self._rule.disabled = self.task != LONGER
        picture.draw(self.figure, picture.in_slots(tuple(curves), METHODS), self._panel(curves))
        return " ".join(part for part in (*self._shown(curves), *self._said(curves)) if part)

    # How it hangs together.

    def _found(self) -> Found:
        """All the published runs that have an answer to what is asked."""
        task, table = TASKS[self.task]
        return _curves(task, self.rule if self.task == LONGER and self.rule != AS_TRAINED else table)

    def _panel(self, found: Found) -> Panel:
        curves = {name: Curves(mean_of(list(seeds.values())), list(seeds.values())) for name, seeds in found.items()}
        length, marks = COMPARISON_LENGTH, _marks() if "alibi" in found else {}
        places = sorted({at for seeds in self._found().values() for points in seeds.values() for at in points})
        if self.task == "gap":
            return panels.gap_panel(curves, length, places[-1])
        if self.task == LONGER:
            return panels.length_panel(curves, length, places, marks)
        if self.task == "same targets":
            return panels.context_panel(curves, length, places, marks)
        chance = lab.TASKS[self.task].chance
        panel = panels.distance_panel(curves, length, places, chance, marks)
        return panel if self.task == "needle" else _copied(panel, places)

    def _shown(self, curves: Found) -> list[str]:
        rule = RULES[self.rule] if self.task == LONGER else ""
        words = [f"Published runs{f', tested with {rule}' if rule else ''}: seeds thin, their mean thick."]
        if missing := [name for name in self.methods if name not in curves]:
            words.append(f"Left out, because there are no such runs: {listed(missing)}.")
        if self.task != LONGER and self.rule != AS_TRAINED:
            words.append(f"Rule {self.rule} is left out: it is for longer windows.")
        return words if curves else [*words, "No method is shown: choose one above."]

    def _said(self, curves: Found) -> list[str]:
        if self.task in lab.TASKS:
            return [*words.scores(curves), words.best(curves, lowest=False)]
        if self.task == "gap":
            since = "At the end of training, from a run's own training length to four times that."
            return [since, *words.fates(curves, differences=True)]
        return [*words.fates(curves, differences=False), words.best(curves, lowest=True)]

    def _box(self, label: str, css: str) -> Checkbox:
        box = Checkbox(description=label, indent=False, layout=Layout(width="max-content"))
        self.link(box.add_class(css), "methods", read=self._with(label), show=lambda methods: label in methods)
        return box

    def _with(self, label: str) -> Callable[[bool], Sequence[str]]:
        def chosen(ticked: bool) -> Sequence[str]:
            return [*(name for name in self.methods if name != label), *([label] if ticked else [])]

        return chosen


def _copied(panel: Panel, places: Sequence[int]) -> Panel:
    """To copy n symbols takes twice as many tokens."""
    length = COMPARISON_LENGTH
    return replace(
        panel,
        title="Symbols copied rightly, by how many there are to copy",
        x_title="symbols to copy; below, the length that this takes",
        y_title="share right",
        hover="%{fullData.name}, %{x} symbols<br>%{y:.0%} right<extra></extra>",
        ticks={count: f"{count:,}<br>{panels.times(2 * count / length)}" for count in places},
        length=length // 2,
    )
