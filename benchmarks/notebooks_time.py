"""How long it takes to run every notebook and compare its outputs, one after the other, as nbval does."""

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.row import Row

ROOT = Path(__file__).parent.parent


def main() -> list[Row]:
    command = [sys.executable, "-m", "pytest", "notebooks", "--nbval", "--nbval-current-env", "--quiet"]
    begin = time.perf_counter()
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    taken = time.perf_counter() - begin
    if result.returncode:
        raise RuntimeError(f"the notebooks do not pass, so their time means nothing:\n{result.stdout[-2000:]}")
    return [{"name": "every notebook, run and compared", "figure": taken, "target": 120, "unit": "s"}]
