"""A race of LengthLab: its settings, its rows, and what its models write after each test."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from time import monotonic
from typing import Any, NamedTuple

import pandas as pd
import torch

from alibi_viz import lab
from alibi_viz.data.tales import mentions
from alibi_viz.data.text import BUILT_IN
from alibi_viz.figures.curve_plot import COMMON_METHODS, STYLES, assign_slots
from alibi_viz.measure.continuations import Continuation, known_words, unknown_words
from alibi_viz.measure.losses import shared_losses
from alibi_viz.measure.questions import find_question, in_letters
from alibi_viz.measure.table import AS_TRAINED, TRAINING_LOSS, Row, results_table
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.methods import Method
from alibi_viz.train.race import Race
from alibi_viz.train.training import limited_threads

QUESTION = find_question("longer sequences")  # which each test answers
# Lesson 0 speaks of texts.
IN_LETTERS = replace(
    QUESTION, figure=replace(in_letters(QUESTION).figure, point="texts of {x} letters")
)
STEPS_BETWEEN_TESTS = 50  # and at least ten tests
CHECKPOINT_TARGETS = 2048  # bytes predicted: with more, a test would take longer than training
# How the validation part of the built-in text begins: what its continuations go on telling.
OPENING = "This is the story of Emma,"
HERO = "Emma"


class Written(NamedTuple):
    """What one model writes."""

    texts: list[Continuation]
    # Share of the words beyond the training length that occur in the training text; NaN without any
    known_words: float
    unknown: list[tuple[int, int]]  # the other words beyond it in the first text, (start, end)

    @property
    def names_hero(self) -> bool:
        """Whether the first text names the hero of the opening again."""
        first = self.texts[0]
        names = [mention.value for mention in mentions(first.within + first.beyond)]
        return HERO in names


def continues_opening(text: lab.Text | None, length: int) -> bool:
    """Whether models that train on sequences of this length go on with the tale of `OPENING`.

    `text` is None for the built-in text.
    """
    is_tale = text is None or text.name == BUILT_IN
    prompt_length = length // 2
    return is_tale and prompt_length >= len(OPENING)


@dataclass(eq=False)
class RaceState:
    """A race of LengthLab: its settings, and its results so far."""

    methods: dict[str, Method]
    length: int
    steps: int
    seed: int
    text: lab.Text | None  # None for the built-in text
    guesses: dict[str, str | None]
    emma: str | None  # the guess about her: "yes" or "no"

    def __post_init__(self) -> None:
        self.state = "ready"  # then "running", and at last "stopped", "finished" or "failed"
        self.source: Any = None  # the text, from the start on: the built-in one takes time to write
        self.models: dict[str, LanguageModel] = {}
        self.rows: list[Row] = []
        self.steps_done = dict.fromkeys(self.methods, 0)
        self.started = monotonic()
        # {step: {method: what its model writes after it}}: a moment of the race is complete when
        # all models have been tested, and have written.
        self.moments: dict[int, dict[str, Written]] = {}
        self.tests = 0  # of one model each

    @property
    def settings(self) -> tuple[Any, ...]:
        """Races with equal ones have equal results. A law may have been edited under its name."""
        fingerprint = self.text.fingerprint if self.text else None
        return self.methods, self.length, self.steps, self.seed, fingerprint

    @property
    def slots(self) -> list[str]:
        """The method in each slot of the figure."""
        return assign_slots(list(self.methods), COMMON_METHODS)

    def color(self, method: str) -> str:
        """The color of a method in the figure."""
        return STYLES[self.slots.index(method)][0]

    def start(self) -> Iterator[None]:
        """Run the race: yields after each row and each text, so that it can be stopped there.

        Raises ValueError at the call if it cannot be run.
        """
        if not self.methods:
            raise ValueError("no method is chosen: select at least one")
        self.source = lab.load_text() if self.text is None else self.text
        race = lab.race(
            self.methods,
            self.source,
            length=self.length,
            steps=self.steps,
            seed=self.seed,
            checkpoints=max(10, self.steps // STEPS_BETWEEN_TESTS),
            targets=CHECKPOINT_TARGETS,
        )
        self.models = race.models
        self.started = monotonic()
        self.state = "running"
        return self._run(race, self.source, torch.get_num_threads())

    def _run(self, race: Race, text: lab.Text, threads: int) -> Iterator[None]:
        longest = lab.evaluation_lengths(self.length)[-1]
        with limited_threads(1, threads), closing(race):
            for row in chain(self._test_before_training(text), race):
                self.rows.append(row)
                method = row["method"]
                step = row["step"]
                if row["question"] == TRAINING_LOSS:
                    self.steps_done[method] = step
                yield
                # The longest sequences are the last ones of a test.
                if row["question"] == QUESTION.name and row["x"] == longest:
                    written = self._write(method, text)
                    self.moments.setdefault(step, {})[method] = written
                    self.tests += 1
                    yield

    def _test_before_training(self, text: lab.Text) -> Iterator[Row]:
        """The rows of models that have learned nothing: what they write is random."""
        lengths = lab.evaluation_lengths(self.length)
        targets = max(CHECKPOINT_TARGETS, *lengths)
        for name, model in self.models.items():
            for length, bits in shared_losses(model, text, lengths, targets=targets):
                yield {
                    "origin": "live",
                    "task": "text",
                    "method": name,
                    "label": name,
                    "variant": AS_TRAINED,
                    "seed": self.seed,
                    "length": self.length,
                    "step": 0,
                    "question": QUESTION.name,
                    "x": length,
                    "value": float(bits.mean()),
                    "unit": QUESTION.unit,
                    "count": len(bits),
                    "text": text.fingerprint,
                }

    def _write(self, method: str, text: lab.Text) -> Written:
        """Let the model of a method continue the text."""
        texts = lab.continuations(self.models[method], text, self.length, seed=self.seed)
        share = known_words([each.beyond for each in texts], text)
        return Written(texts, share, unknown_words(texts[0].beyond, text))

    # Another thread may ask while the race goes on, so both copy what grows.

    @property
    def tested_steps(self) -> list[int]:
        """The steps after which all models were tested; 0 is before the first one."""
        moments = dict(self.moments)
        return [step for step, texts in moments.items() if len(texts) == len(self.methods)]

    @property
    def seconds_left(self) -> float:
        """How long the race will still take if it goes on as fast as so far; 0 if unknown."""
        done = sum(self.steps_done.values())
        if done == 0:
            return 0.0
        to_do = len(self.methods) * self.steps - done
        return (monotonic() - self.started) * to_do / done

    @property
    def written(self) -> dict[str, Written]:
        """{method: what its model wrote last}."""
        latest: dict[str, Written] = {}
        for texts in list(self.moments.values()):
            latest |= texts
        return latest

    def results(self, step: int | None = None) -> pd.DataFrame:
        """The losses by length of all models after one of the `tested_steps`, by default the
        last."""
        if step is None:
            step = max(self.tested_steps, default=None)
        rows = [
            row
            for row in list(self.rows)
            if row["question"] == QUESTION.name and row["step"] == step
        ]
        return results_table(rows)
