"""Work that the page doesn't wait for: on a thread, or postponed until the user pauses.

Training runs on a thread rather than in an asyncio task, so that a script without an event loop can
wait for it too.
"""

import asyncio
import atexit
import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import closing, nullcontext
from typing import Any


class Background(Future[None]):
    """Consumes a stream on a thread.

    It is a future: `await` it in a notebook, and call `result()` in a script. Both return when the
    stream has ended or was stopped, raise its exception, and stop it when interrupted. On the
    thread, `show` draws what has come and `show_progress` says how far the stream is, both seldom
    enough for the stream to go on, and `end` is called with the exception or None.

    >>> from alibi_viz.widgets.core.background import Background
    >>> background = Background(map(print, range(2)), end=lambda error: print("ended:", error))
    >>> background.start().result()
    0
    1
    ended: None
    """

    # Drawing every 0.2 s costs 5% of the throughput of training; drawing every step 40%, and the
    # server drops messages.
    every = 0.2  # seconds
    share = 0.04  # of the time, for drawing, unless the longest wait is over
    # On a busy machine a drawing takes half a second. Ten seconds without a change would look as if
    # nothing went on.
    longest_wait = 1.0  # seconds

    def __init__(
        self,
        stream: Iterable[object],
        show: Callable[[], None] = lambda: None,
        end: Callable[[BaseException | None], None] = lambda _: None,
        *,
        show_progress: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._stream = stream
        self._show = show
        self._show_progress = show_progress
        self._end = end
        self.stopped = False  # whether `stop` was called
        self._thread = threading.Thread(target=self._run, name="alibi_viz", daemon=True)

    def start(self) -> "Background":
        """Start the thread."""
        self.set_running_or_notify_cancel()
        atexit.register(self._exit)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop after the current item."""
        self.stopped = True

    def result(self, timeout: float | None = None) -> None:
        """Wait at most `timeout` seconds for the end."""
        try:
            return super().result(timeout)
        except KeyboardInterrupt:
            self.stop()
            raise

    def __await__(self) -> Generator[Any, None, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        ended = asyncio.wrap_future(self)
        try:
            while not ended.done():
                # Wake up regularly: an interrupt alone does not wake the event loop of ipykernel.
                await asyncio.wait([ended], timeout=self.every)
        except asyncio.CancelledError:
            self.stop()
            raise
        ended.result()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended, and raise nothing."""
        self._thread.join(timeout)

    def _exit(self) -> None:
        """No thread may be inside torch while the interpreter shuts down."""
        self.stop()
        self.join(timeout=5)

    def _run(self) -> None:
        failure: BaseException | None = None
        is_generator = isinstance(self._stream, Generator)
        try:
            # Close a generator on this thread, not on the one that garbage-collects it.
            with closing(self._stream) if is_generator else nullcontext():  # type: ignore[type-var]
                self._consume()
        except BaseException as error:
            failure = error
        try:
            self._end(failure)
        except BaseException as error:
            failure = failure or error
        atexit.unregister(self._exit)
        if failure is None:
            self.set_result(None)
        else:
            self.set_exception(failure)

    def _consume(self) -> None:
        now = time.monotonic()
        show_due = now + self.every
        progress_due = now + self.every
        for _ in self._stream:
            if self.stopped:
                return
            now = time.monotonic()
            if now >= show_due:
                self._show()
                shown = time.monotonic()
                wait = min((shown - now) / self.share, self.longest_wait)
                show_due = shown + max(wait, self.every)
                progress_due = shown + self.every
            elif now >= progress_due:
                self._show_progress()
                progress_due = now + self.every


class Debounce:
    """Runs work after `delay` seconds, unless other work is given before: then only the last runs.

    Call it as `debounce(work)`. Without a running event loop, as in a script or a test, the work
    runs at once.

    >>> from alibi_viz.widgets.core.background import Debounce
    >>> Debounce(0.1)(lambda: print("done"))
    done
    """

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self._work: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, work: Callable[[], None]) -> None:
        self.stop()
        self._work = work
        try:
            self._timer = asyncio.get_running_loop().call_later(self.delay, self.flush)
        except RuntimeError:  # no running event loop
            self.flush()

    def flush(self) -> None:
        """Run the work that is still waiting, if any, without further delay."""
        work = self._work
        if work is not None:
            self.stop()
            work()

    def stop(self) -> None:
        """Forget the work that is still waiting."""
        self._work = None
        if self._timer is not None:
            self._timer.cancel()
