"""What `import alibi_viz` costs besides `import torch`: paired runs of fresh interpreters, in turns."""

import statistics
import subprocess
import sys

from benchmarks.row import Row

PAIRS = 15
TIMED = "import time; begin = time.perf_counter(); import {module}; print(time.perf_counter() - begin)"


def seconds(module: str) -> float:
    """How long the import takes in an interpreter of its own; start-up is not counted."""
    command = [sys.executable, "-c", TIMED.format(module=module)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> list[Row]:
    seconds("alibi_viz")  # the first run reads from the disk, the others from memory
    pairs = [(seconds("torch"), seconds("alibi_viz")) for _ in range(PAIRS)]
    plain, whole = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(whole / plain for plain, whole in pairs)
    return [
        {"name": "import alibi_viz, relative to import torch", "figure": ratio, "target": 1.1, "unit": "ratio"},
        {"name": "import torch", "figure": plain, "target": None, "unit": "s"},
        {"name": "import alibi_viz", "figure": whole, "target": None, "unit": "s"},
    ]
