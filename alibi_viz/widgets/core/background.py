"""Consume an iterable on a thread, so that the kernel can still answer the page."""

import asyncio
import atexit
import signal
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from IPython import get_ipython

__all__ = ["Background"]

T = TypeVar("T")


class Background(Future[None], Generic[T]):
    """Consumes a stream on a thread and shows the progress from time to time.

    A future: `await background` in a notebook, `background.result()` in a script. Both return when the stream has ended
    or was stopped, raise the stream's exception, and stop the stream when interrupted.

    Args:
        stream: an iterable. Stopping waits for the current item, so items should be quick.
        take: called with each item. This and the other two callbacks run on the thread, one at a time.
        show: called at most once every `every` seconds, and seldom enough to cost at most `share` of the time.
        end: called once before the future is done, with None or with the stream's exception.

    >>> seen = []
    >>> Background(range(3), seen.append, show=print, end=lambda error: seen.append(error)).start().result()
    >>> seen
    [0, 1, 2, None]
    """

    def __init__(
        self,
        stream: Iterable[T],
        take: Callable[[T], None],
        show: Callable[[], None],
        end: Callable[[BaseException | None], None],
        *,
        every: float = 0.2,
        share: float = 0.04,
    ) -> None:
        super().__init__()
        self._stream, self._take, self._show, self._end = stream, take, show, end
        self._every, self._share = every, share
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alibi_viz", daemon=True)

    def start(self) -> "Background[T]":
        """Start the thread; call this once."""
        self.set_running_or_notify_cancel()
        _running.add(self)
        _stop_on_interrupt()
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop after the current item. May be called more than once."""
        self._stopping.set()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    def result(self, timeout: float | None = None) -> None:
        """Wait at most `timeout` seconds. Raises the stream's exception, or TimeoutError."""
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
                await asyncio.wait([ended], timeout=self._every)
        except asyncio.CancelledError:
            self.stop()
            raise
        ended.result()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended, and raise nothing."""
        self._thread.join(timeout)

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._consume()
        except BaseException as error:
            failure = error
        finally:
            if isinstance(self._stream, Generator):
                self._stream.close()  # on this thread, not on the one that garbage-collects it
        try:
            self._end(failure)
        except BaseException as error:
            failure = failure or error
        _running.discard(self)
        self.set_exception(failure) if failure else self.set_result(None)

    def _consume(self) -> None:
        due = time.monotonic() + self._every
        for item in self._stream:
            self._take(item)
            if self._stopping.is_set():
                return
            if (before := time.monotonic()) >= due:
                self._show()
                after = time.monotonic()
                due = after + max(self._every, (after - before) / self._share)


_running: "weakref.WeakSet[Background[Any]]" = weakref.WeakSet()


def _stop_all(*_: object) -> None:
    for background in list(_running):
        background.stop()


def _stop_on_interrupt() -> None:
    """Let "Interrupt Kernel" stop background work also while no cell is running.

    ipykernel interrupts a running cell; between cells it sets the handler stored here, which ignores the signal. A
    script has no such handler: there Control-C interrupts `result`.
    """
    kernel: Any = getattr(get_ipython(), "kernel", None)
    if getattr(kernel, "saved_sigint_handler", None) is signal.SIG_IGN:
        kernel.saved_sigint_handler = _stop_all


@atexit.register
def _end_all() -> None:
    """No thread may be inside torch while the interpreter shuts down."""
    _stop_all()
    for background in list(_running):
        background.join(timeout=5)
