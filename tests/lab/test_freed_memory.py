"""Whether training and evaluation let the C library keep the memory that they free."""

import platform
import subprocess
import sys

import pytest

# Blocks from a threshold on are asked for one by one (M_MMAP_THRESHOLD) and returned when they are freed.
COUNT = """
import ctypes

import torch
from alibi_viz import lab

class Statistics(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

statistics = ctypes.CDLL(None).mallinfo2
statistics.restype = Statistics

def asked_for_one_by_one(size):
    before = statistics().hblks
    block = torch.empty(size * 2**20, dtype=torch.uint8)
    return statistics().hblks - before

model, text = lab.make_model(), lab.load_text()
print(asked_for_one_by_one(5))  # MiB
{work}
print(asked_for_one_by_one(20))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has other rules")
@pytest.mark.parametrize("work", ["lab.loss_by_length(model, text, [8], targets=8)", "lab.train(model, text)"])
def test_large_blocks_are_reused_after_the_first_training_or_evaluation(work: str) -> None:
    code = COUNT.replace("{work}", work)
    counted = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert counted.stdout.split() == ["1", "0"]
