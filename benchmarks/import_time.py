"""How long `import alibi_viz` takes compared with `import torch`, in pairs of fresh
interpreters."""

import subprocess
import sys
from statistics import median

from benchmarks.row import Row

PAIRS = 7
TIMED = (
    "import time; begin = time.perf_counter(); import {module}; print(time.perf_counter() - begin)"
)


def import_seconds(module: str) -> float:
    """How long the import takes in a new interpreter, without the start of the interpreter
    itself."""
    command = [sys.executable, "-c", TIMED.format(module=module)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> list[Row]:
    import_seconds("alibi_viz")  # warm up: the first run reads from the disk
    pairs = [(import_seconds("torch"), import_seconds("alibi_viz")) for _ in range(PAIRS)]
    of_torch, of_both = (median(times) for times in zip(*pairs, strict=True))
    ratio = median(both / torch for torch, both in pairs)
    return [
        {"name": "import alibi_viz", "figure": ratio, "target": 1.1, "unit": "x import torch"},
        {"name": "import torch", "figure": of_torch, "target": None, "unit": "s"},
        {
            "name": "import alibi_viz, torch included",
            "figure": of_both,
            "target": None,
            "unit": "s",
        },
    ]
