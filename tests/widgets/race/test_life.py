"""A hundred races, started and stopped: no thread stays, memory doesn't grow, and Stop is
prompt."""

import threading
import time

import psutil

from alibi_viz.widgets import LengthLab
from tests.widgets.race.small_race import until


def test_a_hundred_races_leave_no_thread_and_no_memory_and_stop_within_half_a_second() -> None:
    app, process, waits = LengthLab(methods=["alibi"], length=8, steps=2000), psutil.Process(), []
    threads, used = {*threading.enumerate()}, 0
    for number in range(110):
        race = app.train()
        until(lambda: len(app.results) > 0, "the first row")
        begin = time.monotonic()
        app.stop()
        race.result()
        waits.append(time.monotonic() - begin)
        if number == 9:  # by now, everything that is kept once is there
            used = process.memory_info().rss
    assert sorted(waits)[-6] < 0.5, "a busy machine may hold up a few"
    assert {*threading.enumerate()} <= threads and (process.memory_info().rss - used) / 2**20 < 50
