"""Limit torch to one thread per stream of work, and work on several streams at the same time."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event
from typing import TypeVar

import torch

__all__ = ["on_one_thread", "take_turns"]

T = TypeVar("T")


def on_one_thread(items: Iterable[T]) -> Iterator[T]:
    """Yield the items while torch is limited to one thread.

    On busy cores this is much faster for models this small, because several threads would wait for the slowest in each
    step; on idle cores several threads are faster. The results also become independent of the number of cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield from items
    finally:
        torch.set_num_threads(before)


def take_turns(streams: Iterable[Iterator[T | None]], threads: int) -> Generator[T, None, None]:
    """Yield the items of one turn of each stream, then those of the next turn of each, until all streams have ended.

    A stream marks the end of a turn with None. While an item is used, up to `threads` others of the streams work on
    their next turns, each on a thread on which torch is limited to one thread. So a stream gives the same numbers as
    when it runs alone on one thread, and is never more than one turn ahead.

    An exception in a stream is raised when it is that stream's turn. Closing the generator waits for the items in
    progress, so no thread is left behind.

    >>> from alibi_viz.lab.turns import take_turns
    >>> list(take_turns([iter(["a1", None, "a2", None]), iter(["b1", "b1 again", None, "b2", None])], threads=2))
    ['a1', 'b1', 'b1 again', 'a2', 'b2']
    """
    stopping = Event()

    def work(stream: Iterator[T | None], items: SimpleQueue[T | None]) -> bool:
        """Queue the items of one turn, then None. Returns False at the end of the stream."""
        try:
            for item in stream:
                if item is None or stopping.is_set():
                    return True
                items.put(item)
            return False
        finally:
            items.put(None)

    pool = ThreadPoolExecutor(threads, "alibi_viz turns", initializer=torch.set_num_threads, initargs=(1,))
    try:
        queues: list[tuple[Iterator[T | None], SimpleQueue[T | None]]] = [(stream, SimpleQueue()) for stream in streams]
        turns = deque((stream, items, pool.submit(work, stream, items)) for stream, items in queues)
        while turns:
            stream, items, turn = turns.popleft()
            yield from iter(items.get, None)
            if turn.result():
                turns.append((stream, items, pool.submit(work, stream, items)))
    finally:
        stopping.set()
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(torch.get_num_threads())  # the threads above changed the default of new threads
