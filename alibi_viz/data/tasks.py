"""Synthetic tasks that require a model to retrieve a token over a known distance. Only the answers
are scored.

In training the answer is at any distance, in tests halfway back: a model without positions can
still learn which token is the first, so a test that always asked for that one wouldn't show what it
can find.

needle      noise with one value in it, which the model must recall at the end     tests memory over
a distance induction   noise with a cue, which returns at the end: what followed it before?   tests
finding a cue, then copying
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

NOT_ASKED = (
    -100
)  # target where no answer is asked; the default `ignore_index` of torch's cross_entropy
SYMBOLS = 16  # token ids 0 to 15: values, and the noise of induction
NOISE = 16  # the first of token ids 16 to 31: the noise of needle
MARK = 32  # the token that asks for the needle, and the cue of induction


@dataclass(frozen=True)
class Task:
    """A synthetic task. The distance of an example is how many tokens before its last token the
    answer is."""

    name: str
    make: Callable[
        [int, int, int, torch.Generator], tuple[Tensor, Tensor]
    ]  # of batch size, distance, length
    overhead: int  # the length of the shortest example, minus its distance
    vocabulary: int = MARK + 1
    chance: float = 1 / SYMBOLS  # the accuracy of guessing

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
        """Endless batches of inputs and targets, int64 [batch, at most length], each of one random
        distance."""
        generator, max_distance = torch.Generator().manual_seed(seed), self.max_distance(length)
        while True:
            distance = int(
                torch.randint(1, max_distance + 1, (1,), generator=generator, device="cpu")
            )
            size = int(
                torch.randint(
                    self.min_length(distance), length + 1, (1,), generator=generator, device="cpu"
                )
            )
            yield self.make(batch_size, distance, size, generator)

    def __repr__(self) -> str:
        return f"Task({self.name!r}, chance {self.chance:.1%})"


def _make_needle(
    batch_size: int, distance: int, length: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    inputs = torch.randint(NOISE, MARK, (batch_size, length), generator=generator, device="cpu")
    inputs[:, -1 - distance] = torch.randint(
        SYMBOLS, (batch_size,), generator=generator, device="cpu"
    )
    return _ask(inputs, distance)


def _make_cues(
    batch_size: int, distance: int, length: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    inputs = torch.randint(SYMBOLS, (batch_size, length), generator=generator, device="cpu")
    inputs[:, -2 - distance] = MARK
    return _ask(inputs, distance)


def _ask(inputs: Tensor, distance: int) -> tuple[Tensor, Tensor]:
    """Inputs that end with the mark, and targets that ask there, and only there, for the token
    `distance` back."""
    inputs[:, -1] = MARK
    targets = torch.full_like(inputs, NOT_ASKED)
    targets[:, -1] = inputs[:, -1 - distance]
    return inputs, targets


TASKS = {
    "needle": Task("needle", _make_needle, overhead=1),
    "induction": Task("induction", _make_cues, overhead=2),
}
