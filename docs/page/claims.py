"""The claims of the study as rows of a table: a mark for each setting, grouped by what came out."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from alibi_viz.measure.sentences import join
from alibi_viz.measure.table import SCALED, VERDICTS

SENTENCES: Mapping[str, str] = tomllib.loads(
    Path(__file__).with_name("claims.toml").read_text(encoding="utf-8")
)
MARKS = {"seen": "✓", "not_seen": "✗", "open": "?"}


class Group(NamedTuple):
    """Claims with the same kind of outcome."""

    mark: str
    title: str
    claims: list[dict[str, Any]]


def claim_groups(verdicts: pd.DataFrame, reach: pd.DataFrame) -> list[Group]:
    """The claims of a `study.verdict_table` in three groups, with its `study.reach_table`."""
    verdicts = verdicts.dropna(subset="low")  # without an interval: too few results
    groups = [
        Group("✓", "Seen wherever tested", []),
        Group("✗", "Seen nowhere", []),
        Group("?", "It differs", []),
    ]
    everywhere, nowhere, differs = groups
    for row in reach.to_dict("records"):
        claim = _claim(row, verdicts[verdicts["claim"] == row["claim"]])
        if row["not_seen"] == 0 and row["open"] == 0:
            everywhere.claims.append(claim)
        elif row["seen"] == 0 and row["not_seen"] > 0:
            nowhere.claims.append(claim)
        else:
            differs.claims.append(claim)
    return [group for group in groups if group.claims]


def _claim(reach: Mapping[Any, Any], verdicts: pd.DataFrame) -> dict[str, Any]:
    """A claim in words, its marks in the order seen, not seen, open, and what it hangs on."""
    marks = []
    counts = []
    for verdict, mark in MARKS.items():
        of_verdict = verdicts[verdicts["verdict"] == verdict]
        for row in of_verdict.itertuples():
            slopes = " with scaled slopes" if row.slopes == SCALED else ""
            marks.append(
                {
                    "mark": mark,
                    "verdict": verdict,
                    # The page speaks of lengths in words.
                    "title": f"{row.setting_name}{slopes}: {VERDICTS[verdict]}".replace(
                        "L = ", "length "
                    ),
                }
            )
        if len(of_verdict) > 0:
            counts.append(f"{VERDICTS[verdict]} in {len(of_verdict)}")
    return {
        "name": reach["claim"],
        "sentence": SENTENCES[reach["claim"]],
        "marks": marks,
        "counts": f"{', '.join(counts)} of {len(verdicts)}",
        "hangs_on": join(reach["hangs_on"]),
    }
