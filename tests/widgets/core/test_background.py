"""A stream consumed on a thread: completely, shown seldom, stopped quickly, and not left behind.
And debouncing."""

import asyncio
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable
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


class Timers:
    """An event loop's timers, which only `elapse` lets expire: no test waits."""

    def __init__(self) -> None:
        self.timers: list[Mock] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> Mock:
        timer = Mock(callback=callback)
        self.timers.append(timer)
        return timer

    def elapse(self) -> None:
        for timer in self.timers:
            if not timer.cancel.called:
                timer.callback()
        self.timers.clear()


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    timers = Timers()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: timers)
    return timers


def test_debounced_work_waits_until_the_delay_has_passed(timers: Timers) -> None:
    work = Mock()
    Debounce(0.5)(work)
    work.assert_not_called()
    timers.elapse()
    work.assert_called_once()


def test_only_the_last_of_many_debounced_works_runs(timers: Timers) -> None:
    debounce = Debounce(0.5)
    works = [Mock() for _ in range(10)]
    for work in works:
        debounce(work)
    timers.elapse()
    assert [work.call_count for work in works] == [0] * 9 + [1]


def test_flushed_work_runs_at_once_and_not_again(timers: Timers) -> None:
    work = Mock()
    debounce = Debounce(0.5)
    debounce(work)
    debounce.flush()
    work.assert_called_once()
    debounce.flush()
    timers.elapse()
    work.assert_called_once()


def test_stopped_work_never_runs(timers: Timers) -> None:
    work = Mock()
    debounce = Debounce(0.5)
    debounce(work)
    debounce.stop()
    timers.elapse()
    work.assert_not_called()
