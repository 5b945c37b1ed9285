"""The runs of the published comparison, which `make reproduce` trains.

Runs are paired: for one seed all methods start from the same weights, and all but two controls read the same
batches. The number of steps is fixed, not the time; where training lengths differ, the number of tokens is equal.
"""

from functools import partial

from alibi_viz.arguments import check_positive_integers
from alibi_viz.lab.experiment import Run
from alibi_viz.models import POSITIONS

__all__ = ["COMPARISON_LENGTH", "default_comparison"]

COMPARISON_LENGTH = 64  # L; tests go to 16 L and, for the needle, to 32 L, beyond 4 / m of ALiBi's flattest head


def default_comparison(seeds: int = 3) -> list[Run]:
    """The runs, ordered by seed, so that the first seed can be compared early. Raises ValueError below 1 seed.

    >>> runs = default_comparison()
    >>> len(runs), len({run.label for run in runs if run.task == "text"})
    (93, 14)
    """
    check_positive_integers(seeds=seeds)
    return [run for seed in range(seeds) for run in (*_texts(seed), *_needles(seed), *_copies(seed))]


def _texts(seed: int) -> list[Run]:
    length = COMPARISON_LENGTH
    return [
        *(Run(position, length=length, seed=seed) for position in POSITIONS),
        Run("alibi", length=length, seed=seed, model={"learned_slopes": True}, label="alibi, learned slopes"),
        # Longer windows in smaller batches, so that all runs see the same number of tokens per step. The second run
        # is an upper bound: it is trained at the length of the longest test.
        Run("sinusoidal", length=2 * length, batch_size=16, longest=8, seed=seed, label="sinusoidal trained at 2L"),
        Run("rotary", length=16 * length, batch_size=2, longest=1, seed=seed, label="rotary trained at 16L"),
    ]


def _needles(seed: int) -> list[Run]:
    methods = ("alibi", "sinusoidal", "rotary", "none", "t5", "kerple-log", "fire", "decay", "forget")
    needle = partial(Run, task="needle", length=COMPARISON_LENGTH, steps=300, learning_rate=4e-3, longest=32, seed=seed)
    return [needle(method) for method in methods]


def _copies(seed: int) -> list[Run]:
    methods = ("alibi", "sinusoidal", "rotary", "none", "t5", "kerple-log", "fire", "forget")
    copy = partial(Run, task="copy", length=COMPARISON_LENGTH, steps=1500, learning_rate=4e-3, longest=16, seed=seed)
    return [copy(method) for method in methods]
