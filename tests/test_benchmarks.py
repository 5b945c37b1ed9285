"""Every benchmark runs, here at its smallest size: what it measures means nothing then."""

import math
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import timing
from benchmarks.__main__ import modules
from tests.browser import chromium

# What starts JupyterLab and a browser, or interpreters that import torch
SLOW = {"classroom", "import_time", "race", "sweep", "ui_latency"}
NEED_A_BROWSER = {"race", "ui_latency"}
NEEDS_PROC = "long_attention"  # for the memory that a process has held


def benchmarks():
    """The names of all benchmarks."""
    cases = []
    for name in modules():
        marks = [pytest.mark.weekly] if name in SLOW else []
        cases.append(pytest.param(name, marks=marks))
    return cases


@pytest.mark.parametrize("name", benchmarks())
def test_benchmark_runs_at_its_smallest_size(name, monkeypatch):
    if name in NEED_A_BROWSER and chromium.find() is None:
        pytest.skip(chromium.MISSING)
    if name == NEEDS_PROC and not Path("/proc/self/clear_refs").exists():
        pytest.skip("the memory of a process is read from /proc, which is Linux's")

    monkeypatch.setattr(timing, "MOST_ROUNDS", 1)
    rows = import_module(f"benchmarks.{name}").main(smallest=True)
    assert rows or name == "gpu"  # which measures nothing without a GPU
    for row in rows:
        assert math.isfinite(row.figure), row
