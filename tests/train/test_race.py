"""A race: the rows of several methods trained side by side, equal to those of each alone, and the
streams behind it."""

import math
import threading
from concurrent.futures import Executor, Future
from copy import deepcopy
from functools import cache
from itertools import islice
from threading import Barrier, Event
from typing import NamedTuple

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alibi_viz import lab
from alibi_viz.measure.table import TRAINING_LOSS, results_table
from alibi_viz.measure.task_accuracy import accuracy
from alibi_viz.models import LanguageModel, Position
from alibi_viz.train.race import round_robin
from alibi_viz.train.training import limited_threads
from tests.rows import each_case
from tests.tables import SMALL, curve, same_weights

TEXT = lab.load_text()
NEEDLE = lab.TASKS["needle"]
DEADLINE = 600  # seconds until a test gives up waiting for a thread: no result depends on them


def race_threads():
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("alibi_viz race")]


# A race equals training and testing each model alone, bit for bit

METHODS = ["rotary", "alibi", "learned"]
TESTED = [16, 64]  # "learned" is not defined at the second
CHECKPOINTS = [3, 7, 10]
TRAINING = {"length": 16, "steps": 10, "seed": 5, "batch_size": 4, "learning_rate": 0.01}


class Alone(NamedTuple):
    """One method, trained by `lab.train` on one thread, as a race trains its models."""

    losses: dict[int, float]  # {step: bits per byte}
    tests: dict[int, dict[int, float]]  # {checkpoint: {length: bits per byte}}
    model: LanguageModel  # after the last step


@cache
def alone(method, dropout):
    model = lab.make_model(method, seed=5, max_length=16, dropout=dropout, **SMALL)
    trained = Alone({}, {}, model)
    with limited_threads(1):
        for row in lab.train(model, TEXT, **TRAINING):
            step = row["step"]
            trained.losses[step] = row["value"]
            if step in CHECKPOINTS:
                trained.tests[step] = lab.loss_by_length(model, TEXT, TESTED, targets=512)
    return trained


class Raced(NamedTuple):
    """What a race has given, and what it has left behind."""

    rows: pd.DataFrame
    models: dict[str, LanguageModel]
    dropout: float
    random_states: tuple[torch.Tensor, torch.Tensor]  # of torch's generator, before and after
    threads_left: list[str]


@pytest.fixture(scope="module", params=[(1, 0.0), (2, 0.2)], ids=["1 thread", "2 threads, dropout"])
def raced(request):
    threads, dropout = request.param
    before = torch.get_rng_state()
    with limited_threads(threads):
        race = lab.race(
            iter(METHODS),
            TEXT,
            lengths=TESTED,
            checkpoints=3,
            targets=512,
            dropout=dropout,
            **TRAINING,
            **SMALL,
        )
        rows = results_table(race)
    after = torch.get_rng_state()
    return Raced(rows, race.models, dropout, (before, after), race_threads())


def test_methods_take_steps_in_turn(raced):
    of_training = raced.rows[raced.rows["question"] == TRAINING_LOSS]
    assert of_training["method"].tolist() == METHODS * 10


@pytest.mark.parametrize("method", METHODS)
def test_losses_are_those_of_training_alone(raced, method):
    losses = curve(raced.rows, TRAINING_LOSS, method=method)
    assert losses == alone(method, raced.dropout).losses


@pytest.mark.parametrize("method", METHODS)
def test_tests_at_checkpoints_are_those_of_the_model_alone(raced, method):
    for step in CHECKPOINTS:
        tested = curve(raced.rows, "longer sequences", method=method, step=step)
        expected = alone(method, raced.dropout).tests[step]
        assert tested == pytest.approx(expected, abs=0, nan_ok=True), step


@pytest.mark.parametrize("method", METHODS)
def test_gap_is_the_loss_at_four_times_the_length_less_that_at_the_length(raced, method):
    tests = alone(method, raced.dropout).tests
    expected = {step: tests[step][64] - tests[step][16] for step in CHECKPOINTS}
    gaps = curve(raced.rows, "gap", method=method)
    assert gaps == pytest.approx(expected, abs=0, nan_ok=True)


def test_there_are_no_other_rows(raced):
    rows_of_a_test = len(TESTED) + 1  # the gap
    rows_of_a_method = 10 + len(CHECKPOINTS) * rows_of_a_test
    assert len(raced.rows) == len(METHODS) * rows_of_a_method


@pytest.mark.parametrize("method", METHODS)
def test_models_are_those_of_training_alone(raced, method):
    assert same_weights(raced.models[method], alone(method, raced.dropout).model)


def test_race_leaves_the_generator_of_torch_as_it_was(raced):
    before, after = raced.random_states
    assert torch.equal(after, before)


def test_race_leaves_no_thread(raced):
    assert raced.threads_left == []


# A race on a task


@pytest.fixture(scope="module")
def raced_on_task():
    """The rows of a race on a task, in which models are tested once, after the last step."""
    with limited_threads(2):
        race = lab.race(
            ["alibi", "learned"],
            NEEDLE,
            length=8,
            steps=4,
            seed=2,
            checkpoints=1,
            lengths=[8, 32, 1000, 2100],
            **SMALL,
        )
        return results_table(race)


@cache
def alone_on_task():
    """The training losses of alibi, and its accuracy at length 32."""
    model = lab.make_model("alibi", seed=2, vocabulary=NEEDLE.vocabulary, max_length=8, **SMALL)
    with limited_threads(1):
        losses = [row["value"] for row in lab.train(model, NEEDLE, length=8, steps=4, seed=2)]
        return losses, accuracy(model, NEEDLE, 32)


def test_losses_on_a_task_are_those_of_training_alone(raced_on_task):
    losses = curve(raced_on_task, TRAINING_LOSS, method="alibi")
    expected, _ = alone_on_task()
    assert list(losses.values()) == expected


def test_accuracy_on_a_task_is_that_of_the_model_alone(raced_on_task):
    _, expected = alone_on_task()
    assert curve(raced_on_task, "needle", method="alibi")[32] == expected


def test_rows_on_a_task_name_it(raced_on_task):
    assert set(raced_on_task["task"]) == {"needle"}
    assert set(raced_on_task["question"]) == {TRAINING_LOSS, "needle"}


def test_training_loss_on_a_task_is_in_bits_per_answer(raced_on_task):
    of_training = raced_on_task[raced_on_task["question"] == TRAINING_LOSS]
    assert set(of_training["unit"]) == {"bits per answer"}


def test_long_examples_are_fewer(raced_on_task):
    tests = raced_on_task.query("question == 'needle' and method == 'alibi'")
    counts = dict(zip(tests["x"], tests["count"], strict=True))
    assert counts == {8: 256, 32: 256, 1000: 32, 2100: 16}


def test_accuracy_is_nan_where_a_method_is_not_defined(raced_on_task):
    accuracy = curve(raced_on_task, "needle", method="learned")
    assert [length for length, value in accuracy.items() if not math.isnan(value)] == [8]


# While it runs

SHORT = {"length": 16, "checkpoints": 1, "lengths": [16], "targets": 64, **SMALL}


@pytest.fixture(params=[1, 2], ids=["1 thread", "2 threads"])
def threads(request):
    with limited_threads(request.param):
        yield request.param
    assert race_threads() == []


@cache
def snapshots(method):
    """The model before its first step, and after each of five.

    They are made before a race: another number of torch's threads may change rounding in it.
    """
    model = lab.make_model(method, seed=1, max_length=16, **SMALL)
    models = [deepcopy(model)]
    with limited_threads(1):
        training = lab.train(model, TEXT, length=16, steps=50, seed=1)
        for _ in islice(training, 5):
            models.append(deepcopy(model))
    return models


def test_models_are_those_of_the_rows_so_far_although_others_are_ahead(threads):
    methods = ["alibi", "none", "rotary"]
    expected = {method: snapshots(method) for method in methods}
    race = lab.race(methods, TEXT, steps=50, seed=1, **SHORT)
    steps_done = dict.fromkeys(methods, 0)
    for row in islice(race, 5 * len(methods)):
        steps_done[row["method"]] = row["step"]
        for method, step in steps_done.items():
            assert same_weights(race.models[method], expected[method][step])
    race.close()


def test_closed_race_keeps_the_models_of_its_last_rows(threads):
    after_four_steps = snapshots("alibi")[4]
    after_three_steps = snapshots("none")[3]
    race = lab.race(["alibi", "none"], TEXT, steps=50, seed=1, **SHORT)
    list(islice(race, 7))
    race.close()
    assert same_weights(race.models["alibi"], after_four_steps)
    assert same_weights(race.models["none"], after_three_steps)


def test_closed_race_is_over(threads):
    race = lab.race(["alibi", "none"], TEXT, steps=50, **SHORT)
    next(race)
    race.close()
    assert next(race, None) is None
    assert race_threads() == []


def test_rows_tell_the_speed_of_training():
    race = lab.race(["alibi"], TEXT, steps=1, **SHORT)
    assert next(race)["tokens_per_second"] > 0


# Errors


class NanBeyond32(Position):
    def embed(self, tokens, start=0):
        return tokens if tokens.shape[1] <= 32 else tokens * math.nan


def test_error_in_training_names_its_method(threads):
    race = lab.race(["alibi", "none"], TEXT, **{**SHORT, "steps": 9, "learning_rate": 1e30})
    with pytest.raises(lab.TrainingDiverged, match=r"^alibi: the loss became .* at step \d+ of 9"):
        list(race)
    assert next(race, None) is None, "the race is over"


def test_error_in_a_test_names_its_method_and_length(threads):
    race = lab.race(["alibi", NanBeyond32], TEXT, **{**SHORT, "steps": 9, "lengths": [32, 64]})
    methods = []
    message = "^NanBeyond32: after step 9 the loss at length 64"
    with pytest.raises(lab.TrainingDiverged, match=message):
        for row in race:
            methods.append(row["method"])
    # Its nine steps, and its loss at length 32.
    assert methods.count("NanBeyond32") == 10
    assert next(race, None) is None, "the race is over"


@each_case(
    ("methods", "source", "given", "message"),
    {
        "no method": ([], TEXT, {}, "one or more with different names"),
        "repeated": (["alibi", "none", "alibi"], TEXT, {}, "one or more with different names"),
        "short text": (
            ["alibi"],
            lab.load_text("y" * 1000),
            {},
            "too short to test at length 1,024",
        ),
        "length 0": (
            ["alibi"],
            TEXT,
            {"lengths": [32, 0]},
            "lengths must be an integer of at least 1, got 0",
        ),
        "no lengths": (
            ["alibi"],
            NEEDLE,
            {"lengths": []},
            r"lengths must have at least one integer, got \[\]",
        ),
    },
)
def test_what_can_not_be_raced_is_refused_at_the_call(methods, source, given, message):
    with pytest.raises(ValueError, match=message):
        lab.race(methods, source, **given)


# What a caller does meanwhile has no effect


class AtOnce(Executor):
    """Does a task when it is submitted: what may be done ahead is then done, at once."""

    def __init__(self, *_, **options):
        """Takes what a pool of threads takes."""

    def submit(self, task, /, *arguments, **options):
        future = Future()
        future.set_result(task(*arguments, **options))
        return future


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr("alibi_viz.train.race.ThreadPoolExecutor", AtOnce)


def race_with_dropout():
    return lab.race(["alibi", "none"], TEXT, steps=6, dropout=0.2, **SHORT)


def test_random_numbers_that_a_caller_draws_change_no_loss():
    with limited_threads(2):
        expected = [row["value"] for row in race_with_dropout()]
        values = []
        for row in race_with_dropout():
            values.append(row["value"])
            torch.rand(9)
    assert values == expected


def test_model_that_draws_random_numbers_works_only_when_its_row_is_asked_for(
    at_once,
):
    class First(Position):
        is_random = True

        def embed(self, tokens, start=0):
            return tokens

    class Second(Position):
        is_random = True
        steps = 0

        def embed(self, tokens, start=0):
            if self.training:
                Second.steps += 1
            return tokens

    race = lab.race([First, Second], TEXT, steps=6, **SHORT)
    next(race)
    assert Second.steps == 0
    next(race)
    assert Second.steps == 1


def test_rows_that_a_caller_changes_change_no_row_after_them():
    expected = [row["value"] for row in lab.race(["alibi", "none"], TEXT, steps=6, **SHORT)]
    values = []
    for row in lab.race(["alibi", "none"], TEXT, steps=6, **SHORT):
        values.append(row["value"])
        row.clear()
    assert values == expected


# The streams behind a race


def numbered(name, items):
    """Items that tell which stream they are from, counted from 1."""
    for number in range(1, items + 1):
        yield name, number


@given(st.lists(st.integers(0, 5), max_size=4), st.integers(1, 4))
def test_items_come_in_turn_by_any_threads(sizes, threads):
    streams = [numbered(f"stream {position}", size) for position, size in enumerate(sizes)]
    rounds = []
    for number in range(1, max(sizes, default=0) + 1):
        for position, size in enumerate(sizes):
            if number <= size:
                rounds.append((f"stream {position}", number))
    assert list(round_robin(streams, threads)) == rounds
    assert race_threads() == []


def test_items_of_a_slow_stream_come_in_turn():
    fast_has_begun = Event()

    def slow():
        assert fast_has_begun.wait(DEADLINE)
        yield "slow"

    def fast():
        fast_has_begun.set()
        yield "fast"

    assert list(round_robin([slow(), fast()], threads=2)) == ["slow", "fast"]


def test_as_many_streams_as_threads_work_at_once():
    both_work = Barrier(2)

    def work(name):
        for _ in range(3):
            both_work.wait(DEADLINE)  # in vain, if the other stream waited for its turn
            yield name

    items = list(round_robin([work("a"), work("b")], threads=2))
    assert items == ["a", "b"] * 3


def test_one_thread_does_the_work_of_all_streams():
    def work():
        for _ in range(5):
            yield threading.current_thread()

    workers = set(round_robin([work() for _ in range(4)], threads=1))
    assert len(workers) == 1
    assert threading.current_thread() not in workers


class Counted:
    """Streams that tell how many items each has made."""

    def __init__(self, *names):
        self.made = dict.fromkeys(names, 0)
        self.streams = [self._stream(name) for name in names]

    def _stream(self, name):
        for number in range(1, 4):
            self.made[name] = number
            yield name


def test_no_stream_is_more_than_one_item_ahead(at_once):
    counted = Counted("a", "b", "c")
    made = [dict(counted.made) for _ in round_robin(counted.streams, threads=3)]
    assert made == [
        {"a": 1, "b": 1, "c": 1},  # while the caller has the first item of a
        {"a": 2, "b": 1, "c": 1},  # ... the first item of b: a works on its second
        {"a": 2, "b": 2, "c": 1},
        {"a": 2, "b": 2, "c": 2},
        {"a": 3, "b": 2, "c": 2},
        {"a": 3, "b": 3, "c": 2},
        {"a": 3, "b": 3, "c": 3},
        {"a": 3, "b": 3, "c": 3},
        {"a": 3, "b": 3, "c": 3},
    ]


def test_no_stream_works_while_the_caller_has_an_item_unless_it_may_be_ahead(
    at_once,
):
    counted = Counted("a", "b")
    made = [dict(counted.made) for _ in round_robin(counted.streams, threads=2, ahead=False)]
    assert made == [
        {"a": 1, "b": 0},
        {"a": 1, "b": 1},
        {"a": 2, "b": 1},
        {"a": 2, "b": 2},
        {"a": 3, "b": 2},
        {"a": 3, "b": 3},
    ]


@pytest.mark.parametrize("threads", [1, 2])
def test_streams_have_one_torch_thread_and_the_caller_keeps_its_own(threads):
    def work():
        yield torch.get_num_threads()

    with limited_threads(2):
        assert list(round_robin([work(), work(), work()], threads)) == [1, 1, 1]
        assert torch.get_num_threads() == 2


def test_nothing_works_before_the_first_item_is_asked_for(at_once):
    counted = Counted("a", "b")
    round_robin(counted.streams, threads=2)
    assert counted.made == {"a": 0, "b": 0}


def test_closed_streams_end_with_the_items_in_work():
    counted = Counted("a", "b", "c")
    items = round_robin(counted.streams, threads=2)
    next(items)
    items.close()
    assert race_threads() == []
    assert max(counted.made.values()) == 1
