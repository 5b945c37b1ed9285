"""Let the process keep the memory of freed tensors, because every step of a small model needs the same again."""

from functools import cache

import torch

__all__ = ["keep_freed_memory"]


@cache
def keep_freed_memory() -> None:
    """Let the C library reuse freed memory, instead of returning it to the operating system and asking for it again.

    Each page of 4 kB that is asked for again costs a page fault. Without this, evaluating two small models at the same
    time takes about a quarter longer.

    When glibc frees a block of up to 32 MiB, it keeps all smaller ones from then on, and up to twice that in total per
    thread (M_MMAP_THRESHOLD in the manual page mallopt(3)). The block here is never written to, so it takes no memory.
    Under another C library, or where a setting such as MALLOC_TRIM_THRESHOLD_ fixes the threshold, this does nothing.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)
