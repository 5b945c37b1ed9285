"""Streams that work at the same time: their order, how far they go ahead, their errors, and their end."""

import threading
import time

import pytest
import torch

from alibi_viz.lab.turns import take_turns

WAIT = 10  # seconds


def stream(name, turns=3, items=1):
    for turn in range(turns):
        for item in range(items):
            yield name, turn, item
        yield None


def slow(items, seconds):
    for item in items:
        time.sleep(seconds)
        yield item


def threads_at_work():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("alibi_viz turns")]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_items_come_in_turn_whichever_stream_is_fast(threads):
    streams = [slow(stream("a", items=2), 0.01), stream("b"), slow(stream("c"), 0.003)]
    assert list(take_turns(streams, threads)) == [
        (name, turn, item)
        for turn in range(3)
        for name, items in (("a", 2), ("b", 1), ("c", 1))
        for item in range(items)
    ]
    assert threads_at_work() == []


def test_streams_of_different_lengths_and_no_streams():
    streams = [stream("a", 1), stream("b", 3), stream("c", 0)]
    assert [name for name, *_ in take_turns(streams, 2)] == ["a", "b", "b", "b"]
    assert list(take_turns([], 1)) == []


def test_two_streams_work_at_the_same_time():
    meeting = threading.Barrier(2)

    def meet(name):
        for turn in range(3):
            meeting.wait(WAIT)  # raises BrokenBarrierError unless the other stream gets here too
            yield name, turn
            yield None

    assert list(take_turns([meet("a"), meet("b")], 2)) == [(name, turn) for turn in range(3) for name in "ab"]


def test_no_more_streams_than_threads_work_at_the_same_time():
    working, most, lock = set(), [], threading.Lock()

    def count(name):
        for turn in range(4):
            with lock:
                working.add(name)
                most.append(len(working))
            time.sleep(0.005)
            with lock:
                working.discard(name)
            yield turn
            yield None

    list(take_turns([count(name) for name in "abcd"], 2))
    assert max(most) == 2


def test_a_stream_waits_while_its_item_is_used_and_is_one_turn_ahead_at_most():
    steps = {"a": 0, "b": 0}

    def count(name):
        for _ in range(5):
            steps[name] += 1
            yield name, steps[name]
            yield None

    for name, step in take_turns([count("a"), count("b")], 2):
        time.sleep(0.01)  # time to run ahead
        assert steps[name] == step
        assert steps["a"] - step <= 1
        assert steps["b"] - step <= 0


def test_nothing_works_before_the_first_item_is_asked_for():
    started = []
    turns = take_turns([(started.append(name) for name in "x")], 1)
    time.sleep(0.01)
    assert started == threads_at_work() == []
    turns.close()


def test_error_of_a_stream_is_raised_in_its_turn():
    def failing():
        yield "b", 0
        yield None
        raise ArithmeticError("no more")

    turns = take_turns([slow(stream("a"), 0.01), failing(), stream("c")], 2)
    seen = []
    with pytest.raises(ArithmeticError, match="no more"):
        for name, turn, *_ in turns:
            seen.append((name, turn))  # a comprehension would lose what came before the error
    assert seen == [("a", 0), ("b", 0), ("c", 0), ("a", 1)]
    assert threads_at_work() == []


def test_closing_ends_the_threads_after_the_items_in_work():
    done = []

    def long(name):
        for item in range(1000):
            time.sleep(0.005)
            done.append((name, item))
            yield name, item

    turns = take_turns([long("a"), long("b"), long("c")], 2)
    next(turns)
    turns.close()
    finished = len(done)
    assert finished < 20, "closing does not wait for the end of a turn"
    assert threads_at_work() == []
    time.sleep(0.02)
    assert len(done) == finished


def test_streams_run_on_one_thread_of_torch_and_leave_other_threads_as_they_were():
    counts = []

    def count():
        counts.append(torch.get_num_threads())
        yield "counted"

    def in_a_new_thread():
        thread = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
        thread.start()
        thread.join()

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        list(take_turns([count(), count()], 2))
        in_a_new_thread()
        assert [*counts, torch.get_num_threads()] == [1, 1, 2, 2]
    finally:
        torch.set_num_threads(before)
