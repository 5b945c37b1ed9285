"""Postpone work until the user has stopped moving a control."""

import asyncio
from collections.abc import Callable

__all__ = ["Debounce"]


class Debounce:
    """`debounce(work)` runs the work after `delay` seconds, unless it is called again before: then only the last runs.

    Without a running event loop, as in a script or a test, the work runs at once.

    >>> Debounce(0.1)(lambda: print("done"))
    done
    """

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self._work: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, work: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._work = work
        try:
            self._timer = asyncio.get_running_loop().call_later(self.delay, self.flush)
        except RuntimeError:  # no running event loop
            self.flush()

    def flush(self) -> None:
        """Run the work that is still waiting, if any, without further delay."""
        work, self._work = self._work, None
        if self._timer is not None:
            self._timer.cancel()
        if work is not None:
            work()
