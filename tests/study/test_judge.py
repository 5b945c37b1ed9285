"""Verdicts follow from the results and their intervals, and every claim has a source and a date."""

import datetime
import math
import re

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from alibi_viz import study
from alibi_viz.measure.table import COLUMNS, results_table
from alibi_viz.study.judge import KNOWN, SETTINGS, holm, standard_error

LENGTH = 8


def claim(**settings: object) -> study.Claim:
    words = {"name": "It holds", "text": "It does.", "source": "a test"}
    return study.Claim(**{"plus": [study.Term("alibi", 1)], **words, **settings})  # type: ignore[arg-type]


AT_LEAST, AT_MOST = claim(at_least=0.5), claim(at_most=0.5)


def results(*values: float, label: str = "alibi", **cells: object) -> pd.DataFrame:
    """One value per seed, by default of the loss at L."""
    row = {
        **dict.fromkeys(COLUMNS, ""),
        "task": "text",
        "label": label,
        "question": "longer sequences",
        "step": 0,
    }
    row |= {"variant": "as trained", "x": LENGTH, "length": LENGTH, "count": 1, **cells}
    return results_table({**row, "seed": seed, "value": value} for seed, value in enumerate(values))


@pytest.mark.parametrize(
    ("values", "at_least", "at_most"),
    [
        ((0.6, 0.61, 0.62), "seen here", "not seen here"),
        ((0.5, 0.5, 0.5), "seen here", "seen here"),
        ((0.49996, 0.49996, 0.49996), "seen here", "seen here"),  # up to rounding
        ((0.3, 0.31, 0.32), "not seen here", "seen here"),
        ((0.49, 0.6, 0.7), "can't tell", "can't tell"),
        ((0.9, 0.9), "can't tell", "can't tell"),
    ],
)
def test_the_whole_interval_decides(values: tuple[float, ...], at_least: str, at_most: str) -> None:
    judged = study.judge(results(*values), [AT_LEAST, AT_MOST])
    assert [each.verdict for each in judged] == [at_least, at_most]
    assert (judged[0].p == 1.0) == (set(values) == {0.5} or len(values) < 3), (
        "at the threshold, or too few seeds"
    )


def test_without_blocks_the_interval_is_nearly_that_of_student() -> None:
    values = np.array([0.6, 0.7, 0.99, 0.8, 0.65, 0.9, 0.72, 0.81])
    (verdict,) = study.judge(results(*values), [AT_LEAST])
    expected = scipy.stats.t.interval(0.95, 7, loc=values.mean(), scale=scipy.stats.sem(values))
    assert (verdict.low, verdict.high) == pytest.approx(expected, abs=0.01)
    student = scipy.stats.t(7, loc=values.mean(), scale=standard_error(values[:, None]))
    assert (verdict.low, verdict.high) == pytest.approx(student.interval(0.95))
    assert verdict.p == pytest.approx(2 * student.cdf(0.5))
    assert study.judge(results(0.6, 0.6, 0.6), [AT_LEAST])[0].p == 0


def test_the_standard_error_is_that_of_a_bootstrap_over_both_seeds_and_blocks() -> None:
    random = np.random.default_rng(1)
    values = random.normal(size=(5, 1)) + random.normal(size=7) + 3 * random.normal(size=(5, 7))
    drawn = [
        values[random.integers(5, size=5)][:, random.integers(7, size=7)].mean()
        for _ in range(5_000)
    ]
    assert standard_error(values) == pytest.approx(np.std(drawn) * math.sqrt(5 / 4), rel=0.03)


DIFFERENCE = claim(
    plus=[study.Term("alibi", 16)], minus=[study.Term("rotary", 16, "window")], at_least=0
)
# One value per seed, in each of two blocks of text.
ALIBI = [
    results(2.0, 2.2, 2.4, x=16 * LENGTH).assign(block=0),
    results(3.0, 3.2, 3.4, x=16 * LENGTH).assign(block=1),
]
ROTARY = [
    results(1.0, 1.1, 1.5, label="rotary", variant="window", x=16 * LENGTH).assign(block=0),
    results(1.0, 1.1, 1.5, label="rotary", variant="window", x=16 * LENGTH).assign(block=1),
]


def test_number_is_a_difference_in_the_same_seed_and_block() -> None:
    (verdict,) = study.judge(pd.concat([*ALIBI, *ROTARY]), [DIFFERENCE])
    assert verdict.values.tolist() == [[1.0, 2.0], [1.1, 2.1], [0.9, 1.9]]
    assert verdict.mean == pytest.approx(1.5)


def test_margin_is_the_distance_to_the_threshold() -> None:
    assert claim(at_least=1.0).margin(1.5) == 0.5
    assert claim(at_most=1.0).margin(1.5) == -0.5


def test_seed_that_one_term_lacks_is_left_out() -> None:
    fourth_seed = [rows.iloc[:1].assign(seed=3) for rows in ROTARY]
    (verdict,) = study.judge(pd.concat([*ALIBI, *ROTARY, *fourth_seed]), [DIFFERENCE])
    assert len(verdict.values) == 3


def test_terms_with_different_numbers_of_blocks_are_compared_by_their_means() -> None:
    (verdict,) = study.judge(pd.concat([*ALIBI, ROTARY[0]]), [DIFFERENCE])
    assert verdict.values.tolist() == [[1.5], [1.6], [1.4]]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (results().head(0), "no results on 'longer sequences' of models trained on 'text'"),
        (results(0.9, 0.9, 0.9, label="rotary"), "no results of alibi at 1L"),
        (results(0.9, 0.9, 0.9, variant="window"), "no results of alibi at 1L"),
        (results(0.9, 0.9, math.nan), "too few seeds have all results: 2 of at least 3"),
        (
            pd.concat([results(0.9, 0.9, 0.9), results(0.9, text="other")]),
            "the results are about 2 different texts",
        ),
        (
            pd.concat(2 * [results(0.9, 0.9, 0.9)]),
            "there are several results for a label, seed and x",
        ),
    ],
)
def test_a_claim_without_its_results_says_why_one_cannot_tell(
    table: pd.DataFrame, reason: str
) -> None:
    (verdict,) = study.judge(table, [AT_LEAST])
    assert (verdict.verdict, verdict.numbers, "values" in repr(verdict)) == (
        "can't tell",
        reason,
        False,
    )


def test_claims_are_judged_in_each_setting_that_has_results_and_tasks_in_the_main_one() -> None:
    python = results(0.9, 0.9, 0.9, task="python reference")
    needle = results(0.9, 0.9, 0.9, task="needle", question="needle")
    for table, settings in (
        (python, {"Python's reference": 11}),
        (needle, {"tales": 12}),
        (python.head(0), {}),
    ):
        verdicts = study.verdict_table(table)
        assert (
            verdicts.groupby("setting").size().to_dict() if settings else {*verdicts.index}
        ) == (settings or set())
    table = study.verdict_table(study.published_results(by_block=True).query("task == 'needle'"))
    (tested,) = table.dropna(subset="low").itertuples()
    assert tested.holm == tested.p and len(table) == 12 and table["holm"].notna().sum() == 1, (
        "no results, no test"
    )


def test_conclusion_counts_what_survives_the_correction_and_what_was_known() -> None:
    table = pd.DataFrame(
        {"p": [0.001, 0.04, 0.9], "verdict": ["seen here", "not seen here", "can't tell"]}
    )
    table = table.assign(
        holm=holm(table["p"]), known=["blind", "blind", "afterwards"], low=[0.1, 0.1, 0.1]
    )
    said = study.conclusion(table)
    assert (
        "3 intervals, 2 exclude" in said
        and "1 still do" in said
        and "blind 1 of 2, afterwards 0 of 1" in said
    )
    for empty in (
        table.replace({"low": {0.1: None}}),
        study.verdict_table(study.published_results().head(0)),
    ):
        assert study.conclusion(empty) == "There are no results on any claim."


def test_holm_multiplies_the_smallest_most_and_keeps_the_order() -> None:
    assert holm([0.01, 0.02, 0.9, 0.02, 0.8]).tolist() == pytest.approx([0.05, 0.08, 1, 0.08, 1])
    assert holm([]).tolist() == []


def test_every_claim_has_a_date_a_threshold_and_a_source() -> None:
    for each in study.CLAIMS:
        assert datetime.date.fromisoformat(each.written) >= datetime.date(2026, 11, 21), each.name
        assert each.known in KNOWN and each.source, each.name
        assert re.findall(r"at (?:least|most) ([\d.]+\d)", each.text) == [f"{each.threshold:g}"], (
            each.name
        )
    assert (
        len({each.name for each in study.CLAIMS}) == len({each.text for each in study.CLAIMS}) == 12
    )
    cited = " ".join(each.source for each in study.CLAIMS)
    for name, paper in study.PAPERS.items():
        assert re.fullmatch(r"\d{4}\.\d{5}", paper["arxiv"]) and paper["arxiv"] in cited, name


def test_published_results_can_tell_of_every_claim_in_eight_seeds_and_sixteen_blocks() -> None:
    table = study.published_results(by_block=True)
    for setting in SETTINGS:
        for verdict in study.judge(table, setting=setting):
            assert verdict.values.shape == (
                (8, 1) if verdict.claim.task == "needle" else (8, 16)
            ), verdict


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match=r"claims must be a list of Claim objects, got \[1\]"):
        study.judge(results(), [1])  # type: ignore[list-item]
    with pytest.raises(
        ValueError, match=r"results must have the columns origin, .*, text; task, seed are missing"
    ):
        study.judge(results().drop(columns=["task", "seed"]))
    for limit, needs in (
        ({"at_least": 0.004}, "needs at least +0.004"),
        ({"at_most": 0}, "needs at most +0.00"),
    ):
        assert study.judge(results(1, 1, 1), [claim(**limit)])[0].numbers.endswith(needs)
    steps = [results(1, 1).assign(step=step, seed=[step, step + 1]) for step in (0, 9)]
    assert "several steps" in study.judge(pd.concat(steps), [AT_LEAST])[0].numbers
    for wrong in ({}, {"at_least": math.nan}, {"at_least": 0, "plus": []}):
        with pytest.raises(
            ValueError, match="needs terms in plus, and a number at_least or at_most"
        ):
            claim(**wrong)
    with pytest.raises(ValueError, match=r"known must be among blind, .* got 'guessed'"):
        claim(at_least=0, known="guessed")
    with pytest.raises(ValueError, match=r"setting must be among tales, .* got 'novels'"):
        study.judge(results(), setting="novels")
