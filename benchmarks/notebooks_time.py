"""How long it takes to run all notebooks, two at a time, and to compare their outputs with the committed ones."""

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.row import Row

ROOT = Path(__file__).parent.parent


def main() -> list[Row]:
    two_at_a_time = ["--numprocesses", "2", "--dist", "loadfile"]
    command = [sys.executable, "-m", "pytest", "notebooks", "--nbval", "--nbval-current-env", *two_at_a_time]
    begin = time.perf_counter()
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    taken = time.perf_counter() - begin
    if result.returncode:
        raise RuntimeError(f"the notebooks fail, so their run time means nothing:\n{result.stdout[-2000:]}")
    return [{"name": "run all notebooks and compare outputs", "figure": taken, "target": None, "unit": "s"}]
