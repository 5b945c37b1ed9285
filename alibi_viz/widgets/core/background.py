"""A stream consumed on a thread of its own, so that the kernel stays free for everything else on the page."""

import asyncio
import atexit
import signal
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

import torch
from IPython import get_ipython

__all__ = ["Background", "on_one_thread"]

T = TypeVar("T")


class Background(Future[None], Generic[T]):
    """Takes everything out of a stream on a thread, and shows what came in now and then.

    It is a future: `await it` in a notebook, `it.result()` in a script. Both return when the stream has ended or was
    stopped, raise what the stream raised, and stop the stream when they are interrupted.

    All three functions are called on the thread, never two at a time.

    Args:
        stream: what to consume. To stop, one item more is waited for, so let items be short.
        take: called with each item.
        show: called at most every `every` seconds, and so seldom that it costs at most `share` of the time.
        end: called once, with None or with what the stream raised, before the future is done.
        every: seconds.
        share: of the thread's time.

    >>> from alibi_viz.widgets.core.background import Background
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
        """Begin. Once."""
        self.set_running_or_notify_cancel()
        _running.add(self)
        _heed_interrupts()
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ask for the end; it comes after the item that is being made now. Stopping twice does no harm."""
        self._stopping.set()

    @property
    def stopped(self) -> bool:
        """Whether an end was asked for."""
        return self._stopping.is_set()

    def result(self, timeout: float | None = None) -> None:
        """Wait, at most `timeout` seconds; raise what the stream raised, or TimeoutError."""
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
                # Again and again, because an interrupt does not by itself wake ipykernel's loop.
                await asyncio.wait([ended], timeout=self._every)
        except asyncio.CancelledError:
            self.stop()
            raise
        ended.result()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread is gone, whatever came of it."""
        self._thread.join(timeout)

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._consume()
        except BaseException as error:
            failure = error
        finally:
            if isinstance(self._stream, Generator):
                self._stream.close()  # here, and not wherever it would be collected
        try:
            self._end(failure)
        except BaseException as error:
            failure = failure or error
        _running.discard(self)
        if failure is None:
            self.set_result(None)
        else:
            self.set_exception(failure)

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


def on_one_thread(items: Iterable[T]) -> Iterator[T]:
    """The items, with torch computing on the thread that asks for them and no other.

    For models this small that costs little on idle cores, and on busy ones it is far faster: threads that share a
    step wait for the slowest of them. It also makes the numbers the same on machines with more cores or fewer.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield from items
    finally:
        torch.set_num_threads(before)


_running: "weakref.WeakSet[Background[Any]]" = weakref.WeakSet()


def _stop_all(*_: object) -> None:
    for background in list(_running):
        background.stop()


def _heed_interrupts() -> None:
    """Let "Interrupt Kernel" stop what runs in the background of an idle kernel too.

    While a cell runs, ipykernel interrupts that cell; between cells it ignores the signal, with the handler that it
    keeps under this name. In a script there is none, and Control-C goes to whoever waits for the result.
    """
    kernel: Any = getattr(get_ipython(), "kernel", None)
    if getattr(kernel, "saved_sigint_handler", None) is signal.SIG_IGN:
        kernel.saved_sigint_handler = _stop_all


@atexit.register
def _end_all() -> None:
    """Let no thread be in the middle of torch while the interpreter is taken down."""
    _stop_all()
    for background in list(_running):
        background.join(timeout=5)
