"""Make texts in which short passages of random symbols come back once, at recorded distances.

Nothing but the first occurrence predicts the second one, so these texts show from how far back a model uses context.

    passages              background of random lowercase letters
    text with passages    background of an ordinary text, in its order

A passage has 8 bytes. The byte at each place of a passage is one of 8 symbols, which occur at no other place. So a
model soon learns which 8 symbols to expect, and needs 3 bits for each byte without recall. The second occurrence is
written in a second alphabet: every byte is `AGAIN` higher. So each byte shows whether it can be recalled. With equal
bytes, new passages look like repeated ones, and in pilots small models learned less in the same number of steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from alibi_viz.arguments import check_instance, check_integer
from alibi_viz.lab.evaluation import window_losses
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel

PLACES, CHOICES = 8, 8  # bytes in a passage, and symbols to choose from for each
FIRST_SYMBOL, AGAIN = 128, 64  # first occurrences use byte values from 128 to 191, second ones from 192 to 255
SHORTEST, LONGEST = 10, 1016  # distances between the starts of the two occurrences, in bytes; both fit into 1,024
# The density of the distances d is proportional to d^-2 in training, because models learn from the many short ones, and
# to 1 / d in validation, where each octave then has about as many.
TRAIN_POWER, VALIDATION_POWER = 2, 1
GAP = (1, 5)  # bytes of background after a second occurrence: the smallest and the largest number
TRAIN_BYTES, VALIDATION_BYTES = 1_000_000, 150_000  # of noise
MIN_BYTES = 16_384  # of a validation part: a few passages that come back after several hundred bytes


class Recurrence(NamedTuple):
    """The second occurrence of a passage: where it starts, how far before that the first one starts, and its bytes."""

    position: int
    distance: int
    length: int


@dataclass(frozen=True, repr=False, eq=False)
class PassagesText(Text):
    """A text made by `passages_text`.

    Attributes:
        recurrences: those in the training part and those in the validation part, each in the order of the text.
        near, far: the shortest and the longest context, in bytes, from which recurrences are predicted in tests. A
            model trained on windows of `near` bytes has never seen one come back from further away.
        chance: bits per byte of second occurrences without recall.
    """

    recurrences: tuple[list[Recurrence], list[Recurrence]] = ([], [])
    near: ClassVar[int] = 64
    far: ClassVar[int] = 1024
    chance: ClassVar[float] = math.log2(CHOICES)


def passages_text(background: Text | None = None, *, seed: int = 0) -> PassagesText:
    """A text with passages that come back after 10 to 1,016 bytes; in its training part, mostly after few.

    Args:
        background: what is between the passages. Its training part and its validation part are each used once, for
            those of the new text. Bytes of 128 and above are removed, because they are symbols here. None for random
            lowercase letters.
        seed: of passages, distances, gaps and letters. Equal seeds give equal bytes.

    Raises ValueError if the validation part would have fewer than 16,384 bytes with its passages.

    >>> from alibi_viz.lab.passages import passages_text
    >>> text = passages_text()
    >>> position, distance, length = text.recurrences[1][0]
    >>> first, second = (text.validation[start : start + length] for start in (position - distance, position))
    >>> bool((second - first == 64).all())
    True
    """
    if background is not None:
        check_instance("background", background, Text)
    check_integer("seed", seed, 0)
    parts, recurrences = [], []
    for number, (size, power) in enumerate(((TRAIN_BYTES, TRAIN_POWER), (VALIDATION_BYTES, VALIDATION_POWER))):
        generator = np.random.default_rng((seed, number))
        if background is None:
            filler = generator.integers(ord("a"), ord("z") + 1, size, dtype=np.uint8)
        else:
            filler = (background.train, background.validation)[number].numpy()
            filler = filler[filler < FIRST_SYMBOL]
        data, found = _insert_passages(filler, power, generator)
        parts.append(torch.from_numpy(data))
        recurrences.append(found)
    if len(parts[1]) < MIN_BYTES:
        raise ValueError(
            f"{background.name if background else 'noise'} is too short to insert passages: its validation part has "
            f"{len(parts[1]):,} bytes with them, at least {MIN_BYTES:,} are needed"
        )
    name = f"passages in {background.name if background else 'noise'}"
    return PassagesText(name, parts[0], parts[1], recurrences=(recurrences[0], recurrences[1]))


def _insert_passages(
    filler: np.ndarray, power: int, generator: np.random.Generator
) -> tuple[np.ndarray, list[Recurrence]]:
    """Insert passages into a background until it is used up: uint8 [bytes], and the recurrences."""
    pieces: list[np.ndarray] = []
    recurrences: list[Recurrence] = []
    used = length = 0
    while True:
        passage = FIRST_SYMBOL + CHOICES * np.arange(PLACES) + generator.integers(CHOICES, size=PLACES)
        gap = int(generator.integers(GAP[0], GAP[1] + 1))
        distance = _draw_distance(power, generator)
        between = distance - PLACES
        if used + gap + between > len(filler):
            return np.concatenate([np.empty(0), *pieces]).astype(np.uint8), recurrences
        pieces += [filler[used : used + gap], passage, filler[used + gap : used + gap + between], passage + AGAIN]
        recurrences.append(Recurrence(length + gap + distance, distance, PLACES))
        used += gap + between
        length += gap + distance + PLACES


def _draw_distance(power: int, generator: np.random.Generator) -> int:
    """Draw from a density proportional to d^-power between the two ends, for a power of 1 or 2, by inversion."""
    if power == 1:
        return round(math.exp(generator.uniform(math.log(SHORTEST), math.log(LONGEST))))
    return round(1 / generator.uniform(1 / LONGEST, 1 / SHORTEST))


def recall_losses(model: LanguageModel, text: Text, recurrences: Sequence[Recurrence], context: int) -> Tensor:
    """Bits for each byte of the second occurrences but the first byte, float32 [recurrences, bytes - 1].

    The last byte is predicted from exactly `context` bytes, and a byte n places before it from n bytes fewer. So the
    first occurrence is visible as a whole if distance + length <= context, and no part of it if distance > context.
    The first byte is left out, because a model cannot know where a passage comes back. All values are NaN where the
    model isn't defined.

    Args:
        model, text: a model with a vocabulary of 256, and a text whose validation part the positions refer to.
        recurrences: at least one, all of the same length, each with at least `context` bytes before its last byte.

    Raises ValueError otherwise.
    """
    lengths = {each.length for each in recurrences}
    if len(lengths) != 1:
        raise ValueError(f"recurrences must have one length, got {len(recurrences)} with lengths {sorted(lengths)}")
    (length,) = lengths
    lasts = torch.tensor([each.position for each in recurrences]) + length - 1
    if int(lasts.min()) < context or length > context:
        raise ValueError(
            f"context {context} must be at least the length {length}, and at most the position of each last byte, "
            f"of which the smallest is {int(lasts.min())}"
        )
    windows = text.validation[lasts[:, None] + torch.arange(-context, 1)]
    return window_losses(model, windows, last=length - 1)
