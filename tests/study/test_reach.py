"""How far a claim reaches, and which factor it hangs on."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from alibi_viz import study
from alibi_viz.measure.table import NOT_SEEN, OPEN, SEEN, VERDICT_COLUMNS
from tests.rows import each_case


def verdicts(*cells, claim="A", **others):
    """A table of verdicts on one claim: (setting, factor, slopes, verdict) for each."""
    rows = []
    for setting, factor, slopes, verdict in cells:
        row = dict.fromkeys(VERDICT_COLUMNS, "")
        row |= {"claim": claim, "setting": setting, "factor": factor, "slopes": slopes}
        row |= {"base": "main" if factor else "", "margin": 0.2, "error": 0.01}
        row |= {"verdict": verdict, "low": 0.1, "known": "blind", "p": 0.01, "holm": 0.02}
        rows.append(row | others)
    return pd.DataFrame(rows, columns=[*VERDICT_COLUMNS, "holm"])


def reach_of(*cells):
    """The row of the only claim."""
    (row,) = study.reach_table(verdicts(*cells)).itertuples()
    return row


MAIN_SEEN = ("main", "", "official", SEEN)
SCALED_SEEN = ("main", "", "times 8", SEEN)


@each_case(
    ("cells", "reach", "hangs_on"),
    {
        "all": ([MAIN_SEEN, SCALED_SEEN], "seen in all", ()),
        "none": (
            [("main", "", "", NOT_SEEN), ("AdamW", "optimizer", "", NOT_SEEN)],
            "seen in none",
            (),
        ),
        "its only setting": ([MAIN_SEEN], "seen in its only setting", ()),
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
            [MAIN_SEEN, ("main", "", "times 8", NOT_SEEN)],
            "hangs on the slopes",
            ("slopes",),
        ),
        "two factors": (
            [
                MAIN_SEEN,
                ("main", "", "times 8", NOT_SEEN),
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
            "seen in 1 of 3, not seen in 1",
            (),
        ),
    },
)
def test_the_verdicts_in_all_settings_say_how_far_a_claim_reaches(cells, reach, hangs_on):
    row = reach_of(*cells)
    assert row.reach == reach
    assert row.hangs_on == hangs_on


def test_opposite_verdicts_that_do_not_survive_the_correction_hang_on_nothing():
    table = verdicts(MAIN_SEEN, ("AdamW", "optimizer", "official", NOT_SEEN))
    table.loc[1, "holm"] = 0.06
    (row,) = study.reach_table(table).itertuples()
    assert row.hangs_on == ()
    assert row.reach == "seen in 1 of 2, not seen in 1"


def test_a_setting_is_compared_with_the_one_that_it_changes():
    table = verdicts(
        MAIN_SEEN,
        ("another text", "text", "official", NOT_SEEN),
        ("a longer L on that text", "length", "official", NOT_SEEN),
    )
    table.loc[2, "base"] = "another text"
    (row,) = study.reach_table(table).itertuples()
    assert row.hangs_on == ("text",)


def test_verdicts_are_counted():
    row = reach_of(
        MAIN_SEEN,
        SCALED_SEEN,
        ("AdamW", "optimizer", "official", OPEN),
        ("2 heads", "heads", "official", NOT_SEEN),
    )
    assert (row.seen, row.not_seen, row.open) == (2, 1, 1)


def test_a_verdict_without_results_counts_for_nothing():
    table = pd.concat(
        [verdicts(MAIN_SEEN, SCALED_SEEN), verdicts(("AdamW", "", "", OPEN), low=math.nan)]
    )
    (row,) = study.reach_table(table).itertuples()
    assert row.reach == "seen in all"


def test_claims_stay_in_the_order_of_the_table():
    table = pd.concat([verdicts(MAIN_SEEN, claim="B"), verdicts(MAIN_SEEN, claim="A")])
    assert study.reach_table(table)["claim"].tolist() == ["B", "A"]


# One more setting


def in_settings(margins, error=0.01):
    """A claim that was seen in several settings, by these margins."""
    cells = [(f"setting {number}", "", "", SEEN) for number in range(len(margins))]
    return verdicts(*cells, error=error).assign(margin=margins)


def test_settings_that_differ_by_their_errors_only_have_no_spread_between_them():
    (row,) = study.prediction_table(in_settings([0.10, 0.11, 0.10, 0.11])).itertuples()
    assert row.between == 0
    half_width = scipy.stats.t(2).ppf(0.975) * 0.01 / 2
    assert (row.low, row.high) == pytest.approx((0.105 - half_width, 0.105 + half_width))


def test_the_spread_between_settings_widens_the_interval():
    margins = [0.1, 0.5, 0.2, 0.6]
    (row,) = study.prediction_table(in_settings(margins)).itertuples()
    assert row.margin == pytest.approx(0.35)
    # With equal errors, it is the variance of the margins without that of an error.
    variance = np.var(margins, ddof=1) - 0.01**2
    assert row.between == pytest.approx(math.sqrt(variance))
    assert row.high - row.margin == pytest.approx(
        scipy.stats.t(2).ppf(0.975) * math.sqrt(variance + np.var(margins, ddof=1) / 4)
    )


@pytest.mark.parametrize(
    ("margins", "prediction"),
    [([0.5, 0.51, 0.52], "seen"), ([-0.5, -0.51, -0.52], "not_seen"), ([-0.1, 0.1, 0.2], "open")],
)
def test_a_prediction_is_the_side_on_which_its_whole_interval_is(margins, prediction):
    (row,) = study.prediction_table(in_settings(margins)).itertuples()
    assert row.prediction == prediction


def test_two_settings_are_too_few_for_a_prediction():
    assert study.prediction_table(in_settings([0.1, 0.2])).empty


# The conclusion


@pytest.fixture
def three_claims():
    hangs = [MAIN_SEEN, ("AdamW", "optimizer", "official", NOT_SEEN)]
    return pd.concat(
        [
            verdicts(MAIN_SEEN, SCALED_SEEN, claim="A"),
            verdicts(*hangs, claim="B", known="known before"),
            verdicts(("main", "", "", OPEN), claim="C", p=0.9, holm=0.9),
        ],
        ignore_index=True,
    )


def test_the_conclusion_counts_what_survives_the_correction(three_claims):
    words = study.conclusion(three_claims)
    assert "Of these 5 intervals, 4 exclude their threshold" in words
    assert "for testing all of them at once, 4 still exclude it." in words


def test_the_conclusion_counts_intervals_that_end_too_close_to_decide(three_claims):
    assert "threshold, 0 of them so narrowly that" in study.conclusion(three_claims)
    three_claims.loc[three_claims["claim"] == "C", "p"] = 0.01
    assert "threshold, 1 of them so narrowly that" in study.conclusion(three_claims)


def test_the_conclusion_says_how_far_claims_reach(three_claims):
    words = study.conclusion(three_claims)
    assert "Of 3 claims, 1 are seen in all settings, and 1 hang on one, by" in words


def test_the_conclusion_says_what_was_known_before(three_claims):
    assert study.conclusion(three_claims).endswith("2 blind and 1 known before.")


def test_without_any_interval_the_conclusion_is_that_there_are_no_results(
    three_claims,
):
    no_interval = three_claims.assign(low=math.nan)
    assert study.conclusion(no_interval) == "There are no results on any claim."
