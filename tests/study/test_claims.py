"""Every claim has a source, a date and a threshold, and the published results can tell of it."""

import datetime
import re

import pytest

from alibi_viz import study
from alibi_viz.study.judge import KNOWN

VERDICTS = ["seen here", "not seen here", "can't tell"]
each_claim = pytest.mark.parametrize(
    "claim", [pytest.param(claim, id=claim.name) for claim in study.CLAIMS]
)


def test_claims_have_different_names_and_texts():
    assert len({claim.name for claim in study.CLAIMS}) == len(study.CLAIMS)
    assert len({claim.text for claim in study.CLAIMS}) == len(study.CLAIMS)


@each_claim
def test_a_claim_was_written_during_the_project(claim):
    assert datetime.date.fromisoformat(claim.written) >= datetime.date(2026, 11, 21)


@each_claim
def test_a_claim_says_what_was_known_and_who_makes_it(claim):
    assert claim.known in KNOWN
    assert claim.source


@each_claim
def test_the_threshold_is_in_the_sentence(claim):
    thresholds = re.findall(r"at (?:least|most) ([\d.]+\d)", claim.text)
    assert thresholds == [f"{claim.threshold:g}"]


@pytest.mark.parametrize(
    "paper", [pytest.param(study.PAPERS[name], id=name) for name in study.PAPERS]
)
def test_every_paper_is_the_source_of_a_claim(paper):
    assert re.fullmatch(r"\d{4}\.\d{5}", paper["arxiv"])
    assert any(paper["arxiv"] in claim.source for claim in study.CLAIMS)


@pytest.fixture(scope="module")
def published():
    return study.published_results(by_block=True)


@pytest.mark.parametrize(
    "setting", [pytest.param(setting, id=setting.name) for setting in study.SETTINGS.values()]
)
def test_published_results_can_tell_of_every_claim_in_every_setting(published, setting):
    for verdict in study.judge(published, setting=setting.name):
        seeds, blocks = verdict.values.shape
        assert seeds == setting.seeds, verdict
        # A task has no text to cut into blocks.
        assert blocks == (1 if verdict.claim.task == "needle" else 16), verdict


def test_earlier_editions_are_as_they_were_published():
    """The counts of the first are those of its report of 22 November 2026."""
    history = study.history()
    counts = history.groupby(["edition", "known"])["verdict"].value_counts()
    first = {
        known: [int(counts["first", known, verdict]) for verdict in VERDICTS]
        for known in ("before any run", "after a pilot", "after three seeds")
    }
    assert first == {
        "before any run": [13, 9, 4],
        "after a pilot": [25, 6, 5],
        "after three seeds": [20, 2, 2],
    }
    second = history[history["edition"] == "second"]
    assert second["verdict"].value_counts().to_dict() == dict(
        zip(VERDICTS, [15, 6, 2], strict=True)
    )
    assert set(second["claim"]) < {claim.name for claim in study.CLAIMS}
