"""Test claims against results. Verdicts are computed from the results, never typed in.

A claim says that a number, computed from the runs of one seed, is at least or at most a threshold. The runs of one
seed started from the same weights and, at equal training length and batch size, read the same batches. The verdict
depends on the 95% interval of that number's mean over the seeds:

    reproduced         the claim holds in the whole interval
    contradicted       it holds nowhere in the interval
    undecided          it holds in a part of the interval
    not testable here  the results lack runs for it, or it is about models much larger than ours

The claims are in claims.toml, the papers that they come from or that contradict them in papers.toml.
"""

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from alibi_viz.arguments import as_list, check_instance, check_known
from alibi_viz.lab import TASKS
from alibi_viz.table import AS_TRAINED, LEVEL, SEEDS, over_seeds

REPRODUCED, CONTRADICTED, UNDECIDED = "reproduced", "contradicted", "undecided"
NOT_TESTABLE = "not testable here"
NONE = (math.nan, math.nan)
# What was known of the result when a claim was written down: the values of `Claim.seen` in claims.toml.
HISTORY = ("before any run", "after a pilot", "post hoc, after three seeds of version 0.1")


@dataclass(frozen=True)
class Term:
    """One answer in the number of a claim.

    Attributes:
        label: of the trained model, as in the column "label".
        times: where on the question's axis, in multiples of L, the shortest training length in the results. For a
            retrieval task, the largest distance that fits into that many tokens.
        variant: "as trained", or how the model was changed before it was evaluated, such as "window".
        factor: the answer is multiplied by it.
    """

    label: str
    times: int
    variant: str = AS_TRAINED
    factor: float = 1


@dataclass(frozen=True)
class Claim:
    """A published or common claim: `constant` + the sum of `plus` - the sum of `minus` is on one side of a threshold.

    Attributes:
        text, source: the claim, with its threshold, and who makes it.
        plus, minus: answers to a question; none for a claim that needs a larger scale than ours.
        at_least, at_most: the smallest and the largest number for which the claim holds; one of them is enough.
        task, question: what the models were trained on, and what was asked of them.
        absolute: whether the number is taken without its sign.
        limits: the lowest and the highest number that is possible, such as 0 and 1 for a share.
        written: the date at which the claim and its threshold were written down, such as "2026-11-22".
        seen: what was known of the result by then.
        contrary: evidence against the claim, with its source: published, or other results of this comparison.
    """

    text: str
    source: str
    plus: Sequence[Term] = ()
    minus: Sequence[Term] = ()
    at_least: float = -math.inf
    at_most: float = math.inf
    task: str = "text"
    question: str = "longer windows"
    constant: float = 0
    absolute: bool = False
    limits: tuple[float, float] = (-math.inf, math.inf)
    written: str = ""
    seen: str = ""
    contrary: str = ""

    def __post_init__(self) -> None:
        if self.is_testable and (self.at_least, self.at_most) == (-math.inf, math.inf):
            raise ValueError(f"a claim about results needs at_least or at_most: {self.text!r}")

    @property
    def is_testable(self) -> bool:
        """Whether models as small as ours can test it."""
        return bool(self.plus or self.minus)


@dataclass(frozen=True)
class Verdict:
    """A claim and its number in each seed, with the 95% interval of the mean and the verdict (see this module)."""

    claim: Claim
    values: tuple[float, ...]

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The lower and upper end, within the limits of the claim's number; NaN for fewer than two seeds."""
        rows = pd.DataFrame({"claim": self.claim.text, "value": self.values})
        low, high = over_seeds(rows, ["claim"], self.claim.limits)[["low", "high"]].to_numpy()[0] if len(rows) else NONE
        return float(low), float(high)

    @property
    def verdict(self) -> str:
        """ "reproduced", "contradicted", "undecided" or "not testable here", as explained in this module."""
        if len(self.values) < SEEDS:
            return NOT_TESTABLE
        ends = [round(end, 4) for end in self.interval]  # results have five digits
        holds = [self.claim.at_least <= end <= self.claim.at_most for end in ends]
        return REPRODUCED if all(holds) else UNDECIDED if any(holds) else CONTRADICTED

    @property
    def numbers(self) -> str:
        """The mean, its interval, the number of seeds and the threshold, in words; empty without a result."""
        if not self.claim.is_testable:
            return ""
        at_least, at_most = self.claim.at_least, self.claim.at_most
        bound = f"at least {at_least:+.2f}" if at_most == math.inf else f"at most {at_most:+.2f}"
        needed = f"{len(self.values)} seeds, needs {bound}"
        if len(self.values) < SEEDS:
            return needed
        low, high = self.interval
        return f"{sum(self.values) / len(self.values):+z.3f}, {LEVEL:.0%}: {low:+z.3f} to {high:+z.3f}, {needed}"

    def __str__(self) -> str:
        numbers = f" [{self.numbers}]" if self.numbers else ""
        written = f"; written {self.claim.written}, {self.claim.seen}" if self.claim.written else ""
        contrary = f"; against it: {self.claim.contrary}" if self.claim.contrary else ""
        return f"{self.verdict}: {self.claim.text}{numbers} ({self.claim.source}{written}{contrary})"


def judge(results: pd.DataFrame, claims: Iterable[Claim] | None = None) -> list[Verdict]:
    """Compute a verdict on each claim from a table of results; by default, on all claims of this project.

    A claim is "not testable here" if fewer than three seeds have the values it needs.

    >>> {verdict.verdict for verdict in study.judge(study.published_results().head(0))}
    {'not testable here'}
    >>> claim = study.Claim("it fails", "me", [study.Term("rotary", 16)], [study.Term("rotary", 1)], at_least=0.5)
    >>> study.judge(study.published_results(), [claim])[0].verdict
    'reproduced'
    """
    check_instance("results", results, pd.DataFrame)
    claims = CLAIMS if claims is None else as_list("claims", claims, "Claim objects")
    for claim in claims:
        check_instance("each of claims", claim, Claim)
    where = ["seed", "task", "label", "question", "variant", "x"]
    answers = results.dropna(subset="value").set_index(where)["value"].to_dict()
    lengths = results.groupby("seed")["length"].min()
    return [Verdict(claim, tuple(_numbers(claim, answers, lengths))) for claim in claims]


def _numbers(claim: Claim, answers: Mapping[Any, float], lengths: "pd.Series[int]") -> Iterator[float]:
    """The claim's number in each seed that has all its answers. `lengths` are the shortest training lengths."""
    for seed, length in lengths.items() if claim.is_testable else ():
        number = claim.constant
        for sign, terms in ((1, claim.plus), (-1, claim.minus)):
            for term in terms:
                x = term.times * length
                if claim.task in TASKS:
                    x = TASKS[claim.task].max_distance(x)
                answer = answers.get((seed, claim.task, term.label, claim.question, term.variant, x), math.nan)
                number += sign * term.factor * answer
        if not math.isnan(number):
            yield round(abs(number) if claim.absolute else number, 5)


def evidence(papers: Iterable[str], verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """The verdicts on all claims that come from these papers or that they speak against, paper by paper.

    A paper, named as in papers.toml, has the role "source" of a claim, or is "against" it; then the verdict
    "contradicted" agrees with the paper. Raises ValueError for an unknown paper.

    >>> table = study.evidence(["ruler"], study.judge(study.published_results()))
    >>> table[["paper", "role", "verdict"]].values.tolist()
    [['2404.06654', 'source', 'not testable here']]
    """
    papers, verdicts = as_list("papers", papers, "names"), list(verdicts)
    check_known("papers", papers, PAPERS)
    rows = [
        (PAPERS[paper]["arxiv"], role, verdict.claim.text, verdict.verdict, verdict.numbers)
        for paper in papers
        for verdict in verdicts
        for role, text in (("source", verdict.claim.source), ("against", verdict.claim.contrary))
        if PAPERS[paper]["arxiv"] in text
    ]
    return pd.DataFrame(rows, columns=["paper", "role", "claim", "verdict", "numbers"])


def _claim(entry: dict[str, Any]) -> Claim:
    sides = {side: [Term(**term) for term in entry.get(side, ())] for side in ("plus", "minus")}
    citations = {name: "{authors} {year}, arXiv {arxiv}".format_map(paper) for name, paper in PAPERS.items()}
    cited = {name: entry.get(name, "").format_map(citations) for name in ("source", "contrary")}
    return Claim(**entry | sides | cited)


FOLDER = Path(__file__).parent
PAPERS = tomllib.loads((FOLDER / "papers.toml").read_text(encoding="utf-8"))  # {name: {"authors": ..., "arxiv": ...}}
CLAIMS = tuple(map(_claim, tomllib.loads((FOLDER / "claims.toml").read_text(encoding="utf-8"))["claim"]))
