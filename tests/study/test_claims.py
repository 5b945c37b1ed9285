"""Every claim has a source, a date and a threshold, and the published results can tell of it."""

import math
import re

import pytest

from alibi_viz import lab, study
from alibi_viz.study.judge import SMALLEST_EFFECT
from tests.rows import each_case


def test_claims_have_different_names_and_texts():
    assert len({claim.name for claim in study.CLAIMS}) == len(study.CLAIMS)
    assert len({claim.text for claim in study.CLAIMS}) == len(study.CLAIMS)


def test_the_threshold_is_in_the_sentence():
    for claim in study.CLAIMS:
        if claim.text.startswith("The same of "):
            continue
        thresholds = re.findall(r"at (?:least|most) ([\d.]+\d)", claim.text)
        assert thresholds == [f"{claim.threshold:g}"], claim.name


def test_every_paper_is_the_source_of_a_claim():
    for name, paper in study.PAPERS.items():
        assert any(paper["arxiv"] in claim.source for claim in study.CLAIMS), name


@pytest.fixture(scope="module")
def published():
    return study.published_results(by_block=True)


@each_case("setting", {setting.id: setting for setting in study.SETTINGS.values()})
def test_published_results_can_tell_of_every_claim_in_every_setting(published, setting):
    for verdict in study.judge(published, setting=setting.id).itertuples():
        assert not math.isnan(verdict.low), verdict


def test_the_smallest_effect_of_interest_is_the_same_for_all_claims_on_a_unit():
    for claim in study.CLAIMS:
        unit = lab.find_question(claim.question).unit
        # "Falls apart" is a claim about a large effect.
        if "falls apart" not in claim.name:
            assert claim.threshold == SMALLEST_EFFECT[unit], claim.name


def test_earlier_editions_are_as_they_were_published():
    """The counts of the first are those of its report of 22 November 2026."""
    history = study.history()
    counts = history.groupby(["edition", "known"])["verdict"].value_counts()
    first = {
        known: [int(counts["first", known, verdict]) for verdict in study.VERDICTS]
        for known in ("before any run", "after a pilot", "after three seeds")
    }
    assert first == {
        "before any run": [13, 9, 4],
        "after a pilot": [25, 6, 5],
        "after three seeds": [20, 2, 2],
    }
    second = history[history["edition"] == "second"]
    assert second["verdict"].value_counts().to_dict() == dict(
        zip(study.VERDICTS, [15, 6, 2], strict=True)
    )
    assert set(second["claim"]) < {claim.name for claim in study.CLAIMS}
