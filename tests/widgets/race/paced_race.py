"""Races of LengthLab that wait before every row until a test lets them go on.

Without it, what a test sees would depend on how fast the thread of a race happens to be.
"""

import threading
from contextlib import closing, contextmanager

import pytest

from alibi_viz.train.race import Race, race
from tests.widgets.race.small_race import DEADLINE, control, wait_for_end


class Pace:
    """How far races may go: not a row further than a test has allowed."""

    def __init__(self):
        self._changed = threading.Condition()
        self._allowed = 0  # rows
        self._is_waiting = False  # whether a race has its next row, but may not yet hand it out
        self._is_over = False

    def train(self, app):
        """Start the race of an app. It waits with its first row."""
        with self._pacing():
            return app.train()

    def click_train(self, app):
        """Start the race of an app with its button."""
        with self._pacing():
            control(app, "s-train").click()

    def go(self, rows):
        """Let the race hand out so many rows, and return when they are in its table."""
        with self._changed:
            self._allowed += rows
            self._changed.notify_all()
            arrived = self._changed.wait_for(self._has_arrived, DEADLINE)
        assert arrived, f"the race ended, or has not made {rows} rows within {DEADLINE} s"

    def stop(self, app):
        """Press Stop, let the race hand out the row that it has begun, and wait for its end."""
        control(app, "s-stop").click()
        self.hand_out_one_row()
        wait_for_end(app)

    def hand_out_one_row(self):
        """Let a race that is to stop hand out the row that it has begun. Waits for nothing."""
        with self._changed:
            self._allowed += 1
            self._changed.notify_all()

    def end(self):
        """End all races where they are, as if they had no more rows."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    @contextmanager
    def _pacing(self):
        """Races that are made inside a `with` block keep this pace."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("alibi_viz.lab.race", self._race)
            yield

    def _race(self, *arguments, **settings):
        unpaced = race(*arguments, **settings)
        return Race(self._rows(unpaced), unpaced.models)

    def _rows(self, unpaced):
        with closing(unpaced):
            for row in unpaced:
                self._wait_for_permission()
                if self._is_over:
                    return
                yield row

    def _wait_for_permission(self):
        with self._changed:
            self._is_waiting = True
            self._changed.notify_all()
            self._changed.wait_for(self._may_go)
            self._is_waiting = False
            self._allowed -= 1

    def _may_go(self):
        return self._is_over or self._allowed > 0

    def _has_arrived(self):
        return self._is_waiting and self._allowed == 0


@contextmanager
def paced():
    """A pace for races inside a `with` block, which ends those that are left."""
    pace = Pace()
    threads_before = race_threads()  # of races with a pace of their own
    try:
        yield pace
    finally:
        pace.end()
        for thread in race_threads() - threads_before:
            thread.join(DEADLINE)


def race_threads():
    """The threads of all apps, and those on which their models train."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("alibi_viz")}
