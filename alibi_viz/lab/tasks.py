"""Three exercises where length is all that matters, each a generator with a seed, an accuracy and a chance level.

    needle      noise, one value somewhere in it, and at the end: which value was it?      memory at a distance
    copy        n symbols, a bar, and the same n symbols again                             pointing n + 1 back, exactly
    induction   noise, a cue once, and at the end the cue again: what followed it?         finding, then looking right

The ids of each kind do not overlap, so no exercise is ambiguous. Only the answers are trained on and scored.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from alibi_viz.lab.evaluation import TOKENS_A_BATCH, evaluating
from alibi_viz.models import LanguageModel

__all__ = ["NOT_ASKED", "TASKS", "Task", "accuracy"]

NOT_ASKED = -100  # the target of a position that is neither trained on nor scored; torch's cross_entropy skips it
SYMBOLS = 16  # ids 0 to 15: values, things to copy, and what induction's noise is made of
NOISE = 16  # ids 16 to 31: the needle's noise
MARK = 32  # the question, the bar, the cue


@dataclass(frozen=True)
class Task:
    """An exercise.

    Attributes:
        name: as in `TASKS`.
        make: (batch size, distance, length, generator) to inputs and targets, both int64 [batch, length].
        needs: distance to the length of the shortest exercise with that distance.
        vocabulary: the number of ids, for a model.
        chance: the accuracy of guessing.

    The distance is how many tokens back from where it is asked for the answer stands. To copy n symbols is distance n.
    """

    name: str
    make: Callable[[int, int, int, torch.Generator], tuple[Tensor, Tensor]]
    needs: Callable[[int], int]
    vocabulary: int = MARK + 1
    chance: float = 1 / SYMBOLS

    def furthest(self, length: int) -> int:
        """The largest distance that fits into `length` tokens. Raises ValueError when none does."""
        distance = length
        while distance and self.needs(distance) > length:
            distance -= 1
        if not distance:
            raise ValueError(f"{self.name} needs a length of at least {self.needs(1)}, got {length}")
        return distance

    def batches(self, length: int, batch_size: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Exercises without end: inputs and targets, int64 [batch, at most length], of one random distance a batch."""
        generator = torch.Generator().manual_seed(seed)
        furthest = self.furthest(length)
        while True:
            distance = int(torch.randint(1, furthest + 1, (1,), generator=generator))
            shortest = self.needs(distance)
            size = int(torch.randint(shortest, length + 1, (1,), generator=generator))
            yield self.make(batch_size, distance, size, generator)

    def __repr__(self) -> str:
        return f"Task({self.name!r}, chance {self.chance:.1%})"


def accuracy(model: LanguageModel, task: Task, distance: int, *, samples: int = 256, seed: int = 0) -> float:
    """Share of answers that the model gets right at one distance, on the same exercises for every model.

    NaN where its positions are not defined. Raises ValueError when distance or samples is below 1.

    >>> task = lab.TASKS["needle"]
    >>> lab.accuracy(lab.make_model(vocabulary=task.vocabulary), task, 20) < 0.3  # untrained: near chance, 1/16
    True
    """
    for name, value in (("distance", distance), ("samples", samples)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number from 1 up, got {value!r}")
    length = task.needs(distance)
    longest = model.transformer.position.longest
    if longest is not None and length > longest:
        return float("nan")
    inputs, targets = task.make(samples, distance, length, torch.Generator().manual_seed(seed))
    with evaluating(model) as device:
        some = inputs.to(device).split(max(1, TOKENS_A_BATCH // length))
        guesses = torch.cat([model(each).argmax(-1) for each in some]).cpu()
    return float((guesses == targets)[targets != NOT_ASKED].float().mean())


def _needle(batch: int, distance: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    inputs = torch.randint(NOISE, NOISE + 16, (batch, length), generator=generator)
    value = torch.randint(SYMBOLS, (batch,), generator=generator)
    inputs[:, -1 - distance] = value
    inputs[:, -1] = MARK
    return inputs, _answer_at_the_end(inputs, value)


def _copy(batch: int, distance: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    symbols = torch.randint(SYMBOLS, (batch, distance), generator=generator)
    bar = torch.full((batch, 1), MARK)
    inputs = torch.cat((symbols, bar, symbols[:, :-1]), dim=1)  # the bar and all but the last symbol each have a next
    silent = torch.full((batch, distance), NOT_ASKED)
    return inputs, torch.cat((silent, symbols), dim=1)


def _induction(batch: int, distance: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    inputs = torch.randint(SYMBOLS, (batch, length), generator=generator)
    inputs[:, -2 - distance] = MARK
    inputs[:, -1] = MARK
    return inputs, _answer_at_the_end(inputs, inputs[:, -1 - distance])


def _answer_at_the_end(inputs: Tensor, answer: Tensor) -> Tensor:
    targets = torch.full_like(inputs, NOT_ASKED)
    targets[:, -1] = answer
    return targets


TASKS = {
    "needle": Task("needle", _needle, needs=lambda distance: distance + 1),
    "copy": Task("copy", _copy, needs=lambda distance: 2 * distance),
    "induction": Task("induction", _induction, needs=lambda distance: distance + 2),
}
