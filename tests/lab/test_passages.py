"""Passages come back at the recorded distances, in a second alphabet, and the two parts share nothing."""

import math

import pytest
import torch

from alibi_viz import lab
from alibi_viz.lab.passages import AGAIN, CHOICES, FIRST_SYMBOL, LONGEST, PLACES, SHORTEST, recall_losses
from tests.lab.copier import Copier

KINDS = {"passages": lab.passages_text, "text with passages": lambda: lab.passages_text(lab.load_text())}


@pytest.fixture(scope="module", params=KINDS)
def text(request):
    return KINDS[request.param]()


def parts(text):
    return text.train, text.validation


def test_every_recorded_passage_comes_back_one_alphabet_higher(text):
    for data, recurrences in zip(parts(text), text.recurrences, strict=True):
        assert len(recurrences) > 200
        for position, distance, length in recurrences:
            first = data[position - distance : position - distance + length]
            assert torch.equal(data[position : position + length], first + AGAIN)
            assert SHORTEST <= distance <= LONGEST


def test_symbols_occur_in_recorded_passages_only_and_at_one_place_each(text):
    for data, recurrences in zip(parts(text), text.recurrences, strict=True):
        assert int((data >= FIRST_SYMBOL).sum()) == 2 * PLACES * len(recurrences)
        starts = torch.tensor([position for position, _, _ in recurrences])
        passages = data[starts[:, None] + torch.arange(PLACES)].int() - FIRST_SYMBOL - AGAIN
        assert torch.equal(passages // CHOICES, torch.arange(PLACES).expand_as(passages))
        assert len(passages.unique()) == PLACES * CHOICES


def test_parts_share_no_passage_beyond_chance_and_no_background():
    text = lab.passages_text(lab.load_text())
    kept = [part[part < FIRST_SYMBOL] for part in parts(text)]
    for mine, theirs in zip(kept, (lab.load_text().train, lab.load_text().validation), strict=True):
        ordinary = theirs[theirs < FIRST_SYMBOL]
        assert len(mine) > 0.95 * len(ordinary)
        assert torch.equal(mine, ordinary[: len(mine)]), (
            "the background is the same part of the ordinary text, in order"
        )
    passages = [
        {bytes(part[start : start + PLACES].tolist()) for start, _, _ in recurrences}
        for part, recurrences in zip(parts(text), text.recurrences, strict=True)
    ]
    expected = len(text.recurrences[0]) * len(text.recurrences[1]) / CHOICES**PLACES  # 0.35 pairs
    assert len(passages[0] & passages[1]) <= 2 + 3 * expected


def test_equal_seeds_give_equal_bytes_and_other_seeds_give_others():
    text = lab.passages_text()
    assert lab.passages_text().fingerprint == text.fingerprint == lab.passages_text(seed=0).fingerprint
    assert lab.passages_text(seed=1).fingerprint != text.fingerprint


def test_every_octave_of_distances_has_recurrences(text):
    octaves = torch.tensor([math.floor(math.log2(distance)) for _, distance, _ in text.recurrences[1]])
    assert octaves.unique().tolist() == [3, 4, 5, 6, 7, 8, 9]
    assert octaves.bincount()[3:].min() >= 15


def test_a_background_that_is_too_short_raises():
    with pytest.raises(ValueError, match=r"your text is too short to insert passages: its validation part has 0 bytes"):
        lab.passages_text(lab.load_text("to be or not to be"))


def test_recall_losses_see_a_first_occurrence_only_within_the_context():
    text = lab.passages_text()
    far = next(each for each in text.recurrences[1] if each.position > 1024 and each.distance > 64)
    for context, bits in ((far.distance - 1, 3.0), (far.distance + far.length, 0.0)):
        losses = recall_losses(Copier(), text, [far], context)
        assert torch.allclose(losses, torch.full((1, far.length - 1), bits), atol=1e-3)


def test_recall_losses_refuse_contexts_that_do_not_fit():
    text = lab.passages_text()
    first = text.recurrences[1][:1]
    with pytest.raises(ValueError, match=r"context 1024 must be at least the length 8, and at most the position"):
        recall_losses(Copier(), text, first, 1024)
    with pytest.raises(ValueError, match="recurrences must have one length, got 0"):
        recall_losses(Copier(), text, [], 64)
