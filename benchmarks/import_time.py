"""How long `import alibi_viz` takes compared with `import torch`, in fresh interpreters."""

import subprocess
import sys
from statistics import median

from benchmarks.row import Row

PAIRS = 7
TIMED = (
    "import time; begin = time.perf_counter(); import {module}; print(time.perf_counter() - begin)"
)


def import_seconds(module: str) -> float:
    """How long the import takes in a new interpreter, without the start of the interpreter."""
    command = [sys.executable, "-c", TIMED.format(module=module)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main(*, smallest: bool = False) -> list[Row]:
    import_seconds("alibi_viz")  # warm up: the first run reads from the disk
    torch_seconds = []
    our_seconds = []
    ratios = []
    for _ in range(1 if smallest else PAIRS):
        torch_seconds.append(import_seconds("torch"))
        our_seconds.append(import_seconds("alibi_viz"))
        ratios.append(our_seconds[-1] / torch_seconds[-1])
    return [
        Row(name="import alibi_viz", figure=median(ratios), target=1.1, unit="x import torch"),
        Row(name="import torch", figure=median(torch_seconds), unit="s"),
        Row(name="import alibi_viz, torch included", figure=median(our_seconds), unit="s"),
    ]
