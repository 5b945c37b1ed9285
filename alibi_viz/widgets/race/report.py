"""The record of a race over one or several seeds, and of what was measured on its models afterwards."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from alibi_viz.lab import TASKS, Lap, Scoreboard, Task, Text, evaluation_distances, evaluation_lengths, race, save_run

__all__ = ["NEEDLE", "RaceReport", "mean_of"]

NEEDLE = TASKS["needle"]
STEPS_BETWEEN_TESTS, STEPS_BETWEEN_HUNTS = 30, 60  # looking for needles takes longer than reading
TARGETS = 2048  # bytes predicted in a test: with more, tests would take more time than training

Points = dict[int, float]


@dataclass
class RaceReport:
    """What there is to say of a race.

    Attributes:
        text: name of the text, or of the task.
        methods, length, steps, seed, seeds, learning_rate: of the race; seeds are seed, seed + 1, ...
        state: "ready", "running", "stopped", "finished" or "failed".
        guesses: {method: {multiple of the length: bits}}, made before it began.
        source: what is read; None before a start.
        boards: the record of each seed that has begun.
        measuring: whether its models are being measured now.
        measured: {view: {seed: {method: {position or context: bits}}}}, filled after the race.
    """

    text: str
    methods: tuple[str, ...]
    length: int
    steps: int
    seed: int
    seeds: int
    learning_rate: float
    task: bool = False
    guesses: dict[str, Points] = field(default_factory=dict)
    source: Text | Task | None = None
    state: str = "ready"
    boards: list[Scoreboard] = field(default_factory=list)
    measuring: bool = False
    measured: dict[str, dict[int, dict[str, Points]]] = field(default_factory=dict)

    @property
    def lengths(self) -> list[int]:
        """The test lengths; distances, where needles are looked for."""
        return evaluation_distances(NEEDLE, self.length) if self.task else evaluation_lengths(self.length)

    @property
    def board(self) -> Scoreboard:
        """The record of the seed that is being raced, or was raced last; an empty one before the start."""
        return self.boards[-1] if self.boards else self._new_board()

    @property
    def complete(self) -> list[int]:
        """The numbers of the seeds that have been raced to the end, counted from 0."""
        return [number for number, board in enumerate(self.boards) if board.last_checkpoint() == board.steps]

    @property
    def counted(self) -> list[int]:
        """The seeds that numbers are given of: those that are complete, or the one that was raced last if none is."""
        return self.complete or list(range(len(self.boards)))[-1:]

    @property
    def last(self) -> Scoreboard:
        """The record whose models are kept and operated on: the last of those that count."""
        return self.boards[self.counted[-1]] if self.boards else self._new_board()

    def start(self, source: Text | Task) -> Iterator[tuple[int, Lap]]:
        """The whole race, to be given to `add` one by one. Raises ValueError at the call when it cannot be run."""
        every = STEPS_BETWEEN_HUNTS if self.task else STEPS_BETWEEN_TESTS
        races = [
            race(
                self.methods,
                source,
                length=self.length,
                steps=self.steps,
                seed=seed,
                lengths=self.lengths,
                checkpoints=max(5 if self.task else 10, self.steps // every),
                targets=TARGETS,
                learning_rate=self.learning_rate,
            )
            for seed in range(self.seed, self.seed + self.seeds)
        ]
        self.source, self.text, self.state = source, source.name, "running"
        return chain.from_iterable(((number, lap) for lap in laps) for number, laps in enumerate(races))

    def add(self, numbered: tuple[int, Lap]) -> None:
        """Take note of a lap of the seed of that number."""
        number, lap = numbered
        if number == len(self.boards):
            self.boards.append(self._new_board())
        self.boards[number].add(lap)

    def each_seed(self, method: str) -> list[Points]:
        """What each seed that counts gives at every length; while a race is on, the seed that is being raced too."""
        live = [board for board in self.boards if board.last_checkpoint()]
        shown = live if self.state == "running" else [self.boards[number] for number in self.counted]
        return [board.scores(method) for board in shown]

    def by_length(self, method: str) -> Points:
        """The mean over the seeds that count."""
        return mean_of([self.boards[number].scores(method) for number in self.counted])

    def gaps(self, method: str) -> list[Points]:
        """Of each seed that counts {step: loss at 4 L above the loss at L}."""
        near, far = self.length, 4 * self.length
        tests = [self.boards[number].checkpoints[method] for number in self.counted]
        return [{step: losses[far] - losses[near] for step, losses in of_one.items()} for of_one in tests]

    def of_view(self, view: str, method: str) -> list[Points]:
        """What was measured of each seed's model for a view."""
        seeds = self.measured.get(view, {})
        return [seeds[number][method] for number in self.counted if method in seeds.get(number, {})]

    def keep(self, folder: Path) -> list[Path]:
        """Keep the models of the last seed that counts, each in a new folder of its own in `folder`.

        Raises FileExistsError, before anything is written, when one of them is there already, and ValueError for models
        whose training has diverged.
        """
        if self.state == "failed" and not self.complete:
            raise ValueError("these models have diverged in training: train again, with a lower learning rate")
        board = self.last
        paths = {method: folder / method for method in board.models}
        for path in paths.values():
            if path.exists():
                raise FileExistsError(f"{str(path)!r} exists already and is not overwritten; choose another name")
        settings = {
            "task": NEEDLE.name if self.task else "text",
            "text": self.text,
            "length": self.length,
            "seed": self.seed + self.boards.index(board),
            "learning_rate": self.learning_rate,
        }
        for method, path in paths.items():
            tests = board.scores(method)
            curves = {"loss": board.losses[method], "accuracy" if self.task else "by_length": tests}
            save_run(path, board.models[method], settings=settings | {"steps": board.step(method)}, curves=curves)
        return list(paths.values())

    def _new_board(self) -> Scoreboard:
        return Scoreboard(self.methods, steps=self.steps, lengths=self.lengths)


def mean_of(several: Sequence[Points]) -> Points:
    """The mean of curves, at the places that all of them have.

    >>> from alibi_viz.widgets.race.report import mean_of
    >>> mean_of([{32: 2.0, 64: 3.0}, {32: 4.0}]), mean_of([])
    ({32: 3.0}, {})
    """
    if not several:
        return {}
    shared = [place for place in several[0] if all(place in points for points in several)]
    return {place: sum(points[place] for points in several) / len(several) for place in shared}
