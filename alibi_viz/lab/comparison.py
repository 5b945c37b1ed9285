"""The runs of the published comparison, in parts that `make reproduce` can train one at a time.

Runs are paired: for one seed all methods start from the same weights, and runs with the same training length and batch
size read the same batches. The number of steps is fixed, not the time; where training lengths differ, the number of
tokens in a step is equal. Each run has the learning rate that a search found for it or for its position method, see
`learning_rates`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from alibi_viz.lab.experiment import Run

__all__ = ["COMPARISON_LENGTH", "PARTS", "Part", "templates"]

COMPARISON_LENGTH = 64  # L; tests go to 16 L and, for the needle, to 32 L, beyond 4 / m of ALiBi's flattest head
L = COMPARISON_LENGTH
TIMES = (1, 2, 4, 16)  # training lengths, in multiples of L
DURATIONS = {"a quarter of the steps": 150, "four times the steps": 2400}
RETRIEVING = ("alibi", "sinusoidal", "rotary", "none", "t5", "kerple-log", "fire", "forget")


@dataclass(frozen=True)
class Part:
    """Runs of the comparison that belong together.

    Attributes:
        name: for the command line, and of the file with its records.
        summary: what its runs show, in one sentence.
        templates: one run for each label; the seeds and the learning rates are set by `runs`.
        seeds: how many, from 0.
    """

    name: str
    summary: str
    templates: tuple[Run, ...]
    seeds: int = 5

    def runs(self, rates: Mapping[tuple[str, str], float], seeds: int | None = None) -> list[Run]:
        """The runs, ordered by seed, so that the first seed can be compared early.

        Args:
            rates: {(task, label): learning rate}. A label without one takes that of its position method, and a text
                with passages that of the passages alone.
            seeds: how many, from 0; by default as many as are published.

        Raises KeyError for a run without a learning rate.
        """
        return [
            replace(run, seed=seed, learning_rate=_rate(run, rates))
            for seed in range(self.seeds if seeds is None else seeds)
            for run in self.templates
        ]


def templates() -> list[Run]:
    """One run for each label of all parts."""
    return [run for part in PARTS.values() for run in part.templates]


def _rate(run: Run, rates: Mapping[tuple[str, str], float]) -> float:
    task = "passages" if run.task == "text with passages" else run.task
    own = rates.get((task, run.label))
    return rates[task, str(run.position)] if own is None else own


def _eight_heads(position: str) -> Run:
    return text(position, model={"num_heads": 8}, label=f"{position}, 8 heads")


def _trained_at(position: str, times: int) -> Run:
    """A run on longer windows, with fewer of them in a batch.

    All these runs read twice as many tokens per step as the other parts, so that even a batch of the longest windows
    has four, and take two thirds of the steps.
    """
    where = f"{times if times > 1 else ''}L"
    return Run(
        position,
        length=times * L,
        batch_size=64 // times,
        steps=400,
        longest=16 // times,
        model=FOUR_HEADS,
        label=f"{position} trained at {where}",
    )


FOUR_HEADS: dict[str, int | float | str | bool] = {"num_heads": 4}
text = partial(Run, length=L, steps=600, batch_size=32, model=FOUR_HEADS)
needle = partial(text, task="needle", steps=300, longest=32)
copy = partial(text, task="copy", steps=1500)
induction = partial(text, task="induction", steps=600)
passages = partial(text, task="passages", steps=800)
LEARNED_SLOPES: dict[str, int | float | str | bool] = {"num_heads": 4, "learned_slopes": True}
ALL_PARTS = (
    Part(
        "main",
        "The main table: the methods that most claims are about, trained on windows of L.",
        (
            *map(text, ("alibi", "sinusoidal", "rotary", "none", "t5", "kerple-log", "forget")),
            text("alibi", model=LEARNED_SLOPES, label="alibi, learned slopes"),
        ),
        seeds=8,
    ),
    Part(
        "methods",
        "Further position methods, and eight heads instead of four.",
        (
            *map(text, ("learned", "sandwich", "fire", "decay", "xpos", "cope", "stick-breaking", "bam", "randomized")),
            *map(_eight_heads, ("alibi", "sinusoidal", "rotary")),
            text("alibi", model={**LEARNED_SLOPES, "num_heads": 8}, label="alibi, 8 heads, learned slopes"),
        ),
    ),
    Part(
        "lengths",
        "Models trained on windows of L to 16L that read equally many tokens: is it better to train on longer windows?",
        (
            *(_trained_at(position, times) for position in ("alibi", "sinusoidal") for times in TIMES),
            *(_trained_at("rotary", times) for times in (1, 16)),
        ),
    ),
    Part(
        "steps",
        "Shorter and longer training: does a model extrapolate less well after more training?",
        tuple(
            text(position, steps=steps, label=f"{position}, {duration}")
            for position in ("alibi", "rotary", "forget")
            for duration, steps in DURATIONS.items()
        ),
    ),
    Part("needle", "How far back a model finds a value in noise.", tuple(map(needle, (*RETRIEVING, "decay", "bam")))),
    Part("copy", "How well a model repeats a sequence, by its length.", tuple(map(copy, RETRIEVING))),
    Part(
        "recall",
        "The positive control: far context pays in these texts, so a method that can use it gains from it.",
        (
            *map(passages, ("alibi", "sinusoidal", "rotary", "none", "kerple-log")),
            *(passages(name, task="text with passages") for name in ("alibi", "rotary", "none")),
            *(
                passages("alibi", task=task, length=16 * L, batch_size=2, longest=1, label="alibi trained at 16L")
                for task in ("passages", "text with passages")
            ),
        ),
    ),
    Part(
        "induction",
        "How far back a model finds what followed a cue.",
        tuple(map(induction, ("alibi", "rotary", "none", "kerple-log"))),
    ),
)
PARTS = {part.name: part for part in ALL_PARTS}
