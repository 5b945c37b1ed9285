"""Verdicts follow from the results, and every claim can be judged from the published ones."""

import pandas as pd
import pytest

from alibi_viz import lab
from alibi_viz.lab.claims import CLAIMS, Claim, L, Seed
from alibi_viz.lab.results import COLUMNS


def results_with(*margins):
    """Results of which the claim below reads one value per seed."""
    row = {**dict.fromkeys(COLUMNS, ""), "task": "needle", "label": "alibi", "question": "needle", "length": 8}
    row |= {"evaluated": "as trained", "x": 8, "count": 1}
    return lab.results_table({**row, "seed": seed, "value": margin} for seed, margin in enumerate(margins))


CLAIM = Claim("it finds", "a test", lambda seed: seed.right("needle", "alibi", 8), at_least=0.5)


@pytest.mark.parametrize(
    ("margins", "verdict"),
    [
        ((0.5, 0.6, 0.9), "reproduced"),
        ((0.49, 0.9, 0.9), "not reproduced"),
        ((0.9, 0.9), "not testable here"),
        ((0.9, 0.9, float("nan")), "not testable here"),
        ((), "not testable here"),
    ],
)
def test_each_of_three_seeds_must_reach_the_threshold(margins, verdict):
    (judged,) = lab.judge(results_with(*margins), [CLAIM])
    assert judged.verdict == verdict
    assert judged.margins == tuple(margin for margin in margins if margin == pytest.approx(margin))


def test_a_claim_without_a_margin_is_not_testable():
    quoted = Claim("at scale", "a paper")
    (judged,) = lab.judge(results_with(1.0, 1.0, 1.0), [quoted])
    assert (judged.verdict, judged.margins) == ("not testable here", ())
    assert str(judged) == "not testable here: at scale (a paper)"


def test_a_verdict_prints_its_numbers():
    (judged,) = lab.judge(results_with(0.5, 0.6, 0.9), [CLAIM])
    assert str(judged) == "reproduced: it finds [+0.50, +0.60, +0.90; needs +0.50 in each seed] (a test)"


def test_every_claim_with_a_margin_can_be_judged_from_the_published_results():
    for verdict in lab.judge(lab.published_results()):
        assert (verdict.verdict == "not testable here") == (verdict.claim.margin is None), verdict


def test_a_margin_equals_its_claim_computed_by_hand():
    results: pd.DataFrame = lab.published_results().query("seed == 0 and question == 'longer windows'")
    bits = results.set_index(["label", "evaluated", "x"])["value"]
    (claim,) = [claim for claim in CLAIMS if claim.text.startswith("sinusoidal fails")]
    by_hand = bits["sinusoidal", "as trained", 4 * L] - bits["alibi", "as trained", 4 * L]
    assert claim.margin(Seed(results)) == pytest.approx(by_hand)
    assert by_hand > 0.5
    assert Seed(results).bits("rotary", 16, "window") == bits["rotary", "window", 16 * L]
