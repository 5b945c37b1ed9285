"""A hundred races, started and stopped: Stop is prompt, no thread stays, memory doesn't grow."""

import threading
from typing import NamedTuple

import psutil
import pytest

from alibi_viz.widgets import LengthLab
from tests.widgets.race.small_race import DEADLINE, until

WARM_UP = 10  # races, after which everything that is kept once is there


class Life(NamedTuple):
    """What was seen while the races came and went."""

    rows_after_stop: list[int]  # of each race
    threads_left: set[threading.Thread]
    memory_growth: float  # MiB, since the end of the warm-up


@pytest.fixture(scope="module")
def life(small_models: None) -> Life:
    app = LengthLab(methods=["alibi"], length=8, steps=2000)
    process = psutil.Process()
    threads = set(threading.enumerate())
    rows_after_stop = []
    memory_after_warm_up = 0
    for number in range(WARM_UP + 100):
        race = app.train()
        until(lambda: len(app.results) > 0, "the first row")
        app.stop()
        rows = len(app.results)
        race.join(DEADLINE)
        rows_after_stop.append(len(app.results) - rows)
        if number == WARM_UP - 1:
            memory_after_warm_up = process.memory_info().rss
    growth = process.memory_info().rss - memory_after_warm_up
    return Life(rows_after_stop, set(threading.enumerate()) - threads, growth / 2**20)


def test_a_stopped_race_measures_at_most_the_row_that_it_has_begun(life: Life) -> None:
    assert max(life.rows_after_stop) <= 1


def test_stopped_races_leave_no_thread(life: Life) -> None:
    assert life.threads_left == set()


def test_stopped_races_leave_no_memory(life: Life) -> None:
    assert life.memory_growth < 50
