"""Published reports next to our own results: the claims that come from a paper or that it speaks against."""

from collections.abc import Iterable

import pandas as pd

from alibi_viz.lab.claims.claim import Verdict
from alibi_viz.lab.claims.papers import PAPERS

__all__ = ["evidence"]


def evidence(papers: Iterable[str], verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """The verdicts on all claims that come from these papers or that they speak against, paper by paper.

    Args:
        papers: keys of `PAPERS`.
        verdicts: of `lab.judge`.

    Returns a table with the columns "paper" (the arXiv number), "role" ("source" of the claim, or "against" it),
    "claim", "verdict" and "numbers". If a paper is against a claim, the verdict "contradicted" agrees with the paper.
    Raises KeyError for an unknown paper.

    >>> from alibi_viz.lab.claims import evidence
    >>> table = evidence(["ruler"], lab.judge(lab.published_results()))
    >>> table[["paper", "role", "verdict"]].values.tolist()
    [['2404.06654', 'source', 'not testable here']]
    """
    verdicts = list(verdicts)
    rows = []
    for paper in papers:
        number = PAPERS[paper].arxiv
        for verdict in verdicts:
            claim = verdict.claim
            for role, text in (("source", claim.source), ("against", claim.contrary)):
                if number in text:
                    rows.append((number, role, claim.text, verdict.verdict, verdict.numbers))
    return pd.DataFrame(rows, columns=["paper", "role", "claim", "verdict", "numbers"])
