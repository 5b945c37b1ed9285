"""How the benchmarks measure: on two cores and two threads, alternately, within a time budget."""

import os
import time
from collections.abc import Callable, Mapping
from statistics import median

import torch

CORES = 2
MOST_ROUNDS = 401


def pin() -> None:
    """Restrict this process and those it starts to two threads, and to two cores where possible."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    torch.set_num_threads(CORES)


def relative_times(
    functions: Mapping[str, Callable[[], object]],
    baseline: str,
    budget: float = 0.6,
    fewest: int = 3,
) -> dict[str, float]:
    """How long each function takes relative to the baseline.

    The result is the median of the ratios within a round. In a round each function is called once,
    so that other work on the machine slows down all of them alike. A function drops out once it has
    run for `budget` seconds and `fewest` rounds, so slow ones take part in fewer rounds.

    Args:
        functions: functions by name. Each is called once before anything is measured, unless
            `fewest` is 1.
        baseline: the name of the one to compare with.
        budget: seconds for each function.
        fewest: rounds at least; 1 is for functions that take a minute.

    >>> from benchmarks.timing import relative_times
    >>> functions = {"short": lambda: sum(range(9)), "long": lambda: sum(range(999))}
    >>> list(relative_times(functions, "short", budget=0.01))
    ['long']
    """
    if fewest > 1:
        for function in functions.values():
            function()
    ratios: dict[str, list[float]] = {name: [] for name in functions if name != baseline}
    spent = dict.fromkeys(ratios, 0.0)  # seconds
    active = list(ratios)

    def is_active(name: str) -> bool:
        rounds = len(ratios[name])
        if rounds < fewest:
            return True
        return spent[name] < budget and rounds < MOST_ROUNDS

    while active:
        baseline_seconds = seconds(functions[baseline])
        for name in active:
            taken = seconds(functions[name])
            ratios[name].append(taken / baseline_seconds)
            spent[name] += taken
        active = [name for name in active if is_active(name)]
    return {name: median(values) for name, values in ratios.items()}


def seconds(function: Callable[[], object]) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin
