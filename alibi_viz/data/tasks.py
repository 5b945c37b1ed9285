"""Synthetic tasks that require a model to retrieve a token over a known distance.

- needle: noise with one value in it, which the model must recall at the end. It tests memory over a
  distance.
- induction: noise with a cue, which returns at the end: what followed it before? It tests finding
  the cue, then copying.

Only the answers are scored. In training the answer is at any distance, in tests halfway back: a
model without positions can still learn which token is the first, so a test that always asked for
that one wouldn't show what it can find.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

# Token ids 0 to 15: values, and the noise of induction.
SYMBOLS = 16
# The first of token ids 16 to 31: the noise of needle.
NOISE = 16
# The token that asks for the needle, and the cue of induction.
MARK = 32
# Target where no answer is asked: the default `ignore_index` of torch's cross_entropy.
NOT_ASKED = -100


@dataclass(frozen=True)
class Task:
    """A synthetic task.

    The distance of an example is how many tokens before its last token the answer is.

    >>> from alibi_viz import lab
    >>> lab.TASKS["needle"].max_distance(20)
    19
    """

    name: str
    # Inputs and targets from batch size, distance, length and generator: int64 [batch, length]
    make: Callable[[int, int, int, torch.Generator], tuple[Tensor, Tensor]]
    overhead: int  # the length of the shortest example, minus its distance
    vocabulary: ClassVar[int] = MARK + 1  # of a model of any task
    chance: ClassVar[float] = 1 / SYMBOLS  # the accuracy of guessing

    def min_length(self, distance: int) -> int:
        """The length of the shortest example with this distance."""
        return distance + self.overhead

    def max_distance(self, length: int) -> int:
        """The largest distance that fits into `length` tokens. Raises ValueError if none does."""
        if length <= self.overhead:
            raise ValueError(
                f"{self.name} needs a length of at least {self.min_length(1)}, got {length}"
            )
        return length - self.overhead

    def batches(self, length: int, batch_size: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Endless batches of inputs and targets, int64 [batch, at most length].

        Each batch has one random distance and one random length.
        """
        generator = torch.Generator().manual_seed(seed)
        max_distance = self.max_distance(length)
        while True:
            distance = _draw(1, max_distance, generator)
            batch_length = _draw(self.min_length(distance), length, generator)
            yield self.make(batch_size, distance, batch_length, generator)

    def __repr__(self) -> str:
        return f"Task({self.name!r}, chance {self.chance:.1%})"


def _draw(low: int, high: int, generator: torch.Generator) -> int:
    """A random integer from `low` to `high`, both included."""
    return int(torch.randint(low, high + 1, (1,), generator=generator, device="cpu"))


def _make_needle(
    batch_size: int, distance: int, length: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    inputs = torch.randint(NOISE, MARK, (batch_size, length), generator=generator, device="cpu")
    values = torch.randint(SYMBOLS, (batch_size,), generator=generator, device="cpu")
    inputs[:, -1 - distance] = values
    return _ask(inputs, distance)


def _make_induction(
    batch_size: int, distance: int, length: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    inputs = torch.randint(SYMBOLS, (batch_size, length), generator=generator, device="cpu")
    inputs[:, -2 - distance] = MARK
    return _ask(inputs, distance)


def _ask(inputs: Tensor, distance: int) -> tuple[Tensor, Tensor]:
    """End the inputs with the mark, and ask only there, for the token `distance` back."""
    inputs[:, -1] = MARK
    targets = torch.full_like(inputs, NOT_ASKED)
    targets[:, -1] = inputs[:, -1 - distance]
    return inputs, targets


TASKS = {
    "needle": Task("needle", _make_needle, overhead=1),
    "induction": Task("induction", _make_induction, overhead=2),
}
