"""Each task asks what it should, at the distance it should, and has the chance level it states."""

import math

import pytest
import torch

from alibi_viz import lab
from alibi_viz.data.tasks import MARK, NOISE, NOT_ASKED, SYMBOLS, TASKS
from alibi_viz.measure.task_accuracy import examples_at_once
from alibi_viz.models import POSITIONS
from tests.tables import SMALL

each_task = pytest.mark.parametrize("name", TASKS)


@pytest.mark.parametrize(
    ("name", "distance"), [("needle", 1), ("needle", 19), ("induction", 1), ("induction", 18)]
)
def test_needle_and_induction_ask_at_the_end_for_the_token_that_far_back(
    name: str, distance: int
) -> None:
    inputs, targets = TASKS[name].make(64, distance, 20, torch.Generator().manual_seed(1))
    answers = inputs[:, 19 - distance]
    assert (inputs[:, -1] == MARK).all() and (answers < SYMBOLS).all()
    assert (targets[:, :-1] == NOT_ASKED).all() and torch.equal(targets[:, -1], answers)
    if name == "needle":  # all else is noise
        assert ((inputs[:, :-1] >= NOISE) & (inputs[:, :-1] < MARK)).sum(1).tolist() == [18] * 64
    else:  # the cue is before the answer and at the end, and nowhere else
        assert (inputs[:, 18 - distance] == MARK).all() and (inputs == MARK).sum(1).tolist() == [
            2
        ] * 64


@pytest.mark.parametrize(("name", "total"), [("needle", 54_778), ("induction", 22_116)])
def test_batches_of_a_seed_never_change_and_fit_into_the_length(name: str, total: int) -> None:
    """Published results depend on them."""
    task, streams = TASKS[name], [TASKS[name].batches(24, 4, seed) for seed in (7, 8)]
    batches, others = ([next(stream) for _ in range(30)] for stream in streams)
    assert (
        sum(int(inputs.sum()) for inputs, _ in batches)
        == total
        != sum(int(inputs.sum()) for inputs, _ in others)
    )
    assert all(
        inputs.shape == targets.shape and inputs.shape[1] <= 24 for inputs, targets in batches
    )
    assert all(int(inputs.max()) < task.vocabulary for inputs, _ in batches)
    assert len({inputs.shape[1] for inputs, _ in batches}) > 5, "various lengths"


@each_task
def test_the_largest_distance_that_fits_is_found_and_too_short_lengths_are_refused(
    name: str,
) -> None:
    task, shortest = TASKS[name], {"needle": 2, "induction": 3}[name]
    assert (task.min_length(1), task.max_distance(shortest), task.max_distance(25)) == (
        shortest,
        1,
        26 - shortest,
    )
    with pytest.raises(
        ValueError, match=f"{name} needs a length of at least {shortest}, got {shortest - 1}"
    ):
        lab.accuracy(lab.make_model(vocabulary=task.vocabulary), task, shortest - 1)


@each_task
@pytest.mark.parametrize("position", ["alibi", "t5", "forget"])
def test_accuracy_is_the_share_of_right_answers(
    name: str, position: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = TASKS[name]
    model = lab.make_model(position, vocabulary=task.vocabulary, **SMALL)
    inputs, targets = task.make(
        50, 4, 9, torch.Generator().manual_seed(3)
    )  # with the answer in the middle
    with torch.inference_mode():
        right = (model(inputs).argmax(-1) == targets)[targets != NOT_ASKED]
    assert lab.accuracy(model, task, 9, samples=50, seed=3) == pytest.approx(
        float(right.float().mean())
    )
    assert lab.accuracy(model, task, 9) == lab.accuracy(model, task, 9, samples=256, seed=0)
    monkeypatch.setattr("alibi_viz.measure.task_accuracy.SHARED_BATCH_TOKENS", 60)
    monkeypatch.setattr("alibi_viz.measure.task_accuracy.MAX_BATCH_TOKENS", 1)
    assert lab.accuracy(model, task, 9, samples=50, seed=3) == pytest.approx(
        float(right.float().mean())
    )


def test_a_task_can_be_learned() -> None:
    task = TASKS["needle"]
    model = lab.make_model("kerple-log", vocabulary=task.vocabulary)
    with torch.device("meta"):  # a default device, such as a GPU
        rows = list(lab.train(model, task, length=24, steps=120, learning_rate=4e-3, device="cpu"))
    assert rows[0]["value"] > math.log2(SYMBOLS) - 0.5 and rows[0]["unit"] == "bits per answer"
    assert lab.accuracy(model, task, 20) > 0.9


def test_only_examples_that_share_a_bias_are_evaluated_in_large_batches() -> None:
    at_once = {name: examples_at_once(lab.make_model(name), 2048) for name in POSITIONS}
    assert {name for name, size in at_once.items() if size == 2} == {
        "forget",
    }
    assert {*at_once.values()} == {2, 32} and examples_at_once(
        lab.make_model("forget"), 10_000
    ) == 1
