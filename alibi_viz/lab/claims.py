"""Test published claims against our own results. Verdicts are computed from the results, never typed in.

A claim is reproduced if its margin, computed per seed, reaches a threshold in *every* seed; at least three seeds are
needed. The runs of one seed started from the same weights and, at equal training length, read the same batches. A
claim that needs a larger scale than ours is quoted with its source and has no margin.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pandas as pd

from alibi_viz.lab.comparison import COMPARISON_LENGTH
from alibi_viz.lab.results import AS_TRAINED

__all__ = ["CLAIMS", "REPRODUCED", "Claim", "Seed", "Verdict", "judge"]

REPRODUCED, NOT_REPRODUCED, NOT_TESTABLE = "reproduced", "not reproduced", "not testable here"
SEEDS = 3  # a verdict needs at least this many
L = COMPARISON_LENGTH


class Seed:
    """The results of one seed. Raises KeyError for a value that is missing or not defined.

    Args:
        results: rows of one seed, with the columns of `lab.results`.
    """

    def __init__(self, results: pd.DataFrame) -> None:
        columns = [results[name] for name in ("task", "label", "question", "evaluated", "x")]
        self._values = dict(zip(zip(*columns, strict=True), results["value"], strict=True))

    def value(self, *where: str | int) -> float:
        """The value at (task, label, question, evaluated, x)."""
        if math.isnan(value := self._values[where]):
            raise KeyError(f"{where} is not defined")
        return float(value)

    def bits(self, label: str, times: int, evaluated: str = AS_TRAINED, question: str = "longer windows") -> float:
        """Bits per byte at `times` L."""
        return self.value("text", label, question, evaluated, times * L)

    def rise(self, label: str) -> float:
        """How many bits per byte more windows of 16 L cost than windows of L."""
        return self.bits(label, 16) - self.bits(label, 1)

    def right(self, task: str, label: str, distance: int) -> float:
        """The share of correct answers at one distance."""
        return self.value(task, label, task, AS_TRAINED, distance)


@dataclass(frozen=True)
class Claim:
    """A published or common claim.

    Attributes:
        text: the claim, with its threshold.
        source: who makes it.
        margin: computes from a `Seed` the number that must reach `at_least`; None if it can't be tested here.
        at_least: the threshold, in bits per byte or in share of answers.
    """

    text: str
    source: str
    margin: Callable[[Seed], float] | None = None
    at_least: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """A claim, its margin in each seed, and the verdict: "reproduced", "not reproduced" or "not testable here"."""

    claim: Claim
    margins: tuple[float, ...]
    verdict: str

    def __str__(self) -> str:
        measured = ", ".join(f"{margin:+z.2f}" for margin in self.margins)
        needed = f" [{measured}; needs {self.claim.at_least:+.2f} in each seed]" if self.claim.margin else ""
        return f"{self.verdict}: {self.claim.text}{needed} ({self.claim.source})"


def judge(results: pd.DataFrame, claims: Iterable[Claim] | None = None) -> list[Verdict]:
    """Compute a verdict on each claim from a table of results.

    A claim is "not testable here" if fewer than three seeds have the values it needs.

    >>> verdicts = judge(lab.published_results().head(0))
    >>> {verdict.verdict for verdict in verdicts}
    {'not testable here'}
    """
    seeds = [Seed(rows) for _, rows in results.groupby("seed")]
    return [_judge(claim, seeds) for claim in (CLAIMS if claims is None else claims)]


def _judge(claim: Claim, seeds: list[Seed]) -> Verdict:
    margins = []
    for seed in seeds if claim.margin else ():
        try:
            margins.append(round(claim.margin(seed), 4))  # type: ignore[misc]  # not None, or there would be no seeds
        except KeyError:  # a run is missing, or a value not defined
            continue
    if len(margins) < SEEDS:
        return Verdict(claim, tuple(margins), NOT_TESTABLE)
    return Verdict(claim, tuple(margins), REPRODUCED if min(margins) >= claim.at_least else NOT_REPRODUCED)


def _holds(label: str, source: str) -> Claim:
    return Claim(f"{label} holds: at 16L at most 0.1 bit worse than at L", source, lambda s: -s.rise(label), -0.1)


def _finds(label: str, source: str) -> Claim:
    text = f"needle: {label} still finds at least nine in ten, 32L back"
    return Claim(text, source, lambda s: s.right("needle", label, 32 * L - 1), 0.9)


PRESS, PILOT = "Press et al. 2021", "a pilot of this project"

CLAIMS = (
    _holds("alibi", f"{PRESS}, table 2"),
    Claim(
        "sinusoidal fails: at 4L at least 0.5 bit worse than alibi",
        f"{PRESS}, table 2",
        lambda s: s.bits("sinusoidal", 4) - s.bits("alibi", 4),
        0.5,
    ),
    Claim(
        "rotary fails: at 16L at least 0.5 bit worse than at L", f"{PRESS}, table 2", lambda s: s.rise("rotary"), 0.5
    ),
    Claim(
        "the mean over windows of 2L hides rotary's failure: it loses at least three times as much to 4L as to 2L",
        PILOT,
        lambda s: s.bits("rotary", 4) - s.bits("rotary", 1) - 3 * (s.bits("rotary", 2) - s.bits("rotary", 1)),
    ),
    Claim(
        "without positions the loss rises with length, at least 0.1 bit at 16L", PILOT, lambda s: s.rise("none"), 0.1
    ),
    _holds("t5", f"{PRESS}, table 3: to about 2L only"),
    _holds("kerple-log", "Chi et al. 2022"),
    _holds("sandwich", "Chi et al. 2023"),
    _holds("fire", "Li et al. 2024"),
    _holds("forget", "Lin et al. 2025"),
    Claim(
        "learned slopes extrapolate worse than fixed ones: at 16L by at least 0.02 bit",
        f"{PRESS}, section 3, in words: 'did not yield strong extrapolation results'",
        lambda s: s.bits("alibi, learned slopes", 16) - s.bits("alibi", 16),
        0.02,
    ),
    Claim(
        "alibi behaves like a soft window: a hard window of L changes its loss at 16L by at most 0.05 bit",
        "Chi et al. 2023",
        lambda s: -abs(s.bits("alibi", 16, "window") - s.bits("alibi", 16)),
        -0.05,
    ),
    Claim(
        "rotary with an evaluation window of L is no worse than alibi at 16L, by at most 0.05 bit",
        PILOT,
        lambda s: s.bits("alibi", 16) - s.bits("rotary", 16, "window"),
        -0.05,
    ),
    Claim(
        "position interpolation without tuning is worse than nothing at 2L",
        PILOT,
        lambda s: s.bits("rotary", 2, "pi") - s.bits("rotary", 2),
        0.02,
    ),
    Claim(
        "the NTK rule without tuning is better than nothing at 2L",
        "bloc97 2023",
        lambda s: s.bits("rotary", 2) - s.bits("rotary", 2, "ntk"),
        0.02,
    ),
    Claim(
        "alibi trained at L is better at 2L than sinusoidal trained at 2L, at equal tokens",
        f"{PRESS}, abstract, at 1.3 billion parameters",
        lambda s: s.bits("sinusoidal trained at 2L", 2) - s.bits("alibi", 2),
        0.02,
    ),
    Claim(
        "alibi trained at L is no worse at 16L than rotary trained at 16L, at equal tokens, by at most 0.05 bit",
        "a control of this project",
        lambda s: s.bits("rotary trained at 16L", 16) - s.bits("alibi", 16),
        -0.05,
    ),
    Claim(
        "early-token curse: windows of 16L score better than windows of L, though each layer sees only L keys",
        f"{PRESS}, appendix B",
        lambda s: s.bits("alibi", 1) - s.bits("alibi", 16, "window"),
        0.01,
    ),
    Claim(
        "with the same targets, alibi gains nothing from context beyond L: at most 0.02 bit at 16L",
        f"{PRESS}, appendix B",
        lambda s: s.bits("alibi", 16, question="same targets") - s.bits("alibi", 1, question="same targets"),
        -0.02,
    ),
    Claim(
        "trained at as little as 64, alibi is slightly worse in range than sinusoidal",
        f"{PRESS}, table 5",
        lambda s: s.bits("alibi", 1) - s.bits("sinusoidal", 1),
        0.01,
    ),
    Claim(
        "needle: alibi finds it within L, and beyond 4/m of its flattest head misses at least four in ten",
        PILOT,
        lambda s: s.right("needle", "alibi", L - 1) - s.right("needle", "alibi", 32 * L - 1),
        0.4,
    ),
    _finds("none", PILOT),
    _finds("t5", PILOT),
    _finds("kerple-log", PILOT),
    Claim(
        "copy: kerple-log is better than alibi at 4L, by at least a tenth",
        PILOT,
        lambda s: s.right("copy", "kerple-log", 2 * L) - s.right("copy", "alibi", 2 * L),
        0.1,
    ),
    Claim(
        "copy: kerple-log is better than alibi at 16L, by at least a tenth",
        "added after 4L had shown no difference",
        lambda s: s.right("copy", "kerple-log", 8 * L) - s.right("copy", "alibi", 8 * L),
        0.1,
    ),
    Claim(
        "copy: rotary is better than alibi in range, by at least 0.01",
        "a common belief",
        lambda s: s.right("copy", "rotary", L // 2) - s.right("copy", "alibi", L // 2),
        0.01,
    ),
    Claim(
        "copy: a model without positions generalizes better than alibi, at 4L by at least a tenth",
        "Kazemnejad et al. 2023, on other small tasks",
        lambda s: s.right("copy", "none", 2 * L) - s.right("copy", "alibi", 2 * L),
        0.1,
    ),
    Claim(
        "alibi is better than sinusoidal in range at scale: 19.73 against 20.05 perplexity at 512", f"{PRESS}, table 2"
    ),
    Claim(
        "1.3 billion parameters: 8.92 at 2048 after training at 1024, sinusoidal 9.01 after 2048", f"{PRESS}, figure 5"
    ),
    Claim("11% faster with 11% less memory, thanks to the shorter training length", f"{PRESS}, abstract"),
    Claim("needles at twice the training length: alibi near zero in a language model", "DroPE's tables"),
)
