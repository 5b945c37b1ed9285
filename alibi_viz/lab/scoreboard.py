"""What has been seen of a race so far: laps go in, curves and times come out."""

import time
from collections.abc import Callable, Sequence

from alibi_viz.lab.race import Lap
from alibi_viz.models import LanguageModel

__all__ = ["Scoreboard"]

_RECENT = 20  # steps over which the speed is averaged: one step alone jumps about


class Scoreboard:
    """The record of a race, filled lap by lap.

    Attributes:
        losses: bits per byte of each training step, a list a method.
        tests: {method: {step: {test length: bits per byte}}}, complete checkpoints only, oldest first.
        models: {method: model}, as the last lap left them.

    Args:
        methods: who takes part, in the order in which they are shown.
        steps: how many steps each is to take.
        lengths: the test lengths.
        clock: seconds, for the time left.

    >>> board = lab.Scoreboard(["alibi"], steps=4, lengths=[32, 64])
    >>> for lap in lab.race(["alibi"], lab.load_text(), steps=4, lengths=[32, 64], checkpoints=2):
    ...     board.add(lap)
    >>> board.step("alibi"), list(board.tests["alibi"]), board.seconds_left("alibi")
    (4, [2, 4], 0.0)
    """

    def __init__(
        self,
        methods: Sequence[str],
        *,
        steps: int,
        lengths: Sequence[int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.methods, self.steps, self.lengths = tuple(methods), steps, tuple(lengths)
        self.losses: dict[str, list[float]] = {method: [] for method in methods}
        self.tests: dict[str, dict[int, dict[int, float]]] = {method: {} for method in methods}
        self.models: dict[str, LanguageModel] = {}
        self._speeds: dict[str, list[float]] = {method: [] for method in methods}
        self._clock, self._started = clock, clock()

    def add(self, lap: Lap) -> None:
        """Take note of a lap. Laps of one method come in order."""
        self.models[lap.method] = lap.model
        if lap.by_length is None:
            self.losses[lap.method].append(lap.step.loss)
            self._speeds[lap.method] = [*self._speeds[lap.method][1 - _RECENT :], lap.step.tokens_per_second]
        elif len(lap.by_length) == len(self.lengths):
            self.tests[lap.method][lap.step.index] = lap.by_length

    def step(self, method: str) -> int:
        """How many steps the method has taken."""
        return len(self.losses[method])

    def tested(self) -> int:
        """The step of the last checkpoint that every method has completed; 0 before the first."""
        return min((max(tests, default=0) for tests in self.tests.values()), default=0)

    def by_length(self, method: str) -> dict[int, float]:
        """Bits per byte at each test length at that checkpoint, so after equal training; empty before the first."""
        return self.tests[method].get(self.tested(), {})

    def tokens_per_second(self, method: str) -> float:
        """Speed of training over the last steps, the tests and the other models' steps not counted; 0 at first."""
        speeds = self._speeds[method]
        return len(speeds) / sum(1 / speed for speed in speeds) if speeds else 0.0

    def seconds_left(self, method: str) -> float | None:
        """Time until the method has taken its steps, at the pace of the whole race so far; None before a step."""
        done = self.step(method)
        return (self._clock() - self._started) / done * (self.steps - done) if done else None
