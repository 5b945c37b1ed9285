"""Texts in which passages come back at recorded distances, and the two questions about them, by reading the bytes."""

import math
from collections.abc import Iterator

import pytest
import torch

from alibi_viz import lab
from alibi_viz.lab.measures import MAX_SCORED
from alibi_viz.lab.passages import (
    AGAIN,
    CHOICES,
    FIRST_SYMBOL,
    LONGEST,
    PLACES,
    SHORTEST,
    PassagesText,
    passages_text,
    recall_losses,
)
from tests.lab.copier import Copier, Guesser

CONTEXTS = [64, 128, 256, 512, 1024]
FAR, RECALL = lab.find_question("far context"), lab.find_question("recall by distance")
TEXT = passages_text()


@pytest.fixture(scope="module", params=["noise", "tales"])
def text(request: pytest.FixtureRequest) -> PassagesText:
    return TEXT if request.param == "noise" else passages_text(lab.load_text())


def test_each_recorded_passage_comes_back_one_alphabet_higher_and_symbols_occur_nowhere_else(
    text: PassagesText,
) -> None:
    for data, recurrences in zip((text.train, text.validation), text.recurrences, strict=True):
        assert len(recurrences) > 200
        for position, distance, length in recurrences:
            first = data[position - distance : position - distance + length]
            assert torch.equal(data[position : position + length], first + AGAIN)
            assert SHORTEST <= distance <= LONGEST
        assert int((data >= FIRST_SYMBOL).sum()) == 2 * PLACES * len(recurrences)
        starts = torch.tensor([position for position, _, _ in recurrences])
        passages = data[starts[:, None] + torch.arange(PLACES)].int() - FIRST_SYMBOL - AGAIN
        assert torch.equal(passages // CHOICES, torch.arange(PLACES).expand_as(passages)), "at one place each"
    octaves = torch.tensor([math.floor(math.log2(distance)) for _, distance, _ in text.recurrences[1]])
    assert octaves.unique().tolist() == [3, 4, 5, 6, 7, 8, 9] and octaves.bincount()[3:].min() >= 15


def test_the_background_of_each_part_is_that_of_the_text_in_order() -> None:
    text, tales = passages_text(lab.load_text()), lab.load_text()
    for mine, theirs in ((text.train, tales.train), (text.validation, tales.validation)):
        kept = mine[mine < FIRST_SYMBOL]
        assert len(kept) > 0.95 * len(theirs)
        assert torch.equal(kept, theirs[: len(kept)])


def test_equal_seeds_give_equal_bytes_and_a_background_that_is_too_short_is_refused() -> None:
    assert passages_text(seed=0).fingerprint == TEXT.fingerprint != passages_text(seed=1).fingerprint
    with pytest.raises(ValueError, match="your text is too short to insert passages: its validation part has 0 bytes"):
        passages_text(lab.load_text("to be or not to be"))


def test_a_first_occurrence_is_seen_only_within_the_context() -> None:
    far = next(each for each in TEXT.recurrences[1] if each.position > 1024 and each.distance > 64)
    for context, bits in ((far.distance - 1, 3.0), (far.distance + far.length, 0.0)):
        losses = recall_losses(Copier(), TEXT, [far], context)
        assert torch.allclose(losses, torch.full((1, far.length - 1), bits), atol=1e-3)
    with pytest.raises(ValueError, match="context 1024 must be at least the length 8, and at most the position"):
        recall_losses(Copier(), TEXT, TEXT.recurrences[1][:1], 1024)


def far_passages() -> Iterator[tuple[int, int]]:
    """(position, distance) of second occurrences whose first one is beyond 64 bytes, found by reading the bytes."""
    first = 0
    for position, byte in enumerate(TEXT.validation.tolist()):
        if 128 <= byte < 136:
            first = position
        elif 192 <= byte < 200 and position + PLACES > 1024 and 64 < position - first <= 1024 - PLACES:
            yield position, position - first


def test_far_context_of_a_copier_is_the_share_of_bytes_out_of_sight_and_of_a_guesser_all() -> None:
    passages = list(far_passages())[:MAX_SCORED]
    for context, value, count in FAR.measure(Copier(), TEXT, 64, 16):
        start = PLACES - 1 - context  # of the window, from the start of the second occurrence
        hidden = [-distance + place < start for _, distance in passages for place in range(1, PLACES)]
        assert count == len(hidden) == len(passages) * (PLACES - 1)
        assert value == pytest.approx(3 * sum(hidden) / len(hidden), abs=1e-3)
        assert (value > 2.9) == (context == 64)
    assert list(FAR.measure(Guesser(), TEXT, 64, 16)) == [(c, 8.0, 7 * MAX_SCORED) for c in CONTEXTS]


def test_recall_by_distance_of_a_copier_ends_at_its_reach() -> None:
    values = {x: value for x, value, _ in RECALL.measure(Copier(reach=127), TEXT, 64, 16)}
    assert list(values) == [11, 23, 45, 91, 181, 362, 724]
    assert list(values.values()) == pytest.approx([0, 0, 0, 0, 3, 3, 3], abs=1e-3)
