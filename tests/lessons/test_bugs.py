"""Every bug has the fault that it claims, and its picture shows this fault and none of the wrong answers."""

import pytest
import torch

from alibi_viz.check import FAULTS
from alibi_viz.check.call import Unusable
from alibi_viz.lessons import BUGS, Bug, try_repair
from alibi_viz.lessons.repair import load_code, shown_weights
from tests.lessons.repairs import REPAIRS

each_bug = pytest.mark.parametrize("bug", BUGS.values(), ids=list(BUGS))


def names(report: object) -> list[str]:
    return [finding.name for finding in report.findings]


def by_fault() -> dict[str, Bug]:
    return {bug.fault: bug for bug in BUGS.values()}


def test_at_least_ten_different_faults_each_with_a_repair_here() -> None:
    assert len(by_fault()) == len(BUGS) >= 10
    assert by_fault().keys() == REPAIRS.keys()


@each_bug
def test_checker_finds_exactly_the_fault(bug: Bug) -> None:
    report = try_repair(bug.name, bug.code)
    assert names(report) == [bug.fault]
    assert bug.exhibit in report.findings[0].seen_in


@each_bug
def test_checker_finds_no_fault_in_the_repair_and_the_picture_becomes_correct(bug: Bug) -> None:
    assert try_repair(bug.name, REPAIRS[bug.fault]).ok
    torch.testing.assert_close(
        shown_weights(bug, REPAIRS[bug.fault]), bug.view.correct(bug.causal), atol=1e-4, rtol=0, check_dtype=False
    )


@each_bug
def test_picture_shows_the_fault(bug: Bug) -> None:
    shown, correct = shown_weights(bug), bug.view.correct(bug.causal)
    assert shown.shape == correct.shape == (len(bug.view.rows), len(bug.view.keys))
    assert float((shown - correct).abs().max()) > 0.15


@each_bug
def test_one_of_four_known_answers_is_right(bug: Bug) -> None:
    assert len(set(bug.answers)) == 4
    assert set(bug.answers) <= FAULTS.keys()
    assert bug.answers.count(bug.fault) == 1


@each_bug
def test_wrong_answers_would_give_another_picture(bug: Bug) -> None:
    """The faults among the wrong answers that are bugs too, computed for the call that is shown."""
    shown, others = shown_weights(bug), by_fault()
    for answer in set(bug.answers) & others.keys() - {bug.fault}:
        other = others[answer]
        weights = bug.view.weights(other.kind, load_code(other.code), bug.causal, 60.0)
        assert float((shown - weights).abs().max()) > 0.02, f"{answer} looks the same"


@each_bug
def test_name_and_code_do_not_name_the_fault(bug: Bug) -> None:
    text = f"{bug.name} {bug.code}".lower()
    assert not any(fault in text for fault in FAULTS)
    assert 1 <= len(bug.code.splitlines()) - 1 <= 8


def test_origins_are_exhibits_with_a_source() -> None:
    assert all(bug.exhibit.source.startswith("https://github.com/") for bug in BUGS.values())


def test_functions_can_be_checked_as_well_as_text() -> None:
    assert not try_repair("case 1", load_code(BUGS["case 1"].code)).ok
    with pytest.raises(ValueError, match="there is no bug 'case 99'; there are case 1, "):
        try_repair("case 99", "")
    with pytest.raises(TypeError, match="function must be callable"):
        try_repair("case 1", 3)


@pytest.mark.parametrize(
    ("code", "fault", "evidence"),
    [
        ("def bias(n, q, k)\n    return 0", "raises an error", "line 1: SyntaxError: expected ':'"),
        ("x = 1\nfoo", "raises an error", "line 2, `foo`: NameError: name 'foo' is not defined"),
        ("def bias(n, q, k):\n    return [][n]", "raises an error", "line 2, `return [][n]`: IndexError"),
        ("bias = 3", "raises an error", "the code defines no function"),
        ("x = '\0'", "raises an error", "null"),
        ("raise SystemExit", "raises an error", "SystemExit"),
        ("def bias(n, q, k):\n    return 'text'", "wrong type", "str"),
    ],
    ids=["syntax", "top level", "function", "no function", "null", "exit", "type"],
)
def test_broken_code_becomes_a_finding_with_the_line(code: str, fault: str, evidence: str) -> None:
    report = try_repair("case 1", code)
    assert fault in names(report)
    assert evidence in str(report)


@pytest.mark.parametrize(
    "code", ["time.sleep(3)", "def bias(n, q, k):\n    time.sleep(3)"], ids=["top level", "function"]
)
def test_hanging_code_is_bounded_by_the_time_limit(code: str) -> None:
    report = try_repair("case 1", f"import time\n{code}", seconds=0.2)
    assert names(report) == ["does not finish"]
    assert "no result after 0.2 seconds" in str(report)


def test_weights_of_broken_code_raise() -> None:
    with pytest.raises(Unusable, match="line 2"):
        shown_weights(BUGS["case 1"], "def bias(n, q, k):\n    return 1 / 0")
