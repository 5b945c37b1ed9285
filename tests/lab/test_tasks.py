"""Each task asks what it should, can be learned with `train`, and has the chance level it states."""

import math

import pytest
import torch

from alibi_viz import lab
from alibi_viz.lab.tasks import MARK, NOISE, NOT_ASKED, SYMBOLS, TASKS, examples_at_once, task_samples
from alibi_viz.models import POSITIONS


def examples(name, distance, length, batch=64):
    """Pairs of inputs and targets, as lists of integers."""
    inputs, targets = TASKS[name].make(batch, distance, length, torch.Generator().manual_seed(1))
    assert inputs.shape == targets.shape == (batch, length)
    return zip(inputs.tolist(), targets.tolist(), strict=True)


@pytest.mark.parametrize("distance", [1, 5, 19])
def test_needle_has_one_value_and_asks_for_it_at_the_end(distance):
    for inputs, targets in examples("needle", distance, 20):
        (position,) = [i for i, token in enumerate(inputs) if token < SYMBOLS]
        assert position == 19 - distance
        assert inputs[-1] == MARK
        assert targets == [NOT_ASKED] * 19 + [inputs[position]]
        assert all(NOISE <= token < MARK for i, token in enumerate(inputs[:-1]) if i != position)


@pytest.mark.parametrize("distance", [1, 7])
def test_copy_asks_for_every_symbol_again(distance):
    for inputs, targets in examples("copy", distance, 2 * distance):
        symbols = inputs[:distance]
        assert inputs[distance] == MARK
        assert targets == [NOT_ASKED] * distance + symbols
        assert inputs[distance + 1 :] == symbols[:-1]  # no answer is among the inputs at the position that asks for it


def test_copy_refuses_a_length_other_than_twice_the_distance():
    with pytest.raises(ValueError, match="copying 7 symbols takes 14 tokens, got length 50"):
        TASKS["copy"].make(4, 7, 50, torch.Generator())


@pytest.mark.parametrize("distance", [1, 5, 18])
def test_induction_asks_what_followed_the_cue(distance):
    for inputs, targets in examples("induction", distance, 20):
        first, second = (i for i, token in enumerate(inputs) if token == MARK)
        assert second == 19
        assert second - (first + 1) == distance
        assert targets == [NOT_ASKED] * 19 + [inputs[first + 1]]


@pytest.mark.parametrize("name", TASKS)
def test_batches_are_reproducible_and_fit_into_the_length(name):
    task = TASKS[name]

    def first_batches(seed, count=30):
        stream = task.batches(24, 4, seed)
        return [next(stream) for _ in range(count)]

    for (inputs, targets), (again, _), (other, _) in zip(
        first_batches(0), first_batches(0), first_batches(1), strict=True
    ):
        assert torch.equal(inputs, again)
        assert inputs.shape == targets.shape
        assert inputs.shape[1] <= 24
        assert int(inputs.max()) < task.vocabulary
        assert inputs.shape != other.shape or not torch.equal(inputs, other)
    assert len({inputs.shape[1] for inputs, _ in first_batches(0)}) > 5  # various lengths


@pytest.mark.parametrize(("name", "total"), [("needle", 54_778), ("copy", 13_961), ("induction", 22_116)])
def test_batches_of_a_seed_never_change_because_published_results_depend_on_them(name, total):
    stream = TASKS[name].batches(24, 4, 7)
    assert sum(int(next(stream)[0].sum()) for _ in range(30)) == total


@pytest.mark.parametrize(("name", "distance"), [("needle", 23), ("copy", 12), ("induction", 22)])
def test_max_distance_is_the_largest_that_fits(name, distance):
    task = TASKS[name]
    assert task.max_distance(24) == distance
    assert task.min_length(distance) <= 24 < task.min_length(distance + 1)
    with pytest.raises(ValueError, match=rf"{name} needs a length of at least {task.min_length(1)}, got 1"):
        task.max_distance(1)


def test_task_samples_are_limited_by_tokens_and_at_least_16():
    needle = TASKS["needle"]
    assert [task_samples(needle, distance) for distance in (127, 255, 2047, 10**6)] == [256, 128, 16, 16]
    assert task_samples(needle, 2047, max_tokens=65_536) == 32


@pytest.mark.parametrize("name", TASKS)
def test_chance_is_the_accuracy_of_the_best_constant_guess(name):
    task = TASKS[name]
    _, targets = task.make(4000, 5, task.min_length(5), torch.Generator().manual_seed(0))
    counts = torch.bincount(targets[targets != NOT_ASKED], minlength=SYMBOLS)
    assert len(counts) == SYMBOLS
    assert task.chance == pytest.approx(float(counts.max() / counts.sum()), abs=0.015)


def test_needle_and_induction_can_be_learned():
    for name, steps in (("needle", 120), ("induction", 400)):
        task = TASKS[name]
        model = lab.make_model("kerple-log", vocabulary=task.vocabulary)
        losses = [step.loss for step in lab.train(model, task, length=24, steps=steps, learning_rate=4e-3)]
        assert losses[0] > math.log2(SYMBOLS) - 0.5
        assert lab.accuracy(model, task, 20) > 0.9


def test_accuracy_is_the_share_of_right_answers_where_one_is_asked():
    task = TASKS["copy"]
    model = lab.make_model("none", vocabulary=task.vocabulary)
    inputs, targets = task.make(10, 6, 12, torch.Generator().manual_seed(0))
    with torch.inference_mode():
        guesses = model(inputs).argmax(-1)
    right = sum(int(guesses[b, i] == targets[b, i]) for b in range(10) for i in range(6, 12))
    assert lab.accuracy(model, task, 6, samples=10, seed=0) == pytest.approx(right / 60)


@pytest.mark.parametrize("position", ["alibi", "t5", "forget"])
@pytest.mark.parametrize("name", TASKS)
def test_accuracy_is_the_same_in_batches_of_any_size(name, position, monkeypatch):
    task = TASKS[name]
    model = lab.make_model(position, vocabulary=task.vocabulary)
    at_once = lab.accuracy(model, task, 9, samples=50)
    monkeypatch.setattr("alibi_viz.lab.tasks.SHARED_BATCH_TOKENS", 60)
    monkeypatch.setattr("alibi_viz.lab.tasks.MAX_BATCH_TOKENS", 1)
    assert lab.accuracy(model, task, 9, samples=50) == at_once


def test_only_examples_that_share_a_bias_are_evaluated_in_large_batches():
    at_once = {name: examples_at_once(lab.make_model(name), 2048) for name in POSITIONS}
    assert {name for name, size in at_once.items() if size == 2} == {"forget", "stick-breaking", "cope"}
    assert {*at_once.values()} == {2, 32}
    assert examples_at_once(lab.make_model("forget"), 10_000) == 1


def test_accuracy_beyond_a_learned_table_is_nan():
    task = TASKS["needle"]
    model = lab.make_model("learned", vocabulary=task.vocabulary, max_length=16)
    assert math.isfinite(lab.accuracy(model, task, 15))
    assert math.isnan(lab.accuracy(model, task, 16))


def test_accuracy_refuses_numbers_below_1():
    task = TASKS["needle"]
    model = lab.make_model("alibi", vocabulary=task.vocabulary)
    with pytest.raises(ValueError, match="distance must be an integer of at least 1, got 0"):
        lab.accuracy(model, task, 0)
    with pytest.raises(ValueError, match="samples must be an integer of at least 1, got 0"):
        lab.accuracy(model, task, 3, samples=0)
