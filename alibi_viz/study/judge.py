"""Test claims against results. Verdicts are computed from the results, never typed in.

A claim says that a number, computed from the runs of one seed, is at least or at most a threshold. The runs of one
seed started from the same weights and, at equal training length and batch size, read the same batches. The verdict
depends on the 95% interval of that number's mean:

    seen here      the claim holds in the whole interval
    not seen here  it holds nowhere in the interval
    can't tell     it holds in a part of the interval, or results are missing

The interval covers other seeds and other passages of the same kind of text: the runs and the blocks of the held-out
text are resampled together (scipy's bootstrap), and the standard error found is widened to the Student t interval of so
few seeds. It doesn't cover other models, sizes or texts of another kind.

The claims are in claims.toml, the papers that they come from in papers.toml.
"""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit  # scipy.stats takes a second to import

from alibi_viz.arguments import as_list, check_instance, check_known
from alibi_viz.lab import TASKS
from alibi_viz.table import AS_TRAINED, LEVEL, SEEDS

SEEN, NOT_SEEN, CANT_TELL = "seen here", "not seen here", "can't tell"
KNOWN = ("blind", "after a pilot", "afterwards")  # what was known of the result when a claim was written
SETTINGS = {"tales": "text", "Python's reference": "python reference"}  # {name: task}, the main setting first
RESAMPLES = 1999
NO_INTERVAL = (math.nan, math.nan)


@dataclass(frozen=True)
class Term:
    """One answer in the number of a claim.

    Attributes:
        label: of the trained model, as in the column "label".
        times: where on the question's axis, in multiples of L, the shortest training length in the results. For a
            retrieval task, the largest distance that fits into that many tokens.
        variant: "as trained", or how the model was changed before it was evaluated, such as "window".
    """

    label: str
    times: int
    variant: str = AS_TRAINED


@dataclass(frozen=True)
class Claim:
    """A claim: the sum of the answers `plus` minus the sum of the answers `minus` is on one side of a threshold.

    Attributes:
        name, text, source: the claim in a few words and in a sentence with its threshold, and who makes it.
        plus, minus: answers to a question.
        at_least, at_most: the smallest or the largest number for which the claim holds; one of them.
        task, question: what the models were trained on, and what was asked of them.
        known: what was known of the result when the claim was written down: "blind", "after a pilot" or "afterwards".
        written: that day, such as "2026-11-22".
    """

    name: str
    text: str
    source: str
    plus: Sequence[Term]
    minus: Sequence[Term] = ()
    at_least: float | None = None
    at_most: float | None = None
    task: str = "text"
    question: str = "longer windows"
    known: str = KNOWN[0]
    written: str = ""

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"a claim needs either at_least or at_most: {self.text!r}")
        check_known("known", [self.known], KNOWN)

    @property
    def threshold(self) -> float:
        """`at_least` or `at_most`."""
        return float(self.at_most if self.at_least is None else self.at_least)  # type: ignore[arg-type]

    def margin(self, number: float) -> float:
        """By how much the claim holds for a number; negative if it doesn't."""
        return number - self.threshold if self.at_most is None else self.threshold - number


@dataclass(frozen=True)
class Verdict:
    """A claim and its number in each seed and block of text, with the interval of the mean and the verdict.

    Attributes:
        claim: the claim.
        values: float64 [seeds, blocks].
        missing: why there is no number; empty if there is one.
    """

    claim: Claim
    values: NDArray[np.float64]
    missing: str = ""

    @property
    def mean(self) -> float:
        """The claim's number, the mean over seeds and blocks; NaN if results are missing."""
        return float(self.values.mean()) if self.values.size else math.nan

    @cached_property
    def standard_error(self) -> float:
        """Of the mean, over seeds and blocks; NaN for fewer than two seeds."""
        from scipy.stats import bootstrap  # noqa: PLC0415 - takes a second to import

        seeds, blocks = self.values.shape
        if seeds < 2:
            return math.nan
        if self.values.std() == 0:
            return 0.0

        def mean(seed: NDArray[np.int64], block: NDArray[np.int64], axis: int) -> NDArray[np.float64]:
            return self.values[seed[..., :, None], block[..., None, :]].mean((-1, -2))

        samples = (np.arange(seeds), np.arange(blocks))
        if blocks == 1:
            samples = (np.arange(seeds), np.zeros(2, int))  # scipy asks for two of each
        found = bootstrap(samples, mean, n_resamples=RESAMPLES, method="percentile", vectorized=True, rng=0)
        return float(found.standard_error) * math.sqrt(seeds / (seeds - 1))  # a resample varies less than the sample

    @property
    def interval(self) -> tuple[float, float]:
        """The lower and upper end of the 95% interval; NaN for fewer than two seeds."""
        half_width = self.standard_error * stdtrit(max(len(self.values) - 1, 1), (1 + LEVEL) / 2)
        return self.mean - half_width, self.mean + half_width

    @property
    def p_value(self) -> float:
        """Two-sided, of a true number at the threshold; 1 if results are missing."""
        if self.missing:
            return 1.0
        distance = abs(self.mean - self.claim.threshold)
        if self.standard_error == 0:
            return float(distance == 0)
        return float(2 * stdtr(len(self.values) - 1, -distance / self.standard_error))

    @property
    def verdict(self) -> str:
        """ "seen here", "not seen here" or "can't tell", as explained in this module."""
        if self.missing:
            return CANT_TELL
        holds = [self.claim.margin(round(end, 4)) >= 0 for end in self.interval]  # results have five digits
        return SEEN if all(holds) else CANT_TELL if any(holds) else NOT_SEEN

    @property
    def numbers(self) -> str:
        """The mean, its interval and the threshold in words; or why there are none."""
        if self.missing:
            return self.missing
        (low, high), bound = self.interval, "at least" if self.claim.at_most is None else "at most"
        return (
            f"{self.mean:+z.3f}, {LEVEL:.0%}: {low:+z.3f} to {high:+z.3f}, needs {bound} {self.claim.threshold:+z.2f}"
        )

    def __str__(self) -> str:
        return f"{self.verdict}: {self.claim.name}. {self.claim.text} [{self.numbers}]"


def judge(results: pd.DataFrame, claims: Iterable[Claim] | None = None, *, setting: str = "tales") -> list[Verdict]:
    """Compute a verdict on each claim from a table of results; by default, on the twelve claims of this study.

    Args:
        results: a table with the columns of `lab.COLUMNS`, and "block" if values are means of blocks of text.
        claims: by default all in claims.toml; of these, the ones about tasks in the main setting only.
        setting: "tales" or "Python's reference", on which the models of claims about text were trained.

    Raises TypeError and ValueError for other arguments.

    >>> {verdict.verdict for verdict in study.judge(study.published_results().head(0))}
    {"can't tell"}
    >>> terms = {"plus": [study.Term("rotary", 16)], "minus": [study.Term("rotary", 1)]}
    >>> claim = study.Claim("It fails", "Its loss rises by half a bit.", "me", **terms, at_least=0.5)
    >>> study.judge(study.published_results(), [claim])[0].verdict
    'seen here'
    """
    check_instance("results", results, pd.DataFrame)
    check_known("setting", [setting], SETTINGS)
    if claims is None:
        claims = [claim for claim in CLAIMS if setting == next(iter(SETTINGS)) or claim.task == "text"]
    claims = as_list("claims", claims, "Claim objects")
    for claim in claims:
        check_instance("each of claims", claim, Claim)
    if "block" not in results:
        results = results.assign(block=0)
    return [_verdict(claim, results, SETTINGS[setting] if claim.task == "text" else claim.task) for claim in claims]


def _verdict(claim: Claim, results: pd.DataFrame, task: str) -> Verdict:
    rows = results[(results["task"] == task) & (results["question"] == claim.question)]
    nothing = np.empty((0, 0))
    if texts := len(set(rows["text"])) - 1 if len(rows) else 0:
        return Verdict(claim, nothing, f"the results are about {texts + 1} different texts")
    number: Any = 0
    for sign, terms in ((1, claim.plus), (-1, claim.minus)):
        for term in terms:
            x = term.times * int(rows["length"].min() if len(rows) else 1)
            x = TASKS[task].max_distance(x) if task in TASKS and len(rows) else x
            own = rows[(rows["label"] == term.label) & (rows["variant"] == term.variant) & (rows["x"] == x)]
            own = own.dropna(subset="value")
            if own.empty:
                changed = "" if term.variant == AS_TRAINED else f", {term.variant},"
                return Verdict(claim, nothing, f"no results of {term.label}{changed} at {term.times}L")
            number = number + sign * own.pivot(index="seed", columns="block", values="value")
    values = number.dropna()  # seeds that not all terms have
    if len(values) < SEEDS:
        return Verdict(claim, nothing, f"only {len(values)} seeds have all results, at least {SEEDS} are needed")
    return Verdict(claim, values.to_numpy().round(5))


def verdict_table(results: pd.DataFrame) -> pd.DataFrame:
    """The twelve claims in each setting that has results, a row for each verdict, in the order of claims.toml.

    Columns: setting, claim, text, source, known, margin (by how much the claim holds), low and high (the interval of
    the margin), verdict, p, holm (p after Holm's correction over all rows), and numbers (in words).

    >>> table = study.verdict_table(study.published_results(by_block=True))
    >>> table.groupby("setting", sort=False).size().to_dict()
    {'tales': 12, "Python's reference": 11}
    """
    check_instance("results", results, pd.DataFrame)
    present = set(results["task"])
    verdicts = [
        (setting, verdict)
        for setting, task in SETTINGS.items()
        if task in present
        for verdict in judge(results, setting=setting)
    ]
    rows = []
    for setting, each in verdicts:
        claim, ends = each.claim, sorted(map(each.claim.margin, each.interval if not each.missing else NO_INTERVAL))
        rows.append(
            {
                "setting": setting,
                "claim": claim.name,
                "text": claim.text,
                "source": claim.source,
                "known": claim.known,
                "margin": claim.margin(each.mean),
                "low": ends[0],
                "high": ends[1],
                "verdict": each.verdict,
                "p": each.p_value,
                "numbers": each.numbers,
            }
        )
    table = pd.DataFrame(rows)
    return table.assign(holm=holm(table["p"])) if rows else table


def holm(p_values: Iterable[float]) -> NDArray[np.float64]:
    """Holm's correction (1979): p-values such that a false one below 5% among all of them is a 5% chance.

    >>> from alibi_viz.study.judge import holm
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p_values = np.asarray(list(p_values), dtype=float)
    order = np.argsort(p_values)
    corrected = np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1)).clip(max=1)
    return corrected[np.argsort(order)]


def _claim(entry: Mapping[str, Any]) -> Claim:
    sides = {side: [Term(**term) for term in entry.get(side, ())] for side in ("plus", "minus")}
    citations = {name: "{authors} {year}, arXiv {arxiv}".format_map(paper) for name, paper in PAPERS.items()}
    return Claim(**{**entry, **sides, "source": entry["source"].format_map(citations)})


FOLDER = Path(__file__).parent
PAPERS = tomllib.loads((FOLDER / "papers.toml").read_text(encoding="utf-8"))  # {name: {"authors": ..., "arxiv": ...}}
CLAIMS = tuple(map(_claim, tomllib.loads((FOLDER / "claims.toml").read_text(encoding="utf-8"))["claim"]))
