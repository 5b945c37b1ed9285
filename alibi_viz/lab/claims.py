"""Test published claims against our own results. Verdicts are computed from the results, never typed in.

A claim is reproduced if its statistic reaches a threshold in *every* seed; at least three seeds are needed. The runs of
one seed started from the same weights and, at equal training length, read the same batches.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pandas as pd

from alibi_viz.lab.comparison import COMPARISON_LENGTH
from alibi_viz.lab.questions.outcomes import quoted
from alibi_viz.lab.results import AS_TRAINED

__all__ = ["CLAIMS", "Claim", "Seed", "Verdict", "judge"]

REPRODUCED, NOT_REPRODUCED, NOT_TESTABLE = "reproduced", "not reproduced", "not testable here"
SEEDS = 3  # a verdict needs at least this many
L = COMPARISON_LENGTH


class Seed:
    """The rows of a results table that have one seed. Raises KeyError for a value that is missing or not defined."""

    def __init__(self, results: pd.DataFrame) -> None:
        where = ["task", "label", "question", "evaluated", "x"]
        self._values: dict[tuple[str | int, ...], float]
        self._values = results.dropna(subset="value").set_index(where)["value"].to_dict()

    def bits(self, label: str, times: int, evaluated: str = AS_TRAINED, question: str = "longer windows") -> float:
        """Bits per byte at `times` L."""
        return self._values["text", label, question, evaluated, times * L]

    def rise(self, label: str) -> float:
        """How many bits per byte more windows of 16 L cost than windows of L."""
        return self.bits(label, 16) - self.bits(label, 1)

    def accuracy(self, task: str, label: str, distance: int) -> float:
        """The share of correct answers at one distance."""
        return self._values[task, label, task, AS_TRAINED, distance]


@dataclass(frozen=True)
class Claim:
    """A published or common claim.

    Attributes:
        text: the claim, with its threshold.
        source: who makes it.
        statistic: computes from a `Seed` the number that must reach `at_least`; None for a claim that needs a larger
            scale than ours.
        at_least: the threshold, in bits per byte or in share of answers.
    """

    text: str
    source: str
    statistic: Callable[[Seed], float] | None = None
    at_least: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """A claim, its statistic in each seed, and the verdict: "reproduced", "not reproduced" or "not testable here"."""

    claim: Claim
    values: tuple[float, ...]
    verdict: str

    def __str__(self) -> str:
        measured = ", ".join(f"{value:+z.2f}" for value in self.values)
        needed = f" [{measured}; needs {self.claim.at_least:+.2f} in each seed]" if self.claim.statistic else ""
        return f"{self.verdict}: {self.claim.text}{needed} ({self.claim.source})"


def judge(results: pd.DataFrame, claims: Iterable[Claim] | None = None) -> list[Verdict]:
    """Compute a verdict on each claim from a table of results; by default, on all claims of this project.

    A claim is "not testable here" if fewer than three seeds have the values it needs.

    >>> {verdict.verdict for verdict in lab.judge(lab.published_results().head(0))}
    {'not testable here'}
    """
    seeds = [Seed(rows) for _, rows in results.groupby("seed")]
    return [_judge(claim, seeds) for claim in (CLAIMS if claims is None else claims)]


def _judge(claim: Claim, seeds: list[Seed]) -> Verdict:
    values = []
    for seed in seeds if claim.statistic else ():
        try:
            values.append(round(claim.statistic(seed), 4))  # type: ignore[misc]  # not None, or there would be no seeds
        except KeyError:  # a run is missing, or a value not defined
            continue
    if len(values) < SEEDS:
        return Verdict(claim, tuple(values), NOT_TESTABLE)
    return Verdict(claim, tuple(values), REPRODUCED if min(values) >= claim.at_least else NOT_REPRODUCED)


Windows = tuple[str, int] | tuple[str, int, str]  # label, length in multiples of L, and how the model was changed


def _worse(
    claim: str, source: str, first: Windows, second: Windows, *, at_least: float | None = None, at_most: float = 0.0
) -> Claim:
    """The claim that the first loss is higher than the second by at least, or at most, some bits per byte."""
    bound, bits, sign = ("at most", at_most, -1) if at_least is None else ("at least", at_least, 1)
    text = f"{claim}: {_name(*first)} is {bound} {bits:g} bits worse than {_name(*second)}"
    return Claim(text, source, lambda seed: sign * (seed.bits(*first) - seed.bits(*second)), sign * bits)


def _name(label: str, times: int, evaluated: str = AS_TRAINED) -> str:
    changed = "" if evaluated == AS_TRAINED else f" ({evaluated})"
    return f"{quoted(label)}{changed} on windows of {times if times > 1 else ''}L"


def _holds(label: str, source: str) -> Claim:
    return _worse(f"{label} holds", source, (label, 16), (label, 1), at_most=0.1)


def _finds(label: str) -> Claim:
    text = f"needle: the method {label} finds at least 90% of the needles 32L back"
    return Claim(text, PILOT, lambda seed: seed.accuracy("needle", label, 32 * L - 1), 0.9)


def _copies_better(label: str, times: int, at_least: float, source: str) -> Claim:
    length = f"{times}L" if times > 1 else "L"
    text = f"copy: on examples of {length}, the accuracy of {label} is at least {at_least:g} higher than that of alibi"
    where = times * L // 2  # symbols
    return Claim(
        text, source, lambda s: s.accuracy("copy", label, where) - s.accuracy("copy", "alibi", where), at_least
    )


PRESS, PILOT = "Press et al. 2021", "a pilot of this project"

CLAIMS = (
    _holds("alibi", f"{PRESS}, table 2"),
    _worse("sinusoidal fails", f"{PRESS}, table 2", ("sinusoidal", 4), ("alibi", 4), at_least=0.5),
    _worse("rotary fails", f"{PRESS}, table 2", ("rotary", 16), ("rotary", 1), at_least=0.5),
    Claim(
        "windows of 2L hide how badly rotary fails: its loss rises at least three times as much to 4L as to 2L",
        PILOT,
        lambda s: s.bits("rotary", 4) - s.bits("rotary", 1) - 3 * (s.bits("rotary", 2) - s.bits("rotary", 1)),
    ),
    _worse("without positions the loss rises with length", PILOT, ("none", 16), ("none", 1), at_least=0.1),
    _holds("t5", f"{PRESS}, table 3: to about 2L only"),
    _holds("kerple-log", "Chi et al. 2022"),
    _holds("sandwich", "Chi et al. 2023"),
    _holds("fire", "Li et al. 2024"),
    _holds("forget", "Lin et al. 2025"),
    _worse(
        "learned slopes are worse", f"{PRESS}, section 3", ("alibi, learned slopes", 16), ("alibi", 16), at_least=0.02
    ),
    Claim(
        "alibi acts like a soft window: limiting its attention to L changes its loss at 16L by at most 0.05 bits",
        "Chi et al. 2023",
        lambda s: -abs(s.bits("alibi", 16, "window") - s.bits("alibi", 16)),
        -0.05,
    ),
    _worse("a window of L repairs rotary", PILOT, ("rotary", 16, "window"), ("alibi", 16), at_most=0.05),
    _worse("without fine-tuning, PI does harm", PILOT, ("rotary", 2, "pi"), ("rotary", 2), at_least=0.02),
    _worse("without fine-tuning, NTK helps", "bloc97 2023", ("rotary", 2), ("rotary", 2, "ntk"), at_least=0.02),
    _worse("at equal tokens", f"{PRESS}, abstract", ("sinusoidal trained at 2L", 2), ("alibi", 2), at_least=0.02),
    _worse("at equal tokens", "a control of ours", ("alibi", 16), ("rotary trained at 16L", 16), at_most=0.05),
    _worse("early token curse", f"{PRESS}, appendix B", ("alibi", 1), ("alibi", 16, "window"), at_least=0.01),
    Claim(
        "alibi gains nothing from context beyond L: on the same targets, 16L of context saves at most 0.02 bits",
        f"{PRESS}, appendix B",
        lambda s: s.bits("alibi", 16, question="same targets") - s.bits("alibi", 1, question="same targets"),
        -0.02,
    ),
    _worse("at short training lengths", f"{PRESS}, table 5", ("alibi", 1), ("sinusoidal", 1), at_least=0.01),
    Claim(
        "needle: alibi's accuracy is at least 0.4 lower 32L back, beyond 4/m of its flattest head, than within L",
        PILOT,
        lambda s: s.accuracy("needle", "alibi", L - 1) - s.accuracy("needle", "alibi", 32 * L - 1),
        0.4,
    ),
    *map(_finds, ("none", "t5", "kerple-log")),
    _copies_better("kerple-log", 4, 0.1, PILOT),
    _copies_better("kerple-log", 16, 0.1, "added after 4L had shown no difference"),
    _copies_better("rotary", 1, 0.01, "a common belief"),
    _copies_better("none", 4, 0.1, "Kazemnejad et al. 2023, on other small tasks"),
    Claim("at scale, alibi beats sinusoidal at L = 512: perplexity 19.73 against 20.05", f"{PRESS}, table 2"),
    Claim("1.3B parameters: 8.92 at 2048 after training at 1024, sinusoidal 9.01 after 2048", f"{PRESS}, figure 5"),
    Claim("11% faster with 11% less memory, thanks to the shorter training length", f"{PRESS}, abstract"),
    Claim("needles at twice the training length: alibi near zero in a language model", "DroPE's tables"),
)
