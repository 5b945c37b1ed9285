"""Refuse a call that needs too much memory before it allocates anything: more than a quarter of
what is free.

Without this, Linux lets the allocation succeed and kills the kernel when the memory is written to.
"""

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

import torch

SHARE = (
    4  # a call may take one part in four of the free memory: other kernels of a class need the rest
)
_ALWAYS = (
    2**28
)  # bytes that are granted without asking the system, which takes a tenth of a millisecond
_SYSTEM = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")


def free_memory(device: torch.device | str = "cpu") -> int | None:
    """The free memory of a device in bytes, within a container's limit (cgroup v2); None if the
    system doesn't say."""
    device = torch.device(device)
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + cached
    if device.type != "cpu" or not _SYSTEM.exists():
        return None
    lines = dict(line.split(":") for line in _SYSTEM.read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    limit, used = _CONTAINER / "memory.max", _CONTAINER / "memory.current"
    if limit.exists() and (most := limit.read_text().strip()) != "max":
        numbers = dict(
            line.split() for line in (_CONTAINER / "memory.stat").read_text().splitlines()
        )
        reclaimable = int(numbers["inactive_file"])  # of the page cache, which counts as used
        free = min(free, int(most) - int(used.read_text()) + reclaimable)
    return max(free, 0)


def check_memory(
    name: str, length: int, needed: Callable[[int], int], device: torch.device | str = "cpu"
) -> None:
    """Raise MemoryError if a call needs too many bytes, and name the largest length that fits.

    Args:
        name: the argument that makes the call large, such as "key_length".
        length: its value.
        needed: the bytes that the call allocates for a length; more for a larger one.
        device: where it allocates them.
    """
    if (
        torch.compiler.is_compiling()
        or needed(length) <= _ALWAYS
        or (free := free_memory(device)) is None
    ):
        return
    if SHARE * needed(length) > free:
        fits = bisect_right(
            range(1, min(length, free)), free, key=lambda shorter: SHARE * needed(shorter)
        )
        limit = (
            f"a quarter of the free memory ({free / 2**30:,.1f} GiB); the largest {name} that "
            f"fits is {fits}"
        )
        raise MemoryError(
            f"{name}={length} would take {needed(length) / 2**30:,.1f} GiB, more than {limit}"
        )
