"""Verdicts follow from the results and their intervals."""

import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from alibi_viz import study
from alibi_viz.measure.table import COLUMNS, results_table
from alibi_viz.study.judge import holm, median_interval, standard_error
from tests.rows import each_case

LENGTH = 8


def claim(**settings):
    """A claim about the loss of alibi at the training length."""
    words = {"name": "It holds", "text": "It does.", "source": "a test"}
    terms = {"plus": [study.Term("alibi", 1)]}
    return study.Claim(**(words | terms | settings))


def results(*values, label="alibi", **cells):
    """One value per seed, by default of the loss at the training length."""
    row = dict.fromkeys(COLUMNS, "") | {
        "task": "text",
        "question": "longer sequences",
        "label": label,
        "variant": "as trained",
        "step": 0,
        "x": LENGTH,
        "length": LENGTH,
        "count": 1,
    }
    rows = []
    for seed, value in enumerate(values):
        rows.append(row | cells | {"seed": seed, "value": value})
    return results_table(rows)


def judge_one(table, judged):
    (verdict,) = study.judge(table, [judged]).itertuples()
    return verdict


AT_LEAST_HALF = claim(at_least=0.5)
AT_MOST_HALF = claim(at_most=0.5)


# The verdict


@each_case(
    ("values", "at_least", "at_most"),
    {
        "above": ((0.60, 0.61, 0.62), "seen", "not_seen"),
        "below": ((0.30, 0.31, 0.32), "not_seen", "seen"),
        "decided by a third digit": ((0.5040, 0.5041, 0.5042), "open", "open"),
        "barely decided": ((0.5060, 0.5061, 0.5062), "seen", "not_seen"),
        "on both sides": ((0.49, 0.60, 0.70), "open", "open"),
        "too few seeds": ((0.9, 0.9), "open", "open"),
    },
)
def test_the_whole_interval_decides(values, at_least, at_most):
    table = results(*values)
    assert judge_one(table, AT_LEAST_HALF).verdict == at_least
    assert judge_one(table, AT_MOST_HALF).verdict == at_most


def test_the_margin_is_the_distance_to_the_threshold():
    assert claim(at_least=1.0).margin(1.5) == 0.5
    assert claim(at_most=1.0).margin(1.5) == -0.5


def test_the_threshold_is_said_with_its_number():
    verdict = judge_one(results(1, 1.1, 1), AT_LEAST_HALF)
    assert verdict.numbers == "+1.033, 95%: +0.890 to +1.177, needs at least +0.50"


# Its interval and its p-value

EIGHT_SEEDS = np.array([0.6, 0.7, 0.99, 0.8, 0.65, 0.9, 0.72, 0.81])


def test_without_blocks_the_interval_is_that_of_student():
    verdict = judge_one(results(*EIGHT_SEEDS), AT_LEAST_HALF)
    mean = EIGHT_SEEDS.mean()
    error_of_mean = scipy.stats.sem(EIGHT_SEEDS)
    expected = scipy.stats.t.interval(0.95, df=7, loc=mean - 0.5, scale=error_of_mean)
    assert (verdict.low, verdict.high) == pytest.approx(expected)


def test_without_blocks_p_is_that_of_student():
    verdict = judge_one(results(*EIGHT_SEEDS), AT_LEAST_HALF)
    assert verdict.p == pytest.approx(scipy.stats.ttest_1samp(EIGHT_SEEDS, 0.5).pvalue)


@pytest.mark.parametrize("value", [0.5, 0.6])
def test_without_spread_there_is_no_verdict(value):
    verdict = judge_one(results(value, value, value), AT_LEAST_HALF)
    assert verdict.verdict == "open"
    assert verdict.p == 1
    assert verdict.numbers == "all seeds and passages agree, so there is no interval"


def test_with_too_few_seeds_p_is_1():
    assert judge_one(results(0.9, 0.9), AT_LEAST_HALF).p == 1


def test_the_standard_error_is_that_of_a_bootstrap_over_both_seeds_and_blocks():
    seeds = 5
    blocks = 7
    random = np.random.default_rng(1)
    of_seeds = random.normal(size=(seeds, 1))
    of_blocks = random.normal(size=blocks)
    values = of_seeds + of_blocks + 3 * random.normal(size=(seeds, blocks))

    means = []
    for _ in range(5_000):
        drawn_seeds = random.integers(seeds, size=seeds)
        drawn_blocks = random.integers(blocks, size=blocks)
        means.append(values[drawn_seeds][:, drawn_blocks].mean())
    # A resample of five seeds varies less than the sample.
    expected = np.std(means) * math.sqrt(5 / 4)
    assert standard_error(values) == pytest.approx(expected, rel=0.03)


# Shares of answers

SHARES = {"task": "needle", "question": "needle"}
FINDS_HALF = claim(at_least=0.5, question="needle")


@each_case(
    ("values", "verdict", "low", "high"),
    {
        "six above": ((0.6, 0.9, 1, 1, 1, 1), "seen", 0.1, 0.5),
        "all alike": ((1.0,) * 8, "seen", 0.5, 0.5),
        "one of eight below": ((0.4, *(1.0,) * 7), "open", -0.1, 0.5),
        "one of nine below": ((0.4, 0.6, *(1.0,) * 7), "seen", 0.1, 0.5),
    },
)
def test_shares_are_judged_by_the_interval_of_their_median(values, verdict, low, high):
    outcome = judge_one(results(*values, **SHARES), FINDS_HALF)
    assert outcome.verdict == verdict
    assert (outcome.low, outcome.high) == pytest.approx((low, high))


@pytest.mark.parametrize("values", [(0.6,) * 8, (0.4, *(1.0,) * 7), (0.5, *(1.0,) * 7)])
def test_p_of_shares_is_that_of_a_sign_test(values):
    above = sum(value > 0.5 for value in values)
    differing = sum(value != 0.5 for value in values)
    expected = scipy.stats.binomtest(above, differing).pvalue
    assert judge_one(results(*values, **SHARES), FINDS_HALF).p == pytest.approx(expected)


def test_five_seeds_are_too_few_for_shares():
    verdict = judge_one(results(1, 1, 1, 1, 1, **SHARES), FINDS_HALF)
    assert verdict.verdict == "open"
    assert verdict.numbers == "too few seeds for an exact test of shares: 5 of at least 6"


@pytest.mark.parametrize("seeds", range(6, 40))
def test_the_interval_of_the_median_covers_it_often_enough_and_no_more_than_needed(seeds):
    low, _ = median_interval(np.arange(seeds, dtype=float))
    below = scipy.stats.binom(seeds, 0.5).cdf
    assert 2 * below(low) <= 0.05 < 2 * below(low + 1)


# The number of a claim

DIFFERENCE = claim(
    plus=[study.Term("alibi", 16)],
    minus=[study.Term("rotary", 16, "window")],
    at_least=0,
)


def in_block(block, *values, **cells):
    """One value per seed, at 16 times the training length in a block of the text."""
    return results(*values, x=16 * LENGTH, **cells).assign(block=block)


ALIBI = [
    in_block(0, 2.0, 2.2, 2.4),
    in_block(1, 3.0, 3.2, 3.4),
]
ROTARY = [
    in_block(0, 1.0, 1.1, 1.5, label="rotary", variant="window"),
    in_block(1, 1.0, 1.1, 1.5, label="rotary", variant="window"),
]


def number_and_interval(values):
    """The mean of numbers [seed][block], and its interval."""
    values = np.array(values)
    degrees = len(values) - 1
    mean = values.mean()
    return mean, *scipy.stats.t.interval(0.95, degrees, mean, standard_error(values))


FOURTH_SEED = [rows.iloc[:1].assign(seed=3) for rows in ROTARY]


@each_case(
    ("tables", "values"),
    {
        "the same seed and block": ([*ALIBI, *ROTARY], [[1.0, 2.0], [1.1, 2.1], [0.9, 1.9]]),
        "a seed that one term lacks": (
            [*ALIBI, *ROTARY, *FOURTH_SEED],
            [[1.0, 2.0], [1.1, 2.1], [0.9, 1.9]],
        ),
        "different numbers of blocks": ([*ALIBI, ROTARY[0]], [[1.5], [1.6], [1.4]]),
    },
)
def test_a_difference_is_taken_in_the_same_seed_and_if_possible_in_the_same_block(tables, values):
    verdict = judge_one(pd.concat(tables), DIFFERENCE)
    judged = (verdict.margin, verdict.low, verdict.high)
    assert judged == pytest.approx(number_and_interval(values))


# Results that don't suffice

ENOUGH = results(0.9, 0.91, 0.9)
SEVERAL_STEPS = pd.concat(
    [
        results(1, 1).assign(step=0, seed=[0, 1]),
        results(1, 1).assign(step=9, seed=[9, 10]),
    ]
)


@each_case(
    ("table", "reason"),
    {
        "no results": (ENOUGH.head(0), "no results on 'longer sequences'"),
        "only missing values": (
            results(math.nan, math.nan, math.nan),
            "no results on 'longer sequences'",
        ),
        "another method": (results(0.9, 0.9, 0.9, label="rotary"), "no results of alibi at 1L"),
        "another variant": (results(0.9, 0.9, 0.9, variant="window"), "no results of alibi at 1L"),
        "a missing seed": (
            results(0.9, 0.9, math.nan),
            "too few seeds have all results: 2 of at least 3",
        ),
        "another text": (
            pd.concat([ENOUGH, results(0.9, text="other")]),
            "the results are about 2 different texts",
        ),
        "twice the same": (
            pd.concat([ENOUGH, ENOUGH]),
            "there are several results for a label, seed and x",
        ),
        "several steps": (
            SEVERAL_STEPS,
            "alibi has several steps or training lengths: label the models apart",
        ),
    },
)
def test_without_its_results_one_can_not_tell_and_why(table, reason):
    verdict = judge_one(table, AT_LEAST_HALF)
    assert verdict.verdict == "open"
    assert verdict.numbers == reason


# One setting of several


def test_only_the_rows_of_the_setting_are_judged():
    table = pd.concat(
        [
            results(0.9, 0.91, 0.9).assign(setting="main"),
            results(0.1, 0.11, 0.1).assign(setting="adamw"),
        ]
    )
    verdicts = [
        study.judge(table, [AT_LEAST_HALF], setting=setting)["verdict"].item()
        for setting in ("main", "adamw")
    ]
    assert verdicts == ["seen", "not_seen"]


@each_case(
    ("setting", "claims"),
    {
        "of a task": ("needles", {"Holding isn't remembering", "KERPLE finds more needles"}),
        "tested at L only": ("l-512", {"Steeper slopes help"}),
        "rotary beyond L": (
            "l-256",
            {
                "Far keys break rotary",
                "Rotary falls apart",
                "Steeper slopes help",
                "YaRN rescues rotary",
            },
        ),
    },
)
def test_claims_are_judged_where_runs_measure_what_they_are_about(setting, claims):
    assert set(study.judge(ENOUGH, setting=setting)["claim"]) == claims


# Slopes times 8


def test_the_same_claim_is_about_scaled_slopes():
    window = claim(
        plus=[study.Term("rotary", 16, "window")], minus=[study.Term("alibi", 16)], at_most=0.05
    )
    scaled = window.with_scaled_slopes()
    assert scaled is not None
    assert scaled.labels == {"rotary", "alibi, scaled slopes"}
    assert [term.times for term in scaled.minus] == [16]
    assert scaled.threshold == 0.05


@each_case(
    "terms",
    {
        "not about ALiBi": {"plus": [study.Term("rotary", 1)]},
        "about both": {
            "plus": [study.Term("alibi", 1)],
            "minus": [study.Term("alibi, scaled slopes", 1)],
        },
    },
)
def test_other_claims_have_no_version_with_scaled_slopes(terms):
    assert claim(**terms, at_least=0).with_scaled_slopes() is None


# All claims in a table


def test_claims_about_alibi_are_judged_with_both_kinds_of_slopes():
    table = pd.concat(
        [
            results(0.9, 0.8, 0.9, x=LENGTH),
            results(0.5, 0.4, 0.51, x=LENGTH, label="alibi, scaled slopes"),
            results(0.1, 0.1, 0.2, x=16 * LENGTH, label="none"),
            results(0.9, 0.9, 0.91, x=16 * LENGTH),
            results(0.5, 0.5, 0.51, x=16 * LENGTH, label="alibi, scaled slopes"),
        ]
    ).assign(setting="main")
    tested = study.verdict_table(table).dropna(subset="low")
    assert tested[["claim", "slopes", "verdict"]].to_numpy().tolist() == [
        ["Positions aren't needed", "official", "seen"],
        ["Positions aren't needed", "times 8", "seen"],
        ["Steeper slopes help", "official", "seen"],
    ]


def test_settings_come_in_their_declared_order_with_their_factor():
    table = pd.concat(
        [
            ENOUGH.assign(setting="mine"),
            ENOUGH.assign(setting="adamw"),
            ENOUGH.assign(setting="main"),
        ]
    )
    verdicts = study.verdict_table(table)
    in_order = verdicts[["setting", "factor"]].drop_duplicates().to_numpy().tolist()
    assert in_order == [["main", ""], ["adamw", "optimizer"], ["mine", ""]]


def test_results_without_settings_are_judged_on_all_claims():
    verdicts = study.verdict_table(ENOUGH)
    assert verdicts["setting"].unique().tolist() == ["these results"]
    assert verdicts["claim"].tolist() == [claim.name for claim in study.CLAIMS]


def test_without_results_there_is_no_verdict():
    assert study.verdict_table(results().head(0)).empty


def test_a_single_claim_with_results_needs_no_correction():
    needle = pd.concat(
        [
            results(*(0.9,) * 8, **SHARES, x=LENGTH),
            results(*(0.1,) * 8, **SHARES, x=16 * LENGTH),
        ]
    )
    tested = study.verdict_table(needle).dropna(subset="low")
    assert tested["claim"].tolist() == ["Holding isn't remembering"]
    assert tested["holm"].tolist() == tested["p"].tolist()


def test_a_claim_without_results_has_no_corrected_p():
    table = study.verdict_table(ENOUGH)
    untested = table["low"].isna()
    assert table["holm"].isna().tolist() == untested.tolist()


# Holm's correction


def test_holm_multiplies_the_smallest_most_and_keeps_the_order():
    corrected = holm([0.01, 0.02, 0.9, 0.02, 0.8])
    assert corrected.tolist() == pytest.approx([0.05, 0.08, 1, 0.08, 1])


def test_holm_of_nothing_is_nothing():
    assert holm([]).tolist() == []


# Wrong arguments


@each_case(
    "settings",
    {
        "no threshold": {},
        "two thresholds": {"at_least": 0, "at_most": 1},
        "NaN": {"at_least": math.nan},
        "no terms": {"at_least": 0, "plus": []},
    },
)
def test_a_claim_needs_terms_and_one_threshold(settings):
    with pytest.raises(ValueError, match="needs terms in plus, and a number at_least or at_most"):
        claim(**settings)


def test_what_was_known_is_one_of_three_words():
    with pytest.raises(ValueError, match=r"known must be among blind, .* got 'guessed'"):
        claim(at_least=0, known="guessed")


def test_only_claims_can_be_judged():
    with pytest.raises(TypeError, match=r"claims must be a list of Claim objects, got \[1\]"):
        study.judge(ENOUGH, [1])  # type: ignore[list-item]


def test_missing_columns_are_named():
    table = ENOUGH.drop(columns=["task", "seed"])
    message = r"results must have the columns origin, .*, text; task, seed are missing"
    with pytest.raises(ValueError, match=message):
        study.judge(table)


def test_an_unknown_setting_is_named():
    with pytest.raises(ValueError, match=r"setting must be one of main, .* got 'novels'"):
        study.judge(ENOUGH.assign(setting="main"), setting="novels")


def test_an_unknown_question_is_named():
    with pytest.raises(ValueError, match=r"question must be one of .* got 'why'"):
        claim(at_least=0, question="why")
