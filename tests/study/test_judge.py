"""Verdicts follow from the results and their intervals, and every claim has a source and a date."""

import dataclasses
import datetime
import math
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from alibi_viz import study
from alibi_viz.study.judge import HISTORY
from alibi_viz.table import COLUMNS, results_table

LENGTH = 8
AT_LEAST = study.Claim("it holds", "a test", [study.Term("alibi", 1)], at_least=0.5)
AT_MOST = study.Claim("it is small", "a test", [study.Term("alibi", 1)], at_most=0.5)


def results(*values: float, label: str = "alibi", **cells: object) -> pd.DataFrame:
    """One value per seed, by default of the loss at L."""
    row = {**dict.fromkeys(COLUMNS, ""), "task": "text", "label": label, "question": "longer windows", "step": 0}
    row |= {"variant": "as trained", "x": LENGTH, "length": LENGTH, "count": 1, **cells}
    return results_table({**row, "seed": seed, "value": value} for seed, value in enumerate(values))


@pytest.mark.parametrize(
    ("values", "at_least", "at_most"),
    [
        ((0.6, 0.61, 0.62), "reproduced", "contradicted"),
        ((0.5, 0.5, 0.5), "reproduced", "reproduced"),
        ((0.3, 0.31, 0.32), "contradicted", "reproduced"),
        ((0.49, 0.6, 0.7), "undecided", "undecided"),
        ((0.9, 0.9), "not testable here", "not testable here"),
        ((0.9, 0.9, math.nan), "not testable here", "not testable here"),
        ((), "not testable here", "not testable here"),
    ],
)
def test_whole_interval_over_the_seeds_decides(values: tuple[float, ...], at_least: str, at_most: str) -> None:
    judged = study.judge(results(*values), [AT_LEAST, AT_MOST])
    assert [each.verdict for each in judged] == [at_least, at_most]
    assert judged[0].values == tuple(value for value in values if not math.isnan(value))


def test_interval_is_that_of_student_and_ends_at_the_limits() -> None:
    values = [0.6, 0.7, 0.99]
    limited = dataclasses.replace(AT_LEAST, limits=(0, 1))
    free, share = study.judge(results(*values), [AT_LEAST, limited])
    expected = scipy.stats.t.interval(0.95, 2, loc=np.mean(values), scale=scipy.stats.sem(values))
    assert free.interval == pytest.approx(expected)
    assert share.interval == pytest.approx((expected[0], 1))


def test_number_is_a_sum_of_answers_of_the_same_seed() -> None:
    table = pd.concat(
        [
            results(2.0, 2.2, 2.4, x=LENGTH),
            results(2.5, 2.9, 3.3, x=16 * LENGTH),
            results(1.0, 1.0, 1.0, label="rotary", x=16 * LENGTH, variant="window"),
            results(2.0, 2.0, math.nan, label="t5", x=LENGTH),
        ]
    )
    terms = {
        "plus": [study.Term("alibi", 16, factor=2)],
        "minus": [study.Term("alibi", 1), study.Term("rotary", 16, "window")],
    }
    claim = study.Claim("it rises", "a test", **terms, constant=10, at_least=0)
    below = study.Claim("it falls", "a test", minus=[study.Term("alibi", 1)], absolute=True, at_least=0)
    some = study.Claim("two of three", "a test", [study.Term("t5", 1)], at_least=0)
    values = [verdict.values for verdict in study.judge(table, [claim, below, some])]
    assert values == [(12.0, 12.6, 13.2), (2.0, 2.2, 2.4), (2.0, 2.0)]


def test_answer_of_a_task_is_the_one_at_the_largest_distance_that_fits() -> None:
    table = results(0.6, 0.61, 0.62, task="needle", question="needle", x=2 * LENGTH - 1)
    claim = dataclasses.replace(AT_LEAST, plus=[study.Term("alibi", 2)], task="needle", question="needle")
    assert study.judge(table, [claim])[0].verdict == "reproduced"


def test_verdict_prints_its_numbers_and_the_history_of_the_claim() -> None:
    claim = dataclasses.replace(AT_LEAST, written="2026-11-22", seen="before any run", contrary="another test")
    printed = str(study.judge(results(0.6, 0.61, 0.62), [claim])[0])
    assert printed.startswith("reproduced: it holds [+0.610, 95%: +0.585 to +0.635, 3 seeds, needs at least +0.50]")
    assert all(part in printed for part in ("a test", "2026-11-22", "before any run", "another test"))


def test_claim_about_results_needs_a_bound() -> None:
    with pytest.raises(ValueError, match="at_least or at_most"):
        study.Claim("it holds", "a test", [study.Term("alibi", 1)])


def test_published_results_decide_as_many_claims_as_before() -> None:
    """The counts when the verdicts were first published; each changes only with the results or the claims."""
    counts = Counter(verdict.verdict for verdict in study.judge(study.published_results()))
    assert counts == {"reproduced": 58, "contradicted": 17, "undecided": 11, "not testable here": 5}


def test_published_results_have_all_answers_of_a_claim_in_at_least_five_seeds() -> None:
    for verdict in study.judge(study.published_results()):
        assert len(verdict.values) >= 5 or not verdict.claim.is_testable, f"a wrong name? {verdict.claim.text}"


def test_every_claim_is_dated_and_made_once_and_every_paper_is_cited() -> None:
    for claim in study.CLAIMS:
        assert datetime.date.fromisoformat(claim.written) >= datetime.date(2026, 11, 21), claim.text
        assert claim.seen in HISTORY and claim.source, claim.text
    keys = [(claim.text, claim.source) for claim in study.CLAIMS]
    assert len(set(keys)) == len(keys)
    cited = " ".join(f"{claim.source} {claim.contrary}" for claim in study.CLAIMS)
    for name, paper in study.PAPERS.items():
        assert re.fullmatch(r"\d{4}\.\d{5}", paper["arxiv"]) and paper["arxiv"] in cited, name


def test_thresholds_are_those_of_the_sentences() -> None:
    for claim in study.CLAIMS:
        if claim.is_testable and (bound := re.search(r"(at least|at most) ([\d.]+)\b(%?)", claim.text)):
            number = float(bound[2]) / (100 if bound[3] else 1)
            assert getattr(claim, bound[1].replace(" ", "_")) == number, claim.text


def test_evidence_lists_claims_that_come_from_a_paper_or_that_it_speaks_against() -> None:
    made = dataclasses.replace(AT_LEAST, source="arXiv 2309.00071")
    opposed = dataclasses.replace(AT_LEAST, at_least=0.9, contrary="it does not (arXiv 2309.00071)")
    table = study.evidence(["pi", "yarn"], study.judge(results(0.6, 0.61, 0.62), [made, opposed, AT_LEAST]))
    assert table[["paper", "role", "verdict"]].values.tolist() == [
        ["2309.00071", "source", "reproduced"],
        ["2309.00071", "against", "contradicted"],
    ]
    with pytest.raises(ValueError, match="got 'unheard of'"):
        study.evidence(["unheard of"], [])


@pytest.mark.parametrize(
    ("arguments", "message"), [((1,), "results"), ((results(), [1]), "claims"), ((results(), "a"), "claims")]
)
def test_wrong_argument_is_named(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        study.judge(*arguments)  # type: ignore[arg-type]
