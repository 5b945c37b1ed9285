"""Work that may wait until the user's hand is still."""

import asyncio
from collections.abc import Callable

__all__ = ["Later"]


class Later:
    """`later(work)` does the work after `delay` seconds, unless other work takes its place before.

    Where no event loop runs, as in a script or a test, it is done at once. `later.now()` does what is still waiting.

    >>> from alibi_viz.widgets.core.debounce import Later
    >>> Later(0.1)(lambda: print("done"))
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
            self._timer = asyncio.get_running_loop().call_later(self.delay, self.now)
        except RuntimeError:  # no loop: there is no later
            self.now()

    def now(self) -> None:
        """Do what waits, if anything does."""
        work, self._work = self._work, None
        if self._timer is not None:
            self._timer.cancel()
        if work is not None:
            work()
