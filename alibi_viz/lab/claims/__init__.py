"""Claims of papers, and our own, with the date at which each was written down, and verdicts computed from results.

A new claim about runs that don't exist yet is added to one of the lists here in a commit of its own, before the commit
with the results of those runs.
"""

from collections.abc import Iterable

import pandas as pd

from alibi_viz.lab.claims import length, mechanism, retrieval, rivals
from alibi_viz.lab.claims.claim import (
    CONTRADICTED,
    NOT_TESTABLE,
    PILOT,
    REPRODUCED,
    UNDECIDED,
    UNSEEN,
    VERSION_1,
    Claim,
    Seed,
    Verdict,
    judge_each,
)
from alibi_viz.lab.claims.papers import PAPERS, Paper, cite
from alibi_viz.lab.claims.reports import evidence

__all__ = [
    "CLAIMS",
    "CONTRADICTED",
    "NOT_TESTABLE",
    "PAPERS",
    "PILOT",
    "REPRODUCED",
    "UNDECIDED",
    "UNSEEN",
    "VERSION_1",
    "Claim",
    "Paper",
    "Seed",
    "Verdict",
    "cite",
    "evidence",
    "judge",
]

CLAIMS = (*length.CLAIMS, *rivals.CLAIMS, *retrieval.CLAIMS, *mechanism.CLAIMS)


def judge(results: pd.DataFrame, claims: Iterable[Claim] | None = None) -> list[Verdict]:
    """Compute a verdict on each claim from a table of results; by default, on all claims of this project.

    A claim is "not testable here" if fewer than three seeds have the values it needs.

    >>> {verdict.verdict for verdict in lab.judge(lab.published_results().head(0))}
    {'not testable here'}
    """
    return judge_each(results, CLAIMS if claims is None else claims)
