"""Measure everything that the project promises to be fast, print one table, and write benchmarks/results.json.

    make bench                   every module of this folder
    make bench ONLY=import_time  one of them, or several

A benchmark is a module with `main() -> list[Row]`, a row being {"name", "figure", "target", "unit"}: the median
measured, and what it is to be at most ("target" is None for a figure that is only told). To be at least: a target
written "min 0.5". Nothing here is a test, because a busy machine is no error.
"""

import importlib
import json
import os
import platform
import sys
import time
from pathlib import Path

import torch

from benchmarks.row import Row, met

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"


def modules() -> list[str]:
    """The benchmarks in this folder, by name."""
    return sorted(path.stem for path in HERE.glob("*.py") if "def main(" in path.read_text() and path.stem[0] != "_")


def table(rows: list[Row]) -> str:
    """Rows as aligned text."""
    cells = [("what", "measured", "target", "unit", "")]
    for row in rows:
        verdict = {True: "met", False: "MISSED", None: ""}[met(row)]
        target = row["target"]
        words = "" if target is None else target if isinstance(target, str) else f"max {target:g}"
        cells.append((row["name"], f"{row['figure']:.4g}", words, row["unit"], verdict))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in cells)


def main(names: list[str]) -> None:
    """Run the named benchmarks, or all."""
    known = modules()
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}")
    rows: list[Row] = []
    for name in names or known:
        begin = time.perf_counter()
        rows += importlib.import_module(f"benchmarks.{name}").main()
        print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    machine |= {"torch": torch.__version__, "threads": torch.get_num_threads()}
    print(table(rows))
    RESULTS.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
