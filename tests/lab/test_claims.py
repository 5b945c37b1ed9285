"""Floor 3: verdicts follow from numbers, and the published numbers are whole."""

import json

import pytest

from alibi_viz import lab
from alibi_viz.lab.claims import CLAIMS, Claim, L, Seed
from alibi_viz.lab.comparison import default_comparison, published_results


def seeds(*margins):
    """Records of which the claim below reads one number."""
    run = {"task": "needle", "label": "alibi"}
    return [{"run": {**run, "seed": seed}, "accuracy": {"8": margin}} for seed, margin in enumerate(margins)]


CLAIM = Claim("it finds", "a test", lambda seed: seed.right("needle", "alibi", 8), at_least=0.5)


@pytest.mark.parametrize(
    ("margins", "verdict"),
    [
        ((0.5, 0.6, 0.9), "reproduced"),
        ((0.49, 0.9, 0.9), "not reproduced"),
        ((0.9, 0.9), "not testable here"),
        ((0.9, 0.9, None), "not testable here"),
        ((), "not testable here"),
    ],
)
def test_every_one_of_three_seeds_must_reach_the_threshold(margins, verdict):
    (found,) = lab.judge(seeds(*margins), [CLAIM])
    assert found.verdict == verdict
    assert found.margins == tuple(margin for margin in margins if margin is not None)


def test_what_cannot_be_shown_is_never_staged():
    quoted = Claim("at scale", "a paper")
    (found,) = lab.judge(seeds(1.0, 1.0, 1.0), [quoted])
    assert (found.verdict, found.margins) == ("not testable here", ())
    assert str(found) == "not testable here: at scale (a paper)"


def test_a_verdict_reads_with_its_numbers():
    (found,) = lab.judge(seeds(0.5, 0.6, 0.9), [CLAIM])
    assert str(found) == "reproduced: it finds [+0.50, +0.60, +0.90; needs +0.50 in each seed] (a test)"


def test_published_results_are_the_default_comparison_without_a_failure():
    records = published_results()
    expected = [run.settings() for run in default_comparison()]
    key = {json.dumps(record["run"], sort_keys=True) for record in records}
    assert key == {json.dumps(settings, sort_keys=True) for settings in expected}
    assert [record["error"] for record in records] == [None] * len(records)
    assert len({record["made_with"]["torch"] for record in records}) == 1


def test_every_claim_with_a_margin_can_be_judged_from_the_published_results():
    for verdict in lab.judge(published_results()):
        assert (verdict.verdict == "not testable here") == (verdict.claim.margin is None), verdict


def test_a_margin_is_what_its_claim_says():
    """The one that matters most, by hand from the records."""
    records = [record for record in published_results() if record["run"]["seed"] == 0]
    text = {record["run"]["label"]: record for record in records if record["run"]["task"] == "text"}
    (claim,) = [claim for claim in CLAIMS if claim.text.startswith("sinusoidal breaks")]
    by_hand = text["sinusoidal"]["by_length"][str(4 * L)] - text["alibi"]["by_length"][str(4 * L)]
    assert claim.margin(Seed(records)) == pytest.approx(by_hand)
    assert by_hand > 0.5
    windowed = text["rotary"]["changed"]["window"][str(16 * L)]
    assert Seed(records).bits("rotary", 16, "window") == windowed
