"""What a longer input costs: seconds and bytes of one forward pass, at each length."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

import torch
from torch.profiler import ProfilerActivity, profile

from alibi_viz.lab.evaluation import evaluating
from alibi_viz.models import LanguageModel

__all__ = ["Cost", "cost_by_length"]


@dataclass(frozen=True)
class Cost:
    """One forward pass of one input on this machine, now.

    Attributes:
        seconds: the median of the repeats.
        memory: the most bytes that were held at once, beyond the weights and what is cached.
    """

    seconds: float
    memory: int


def cost_by_length(model: LanguageModel, lengths: Iterable[int], *, repeats: int = 5) -> dict[int, Cost]:
    """Time and memory by length, for a batch of one. NaN and 0 where the positions are not defined.

    A first pass, which fills caches, is not counted. Times depend on the machine and its threads: compare in one call.
    Raises ValueError when a length or `repeats` is below 1.

    >>> costs = lab.cost_by_length(lab.make_model(), [32, 512], repeats=1)
    >>> costs[512].memory > 8 * costs[32].memory
    True
    """
    lengths = list(lengths)
    if repeats < 1 or min(lengths) < 1:
        raise ValueError(f"lengths and repeats must be 1 or more, got {lengths} and {repeats}")
    longest = model.transformer.position.longest
    known = [length for length in lengths if longest is None or length <= longest]
    return {length: _cost(model, length, repeats) if length in known else Cost(float("nan"), 0) for length in lengths}


def _cost(model: LanguageModel, length: int, repeats: int) -> Cost:
    with evaluating(model) as device:
        tokens = torch.zeros(1, length, dtype=torch.long, device=device)

        def forward() -> float:
            started = time.perf_counter()
            model(tokens)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            return time.perf_counter() - started

        forward()
        return Cost(median(forward() for _ in range(repeats)), _peak(model, tokens))


def _peak(model: LanguageModel, tokens: torch.Tensor) -> int:
    if tokens.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(tokens.device)
        before = torch.cuda.memory_allocated(tokens.device)
        model(tokens)
        return torch.cuda.max_memory_allocated(tokens.device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        model(tokens)
    assert profiled.profiler is not None
    held = peak = 0  # every allocation and release is an event of its own, the kernels' scratch memory included
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak
