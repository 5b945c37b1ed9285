"""Each task asks what it should, at the distance it should, and has the chance level it states."""

import math
from itertools import islice

import pytest
import torch

from alibi_viz import lab
from alibi_viz.data.tasks import MARK, NOISE, NOT_ASKED, SYMBOLS, TASKS
from alibi_viz.measure.task_accuracy import accuracy, examples_at_once
from alibi_viz.models import POSITIONS
from tests.tables import SMALL

each_task = pytest.mark.parametrize("name", TASKS)


@pytest.mark.parametrize(
    ("name", "distance"), [("needle", 1), ("needle", 19), ("induction", 1), ("induction", 18)]
)
def test_needle_and_induction_ask_at_the_end_for_the_token_that_far_back(name, distance):
    inputs, targets = TASKS[name].make(64, distance, 20, torch.Generator().manual_seed(1))
    answers = inputs[:, 19 - distance]
    assert (inputs[:, -1] == MARK).all()
    assert (answers < SYMBOLS).all()
    assert torch.equal(targets[:, -1], answers)
    assert (targets[:, :-1] == NOT_ASKED).all()


@pytest.mark.parametrize("distance", [1, 19])
def test_all_but_the_needle_and_the_mark_is_noise(distance):
    inputs, _ = TASKS["needle"].make(64, distance, 20, torch.Generator().manual_seed(1))
    is_noise = (inputs >= NOISE) & (inputs < MARK)
    assert is_noise.sum(1).tolist() == [18] * 64


@pytest.mark.parametrize("distance", [1, 18])
def test_the_cue_is_before_the_answer_and_at_the_end_and_nowhere_else(distance):
    inputs, _ = TASKS["induction"].make(64, distance, 20, torch.Generator().manual_seed(1))
    for example in inputs:
        assert (example == MARK).nonzero().flatten().tolist() == [18 - distance, 19]


def first_batches(name, seed):
    return list(islice(TASKS[name].batches(length=24, batch_size=4, seed=seed), 30))


@pytest.mark.parametrize(("name", "total"), [("needle", 54_778), ("induction", 22_116)])
def test_batches_of_a_seed_never_change(name, total):
    """Published results depend on them."""
    assert sum(int(inputs.sum()) for inputs, _ in first_batches(name, seed=7)) == total
    assert sum(int(inputs.sum()) for inputs, _ in first_batches(name, seed=8)) != total


@each_task
def test_batches_have_various_lengths_that_fit(name):
    batches = first_batches(name, seed=7)
    for inputs, targets in batches:
        assert inputs.shape == targets.shape
        assert inputs.shape[1] <= 24
        assert int(inputs.max()) < TASKS[name].vocabulary
    assert len({inputs.shape[1] for inputs, _ in batches}) > 5


@pytest.mark.parametrize(
    ("name", "shortest", "distance"), [("needle", 2, 24), ("induction", 3, 23)]
)
def test_the_largest_distance_that_fits_is_found(name, shortest, distance):
    task = TASKS[name]
    assert task.min_length(1) == shortest
    assert task.max_distance(shortest) == 1
    assert task.max_distance(25) == distance


@pytest.mark.parametrize(("name", "shortest"), [("needle", 2), ("induction", 3)])
def test_a_length_without_room_for_an_example_is_refused(name, shortest):
    task = TASKS[name]
    model = lab.make_model(vocabulary=task.vocabulary)
    message = f"{name} needs a length of at least {shortest}, got {shortest - 1}"
    with pytest.raises(ValueError, match=message):
        accuracy(model, task, shortest - 1)


@each_task
@pytest.mark.parametrize("position", ["alibi", "t5", "forget"])
def test_accuracy_is_the_share_of_right_answers_in_batches_of_any_size(name, position, monkeypatch):
    task = TASKS[name]
    model = lab.make_model(position, vocabulary=task.vocabulary, **SMALL)
    # With the answer in the middle
    inputs, targets = task.make(50, 4, 9, torch.Generator().manual_seed(0))
    with torch.inference_mode():
        right = (model(inputs).argmax(-1) == targets)[targets != NOT_ASKED]
    expected = pytest.approx(float(right.float().mean()))
    assert accuracy(model, task, 9, samples=50) == expected

    monkeypatch.setattr("alibi_viz.measure.task_accuracy.SHARED_BATCH_TOKENS", 60)
    monkeypatch.setattr("alibi_viz.measure.task_accuracy.MAX_BATCH_TOKENS", 1)
    assert accuracy(model, task, 9, samples=50) == expected


def test_a_task_can_be_learned():
    task = TASKS["needle"]
    model = lab.make_model("kerple-log", vocabulary=task.vocabulary)
    with torch.device("meta"):  # a default device, such as a GPU
        rows = list(lab.train(model, task, length=24, steps=120, learning_rate=4e-3, device="cpu"))
    assert rows[0]["unit"] == "bits per answer"
    assert rows[0]["value"] > math.log2(SYMBOLS) - 0.5, "it starts at the level of guessing"
    assert accuracy(model, task, 20) > 0.9


def test_only_examples_that_share_a_bias_are_evaluated_in_large_batches():
    batch_sizes = {name: examples_at_once(lab.make_model(name), 2048) for name in POSITIONS}
    own_bias_or_weights = {"forget"}
    for name, batch_size in batch_sizes.items():
        assert batch_size == (2 if name in own_bias_or_weights else 32), name


def test_a_batch_has_at_least_one_example():
    assert examples_at_once(lab.make_model("forget"), 10_000) == 1
