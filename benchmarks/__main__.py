"""Measure the speed that the project promises, print tables and store them in results.json.

    make bench                   every benchmark of this folder
    make bench ONLY=import_time  one of them, or several

A benchmark is a module of this folder with a function `main(*, smallest=False) -> list[Row]`. The
tests run each of them at its smallest size, where the figures mean nothing.

Everything runs on two cores and two threads; the two parts in a browser alone took 13 minutes on a
slow machine. Targets are ratios of two measurements of the same run. These are not tests: a busy
machine can miss a target although the code is fine.
"""

import importlib
import json
import platform
import sys
import time
from dataclasses import asdict
from datetime import date
from pathlib import Path

import torch

from benchmarks.row import Row, table
from benchmarks.timing import CORES, pin

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"


def modules() -> list[str]:
    """The names of the benchmarks in this folder."""
    names = []
    for path in sorted(HERE.glob("[a-z]*.py")):
        if "def main(" in path.read_text():
            names.append(path.stem)
    return names


def machine() -> str:
    """What the figures depend on besides the code."""
    parts = [
        f"{CORES} cores",
        platform.machine(),
        f"Python {platform.python_version()}",
        f"torch {torch.__version__}",
    ]
    if torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name())
    return ", ".join(parts)


def main(names: list[str]) -> None:
    """Run the named benchmarks, or all of them."""
    available = modules()
    unknown = [name for name in names if name not in available]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; available: {', '.join(available)}")

    pin()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names or available:
        begin = time.perf_counter()
        rows: list[Row] = importlib.import_module(f"benchmarks.{name}").main()
        taken = time.perf_counter() - begin
        print(f"{name}: {taken:.0f} s\n{table(rows)}\n", flush=True)
        if not rows:  # where there is no GPU to measure
            continue
        results[name] = {
            "measured": f"{date.today()}, {machine()}",
            "rows": [asdict(row) for row in rows],
        }
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
