"""Models that know how the texts with passages are made, so that tests know which loss to expect."""

import math

import torch
from torch import Tensor, nn

from alibi_viz.lab.passages import AGAIN, CHOICES, FIRST_SYMBOL, PLACES


class Copier(nn.Module):
    """Recall the last first occurrence in the context: 0 bits where it is visible, else log2(CHOICES) bits.

    Symbols more than `reach` bytes before the predicted byte are ignored. Elsewhere the next byte is a uniform guess.
    """

    def __init__(self, reach: float = math.inf) -> None:
        super().__init__()
        self.reach, self.head = reach, nn.Linear(1, 1)

    def is_defined_at(self, length: int) -> bool:
        return True

    def forward(self, tokens: Tensor, *, last: int | None = None) -> Tensor:
        logits = torch.zeros(*tokens.shape, 256)
        for row, sequence in enumerate(tokens.tolist()):
            latest: dict[int, tuple[int, int]] = {}  # {place: (position, symbol)} of first occurrences
            for position, token in enumerate(sequence):
                place = (token - FIRST_SYMBOL) % AGAIN // CHOICES
                if FIRST_SYMBOL <= token < FIRST_SYMBOL + AGAIN:
                    latest[place] = position, token
                elif token >= FIRST_SYMBOL + AGAIN and place + 1 < PLACES:
                    start = FIRST_SYMBOL + AGAIN + CHOICES * (place + 1)
                    logits[row, position, start : start + CHOICES] = 50.0
                    found = latest.get(place + 1)
                    if found and position + 1 - found[0] <= self.reach:
                        logits[row, position, found[1] + AGAIN] = 100.0
        return logits if last is None else logits[:, -last:]


class Guesser(Copier):
    """Give every byte the same probability."""

    def forward(self, tokens: Tensor, *, last: int | None = None) -> Tensor:
        return torch.zeros(len(tokens), last or tokens.shape[1], 256)
