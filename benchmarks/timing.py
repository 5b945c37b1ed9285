"""How the benchmarks measure: on two cores and two threads, alternately, within a time budget."""

import os
import time
from collections.abc import Callable, Mapping
from statistics import median

import torch

__all__ = ["CORES", "pin", "relative_times", "seconds"]

CORES = 2
MOST_ROUNDS = 401


def pin() -> None:
    """Restrict this process, and all processes it starts, to two cores (if the system can do that)
    and two threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    torch.set_num_threads(CORES)


def relative_times(
    functions: Mapping[str, Callable[[], object]],
    baseline: str,
    budget: float = 0.6,
    fewest: int = 3,
) -> dict[str, float]:
    """How long each function takes relative to the baseline: the median of the ratios within a
    round.

    In a round each function is called once, so that other work on the machine slows down all of
    them alike. A function drops out once it has run for `budget` seconds and `fewest` rounds, so
    slow ones take part in fewer rounds.

    Args:
        functions: functions by name. Each is called once before anything is measured, unless
            `fewest` is 1.
        baseline: the name of the one to compare with.
        budget: seconds for each function.
        fewest: rounds at least; 1 is for functions that take a minute.

    >>> list(relative_times({"a": lambda: sum(range(9)), "b": lambda: sum(range(99))}, "a", budget=0.01))
    ['b']
    """
    if fewest > 1:
        for function in functions.values():
            function()
    ratios: dict[str, list[float]] = {name: [] for name in functions if name != baseline}
    spent = dict.fromkeys(ratios, 0.0)
    active = list(ratios)
    while active:
        base = seconds(functions[baseline])
        for name in active:
            taken = seconds(functions[name])
            ratios[name].append(taken / base)
            spent[name] += taken
        active = [
            name
            for name in active
            if len(ratios[name]) < fewest
            or (spent[name] < budget and len(ratios[name]) < MOST_ROUNDS)
        ]
    return {name: median(values) for name, values in ratios.items()}


def seconds(function: Callable[[], object]) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin
