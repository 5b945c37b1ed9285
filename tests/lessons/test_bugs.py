"""Every bug has the fault that it claims, and its picture shows this fault and none of the wrong
answers."""

import inspect
import math
from dataclasses import replace

import pytest

from alibi_viz.check import FAULTS
from alibi_viz.lessons.bugs import BUGS, CaseView, load_code, try_repair
from tests.check.faulty import names
from tests.lessons.repairs import REPAIRS
from tests.rows import each_case
from tests.widgets.race.small_race import DEADLINE

# One of each kind: a bias, slopes, attention, that of an encoder, and decoding
DIFFERENT = ("case 1", "case 3", "case 5", "case 7", "case 14")
EVERY_BUG = [
    pytest.param(bug, marks=() if name in DIFFERENT else pytest.mark.weekly)
    for name, bug in BUGS.items()
]
each_kind_of_bug = pytest.mark.parametrize("bug", EVERY_BUG, ids=list(BUGS))
BUG_OF_FAULT = {bug.fault: bug for bug in BUGS.values()}


# The collection


def test_there_are_at_least_ten_bugs_with_different_faults():
    assert len(BUGS) >= 10
    assert len(BUG_OF_FAULT) == len(BUGS)


def test_bugs_go_from_easy_to_hard():
    tiers = [bug.tier for bug in BUGS.values()]
    assert list(dict.fromkeys(tiers)) == ["easy", "medium", "hard"]


def test_every_bug_has_a_repair_here():
    assert REPAIRS.keys() == BUG_OF_FAULT.keys()


def test_eight_of_the_fourteen_bugs_were_repaired():
    """Lesson 7 says so. The gallery gives such a bug two dates: from when to when it was there."""
    repaired = [bug for bug in BUGS.values() if " to " in bug.exhibit.system]
    assert (len(repaired), len(BUGS)) == (8, 14)


# The question


def test_there_are_four_answers_and_the_fault_is_one():
    for bug in BUGS.values():
        assert len(set(bug.answers)) == len(bug.answers) == 4, bug.name
        assert bug.fault in bug.answers


def test_every_answer_is_a_fault_that_the_checker_knows():
    for bug in BUGS.values():
        assert set(bug.answers) <= FAULTS.keys(), bug.name


def test_neither_name_nor_code_gives_a_fault_away():
    for bug in BUGS.values():
        shown = f"{bug.name} {bug.code}".lower()
        assert [fault for fault in FAULTS if fault in shown] == [], bug.name


def test_the_code_has_at_most_eight_lines():
    for bug in BUGS.values():
        _definition, *lines = bug.code.splitlines()
        assert 1 <= len(lines) <= 8, bug.name


def test_the_source_of_a_bug_is_public():
    for bug in BUGS.values():
        assert bug.exhibit.source.startswith("https://github.com/"), bug.name


# What the checker says


@pytest.fixture
def short_checks(monkeypatch):
    """Attention is checked up to 64 keys: enough for these faults, and faster."""
    for name, bug in BUGS.items():
        if bug.exhibit.kind == "attention":
            exhibit = replace(bug.exhibit, options={**bug.exhibit.options, "length": 64})
            monkeypatch.setitem(BUGS, name, replace(bug, exhibit=exhibit))


@pytest.mark.usefixtures("short_checks")
@each_kind_of_bug
def test_the_checker_finds_the_fault_and_who_had_it(bug):
    (finding,) = try_repair(bug.name, bug.code, DEADLINE).findings
    assert finding.name == bug.fault
    assert bug.exhibit in finding.seen_in


@pytest.mark.usefixtures("short_checks")
@each_kind_of_bug
def test_the_checker_finds_nothing_in_the_repair(bug):
    assert try_repair(bug.name, REPAIRS[bug.fault], DEADLINE).ok


# The picture


def difference(some, other):
    return float((some - other).abs().max())


@each_kind_of_bug
def test_the_picture_has_a_cell_for_each_row_and_key(bug):
    cells = (len(bug.view.rows), len(bug.view.keys))
    assert bug.weights().shape == cells
    assert bug.view.correct(bug.causal).shape == cells


def test_heads_are_counted_from_1():
    # The first of eight heads has slope 1/2: a key one step back has the weight e^(-1/2).
    weights = CaseView(head=1, num_heads=8).correct(causal=True)
    assert float(weights[-1, -2]) == pytest.approx(math.exp(-1 / 2))


@each_kind_of_bug
def test_the_picture_shows_the_fault(bug):
    assert difference(bug.weights(), bug.view.correct(bug.causal)) > 0.15


@each_kind_of_bug
def test_the_picture_becomes_correct_with_the_repair(bug):
    repaired = bug.weights(REPAIRS[bug.fault])
    assert difference(repaired, bug.view.correct(bug.causal)) < 1e-4


@each_kind_of_bug
def test_the_picture_looks_different_from_those_of_the_wrong_answers(bug):
    shown = bug.weights()
    for answer in bug.answers:
        other = BUG_OF_FAULT.get(answer)
        if other is None or other is bug:
            continue
        weights = bug.view.weights(other.exhibit.kind, load_code(other.code), bug.causal)
        assert difference(shown, weights) > 0.02, answer


# Repairs that don't work


@each_case(
    ("code", "fault", "evidence"),
    {
        "syntax": (
            "def bias(n, q, k)\n    return 0",
            "raises an error",
            "line 1: SyntaxError: expected ':'",
        ),
        "top level": (
            "x = 1\nfoo",
            "raises an error",
            "line 2: NameError: name 'foo' is not defined",
        ),
        "function": (
            "bias = torch.ones(3)\ndef mine(n, q, k):\n    return [][n]",
            "raises an error",
            "line 3: IndexError",
        ),
        "arguments": (
            "def bias(n):\n    return 0",
            "wrong kind of function",
            "bias(n) is called with (num_heads, query_length, key_length)",
        ),
        "no function": ("bias = 3", "raises an error", "the code defines no function"),
        "exit": ("raise SystemExit", "raises an error", "SystemExit"),
        "type": ("def bias(n, q, k):\n    return 'text'", "wrong type", "str"),
    },
)
def test_broken_code_becomes_a_finding_with_the_line(code, fault, evidence):
    report = try_repair("case 1", code, DEADLINE)
    assert fault in names(report)
    assert evidence in str(report)


def test_loaded_function_keeps_its_parameters():
    bias = load_code("def bias(num_heads, query_length, *, key_length=8):\n    return 0")
    assert str(inspect.signature(bias)) == "(num_heads, query_length, *, key_length=8)"


@each_case(
    "code",
    {
        "top level": "threading.Event().wait()",
        "function": "def bias(n, q, k):\n    threading.Event().wait()",
    },
)
def test_code_that_never_ends_becomes_a_finding(code):
    report = try_repair("case 1", f"import threading\n{code}", seconds=0.1)
    assert names(report) == {"does not finish"}
    assert "no result after 0.1 seconds" in str(report)


# Repairs in other forms

USES_A_HELPER = "sizes(n) * -(torch.arange(k - q, k)[:, None] - torch.arange(k))"
HELPER = "def sizes(n):\n    return av.alibi_slopes(n)[:, None, None]"


@each_case(
    "repair",
    {
        "a lambda": f"bias = lambda n, q, k: {USES_A_HELPER}\n{HELPER}",
        "a function": f"def bias(n, q, k):\n    return {USES_A_HELPER}\n{HELPER}",
    },
)
def test_a_repair_may_have_helpers_below(repair):
    assert try_repair("case 1", repair, DEADLINE).ok


def test_of_functions_with_other_names_the_last_is_the_repair():
    repair = f"{HELPER}\ndef mine(n, q, k):\n    return {USES_A_HELPER}"
    assert try_repair("case 1", repair, DEADLINE).ok
