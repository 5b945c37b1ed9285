"""Test claims against results. Verdicts are computed from the results, never typed in.

A claim says that a number, computed from the runs of one seed, is at least or at most a threshold.
By its 95% interval:

    seen here      the claim holds in the whole interval
    not seen here  it holds nowhere in the interval
    can't tell     it holds in a part of the interval, or results are missing

The interval covers other seeds and, on a text, other passages of the same kind: it is the Student t
interval for so few seeds around the standard error of a bootstrap over runs and blocks of the
held-out text. It doesn't cover other models, sizes or texts of another kind, and on a task no other
examples.
"""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit  # scipy.stats takes a second to import

from alibi_viz.arguments import as_list, check_known
from alibi_viz.lab import TASKS
from alibi_viz.measure.table import AS_TRAINED, LEVEL, SEEDS, VERDICT_COLUMNS, check_table

SEEN, NOT_SEEN, CANT_TELL = "seen here", "not seen here", "can't tell"
KNOWN = (
    "blind",
    "after a pilot",
    "afterwards",
)  # what was known of the result when a claim was written
SETTINGS = {
    "tales": "text",
    "Python's reference": "python reference",
}  # {name: task}, the main setting first


@dataclass(frozen=True)
class Term:
    """One answer in the number of a claim."""

    label: str  # of the trained model, as in the column "label"
    # Where on the question's axis, in multiples of L, the shortest training length in the results
    times: int
    variant: str = (
        AS_TRAINED  # or how the model was changed before it was evaluated, such as "window"
    )


@dataclass(frozen=True)
class Claim:
    """A claim: the sum of the answers `plus` minus the sum of the answers `minus` is on one side of
    a threshold."""

    name: str  # in a few words
    text: str  # in a sentence with its threshold
    source: str  # who makes it
    plus: Sequence[Term]
    minus: Sequence[Term] = ()
    at_least: float | None = None  # the smallest number for which the claim holds,
    at_most: float | None = None  # or the largest
    task: str = "text"  # what the models were trained on
    question: str = "longer sequences"  # what was asked of them
    known: str = KNOWN[
        0
    ]  # what was known of the result when the claim was written down, one of `KNOWN`
    written: str = ""  # that day, such as "2026-11-22"

    def __post_init__(self) -> None:
        if (
            (self.at_least is None) == (self.at_most is None)
            or math.isnan(self.threshold)
            or not self.plus
        ):
            raise ValueError(
                f"a claim needs terms in plus, and a number at_least or at_most: {self.text!r}"
            )
        check_known("known", [self.known], KNOWN)

    @property
    def threshold(self) -> float:
        """`at_least` or `at_most`."""
        return self.at_least if self.at_least is not None else self.at_most or 0.0

    def margin(self, number: float) -> float:
        """By how much the claim holds for a number; negative if it doesn't."""
        return number - self.threshold if self.at_most is None else self.threshold - number


@dataclass(frozen=True, eq=False)
class Verdict:
    """A claim, its number with the 95% interval, and what that says. Without results, numbers are
    NaN and p is 1."""

    claim: Claim
    values: NDArray[np.float64] = field(
        repr=False
    )  # [seeds, blocks], the number in each; empty without results
    verdict: str  # "seen here", "not seen here" or "can't tell", as explained in this module
    numbers: str  # the mean, its interval and the threshold in words; or which results are missing
    mean: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = 1.0  # two-sided, of a true number at the threshold


def judge(
    results: pd.DataFrame, claims: Iterable[Claim] | None = None, *, setting: str = "tales"
) -> list[Verdict]:
    """Compute a verdict on each claim from a table of results; by default, on the twelve claims of
    this study.

    Args:
        results: a table with the columns of `lab.COLUMNS`, and "block" if values are means of
            blocks of text.
        claims: by default all in claims.toml; of these, the ones about tasks in the main setting
            only.
        setting: "tales" or "Python's reference", on which the models of claims about text were
            trained.

    Raises TypeError and ValueError for other arguments.

    >>> {verdict.verdict for verdict in study.judge(study.published_results().head(0))}
    {"can't tell"}
    >>> terms = {"plus": [study.Term("rotary", 16)], "minus": [study.Term("rotary", 1)]}
    >>> claim = study.Claim("It fails", "Its loss rises by half a bit.", "me", **terms, at_least=0.5)
    >>> study.judge(study.published_results(), [claim])[0].verdict
    'seen here'
    """
    check_table("results", results)
    check_known("setting", [setting], SETTINGS)
    ours = [claim for claim in CLAIMS if setting == next(iter(SETTINGS)) or claim.task == "text"]
    claims = as_list("claims", ours if claims is None else claims, "Claim objects", Claim)
    if "block" not in results:
        results = results.assign(block=0)
    return [
        _verdict(claim, results, SETTINGS[setting] if claim.task == "text" else claim.task)
        for claim in claims
    ]


def _verdict(claim: Claim, results: pd.DataFrame, task: str) -> Verdict:
    try:
        values = _values(claim, results, task)
    except LookupError as error:
        return Verdict(claim, np.empty((0, 0)), CANT_TELL, str(error.args[0]))
    mean, spread, seeds = float(values.mean()), standard_error(values), len(values)
    half_width = spread * stdtrit(seeds - 1, (1 + LEVEL) / 2)
    low, high, distance = mean - half_width, mean + half_width, abs(mean - claim.threshold)
    holds = [claim.margin(round(end, 4)) >= 0 for end in (low, high)]  # results have five digits
    verdict = CANT_TELL if holds[0] != holds[1] else SEEN if holds[0] else NOT_SEEN
    p = 1.0 if distance == 0 else float(2 * stdtr(seeds - 1, -distance / spread)) if spread else 0.0
    threshold = (
        f"{claim.threshold:+z.2f}"
        if round(claim.threshold, 2) == claim.threshold
        else f"{claim.threshold:+}"
    )
    needs = f"needs {'at least' if claim.at_most is None else 'at most'} {threshold}"
    numbers = f"{mean:+z.3f}, {LEVEL:.0%}: {low:+z.3f} to {high:+z.3f}, {needs}"
    return Verdict(claim, values, verdict, numbers, mean, low, high, p)


def _values(claim: Claim, results: pd.DataFrame, task: str) -> NDArray[np.float64]:
    """The number of the claim in each seed and block. Raises LookupError, and says why, if results
    are missing."""
    rows = results[(results["task"] == task) & (results["question"] == claim.question)].dropna(
        subset="value"
    )
    if rows.empty:
        raise LookupError(f"no results on {claim.question!r} of models trained on {task!r}")
    length = int(rows["length"].min())
    cells = rows.pivot_table(
        index="seed", columns=["label", "variant", "x", "block"], values="value"
    )
    if (texts := rows["text"].nunique()) > 1:
        raise LookupError(f"the results are about {texts} different texts")
    if rows.duplicated(["label", "variant", "seed", "x", "block"]).any():
        raise LookupError("there are several results for a label, seed and x")
    parts: list[
        Any
        # [seed, block]; where sequences of some length make fewer blocks, the means of the seeds
    ] = []
    for sign, term in [*((1, term) for term in claim.plus), *((-1, term) for term in claim.minus)]:
        x = term.times * length
        own = rows[
            (rows["label"] == term.label) & (rows["variant"] == term.variant) & (rows["x"] == x)
        ]
        if (own[["step", "length"]].nunique() > 1).any():
            raise LookupError(
                f"{term.label} has several steps or training lengths: label the models apart"
            )
        if (term.label, term.variant, x) not in cells:
            changed = "" if term.variant == AS_TRAINED else f", {term.variant},"
            raise LookupError(f"no results of {term.label}{changed} at {term.times}L")
        parts.append(sign * cells[term.label, term.variant, x])
    if len({part.shape[1] for part in parts}) > 1:
        parts = [part.mean(axis=1).to_frame() for part in parts]
    number = sum(parts).dropna()  # seeds that not all terms have
    if len(number) < SEEDS:
        raise LookupError(f"too few seeds have all results: {len(number)} of at least {SEEDS}")
    return np.asarray(number).round(5)


def standard_error(values: NDArray[np.float64]) -> float:
    """The standard error of the mean of numbers [seed, block], over other seeds and other blocks.

    It is that of a bootstrap that resamples seeds and blocks together, computed instead of drawn.
    """
    seeds, blocks = values.shape
    by_seed, by_block = values.mean(1) - values.mean(), values.mean(0) - values.mean()
    rest = values - values.mean() - by_seed[:, None] - by_block
    variance = by_seed.var() / seeds + by_block.var() / blocks + rest.var() / values.size
    return math.sqrt(variance * seeds / (seeds - 1))  # a resample varies less than the sample


def verdict_table(results: pd.DataFrame) -> pd.DataFrame:
    """The twelve claims in each setting that has results, a row for each verdict, in the order of
    claims.toml.

    Columns: setting, claim, text, source, known, margin (by how much the claim holds), low and high
        (the interval of
    the margin), verdict, p, holm (p after Holm's correction over all rows with results), and
    numbers (in words).

    >>> table = study.verdict_table(study.published_results(by_block=True))
    >>> table.groupby("setting", sort=False).size().to_dict()
    {'tales': 12, "Python's reference": 11}
    """
    check_table("results", results)
    tasks, rows = set(results["task"]), []
    for setting, task in SETTINGS.items():
        if task in tasks or (task == "text" and not tasks.isdisjoint(TASKS)):  # such as needle
            rows += [_row(setting, verdict) for verdict in judge(results, setting=setting)]
    table = pd.DataFrame(rows, columns=[*VERDICT_COLUMNS])
    tested = table["p"][table["low"].notna()]
    return table.assign(holm=pd.Series(holm(tested), tested.index))


def _row(setting: str, verdict: Verdict) -> dict[str, Any]:
    claim = verdict.claim
    low, high = sorted(map(claim.margin, (verdict.low, verdict.high)))
    words = setting, claim.name, claim.text, claim.source, claim.known
    numbers = claim.margin(verdict.mean), low, high, verdict.p
    return dict(
        zip(VERDICT_COLUMNS, (*words, *numbers, verdict.verdict, verdict.numbers), strict=True)
    )


def conclusion(table: pd.DataFrame) -> str:
    """How many verdicts of `verdict_table` survive Holm's correction, and the share seen by what
    was known before."""
    check_table("table", table, ("known", "low", "verdict", "p", "holm"))
    if table["low"].isna().all():
        return "There are no results on any claim."
    table = table.dropna(subset="low")  # without an interval: a claim that has too few results
    decided = table["p"] < 1 - LEVEL
    survive = decided & (table["holm"] < 1 - LEVEL)
    groups = {
        known: rows["verdict"] == SEEN
        for known in KNOWN
        if len(rows := table[table["known"] == known])
    }
    shares = ", ".join(f"{known} {seen.sum()} of {len(seen)}" for known, seen in groups.items())
    excluded = f"Of these {len(table)} intervals, {decided.sum()} exclude their threshold."
    left = f"After Holm's correction for testing all of them at once, {survive.sum()} still do."
    return (
        f"{excluded} {left}\nSeen here, by what we knew of the result when we wrote the claim "
        f"down: {shares}."
    )


def holm(p_values: Iterable[float]) -> NDArray[np.float64]:
    """Holm's correction (1979): p-values such that a false one below 5% among all of them is a 5%
    chance.

    >>> from alibi_viz.study.judge import holm
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p_values = np.asarray(list(p_values), dtype=float)
    order = np.argsort(p_values)
    return np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1)).clip(max=1)[
        np.argsort(order)
    ]


def _claim(entry: Mapping[str, Any]) -> Claim:
    sides = {side: [Term(**term) for term in entry.get(side, ())] for side in ("plus", "minus")}
    citations = {
        name: "{authors} {year}, arXiv {arxiv}".format_map(paper) for name, paper in PAPERS.items()
    }
    return Claim(**{**entry, **sides, "source": entry["source"].format_map(citations)})


FOLDER = Path(__file__).parent
PAPERS = tomllib.loads(
    (FOLDER / "papers.toml").read_text(encoding="utf-8")
)  # {name: {"authors": ..., "arxiv": ...}}
CLAIMS = tuple(
    map(_claim, tomllib.loads((FOLDER / "claims.toml").read_text(encoding="utf-8"))["claim"])
)
