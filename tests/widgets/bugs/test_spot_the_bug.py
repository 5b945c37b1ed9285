"""SpotTheBug, driven through its traits and its buttons."""

import pytest

from alibi_viz.check import FAULTS
from alibi_viz.lessons import BUGS
from alibi_viz.widgets import SpotTheBug
from alibi_viz.widgets.core.traits import BadValue
from tests.lessons.repairs import REPAIRS

REPAIR = REPAIRS["sign reversed"]


def button(app, css):
    """The button with this CSS class."""
    found = []

    def search(widget):
        if css in getattr(widget, "_dom_classes", ()):
            found.append(widget)
        for child in getattr(widget, "children", ()):
            search(child)

    search(app)
    assert len(found) == 1
    return found[0]


def visible(app):
    """Everything in words that the app shows before a guess."""
    assert button(app, "s-verdict").value == "", "hidden until the guess"
    titles = [note.text for note in app.figure.layout.annotations]
    return " ".join([app.caption, repr(app), *titles]).lower()


@pytest.mark.parametrize("name", BUGS)
def test_nothing_before_the_guess_names_the_fault(name):
    app = SpotTheBug(bug=name)
    assert not [fault for fault in FAULTS if fault in visible(app)]
    assert app._revealed.layout.display == "none"
    assert {answer.icon for answer in app._answers} == {""}
    assert {answer.button_style for answer in app._answers} == {""}
    assert name.split()[1] in app.caption
    app.close()


def test_answers_are_the_four_buttons_with_what_they_mean():
    app = SpotTheBug(bug="case 3")
    assert [answer.description for answer in app._answers] == list(app.answers) == list(BUGS["case 3"].answers)
    assert [problem.value for problem in app._problems] == [FAULTS[name].problem for name in app.answers]


def test_right_guess_reveals_fault_evidence_and_origin():
    app = SpotTheBug()
    button(app, "s-answer-1").click()
    assert app.guess == "sign reversed"
    verdict = button(app, "s-verdict").value
    assert "<b>Right:</b> it is <b>sign reversed</b>" in verdict
    assert "head 1 of 8 has slope -0.5, expected 0.5" in verdict
    assert "attention-gym, 31 July to 3 December 2024" in verdict
    assert 'href="https://github.com/meta-pytorch/attention-gym/pull/86"' in verdict
    assert app._revealed.layout.display is None
    assert button(app, "s-code").value == BUGS["case 1"].code


def test_wrong_guess_is_marked_and_a_second_one_is_ignored():
    app = SpotTheBug()
    button(app, "s-answer-0").click()
    assert "<b>No.</b> You chose no bias, but it is <b>sign reversed</b>" in button(app, "s-verdict").value
    assert [answer.button_style for answer in app._answers] == ["danger", "success", "", ""]
    button(app, "s-answer-1").click()
    assert app.guess == "no bias"


def test_guess_that_is_not_an_answer_raises_and_changes_nothing():
    app = SpotTheBug()
    for value in ("window", 3, ""):
        with pytest.raises(BadValue, match="guess must be None or"):
            app.guess = value
    assert repr(app) == "SpotTheBug(bug='case 1', guess=None, code='')"
    with pytest.raises(BadValue, match="bug must be one of case 1, case 2"):
        app.bug = "case 99"
    with pytest.raises(BadValue, match="code must be a string of at most 20,000 characters"):
        app.code = 3


def test_state_can_be_given_at_once():
    app = SpotTheBug(bug="case 2", guess="no bias", code=REPAIRS["no bias"])
    assert (app.bug, app.guess) == ("case 2", "no bias")
    assert app.check().ok
    assert app.solved == ["case 2"]


def test_repair_that_passes_the_check_solves_the_case_and_replaces_the_picture():
    app = SpotTheBug(guess="sign reversed")
    faulty = app.figure.data[1].z
    button(app, "s-code").value = REPAIR
    assert app.code == REPAIR
    button(app, "s-check").click()
    assert "no fault found" in button(app, "s-report").value
    assert app.solved == ["case 1"]
    assert button(app, "s-progress").value == f"1 of {len(BUGS)} solved"
    assert app.figure.layout.annotations[1].text == "<b>your repair</b>"
    assert app.figure.data[1].z != faulty
    assert app.caption.endswith("The two pictures are the same.")
    app.code = REPAIR + "\n# changed since the check"
    assert app.figure.data[1].z == faulty
    assert button(app, "s-report").value == ""
    assert app.solved == ["case 1"]


def test_check_of_the_faulty_code_reports_its_fault():
    app = SpotTheBug(guess="sign reversed")
    report = app.check()
    assert [finding.name for finding in report.findings] == ["sign reversed"]
    assert "<img" in button(app, "s-report").value
    assert app.solved == []


def test_error_in_the_code_is_shown_with_its_line_and_the_app_stays_usable():
    app = SpotTheBug(guess="sign reversed")
    faulty = app.figure.data[1].z
    app.code = "def bias(num_heads, query_length, key_length):\n    return <nothing>"
    app.check()
    assert "line 2: SyntaxError" in button(app, "s-report").value
    assert "<nothing>" not in button(app, "s-report").value
    assert app.figure.data[1].z == faulty
    app.code = "def bias(num_heads, query_length, key_length):\n    return undefined"
    app.check()
    assert "line 2, `return undefined`: NameError" in button(app, "s-report").value
    app.code = REPAIR
    assert app.check().ok


@pytest.mark.parametrize("shape", ["(0, 3)", "(num_heads, 3, 3)", "(num_heads, 1, 1, 1, key_length)"])
def test_results_of_a_wrong_shape_keep_the_picture(shape):
    app = SpotTheBug(guess="sign reversed")
    faulty = app.figure.data[1].z
    app.code = f"def bias(num_heads, query_length, key_length):\n    return torch.zeros({shape})"
    assert not app.check().ok
    assert app.figure.data[1].z == faulty


@pytest.mark.parametrize("result", ["value[0]", "value[..., :3]", "value * torch.nan", "value[:, :, :1] / 0"])
def test_nonsense_from_attention_is_reported(result):
    app = SpotTheBug(bug="case 5", guess="no bias")
    app.code = f"def attention(query, key, value):\n    return {result}"
    assert not app.check().ok
    assert "nan%" not in app.caption


def test_hanging_code_is_reported_after_the_time_limit(monkeypatch):
    monkeypatch.setattr("alibi_viz.widgets.bugs.spot_the_bug.SECONDS", 0.2)
    app = SpotTheBug(guess="sign reversed", code="import time\ndef bias(n, q, k):\n    time.sleep(2)")
    app.check()
    assert "no result after 0.2 seconds" in button(app, "s-report").value
    assert "Restart the kernel" in button(app, "s-report").value


def test_emptying_the_box_restores_the_faulty_code():
    app = SpotTheBug(guess="sign reversed", code="x = 1")
    button(app, "s-code").value = " \n"
    assert app.code == ""
    assert button(app, "s-code").value == BUGS["case 1"].code


def test_each_case_keeps_its_guess_and_its_code():
    app = SpotTheBug(guess="sign reversed", code=REPAIR)
    app.check()
    button(app, "s-next").click()
    assert repr(app) == "SpotTheBug(bug='case 2', guess=None, code='')"
    assert button(app, "s-report").value == ""
    button(app, "s-previous").click()
    assert (app.bug, app.guess, app.code) == ("case 1", "sign reversed", REPAIR)
    assert "no fault found" in button(app, "s-report").value
    button(app, "s-previous").click()
    assert app.bug == list(BUGS)[-1], "the cases form a ring"


def test_reset_forgets_the_guess_and_the_repair_of_this_case_alone():
    app = SpotTheBug(guess="sign reversed", code=REPAIR)
    app.check()
    app.bug = "case 2"
    app.guess = "no bias"
    button(app, "s-reset").click()
    assert (app.guess, app.solved) == (None, ["case 1"])
    app.bug = "case 1"
    button(app, "s-reset").click()
    assert (app.guess, app.code, app.solved) == (None, "", [])
    assert app.figure.layout.annotations[1].text == "<b>this implementation</b>"


def test_caption_says_which_heads_are_correct_and_gives_numbers():
    caption = SpotTheBug(bug="case 4").caption
    assert "the last query of each of 12 heads, 16 tokens" in caption
    assert "Heads 1 to 8 are correct. The largest difference is in head 9: keys 0, 8, 14 and 15 get 100%," in caption
    assert "decoding: the last 5 are queries" in SpotTheBug(bug="case 10").caption
    assert "an encoder" in SpotTheBug(bug="case 7").caption
