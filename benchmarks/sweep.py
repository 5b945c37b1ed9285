"""A sweep in two processes compared with the same sweep in one. Each run has one thread."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from alibi_viz import lab
from benchmarks.row import Row
from benchmarks.timing import seconds

STEPS = 150


def main(*, smallest: bool = False) -> list[Row]:
    runs = tiny_runs(length=32, steps=1 if smallest else STEPS, longest=2)
    ratio = sweep_seconds(runs, workers=2) / sweep_seconds(runs, workers=1)
    return [Row(name="a sweep in two processes", figure=ratio, target=0.59, unit="x one process")]


def tiny_runs(*, length: int, steps: int, longest: int) -> list[lab.Run]:
    """Four runs that differ in their seed."""
    return [
        lab.Run("alibi", length=length, steps=steps, longest=longest, seed=seed)
        for seed in range(4)
    ]


def sweep_seconds(runs: list[lab.Run], workers: int) -> float:
    """How long the runs take. Starting a process, which imports torch, doesn't count."""
    warm_up = tiny_runs(length=16, steps=1, longest=1)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(lab.sweep(warm_up, pool, progress=False))
        return seconds(lambda: list(lab.sweep(runs, pool, progress=False)))
