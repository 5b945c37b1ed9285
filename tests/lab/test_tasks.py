"""Floor 3: each exercise is what it says, can be learned through the same `train`, its chance level true."""

import math

import pytest
import torch

from alibi_viz import lab
from alibi_viz.lab.tasks import MARK, NOISE, NOT_ASKED, SYMBOLS, TASKS


def made(name, distance, length, batch=64):
    return TASKS[name].make(batch, distance, length, torch.Generator().manual_seed(1))


@pytest.mark.parametrize("distance", [1, 5, 19])
def test_needle_hides_one_value_and_asks_for_it_at_the_end(distance):
    inputs, targets = made("needle", distance, 20)
    for row, answers in zip(inputs.tolist(), targets.tolist(), strict=True):
        (where,) = [place for place, token in enumerate(row) if token < SYMBOLS]
        assert where == len(row) - 1 - distance
        assert row[-1] == MARK
        assert answers == [NOT_ASKED] * 19 + [row[where]]
        assert all(NOISE <= token < MARK for place, token in enumerate(row[:-1]) if place != where)


@pytest.mark.parametrize("distance", [1, 7])
def test_copy_asks_for_every_symbol_again(distance):
    inputs, targets = made("copy", distance, 50)
    assert inputs.shape[1] == 2 * distance
    for row, answers in zip(inputs.tolist(), targets.tolist(), strict=True):
        symbols, again = row[:distance], answers[distance:]
        assert row[distance] == MARK
        assert again == symbols
        assert answers[:distance] == [NOT_ASKED] * distance
        assert row[distance + 1 :] == symbols[:-1]  # what is asked for is never shown at the place that asks


@pytest.mark.parametrize("distance", [1, 5, 18])
def test_induction_asks_what_followed_the_cue(distance):
    inputs, targets = made("induction", distance, 20)
    for row, answers in zip(inputs.tolist(), targets.tolist(), strict=True):
        first, second = (place for place, token in enumerate(row) if token == MARK)
        assert second == 19
        assert second - (first + 1) == distance
        assert answers == [NOT_ASKED] * 19 + [row[first + 1]]


@pytest.mark.parametrize("name", TASKS)
def test_batches_repeat_with_their_seed_and_fit_into_the_length(name):
    task = TASKS[name]

    def first(seed, count=30):
        stream = task.batches(24, 4, seed)
        return [next(stream) for _ in range(count)]

    for (inputs, targets), (again, _), (other, _) in zip(first(0), first(0), first(1), strict=True):
        assert torch.equal(inputs, again)
        assert inputs.shape == targets.shape
        assert inputs.shape[1] <= 24
        assert int(inputs.max()) < task.vocabulary
        assert inputs.shape != other.shape or not torch.equal(inputs, other)
    assert len({inputs.shape[1] for inputs, _ in first(0)}) > 5  # many lengths


@pytest.mark.parametrize(("name", "distance"), [("needle", 23), ("copy", 12), ("induction", 22)])
def test_the_furthest_distance_that_fits(name, distance):
    task = TASKS[name]
    assert task.furthest(24) == distance
    assert task.needs(distance) <= 24 < task.needs(distance + 1)
    with pytest.raises(ValueError, match=rf"{name} needs a length of at least {task.needs(1)}, got 1"):
        task.furthest(1)


@pytest.mark.parametrize("name", TASKS)
def test_no_constant_guess_beats_the_chance_level(name):
    task = TASKS[name]
    _, targets = task.make(4000, 5, 20, torch.Generator().manual_seed(0))
    counts = torch.bincount(targets[targets != NOT_ASKED], minlength=SYMBOLS)
    assert len(counts) == SYMBOLS
    assert task.chance == pytest.approx(float(counts.max() / counts.sum()), abs=0.015)


def test_needle_and_induction_are_learned_through_train():
    torch.manual_seed(0)
    for name, steps in (("needle", 120), ("induction", 400)):
        task = TASKS[name]
        model = lab.make_model("kerple-log", vocabulary=task.vocabulary)
        losses = [step.loss for step in lab.train(model, task, length=24, steps=steps, learning_rate=4e-3)]
        assert losses[0] > math.log2(SYMBOLS) - 0.5
        assert lab.accuracy(model, task, 20) > 0.9


def test_accuracy_counts_the_asked_answers_only():
    task = TASKS["copy"]
    model = lab.make_model("none", vocabulary=task.vocabulary)
    inputs, targets = task.make(10, 6, 12, torch.Generator().manual_seed(0))
    with torch.inference_mode():
        guesses = model(inputs).argmax(-1)
    right = sum(int(guesses[b, i] == targets[b, i]) for b in range(10) for i in range(6, 12))
    assert lab.accuracy(model, task, 6, samples=10, seed=0) == pytest.approx(right / 60)


def test_accuracy_beyond_a_learned_table_is_not_defined():
    task = TASKS["needle"]
    model = lab.make_model("learned", vocabulary=task.vocabulary, max_length=16)
    assert math.isnan(lab.accuracy(model, task, 16))
    with pytest.raises(ValueError, match="distance must be a whole number from 1 up, got 0"):
        lab.accuracy(model, task, 0)
