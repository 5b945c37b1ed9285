"""Verdicts follow from the results and their intervals, and every claim has a source and a date."""

import datetime
import math
import re

import pytest

from alibi_viz import lab
from alibi_viz.lab.claims import CLAIMS, PAPERS, PILOT, UNSEEN, VERSION_1, Claim, Seed, cite, evidence
from alibi_viz.lab.confidence import mean_interval
from alibi_viz.lab.results import COLUMNS

L = 8
DISTANCE = lab.TASKS["needle"].max_distance(L)


def results_with(*values):
    """Results of which the claim below reads one value per seed."""
    row = {**dict.fromkeys(COLUMNS, ""), "task": "needle", "label": "alibi", "question": "needle", "length": L}
    row |= {"evaluated": "as trained", "x": DISTANCE, "count": 1}
    return lab.results_table({**row, "seed": seed, "value": value} for seed, value in enumerate(values))


CLAIM = Claim("it finds", "a test", lambda seed: seed.accuracy("needle", "alibi", 1), at_least=0.5)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((0.6, 0.61, 0.62), "reproduced"),
        ((0.5, 0.5, 0.5), "reproduced"),
        ((0.3, 0.31, 0.32), "contradicted"),
        ((0.49, 0.6, 0.7), "undecided"),
        ((0.51, 0.9, 0.9), "undecided"),
        ((0.9, 0.9), "not testable here"),
        ((0.9, 0.9, float("nan")), "not testable here"),
        ((), "not testable here"),
    ],
)
def test_the_whole_interval_over_the_seeds_decides(values, verdict):
    (judged,) = lab.judge(results_with(*values), [CLAIM])
    assert judged.verdict == verdict
    assert judged.values == tuple(value for value in values if not math.isnan(value))


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((0.3, 0.31, 0.32), "reproduced"),
        ((0.5, 0.5, 0.5), "reproduced"),
        ((0.6, 0.61, 0.62), "contradicted"),
        ((0.4, 0.5, 0.51), "undecided"),
    ],
)
def test_an_upper_limit_decides_the_other_way(values, verdict):
    claim = Claim("it is small", "a test", CLAIM.statistic, at_most=0.5)
    (judged,) = lab.judge(results_with(*values), [claim])
    assert judged.verdict == verdict
    assert "needs at most +0.50" in judged.numbers


def test_a_claim_without_a_statistic_is_not_testable():
    quoted = Claim("at scale", "a paper")
    (judged,) = lab.judge(results_with(1.0, 1.0, 1.0), [quoted])
    assert (judged.verdict, judged.values) == ("not testable here", ())
    assert str(judged) == "not testable here: at scale (a paper)"


def test_a_verdict_prints_its_numbers_their_count_and_when_the_claim_was_made():
    claim = Claim("it finds", "a test", CLAIM.statistic, 0.5, "2026-11-22", UNSEEN, "another test")
    (judged,) = lab.judge(results_with(0.6, 0.61, 0.62), [claim])
    assert str(judged) == (
        "reproduced: it finds [+0.610, 95%: +0.585 to +0.635, 3 seeds, needs at least +0.50] "
        "(a test; written 2026-11-22, before any run; against it: another test)"
    )


def test_the_interval_is_that_of_the_mean_over_seeds():
    (judged,) = lab.judge(results_with(0.6, 0.7, 0.9), [CLAIM])
    mean, half_width = mean_interval([0.6, 0.7, 0.9])
    assert judged.interval == pytest.approx((mean - half_width, mean + half_width))


def test_the_interval_of_a_share_ends_at_one():
    (judged,) = lab.judge(results_with(0.9, 1.0, 1.0), [Claim("it finds", "a test", CLAIM.statistic, limits=(0, 1))])
    assert judged.interval[0] > 0.8
    assert judged.interval[1] == 1


def test_lengths_are_multiples_of_the_shortest_training_length():
    text = {**dict.fromkeys(COLUMNS, ""), "task": "text", "label": "alibi", "question": "longer windows", "seed": 0}
    text |= {"evaluated": "as trained", "count": 1}
    rows = [{**text, "length": length, "x": x, "value": x / 10} for length in (32, 64) for x in (length, 16 * length)]
    assert Seed(lab.results_table(rows)).rise("alibi") == pytest.approx(51.2 - 3.2)


def test_every_claim_is_dated_and_says_what_was_known():
    for claim in CLAIMS:
        assert datetime.date.fromisoformat(claim.written) >= datetime.date(2026, 11, 21), claim.text
        assert claim.seen in {UNSEEN, PILOT, VERSION_1}, claim.text
        assert claim.source, claim.text


def test_no_claim_is_made_twice():
    keys = [(claim.text, claim.source) for claim in CLAIMS]
    assert len(set(keys)) == len(keys)


def test_every_paper_has_an_arxiv_number_and_is_cited():
    cited = " ".join(f"{claim.source} {claim.contrary}" for claim in CLAIMS)
    for name, paper in PAPERS.items():
        assert re.fullmatch(r"\d{4}\.\d{5}", paper.arxiv), name
        assert cite(name) in cited, name


def test_only_claims_that_need_scale_have_no_statistic():
    quoted = [claim.text for claim in CLAIMS if claim.statistic is None]
    assert all(re.search(r"perplexity|1\.3B|11%|language model", text) for text in quoted), quoted


def test_evidence_lists_each_claim_that_comes_from_a_paper_or_that_it_speaks_against():
    made = Claim("it finds", cite("yarn"), CLAIM.statistic, at_least=0.5)
    opposed = Claim("it finds more", "a test", CLAIM.statistic, at_least=0.9, contrary=f"it does not ({cite('yarn')})")
    table = evidence(["pi", "yarn"], lab.judge(results_with(0.6, 0.61, 0.62), [made, opposed, CLAIM]))
    assert table[["paper", "role", "claim", "verdict"]].values.tolist() == [
        ["2309.00071", "source", "it finds", "reproduced"],
        ["2309.00071", "against", "it finds more", "contradicted"],
    ]
    assert "3 seeds, needs at least +0.50" in table["numbers"][0]


def test_evidence_of_an_unknown_paper_raises():
    with pytest.raises(KeyError):
        evidence(["unheard of"], [])
