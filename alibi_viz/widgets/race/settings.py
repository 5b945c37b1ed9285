"""The settings of a race."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alibi_viz.figures.panel import STYLES, assign_slots
from alibi_viz.lab import TASKS, Question, evaluation_distances, evaluation_lengths
from alibi_viz.lab.questions import alibi_marks, main_question
from alibi_viz.lab.training import DEFAULT_MODEL
from alibi_viz.slopes import alibi_slopes
from alibi_viz.widgets.race.traits import built_in_name

__all__ = ["COMMON_METHODS", "RaceSettings", "alibi_range"]

TRAINING_TRAITS = ("methods", "length", "steps", "seed", "seeds", "learning_rate")
COMMON_METHODS = ("alibi", "sinusoidal", "rotary", "learned", "none")  # always in view, and always in the same colors


@dataclass(frozen=True)
class RaceSettings:
    """The state of LengthLab that a race depends on.

    Attributes:
        task: "text", or one of `TASKS`.
        methods, length, steps, seed, seeds, learning_rate: traits of LengthLab.
        text: a trait of LengthLab; None for a task.
    """

    task: str
    methods: tuple[str, ...]
    length: int
    steps: int
    seed: int
    seeds: int
    learning_rate: float
    text: str | Path | None = None

    @classmethod
    def of(cls, app: Any, task: str) -> "RaceSettings":
        """The settings of the race that a LengthLab would start now on this task."""
        traits = {name: getattr(app, name) for name in TRAINING_TRAITS}
        return cls(task, text=None if task in TASKS else app.text, **traits)

    @property
    def main(self) -> Question:
        """The question that is answered while the models train, beside their training loss."""
        return main_question(self.task)

    @property
    def lengths(self) -> list[int]:
        """The lengths at which models are evaluated; for a task, the distances."""
        if self.task in TASKS:
            return evaluation_distances(TASKS[self.task], self.length)
        return evaluation_lengths(self.length)

    @property
    def source_name(self) -> str:
        """What the models train on, in words. A text of your own is not read for this."""
        if self.task in TASKS:
            return f"{self.task} examples of up to {self.length} tokens"
        text = self.text.name if isinstance(self.text, Path) else "your text" if self.text else built_in_name()
        return f"windows of {self.length} bytes of {text}"

    @property
    def slots(self) -> list[str]:
        """The method in each slot of the figure."""
        return assign_slots(self.methods, COMMON_METHODS)

    def color(self, method: str) -> str:
        """The color of a method in the figure."""
        return STYLES[self.slots.index(method)][0]


def alibi_range(methods: Sequence[str]) -> dict[str, float]:
    """How far back ALiBi's flattest head attends in a model of the default size: {label: tokens}, for `Panel.marks`."""
    return alibi_marks(alibi_slopes(int(DEFAULT_MODEL["num_heads"]))) if "alibi" in methods else {}
