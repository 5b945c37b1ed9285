"""How far a claim reaches, and which factor it hangs on."""

import math

import pandas as pd
import pytest

from alibi_viz import study
from alibi_viz.measure.table import VERDICT_COLUMNS
from tests.rows import each_case

SEEN = "seen here"
NOT_SEEN = "not seen here"
OPEN = "can't tell"


def verdicts(*cells, claim="A", **others):
    """A table of verdicts on one claim: (setting, factor, slopes, verdict) for each."""
    rows = []
    for setting, factor, slopes, verdict in cells:
        row = dict.fromkeys(VERDICT_COLUMNS, "")
        row |= {"claim": claim, "setting": setting, "factor": factor, "slopes": slopes}
        row |= {"verdict": verdict, "low": 0.1, "known": "blind", "p": 0.01, "holm": 0.02}
        rows.append(row | others)
    return pd.DataFrame(rows, columns=[*VERDICT_COLUMNS, "holm"])


def reach_of(*cells):
    """The row of the only claim."""
    (row,) = study.reach_table(verdicts(*cells)).itertuples()
    return row


MAIN_SEEN = ("main", "", "official", SEEN)
SCALED_SEEN = ("main", "", "scaled to L", SEEN)


@each_case(
    ("cells", "reach", "hangs_on"),
    {
        "all": ([MAIN_SEEN, SCALED_SEEN], "seen in all", ()),
        "none": (
            [("main", "", "", NOT_SEEN), ("AdamW", "optimizer", "", NOT_SEEN)],
            "seen in none",
            (),
        ),
        "open": ([("main", "", "", OPEN)], "open", ()),
        "partly open": (
            [MAIN_SEEN, SCALED_SEEN, ("AdamW", "optimizer", "official", OPEN)],
            "seen in 2 of 3, else open",
            (),
        ),
        "not seen or open": (
            [("main", "", "", OPEN), ("AdamW", "optimizer", "", NOT_SEEN)],
            "not seen in 1 of 2, else open",
            (),
        ),
        "one factor": (
            [MAIN_SEEN, ("AdamW", "optimizer", "official", NOT_SEEN)],
            "hangs on the optimizer",
            ("optimizer",),
        ),
        "slopes": (
            [MAIN_SEEN, ("main", "", "scaled to L", NOT_SEEN)],
            "hangs on the slopes",
            ("slopes",),
        ),
        "two factors": (
            [
                MAIN_SEEN,
                ("main", "", "scaled to L", NOT_SEEN),
                ("2 heads", "heads", "official", NOT_SEEN),
            ],
            "hangs on the heads and slopes",
            ("heads", "slopes"),
        ),
        "opposite without the main setting": (
            [
                ("main", "", "", OPEN),
                ("2 heads", "heads", "", SEEN),
                ("8 heads", "heads", "", NOT_SEEN),
            ],
            "hangs on the heads",
            ("heads",),
        ),
        "opposite in two factors": (
            [
                ("main", "", "", OPEN),
                ("2 heads", "heads", "", SEEN),
                ("AdamW", "optimizer", "", NOT_SEEN),
            ],
            "hangs on the setting",
            (),
        ),
    },
)
def test_the_verdicts_in_all_settings_say_how_far_a_claim_reaches(cells, reach, hangs_on):
    row = reach_of(*cells)
    assert row.reach == reach
    assert row.hangs_on == hangs_on


def test_verdicts_are_counted():
    row = reach_of(
        MAIN_SEEN,
        SCALED_SEEN,
        ("AdamW", "optimizer", "official", OPEN),
        ("2 heads", "heads", "official", NOT_SEEN),
    )
    assert (row.seen, row.not_seen, row.open) == (2, 1, 1)


def test_a_verdict_without_results_counts_for_nothing():
    table = pd.concat([verdicts(MAIN_SEEN), verdicts(("AdamW", "", "", OPEN), low=math.nan)])
    (row,) = study.reach_table(table).itertuples()
    assert row.reach == "seen in all"


def test_claims_stay_in_the_order_of_the_table():
    table = pd.concat([verdicts(MAIN_SEEN, claim="B"), verdicts(MAIN_SEEN, claim="A")])
    assert study.reach_table(table)["claim"].tolist() == ["B", "A"]


# The conclusion


@pytest.fixture
def three_claims():
    hangs = [MAIN_SEEN, ("AdamW", "optimizer", "official", NOT_SEEN)]
    return pd.concat(
        [
            verdicts(MAIN_SEEN, claim="A"),
            verdicts(*hangs, claim="B", holm=0.2, known="known before"),
            verdicts(("main", "", "", OPEN), claim="C", p=0.9, holm=0.9),
        ],
        ignore_index=True,
    )


def test_the_conclusion_counts_what_survives_the_correction(three_claims):
    words = study.conclusion(three_claims)
    assert "Of these 4 intervals, 3 exclude their threshold" in words
    assert "for testing all of them at once, 1 still exclude it." in words


def test_the_conclusion_counts_intervals_that_end_too_close_to_decide(three_claims):
    assert "threshold, 0 of them so narrowly that" in study.conclusion(three_claims)
    three_claims.loc[three_claims["claim"] == "C", "p"] = 0.01
    assert "threshold, 1 of them so narrowly that" in study.conclusion(three_claims)


def test_the_conclusion_says_how_far_claims_reach(three_claims):
    words = study.conclusion(three_claims)
    assert "Of 3 claims, 1 are seen in all settings, and 1 hang on one." in words


def test_the_conclusion_says_what_was_known_before(three_claims):
    assert study.conclusion(three_claims).endswith("2 blind and 1 known before.")


def test_without_any_interval_the_conclusion_is_that_there_are_no_results(
    three_claims,
):
    no_interval = three_claims.assign(low=math.nan)
    assert study.conclusion(no_interval) == "There are no results on any claim."
