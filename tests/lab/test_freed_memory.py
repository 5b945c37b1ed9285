"""Whether training and evaluation let the C library keep the memory that they free."""

import ctypes
import os
import subprocess
import sys
from functools import cache

import pytest

# Blocks from a threshold on are asked for one by one (M_MMAP_THRESHOLD) and returned when they are freed.
COUNT = """
import ctypes

class Statistics(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype, libc.malloc.restype, libc.free.argtypes = Statistics, ctypes.c_void_p, [ctypes.c_void_p]

def asked_for_one_by_one(size):
    before = libc.mallinfo2().hblks
    block = libc.malloc(size * 2**20)
    count = libc.mallinfo2().hblks - before
    libc.free(block)
    return count

print(asked_for_one_by_one(5))  # MiB
{work}
print(asked_for_one_by_one(20))
"""
SETUP = "from alibi_viz import lab; model, text = lab.make_model(), lab.load_text()"


@cache
def counts(work: str) -> list[str]:
    code = COUNT.replace("{work}", work)
    # Settings such as MALLOC_TRIM_THRESHOLD_ fix the threshold; then the library leaves it to whoever set them.
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=settings)
    return done.stdout.split()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library is not glibc 2.33 or newer")
@pytest.mark.parametrize("work", ["lab.loss_by_length(model, text, [8], targets=8)", "lab.train(model, text)"])
def test_large_blocks_are_reused_after_the_first_training_or_evaluation(work: str) -> None:
    if counts("libc.free(libc.malloc(31 * 2**20))") != ["1", "0"]:
        pytest.skip("here the threshold does not follow the size of the blocks that are freed")
    assert counts(f"{SETUP}; {work}") == ["1", "0"]
    assert counts(SETUP) == ["1", "1"]  # otherwise the test above would say nothing
