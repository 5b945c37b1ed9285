"""The runs of a part, and how a search chooses their learning rates."""

from collections.abc import Mapping
from typing import Any

import pytest

from alibi_viz import lab
from alibi_viz.study import parts
from alibi_viz.study.parts import SEARCH_SEED, best_rates, part_runs, rate_table

# The runs


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> str:
    """A part with a run on the tales, one with a label of its own, a task, and another text."""
    runs = [
        lab.Run("alibi"),
        lab.Run("alibi", label="special"),
        lab.Run("alibi", task="needle"),
        lab.Run("alibi", task="python reference"),
    ]
    monkeypatch.setattr(parts, "PARTS", {"part": runs})
    return "part"


RATES = {
    ("text", "alibi"): 1.0,
    ("text", "special"): 3.0,
    ("needle", "alibi"): 2.0,
}


def test_a_run_takes_the_learning_rate_of_its_label_and_task(part: str) -> None:
    tales, special, needle, _ = part_runs(part, RATES, seeds=1)
    assert tales.learning_rate == 1.0
    assert special.learning_rate == 3.0
    assert needle.learning_rate == 2.0


def test_a_run_on_another_text_takes_the_learning_rate_of_the_tales(part: str) -> None:
    *_, python = part_runs(part, RATES, seeds=1)
    assert python.task == "python reference"
    assert python.learning_rate == 1.0


def test_runs_are_ordered_by_seed(part: str) -> None:
    seeds = [run.seed for run in part_runs(part, RATES, seeds=2)]
    assert seeds == [0, 0, 0, 0, 1, 1, 1, 1]


def test_there_are_eight_seeds(part: str) -> None:
    assert {run.seed for run in part_runs(part, RATES)} == set(range(8))


# The search


def test_the_search_tries_three_rates_for_each_run_on_the_tales_and_on_tasks(part: str) -> None:
    tried = [(run.task, run.label, run.learning_rate) for run in part_runs("search", {})]
    assert tried == [
        ("text", "alibi", 6e-3),
        ("text", "alibi", 1.2e-2),
        ("text", "alibi", 2.4e-2),
        ("text", "special", 6e-3),
        ("text", "special", 1.2e-2),
        ("text", "special", 2.4e-2),
        ("needle", "alibi", 2e-3),
        ("needle", "alibi", 4e-3),
        ("needle", "alibi", 8e-3),
    ]


def test_the_search_has_a_seed_that_no_other_part_uses(part: str) -> None:
    assert {run.seed for run in part_runs("search", {})} == {SEARCH_SEED}
    assert SEARCH_SEED not in {run.seed for run in part_runs(part, RATES)}


def record(
    label: str, rate: float, losses: Mapping[int, float], *, error: str | None = None
) -> dict[str, Any]:
    """A run of 100 steps with these training losses, {step: loss}."""
    rows = []
    for step, loss in losses.items():
        rows.append({"question": "training loss", "step": step, "value": loss})
    run = {"task": "text", "label": label, "learning_rate": rate, "steps": 100}
    return {"run": run, "error": error, "rows": rows}


# Only the last tenth of the steps counts.
GOOD_BEFORE_THE_LAST_TENTH = {50: 1.0, 90: 1.0, 95: 3.0, 100: 3.0}
GOOD_IN_THE_LAST_TENTH = {50: 9.0, 90: 9.0, 95: 2.0, 100: 2.2}


def test_the_training_loss_of_a_rate_is_the_mean_of_the_last_tenth_of_the_steps() -> None:
    table = rate_table(
        [
            record("a", 0.1, GOOD_BEFORE_THE_LAST_TENTH),
            record("a", 0.2, GOOD_IN_THE_LAST_TENTH),
        ]
    )
    assert table.loc[("text", "a")].tolist() == pytest.approx([3.0, 2.1])


def test_the_rate_with_the_lowest_training_loss_is_chosen() -> None:
    searched = [
        record("a", 0.1, GOOD_BEFORE_THE_LAST_TENTH),
        record("a", 0.2, GOOD_IN_THE_LAST_TENTH),
        record("b", 0.1, GOOD_IN_THE_LAST_TENTH),
        record("b", 0.2, GOOD_BEFORE_THE_LAST_TENTH),
    ]
    assert best_rates(searched) == {("text", "a"): 0.2, ("text", "b"): 0.1}


def test_of_rates_that_learn_equally_the_lowest_is_chosen() -> None:
    searched = [
        record("a", 0.2, GOOD_IN_THE_LAST_TENTH),
        record("a", 0.1, GOOD_IN_THE_LAST_TENTH),
    ]
    assert best_rates(searched) == {("text", "a"): 0.1}


def test_a_rate_with_which_training_diverged_is_not_chosen() -> None:
    searched = [
        record("a", 0.1, {}, error="diverged"),
        record("a", 0.2, {100: 7.0}),
    ]
    assert best_rates(searched) == {("text", "a"): 0.2}
