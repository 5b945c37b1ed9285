"""A stream consumed on a thread: completely, shown seldom, stopped quickly, and not left behind.
And debouncing."""

import asyncio
import itertools
import subprocess
import sys
import threading
import time
from functools import partial
from unittest.mock import Mock

import pytest

from alibi_viz.widgets.core.background import Background, Debounce


def endless():
    for number in itertools.count():
        time.sleep(0.001)
        yield number


def failing():
    yield 1
    raise ArithmeticError("no more")


def start(stream, *, every=0.2, **callbacks):
    background = Background(stream, **callbacks)
    background.every = every
    return background.start()


def test_stop_ends_after_the_current_item_and_closes_the_stream_on_its_thread(monkeypatch):
    closed, ends, exits = [], [], Mock()
    monkeypatch.setattr("alibi_viz.widgets.core.background.atexit", exits)

    def stream():
        try:
            yield from endless()
        finally:
            closed.append(threading.current_thread())
            raise ArithmeticError("not closed")

    background = start(stream(), end=ends.append)
    time.sleep(0.02)
    assert not background.cancel(), "it is running, and has to be stopped"
    background.stop()
    with pytest.raises(ArithmeticError, match="not closed"):
        background.result(timeout=10)
    background.join(timeout=10)
    assert (
        background.stopped
        and [thread.is_alive() for thread in closed] == [False]
        and len(ends) == 1
    )
    assert exits.unregister.call_args == exits.register.call_args, (
        "nothing keeps it until the interpreter ends"
    )


def test_exceptions_of_the_stream_and_of_show_are_passed_to_end_and_raised_as_is_that_of_end():
    errors = []
    with pytest.raises(ArithmeticError, match="no more"):
        start(failing(), end=errors.append).result(timeout=10)
    with pytest.raises(ZeroDivisionError):
        start(endless(), show=lambda: 1 / 0, end=errors.append, every=0).result(timeout=10)
    assert [type(error) for error in errors] == [ArithmeticError, ZeroDivisionError]
    with pytest.raises(TypeError):
        start(iter("ab"), end=len).result(timeout=10)


def test_show_comes_at_most_every_so_often_and_takes_at_most_a_25th_of_the_time(monkeypatch):
    # read at the start, with each of eight items, and after each `show`, the first of which takes
    # two seconds
    clock, seen, shown = Mock(), [], []
    clock.monotonic.side_effect = [0, 1, 2, 3, 5, 6, 54, 55, 55, 57, 58, 58]
    monkeypatch.setattr("alibi_viz.widgets.core.background.time", clock)
    background = Background(map(seen.append, range(1, 9)), lambda: shown.append(len(seen)))
    background.every = 3
    background._consume()
    assert shown == [3, 6, 8]


def test_awaiting_keeps_the_event_loop_free_raises_the_exception_and_stops_when_cancelled():
    async def main():
        background, ticks = start(itertools.islice(endless(), 200)), 0
        while not background.done():
            await asyncio.sleep(0.01)
            ticks += 1
        await background
        with pytest.raises(ArithmeticError):
            await start(failing())
        background = start(endless())
        cell = asyncio.ensure_future(asyncio.wait_for(background, timeout=None))
        await asyncio.sleep(0.05)
        cell.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cell
        background.join(timeout=10)
        return ticks, background

    ticks, background = asyncio.run(main())
    assert ticks > 5 and background.stopped and background.done()


def test_control_c_and_the_end_of_the_interpreter_stop_the_stream():
    """The handler is set because a parent that ignores SIGINT passes that on."""
    code = """
import itertools, os, signal, threading, time
from alibi_viz.widgets.core.background import Background
def start():
    ticks = (time.sleep(.001) for _ in itertools.count())
    return Background(ticks, end=lambda _: print("ended")).start()
signal.signal(signal.SIGINT, signal.default_int_handler)
background = start()
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    background.result(timeout=30)
except KeyboardInterrupt:
    background.join(timeout=5)
    print("stopped", background.stopped, background.done())
start()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == "" and done.stdout.split() == [
        "ended",
        "stopped",
        "True",
        "True",
        "ended",
    ]


def test_debounced_work_runs_once_after_the_last_call_unless_it_is_flushed_or_stopped():
    async def main():
        debounce, done = Debounce(0.5), []
        for number in range(10):  # the calls take longer than the delay
            debounce(partial(done.append, number))
            await asyncio.sleep(0.06)
            assert done == []
        while not done:
            await asyncio.sleep(0.01)
        debounce(partial(done.append, "flushed"))
        debounce.flush()
        debounce.flush()
        assert done == [9, "flushed"]
        stopped = Debounce(0.01)
        stopped(partial(done.append, "stopped"))
        stopped.stop()
        await asyncio.sleep(0.1)
        return done

    assert asyncio.run(main()) == [9, "flushed"]
