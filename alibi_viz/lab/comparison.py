"""The runs of the published comparison, which `make reproduce` trains.

Runs are paired: for one seed all methods start from the same weights, and all but two controls read the same
batches. The number of steps is fixed, not the time; where training lengths differ, the number of tokens is equal.
"""

from functools import partial

from alibi_viz.arguments import check_positive_integers
from alibi_viz.lab.experiment import Run

__all__ = ["COMPARISON_LENGTH", "default_comparison"]

COMPARISON_LENGTH = 64  # L; tests go to 16 L and, for the needle, to 32 L, beyond 4 / m of ALiBi's flattest head
METHODS = (
    "alibi",
    "sinusoidal",
    "rotary",
    "learned",
    "none",
    "t5",
    "kerple-log",
    "sandwich",
    "fire",
    "decay",
    "forget",
)
COPYING = ("alibi", "sinusoidal", "rotary", "none", "t5", "kerple-log", "fire", "forget")


def default_comparison(seeds: int = 3) -> list[Run]:
    """The runs, ordered by seed, so that the first seed can be compared early. Raises ValueError below 1 seed.

    >>> runs = default_comparison()
    >>> len(runs), len({run.label for run in runs if run.task == "text"})
    (93, 14)
    """
    check_positive_integers(seeds=seeds)
    return [run for seed in range(seeds) for run in _runs(seed, COMPARISON_LENGTH)]


def _runs(seed: int, length: int) -> list[Run]:
    text = partial(Run, length=length, seed=seed)
    needle = partial(text, task="needle", steps=300, learning_rate=4e-3, longest=32)
    copy = partial(text, task="copy", steps=1500, learning_rate=4e-3)
    return [
        *map(text, METHODS),
        text("alibi", model={"learned_slopes": True}, label="alibi, learned slopes"),
        # Longer windows in smaller batches, so that all runs see the same number of tokens per step. The second run
        # is an upper bound: it is trained at the length of the longest test.
        text("sinusoidal", length=2 * length, batch_size=16, longest=8, label="sinusoidal trained at 2L"),
        text("rotary", length=16 * length, batch_size=2, longest=1, label="rotary trained at 16L"),
        *map(needle, (*COPYING, "decay")),
        *map(copy, COPYING),
    ]
