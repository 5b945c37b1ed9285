"""A stream consumed on a thread: completely, shown seldom, stopped at once, and not left behind.
And debouncing."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from unittest.mock import Mock

import pytest

from alibi_viz.widgets.core.background import Background, Debounce
from tests.widgets.race.small_race import DEADLINE


def start(stream, **callbacks):
    return Background(stream, **callbacks).start()


def failing():
    yield 1
    raise ArithmeticError("no more")


class Gate:
    """A stream that goes on only when it is told to, and says when it waits."""

    def __init__(self):
        self.reached = threading.Event()
        self.open = threading.Event()
        self.items = 0
        self.closed_by: threading.Thread | None = None

    def __iter__(self):
        return self._stream()

    def _stream(self):
        try:
            while True:
                self.reached.set()
                assert self.open.wait(DEADLINE)
                self.items += 1
                yield self.items
        finally:
            self.closed_by = threading.current_thread()


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open.set()


def test_result_returns_when_the_stream_has_ended():
    seen = []
    start(map(seen.append, range(5))).result(DEADLINE)
    assert seen == [0, 1, 2, 3, 4]


def test_stop_ends_after_the_current_item(gate):
    background = start(iter(gate))
    gate.reached.wait(DEADLINE)
    background.stop()
    gate.open.set()
    background.result(DEADLINE)
    assert gate.items == 1


def test_a_stopped_stream_is_closed_on_its_own_thread(gate):
    background = start(iter(gate))
    gate.reached.wait(DEADLINE)
    background.stop()
    gate.open.set()
    background.join(DEADLINE)
    assert gate.closed_by is background._thread


def test_an_error_while_closing_is_raised():
    def stream():
        try:
            yield 1
            background.stop()
            yield 2
        finally:
            raise ArithmeticError("not closed")

    background = Background(stream())
    background.start()
    with pytest.raises(ArithmeticError, match="not closed"):
        background.result(DEADLINE)


def test_running_work_cannot_be_cancelled(gate):
    background = start(iter(gate))
    gate.reached.wait(DEADLINE)
    assert not background.cancel(), "it has to be stopped"
    background.stop()


def test_work_that_has_ended_is_not_kept_until_the_interpreter_ends(
    monkeypatch,
):
    exits = Mock()
    monkeypatch.setattr("alibi_viz.widgets.core.background.atexit", exits)
    start(iter(())).result(DEADLINE)
    (registered,) = exits.register.call_args.args
    exits.unregister.assert_any_call(registered)


def test_an_exception_of_the_stream_is_passed_to_end_and_raised():
    end = Mock()
    with pytest.raises(ArithmeticError, match="no more") as caught:
        start(failing(), end=end).result(DEADLINE)
    end.assert_called_once_with(caught.value)


def test_an_exception_of_show_is_passed_to_end_and_raised(monkeypatch):
    monkeypatch.setattr(Background, "every", 0)
    end = Mock()
    show = Mock(side_effect=ZeroDivisionError("cannot draw"))
    with pytest.raises(ZeroDivisionError) as caught:
        start(range(3), show=show, end=end).result(DEADLINE)
    end.assert_called_once_with(caught.value)


def test_an_exception_of_end_is_raised():
    end = Mock(side_effect=TypeError("cannot end"))
    with pytest.raises(TypeError, match="cannot end"):
        start(range(2), end=end).result(DEADLINE)


def test_end_gets_none_after_success():
    end = Mock()
    start(range(2), end=end).result(DEADLINE)
    end.assert_called_once_with(None)


def consume(monkeypatch, times, *, every, longest_wait):
    """The items after which a drawing was shown, and those after which the progress was.

    `times` is what the clock says whenever it is asked: at the start, with each item, and after
    each drawing.
    """
    clock = Mock()
    clock.monotonic.side_effect = times
    monkeypatch.setattr("alibi_viz.widgets.core.background.time", clock)
    seen = []
    shown = []
    progress = []
    background = Background(
        map(seen.append, range(1, 9)),
        show=lambda: shown.append(seen[-1]),
        show_progress=lambda: progress.append(seen[-1]),
    )
    background.every = every
    background.longest_wait = longest_wait
    with suppress(StopIteration):  # the clock has stopped
        background._consume()
    return shown, progress


def test_show_comes_seldom_and_takes_at_most_a_25th_of_the_time(
    monkeypatch,
):
    times = [
        0,  # at the start: show in 3 seconds
        1,  # with item 1
        2,  # with item 2
        3,  # with item 3, which is shown,
        5,  # and that takes 2 seconds: show in 50 seconds
        6,  # with item 4
        54,  # with item 5
        55,  # with item 6, which is shown at once
        55,
        57,  # with item 7
        58,  # with item 8, which is shown
        58,
    ]
    shown, _ = consume(monkeypatch, times, every=3, longest_wait=1000)
    assert shown == [3, 6, 8]


def test_next_drawing_comes_after_the_longest_wait_however_long_the_last_one_took(
    monkeypatch,
):
    times = [
        0,  # at the start
        3,  # with item 1, which is shown,
        5,  # and that takes 2 seconds: show in 10 seconds, not in 50
        14,  # with item 2
        15,  # with item 3, which is shown
        15,
    ]
    shown, _ = consume(monkeypatch, times, every=3, longest_wait=10)
    assert shown == [1, 3]


def test_progress_is_shown_between_two_drawings(monkeypatch):
    times = [
        0,  # at the start
        3,  # with item 1, which is drawn until
        5,  # here: draw again in 50 seconds, show the progress in 3
        7,  # with item 2
        8,  # with item 3: progress
        10,  # with item 4
        11,  # with item 5: progress
    ]
    shown, progress = consume(monkeypatch, times, every=3, longest_wait=1000)
    assert shown == [1]
    assert progress == [3, 5]


def test_awaiting_keeps_the_event_loop_free(gate):
    async def work_beside_it():
        background = start(iter(gate))
        waiting = asyncio.ensure_future(background._wait())
        # Only this coroutine opens the gate, so the work ends only if the loop is free to run it.
        await asyncio.sleep(0)
        background.stop()
        gate.open.set()
        await asyncio.wait_for(waiting, DEADLINE)

    asyncio.run(work_beside_it())


def test_awaiting_raises_the_exception_of_the_stream():
    async def wait():
        await start(failing())

    with pytest.raises(ArithmeticError, match="no more"):
        asyncio.run(wait())


def test_cancelling_what_awaits_stops_the_stream(gate):
    async def cancel():
        background = start(iter(gate))
        cell = asyncio.ensure_future(background._wait())
        await asyncio.sleep(0)
        cell.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cell
        return background

    background = asyncio.run(cancel())
    assert background.stopped
    gate.open.set()
    background.join(DEADLINE)
    assert background.done()


def test_an_interrupt_while_waiting_stops_the_stream(gate, monkeypatch):
    monkeypatch.setattr(Future, "result", Mock(side_effect=KeyboardInterrupt))
    background = start(iter(gate))
    with pytest.raises(KeyboardInterrupt):
        background.result()
    assert background.stopped


LEFT_RUNNING = """
import itertools
from alibi_viz.widgets.core.background import Background

Background(itertools.repeat(None), end=lambda _: print("ended")).start()
"""


def test_the_end_of_the_interpreter_stops_the_stream():
    done = subprocess.run(
        [sys.executable, "-c", LEFT_RUNNING],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout == "ended\n"


class Timers:
    """An event loop's timers, which only `elapse` lets expire: no test waits."""

    def __init__(self):
        self.timers: list[Mock] = []

    def call_later(self, delay, callback):
        timer = Mock(callback=callback)
        self.timers.append(timer)
        return timer

    def elapse(self):
        for timer in self.timers:
            if not timer.cancel.called:
                timer.callback()
        self.timers.clear()


@pytest.fixture
def timers(monkeypatch):
    timers = Timers()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: timers)
    return timers


def test_debounced_work_waits_until_the_delay_has_passed(timers):
    work = Mock()
    Debounce(0.5)(work)
    work.assert_not_called()
    timers.elapse()
    work.assert_called_once()


def test_only_the_last_of_many_debounced_works_runs(timers):
    debounce = Debounce(0.5)
    works = [Mock() for _ in range(10)]
    for work in works:
        debounce(work)
    timers.elapse()
    assert [work.call_count for work in works] == [0] * 9 + [1]


def test_flushed_work_runs_at_once_and_not_again(timers):
    work = Mock()
    debounce = Debounce(0.5)
    debounce(work)
    debounce.flush()
    work.assert_called_once()
    debounce.flush()
    timers.elapse()
    work.assert_called_once()


def test_stopped_work_never_runs(timers):
    work = Mock()
    debounce = Debounce(0.5)
    debounce(work)
    debounce.stop()
    timers.elapse()
    work.assert_not_called()
