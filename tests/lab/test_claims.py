"""Verdicts follow from the results, and every claim can be judged from the published ones."""

import math

import pandas as pd
import pytest

from alibi_viz import lab
from alibi_viz.lab.claims import CLAIMS, Claim, L, Seed
from alibi_viz.lab.results import COLUMNS


def results_with(*values):
    """Results of which the claim below reads one value per seed."""
    row = {**dict.fromkeys(COLUMNS, ""), "task": "needle", "label": "alibi", "question": "needle", "length": 8}
    row |= {"evaluated": "as trained", "x": 8, "count": 1}
    return lab.results_table({**row, "seed": seed, "value": value} for seed, value in enumerate(values))


CLAIM = Claim("it finds", "a test", lambda seed: seed.accuracy("needle", "alibi", 8), at_least=0.5)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((0.5, 0.6, 0.9), "reproduced"),
        ((0.49, 0.9, 0.9), "not reproduced"),
        ((0.9, 0.9), "not testable here"),
        ((0.9, 0.9, float("nan")), "not testable here"),
        ((), "not testable here"),
    ],
)
def test_each_of_three_seeds_must_reach_the_threshold(values, verdict):
    (judged,) = lab.judge(results_with(*values), [CLAIM])
    assert judged.verdict == verdict
    assert judged.values == tuple(value for value in values if not math.isnan(value))


def test_a_claim_without_a_statistic_is_not_testable():
    quoted = Claim("at scale", "a paper")
    (judged,) = lab.judge(results_with(1.0, 1.0, 1.0), [quoted])
    assert (judged.verdict, judged.values) == ("not testable here", ())
    assert str(judged) == "not testable here: at scale (a paper)"


def test_a_verdict_prints_its_numbers():
    (judged,) = lab.judge(results_with(0.5, 0.6, 0.9), [CLAIM])
    assert str(judged) == "reproduced: it finds [+0.50, +0.60, +0.90; needs +0.50 in each seed] (a test)"


def test_every_claim_with_a_statistic_can_be_judged_from_the_published_results():
    for verdict in lab.judge(lab.published_results()):
        assert (verdict.verdict == "not testable here") == (verdict.claim.statistic is None), verdict


def test_a_statistic_equals_its_claim_computed_by_hand():
    results: pd.DataFrame = lab.published_results().query("seed == 0 and question == 'longer windows'")
    bits = results.set_index(["label", "evaluated", "x"])["value"]
    (claim,) = [claim for claim in CLAIMS if claim.text.startswith("sinusoidal fails")]
    by_hand = bits["sinusoidal", "as trained", 4 * L] - bits["alibi", "as trained", 4 * L]
    assert claim.statistic(Seed(results)) == pytest.approx(by_hand)
    assert by_hand > 0.5
    assert Seed(results).bits("rotary", 16, "window") == bits["rotary", "window", 16 * L]
