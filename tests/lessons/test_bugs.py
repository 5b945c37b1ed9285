"""Every bug has the fault that it claims, and its picture shows this fault and none of the wrong
answers."""

import pytest
import torch

from alibi_viz.check import FAULTS
from alibi_viz.lessons.bugs import BUGS, Bug, load_code, try_repair
from tests.check.faulty import names
from tests.lessons.repairs import REPAIRS

each_bug = pytest.mark.parametrize("bug", BUGS.values(), ids=list(BUGS))
by_fault = {bug.fault: bug for bug in BUGS.values()}


def test_at_least_ten_different_faults_in_three_tiers_each_with_a_repair_here() -> None:
    assert len(by_fault) == len(BUGS) >= 10 and by_fault.keys() == REPAIRS.keys()
    assert list(dict.fromkeys(bug.tier for bug in BUGS.values())) == ["easy", "medium", "hard"]


@each_bug
def test_checker_finds_exactly_the_one_right_answer_of_four_and_none_in_the_repair(
    bug: Bug,
) -> None:
    report = try_repair(bug.name, bug.code)
    assert names(report) == {bug.fault} and bug.exhibit in report.findings[0].seen_in
    assert try_repair(bug.name, REPAIRS[bug.fault]).ok
    assert (
        len(set(bug.answers) & FAULTS.keys()) == len(bug.answers) == 4 and bug.fault in bug.answers
    )
    assert not any(fault in f"{bug.name} {bug.code}".lower() for fault in FAULTS)
    assert 1 <= len(bug.code.splitlines()) - 1 <= 8 and bug.exhibit.source.startswith(
        "https://github.com/"
    )


@each_bug
def test_picture_shows_the_fault_and_no_other_answer_and_becomes_correct_with_the_repair(
    bug: Bug,
) -> None:
    shown, correct = bug.weights(), bug.view.correct(bug.causal)
    assert shown.shape == correct.shape == (len(bug.view.rows), len(bug.view.keys))
    assert float((shown - correct).abs().max()) > 0.15
    torch.testing.assert_close(
        bug.weights(REPAIRS[bug.fault]), correct, atol=1e-4, rtol=0, check_dtype=False
    )
    for answer in set(bug.answers) & by_fault.keys() - {
        bug.fault
    }:  # the wrong answers that are bugs too
        other = by_fault[answer]
        weights = bug.view.weights(other.exhibit.kind, load_code(other.code), bug.causal)
        assert float((shown - weights).abs().max()) > 0.02, f"{answer} looks the same"


@pytest.mark.parametrize(
    ("code", "fault", "evidence"),
    [
        ("def bias(n, q, k)\n    return 0", "raises an error", "line 1: SyntaxError: expected ':'"),
        ("x = 1\nfoo", "raises an error", "line 2: NameError: name 'foo' is not defined"),
        (
            "bias = torch.ones(3)\ndef mine(n, q, k):\n    return [][n]",
            "raises an error",
            "line 3: IndexError",
        ),
        (
            "def bias(n):\n    return 0",
            "raises an error",
            "keys: TypeError: bias() takes 1 positional argument",
        ),
        ("bias = 3", "raises an error", "the code defines no function"),
        ("raise SystemExit", "raises an error", "SystemExit"),
        ("def bias(n, q, k):\n    return 'text'", "wrong type", "str"),
    ],
    ids=["syntax", "top level", "function", "arguments", "no function", "exit", "type"],
)
def test_broken_code_becomes_a_finding_with_the_line(code: str, fault: str, evidence: str) -> None:
    report = try_repair("case 1", code)
    assert fault in names(report) and evidence in str(report)


@pytest.mark.parametrize("header", ["bias = lambda n, q, k: (", "def bias(n, q, k):\n    return ("])
def test_a_repair_may_be_a_lambda_or_have_helpers_below(header: str) -> None:
    code = f"{header}sizes(n) * -(torch.arange(k - q, k)[:, None] - torch.arange(k)))"
    assert try_repair(
        "case 1", f"{code}\ndef sizes(n): return av.alibi_slopes(n)[:, None, None]"
    ).ok


@pytest.mark.parametrize("code", ["time.sleep(3)", "def bias(n, q, k):\n    time.sleep(3)"])
def test_hanging_code_is_bounded_by_the_time_limit(code: str) -> None:
    report = try_repair("case 1", f"import time\n{code}", seconds=0.2)
    assert names(report) == {"does not finish"} and "no result after 0.2 seconds" in str(report)
