"""Test a claim against results. Verdicts are computed from the results, never typed in.

A claim says that a number, computed from the runs of one seed, is at least or at most a threshold. The runs of one
seed started from the same weights and, at equal training length and batch size, read the same batches. The verdict
depends on the 95% interval of that number's mean over the seeds:

    reproduced         the claim holds in the whole interval
    contradicted       it holds nowhere in the interval
    undecided          it holds in a part of the interval
    not testable here  the results lack runs for it, or it is about models much larger than ours
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from alibi_viz.lab.confidence import LEVEL, SEEDS, mean_interval
from alibi_viz.lab.results import AS_TRAINED
from alibi_viz.lab.tasks import TASKS

__all__ = [
    "CONTRADICTED",
    "NOT_TESTABLE",
    "PILOT",
    "REPRODUCED",
    "UNDECIDED",
    "UNSEEN",
    "VERSION_1",
    "Claim",
    "Seed",
    "Verdict",
    "judge_each",
]

REPRODUCED, CONTRADICTED, UNDECIDED = "reproduced", "contradicted", "undecided"
NOT_TESTABLE = "not testable here"
# What was known of the result when a claim was written down.
UNSEEN, PILOT, VERSION_1 = "before any run", "after a pilot", "post hoc, after three seeds of version 0.1"


class Seed:
    """The rows of a results table that have one seed. Raises KeyError for a value that is missing or not defined.

    L is the shortest training length in the results.
    """

    def __init__(self, results: pd.DataFrame) -> None:
        where = ["task", "label", "question", "evaluated", "x"]
        self.length = int(results["length"].min())
        self._values: dict[tuple[str | int, ...], float]
        self._values = results.dropna(subset="value").set_index(where)["value"].to_dict()

    def answer(self, task: str, label: str, question: str, x: int, evaluated: str = AS_TRAINED) -> float:
        """The answer to a question at x."""
        return self._values[task, label, question, evaluated, x]

    def bits(
        self,
        label: str,
        times: int,
        evaluated: str = AS_TRAINED,
        question: str = "longer windows",
        task: str = "text",
    ) -> float:
        """The answer to a question at `times` L, by default bits per byte on windows of that length."""
        return self.answer(task, label, question, times * self.length, evaluated)

    def rise(self, label: str) -> float:
        """How many bits per byte more windows of 16 L cost than windows of L."""
        return self.bits(label, 16) - self.bits(label, 1)

    def accuracy(self, task: str, label: str, times: int) -> float:
        """The share of correct answers at the largest distance that fits into `times` L tokens."""
        distance = TASKS[task].max_distance(times * self.length)
        return self.answer(task, label, task, distance)


@dataclass(frozen=True)
class Claim:
    """A published or common claim.

    Attributes:
        text: the claim, with its threshold.
        source: who makes it.
        statistic: computes a number from a `Seed`; None for a claim that needs a larger scale than ours.
        at_least: the smallest number for which the claim holds, in bits per byte or in share of answers.
        at_most: the largest such number; with it, `at_least` is not used.
        written: the date at which the claim and its threshold were written down, such as "2026-11-22".
        seen: what was known of the result by then: `UNSEEN`, `PILOT` or `VERSION_1`, or your own words.
        contrary: evidence against the claim, with its source: published, or other results of this comparison.
        limits: the lowest and the highest number that is possible, such as 0 and 1 for a share.
    """

    text: str
    source: str
    statistic: Callable[[Seed], float] | None = None
    at_least: float = 0.0
    written: str = ""
    seen: str = ""
    contrary: str = ""
    at_most: float | None = None
    limits: tuple[float, float] = (-math.inf, math.inf)

    @property
    def needs(self) -> str:
        """The threshold in words, such as "at least +0.50"."""
        return f"at least {self.at_least:+.2f}" if self.at_most is None else f"at most {self.at_most:+.2f}"


@dataclass(frozen=True)
class Verdict:
    """A claim and its statistic in each seed, with the 95% interval of the mean and the verdict (see this module)."""

    claim: Claim
    values: tuple[float, ...]

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The lower and upper end, within the limits of the claim's number; NaN for fewer than two seeds."""
        (mean, half_width), (lowest, highest) = mean_interval(self.values), self.claim.limits
        return max(mean - half_width, lowest), min(mean + half_width, highest)

    @property
    def verdict(self) -> str:
        """ "reproduced", "contradicted", "undecided" or "not testable here", as explained in this module."""
        if len(self.values) < SEEDS:
            return NOT_TESTABLE
        low, high = (round(end, 4) for end in self.interval)  # results have five digits
        claim = self.claim
        holds = [end >= claim.at_least if claim.at_most is None else end <= claim.at_most for end in (low, high)]
        return REPRODUCED if all(holds) else UNDECIDED if any(holds) else CONTRADICTED

    @property
    def numbers(self) -> str:
        """The mean, its interval, the number of seeds and the threshold, in words; empty without a result."""
        if self.claim.statistic is None:
            return ""
        needed = f"{len(self.values)} seeds, needs {self.claim.needs}"
        if len(self.values) < SEEDS:
            return needed
        low, high = self.interval
        return f"{sum(self.values) / len(self.values):+z.3f}, {LEVEL:.0%}: {low:+z.3f} to {high:+z.3f}, {needed}"

    def __str__(self) -> str:
        numbers = f" [{self.numbers}]" if self.numbers else ""
        written = f"; written {self.claim.written}, {self.claim.seen}" if self.claim.written else ""
        contrary = f"; against it: {self.claim.contrary}" if self.claim.contrary else ""
        return f"{self.verdict}: {self.claim.text}{numbers} ({self.claim.source}{written}{contrary})"


def judge_each(results: pd.DataFrame, claims: Iterable[Claim]) -> list[Verdict]:
    """A verdict on each claim, from a table of results."""
    seeds = [Seed(rows) for _, rows in results.groupby("seed")]
    return [Verdict(claim, _values(claim, seeds)) for claim in claims]


def _values(claim: Claim, seeds: Iterable[Seed]) -> tuple[float, ...]:
    if claim.statistic is None:
        return ()
    values = []
    for seed in seeds:
        try:
            values.append(round(claim.statistic(seed), 5))
        except KeyError:  # a run is missing, or a value not defined
            continue
    return tuple(values)
