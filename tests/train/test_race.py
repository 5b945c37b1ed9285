"""A race: the rows of several methods trained side by side, equal to those of each alone, and the
streams behind it."""

import math
import threading
import time
from collections.abc import Iterator
from copy import deepcopy
from threading import Barrier
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alibi_viz import lab
from alibi_viz.measure.table import TRAINING_LOSS, results_table
from alibi_viz.models import LanguageModel, Position
from alibi_viz.train.race import round_robin
from alibi_viz.train.training import limited_threads
from tests.tables import SMALL, curve, same_weights

TEXT, NEEDLE = lab.load_text(), lab.TASKS["needle"]
SHORT = {"length": 16, "checkpoints": 1, "lengths": [16], "targets": 64, **SMALL}


def race_threads() -> list[str]:
    return [
        thread.name for thread in threading.enumerate() if thread.name.startswith("alibi_viz race")
    ]


@pytest.fixture(params=[1, 2, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    with limited_threads(request.param):
        yield request.param
    assert race_threads() == []


def alone(
    method: str, source: lab.Text = TEXT, **given: Any
) -> tuple[LanguageModel, Iterator[dict[str, Any]]]:
    """An untrained model, and its training by `lab.train`. Consume it on one thread, as a race
    trains its models."""
    sizes = {"vocabulary": source.vocabulary, "max_length": given["length"], **SMALL}
    model = lab.make_model(method, seed=given["seed"], dropout=given.pop("dropout", 0.0), **sizes)
    return model, lab.train(model, source, **given)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_rows_and_models_equal_those_of_training_and_evaluating_alone_bit_for_bit(
    threads: int, dropout: float
) -> None:
    methods, xs = ["rotary", "alibi", "learned"], [16, 64]  # the last is not defined beyond 16
    chosen = {"length": 16, "steps": 10, "seed": 5, "batch_size": 4, "learning_rate": 0.01}
    state = torch.get_rng_state()
    race = lab.race(
        iter(methods),
        TEXT,
        lengths=xs,
        checkpoints=3,
        targets=512,
        dropout=dropout,
        **chosen,
        **SMALL,
    )
    rows = results_table(race)
    assert torch.equal(torch.get_rng_state(), state), "torch's generator is as it was"
    assert len(rows) == 3 * (10 + 3 * (len(xs) + 1))
    assert rows.loc[rows["question"] == TRAINING_LOSS, "method"].tolist() == methods * 10, (
        "they take steps in turn"
    )
    for method in methods:
        model, training = alone(method, dropout=dropout, **chosen)
        with limited_threads(1):
            for loss in training:
                step = loss["step"]
                assert curve(rows, TRAINING_LOSS, method=method)[step] == loss["value"]
                if step in (3, 7, 10):  # the documented checkpoints
                    tests = lab.loss_by_length(model, TEXT, xs, targets=512)
                    tested = curve(rows, "longer sequences", method=method, step=step)
                    assert list(tested) == xs
                    assert list(tested.values()) == pytest.approx(
                        list(tests.values()), abs=0, nan_ok=True
                    )
                    gap = curve(rows, "gap", method=method, step=step)[step]
                    assert gap == pytest.approx(tests[64] - tests[16], abs=0, nan_ok=True)
        assert same_weights(race.models[method], model)


def test_a_race_on_a_task_equals_training_and_accuracy(threads: int) -> None:
    chosen, xs = {"length": 8, "steps": 4, "seed": 2}, [8, 32, 1000, 2100]
    rows = results_table(
        lab.race(["alibi", "learned"], NEEDLE, checkpoints=1, lengths=xs, **chosen, **SMALL)
    )
    assert set(rows["task"]) == {"needle"} and set(rows["question"]) == {TRAINING_LOSS, "needle"}
    model, training = alone("alibi", NEEDLE, **chosen)
    with limited_threads(1):
        assert list(curve(rows, TRAINING_LOSS, method="alibi").values()) == [
            row["value"] for row in training
        ]
    assert set(rows.loc[rows["question"] == TRAINING_LOSS, "unit"]) == {"bits per answer"}
    tested = curve(rows, "needle", method="alibi")
    counts = rows.query("question == 'needle' and method == 'alibi'")["count"]
    assert dict(zip(tested, counts, strict=True)) == {8: 256, 32: 256, 1000: 32, 2100: 16}
    assert tested[32] == lab.accuracy(model, NEEDLE, 32)
    assert [
        x for x, value in curve(rows, "needle", method="learned").items() if not math.isnan(value)
    ] == [8]


def test_models_are_those_of_the_rows_so_far_although_others_are_ahead_and_a_closed_race_ends(
    threads: int,
) -> None:
    """The references train before the race: changing torch's number of threads meanwhile may change
    rounding in it."""
    methods, chosen = ["alibi", "none", "rotary"], {"steps": 50, "seed": 1}
    values: dict[tuple[str, int], float] = {}
    weights: dict[tuple[str, int], LanguageModel] = {}
    for method in methods:
        model, stream = alone(method, length=16, **chosen)
        weights[method, 0] = deepcopy(model)
        with limited_threads(1):
            for step, row in zip(range(1, 6), stream, strict=False):
                values[method, step], weights[method, step] = row["value"], deepcopy(model)
    race, done = lab.race(methods, TEXT, **chosen, **SHORT), dict.fromkeys(methods, 0)
    for row in race:
        done[row["method"]] = row["step"]
        assert row["tokens_per_second"] > 0 and row["value"] == values[row["method"], row["step"]]
        assert all(
            same_weights(race.models[method], weights[method, step])
            for method, step in done.items()
        )
        if row["step"] == 4 and row["method"] == "none":
            break
    race.close()
    assert race_threads() == [] and next(race, None) is None
    assert all(
        same_weights(race.models[method], weights[method, step]) for method, step in done.items()
    )


class NanBeyond32(Position):
    def embed(self, tokens: torch.Tensor, start: int = 0) -> torch.Tensor:
        return tokens if tokens.shape[1] <= 32 else tokens * math.nan


def test_an_error_in_training_names_its_method(threads: int) -> None:
    race = lab.race(["alibi", "none"], TEXT, **{**SHORT, "steps": 9, "learning_rate": 1e30})
    with pytest.raises(lab.TrainingDiverged, match=r"^alibi: the loss became .* at step \d+ of 9"):
        list(race)
    assert next(race, None) is None, "the race is over"


def test_an_error_in_a_test_names_its_method_and_length(threads: int) -> None:
    race = lab.race(["alibi", NanBeyond32], TEXT, **{**SHORT, "steps": 9, "lengths": [32, 64]})
    methods = []
    message = "^NanBeyond32: after step 9 the loss at length 64"
    with pytest.raises(lab.TrainingDiverged, match=message):
        for row in race:
            methods.append(row["method"])
    # Its nine steps, and its loss at length 32.
    assert methods.count("NanBeyond32") == 10
    assert next(race, None) is None, "the race is over"


@pytest.mark.parametrize(
    ("methods", "source", "given", "message"),
    [
        pytest.param([], TEXT, {}, "one or more different names", id="no method"),
        pytest.param(
            ["alibi", "none", "alibi"], TEXT, {}, "one or more different names", id="repeated"
        ),
        pytest.param(
            ["alibi"],
            lab.load_text("y" * 1000),
            {},
            "too short to test at length 1,024",
            id="short text",
        ),
        pytest.param(
            ["alibi"],
            TEXT,
            {"lengths": [32, 0]},
            "lengths must be an integer of at least 1, got 0",
            id="length 0",
        ),
        pytest.param(
            ["alibi"],
            NEEDLE,
            {"lengths": []},
            r"lengths must have at least one integer, got \[\]",
            id="no lengths",
        ),
    ],
)
def test_what_can_not_be_raced_is_refused_at_the_call(
    methods: Any, source: Any, given: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        lab.race(methods, source, **given)


def test_what_a_caller_draws_and_changes_meanwhile_has_no_effect() -> None:
    settings = {**SHORT, "steps": 6, "dropout": 0.2}
    with limited_threads(2):
        expected = [row["value"] for row in lab.race(["alibi", "none"], TEXT, **settings)]

        values = []
        for row in lab.race(["alibi", "none"], TEXT, **settings):
            values.append(row["value"])
            for _ in range(3000):  # longer than a step of another thread would take
                torch.rand(9)
            del row["step"]
    assert values == expected


def stream(name: int, items: int, pause: float) -> Iterator[tuple[int, int]]:
    for item in range(items):
        time.sleep(pause)
        yield name, item


@settings(max_examples=30)
@given(st.lists(st.integers(0, 5), max_size=4), st.integers(1, 4), st.sampled_from([0.0, 0.002]))
def test_items_come_in_turn_by_any_threads_from_slow_streams(
    sizes: list[int], threads: int, pause: float
) -> None:
    streams = [stream(name, items, pause * (name % 2)) for name, items in enumerate(sizes)]
    assert list(round_robin(streams, threads)) == [
        (name, item)
        for item in range(max(sizes, default=0))
        for name, items in enumerate(sizes)
        if item < items
    ]
    assert race_threads() == []


def test_as_many_streams_as_threads_work_at_once() -> None:
    both_work = Barrier(2)

    def work(name: str) -> Iterator[str]:
        for _ in range(3):
            both_work.wait()  # for ever, if the other stream waited for its turn
            yield name

    items = list(round_robin([work("a"), work("b")], threads=2))
    assert items == ["a", "b"] * 3


def test_one_thread_works_on_one_stream_at_a_time() -> None:
    working: list[str] = []
    most_at_once = 0

    def work(name: str) -> Iterator[str]:
        nonlocal most_at_once
        for _ in range(5):
            working.append(name)
            most_at_once = max(most_at_once, len(working))
            time.sleep(0.001)  # another stream could begin now
            working.remove(name)
            yield name

    list(round_robin([work(name) for name in "abcd"], threads=1))
    assert most_at_once == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_no_stream_is_more_than_one_item_ahead(threads: int) -> None:
    made = dict.fromkeys("abcd", 0)

    def work(name: str) -> Iterator[tuple[str, int]]:
        for number in range(1, 6):
            made[name] = number
            yield name, number

    for name, number in round_robin([work(name) for name in made], threads):
        time.sleep(0.01)  # the others could run ahead now
        assert made[name] == number, "this stream waits until the caller has its item"
        assert max(made.values()) <= number + 1


@pytest.mark.parametrize("threads", [1, 2])
def test_streams_have_one_torch_thread_and_the_caller_keeps_its_own(threads: int) -> None:
    def work() -> Iterator[int]:
        yield torch.get_num_threads()

    with limited_threads(2):
        assert list(round_robin([work(), work(), work()], threads)) == [1, 1, 1]
        assert torch.get_num_threads() == 2


def test_nothing_works_before_the_first_item_is_asked_for() -> None:
    round_robin([stream(0, items=3, pause=0)], threads=2)
    assert race_threads() == []


def test_closed_streams_end_with_the_items_in_work() -> None:
    streams = [stream(name, items=1000, pause=0.003) for name in range(3)]
    items = round_robin(streams, threads=2)
    next(items)
    items.close()
    assert race_threads() == []
    for ended in streams:
        _, number = next(ended)
        assert number <= 1, "only its first item was made, or none"
