"""SpotTheBug, driven through its traits and its buttons."""

import html
import re
from functools import cache

import numpy as np
import pytest

from alibi_viz.check import FAULTS, Finding, Report
from alibi_viz.lessons import BUGS, try_repair
from alibi_viz.widgets import SpotTheBug, spot_the_bug
from tests.figures.reading import named_trace
from tests.lessons.repairs import REPAIRS
from tests.rows import each_case
from tests.widgets.race.small_race import DEADLINE, control, controls

REPAIR = REPAIRS["sign reversed"]  # of case 1


@cache
def checked_once(name, code):
    """What the checker finds, once for all tests and without a limit of time."""
    return try_repair(name, code, DEADLINE)


@pytest.fixture(autouse=True)
def _check_once(monkeypatch):
    monkeypatch.setattr(
        spot_the_bug, "try_repair", lambda name, code, seconds: checked_once(name, code)
    )


def verdict(app):
    return control(app, "s-verdict").value


def report(app):
    return control(app, "s-report").value


def picture(app):
    """The colors of both matrices, as the source of an image."""
    return app.figure.layout.images[0].source


def is_revealed(app):
    """Whether the verdict and the code are shown."""
    return control(app, "s-repair").layout.display != "none"


def marked_answers(app):
    """{answer: color} of the buttons that are marked."""
    buttons = [control(app, f"s-answer-{number}") for number in range(4)]
    return {button.description: button.button_style for button in buttons if button.button_style}


# Before the guess


@pytest.mark.parametrize("name", ["case 1", "case 7", "case 14"])
def test_nothing_before_the_guess_names_the_fault(name):
    app = SpotTheBug(bug=name)
    visible = " ".join([app.caption, app.details, repr(app), verdict(app)]).lower()
    assert not [fault for fault in FAULTS if fault in visible]
    assert marked_answers(app) == {}
    assert not is_revealed(app)


# The guess


def test_a_right_guess_is_marked():
    app = SpotTheBug(guess="sign reversed")
    assert marked_answers(app) == {"sign reversed": "success"}
    assert is_revealed(app)
    assert control(app, "s-code").value == BUGS["case 1"].code


def test_a_wrong_guess_is_marked_beside_the_right_answer():
    app = SpotTheBug(guess="no bias")
    assert marked_answers(app) == {"no bias": "danger", "sign reversed": "success"}


def test_the_first_guess_counts():
    app = SpotTheBug()
    control(app, "s-answer-1").click()
    control(app, "s-answer-0").click()
    assert app.guess == "sign reversed"


def problems(app):
    """What the faults do, beside the buttons: those that are shown."""
    texts = [part for part in controls(app) if "s-problem" in part._dom_classes]
    return [text.value for text in texts if text.layout.display != "none"]


def test_before_the_guess_each_answer_says_what_its_fault_does():
    app = SpotTheBug()
    assert problems(app) == [html.escape(FAULTS[answer].problem) for answer in app.answers]


def test_after_a_wrong_guess_only_the_guess_and_the_right_answer_say_it():
    app = SpotTheBug(guess="no bias")
    assert problems(app) == [FAULTS["no bias"].problem, FAULTS["sign reversed"].problem]


# The score


def test_a_repair_scores_as_much_as_a_guess():
    app = SpotTheBug(bug="case 11", code=REPAIRS["slopes of a head slice"])
    app.check()
    assert app.score == 3


def test_the_scores_of_all_cases_add_up():
    app = SpotTheBug()
    for name in ("case 5", "case 6", "case 13"):
        app.bug = name
        app.guess = BUGS[name].fault
    assert app.score == 1 + 2 + 3


# The repair


@pytest.fixture
def repaired():
    """Case 1, with a repair that was checked."""
    app = SpotTheBug(guess="sign reversed")
    control(app, "s-code").value = REPAIR
    control(app, "s-check").click()
    return app


def test_a_repair_solves_the_case(repaired):
    assert repaired.code == REPAIR
    assert repaired.solved == ["case 1"]
    assert "no fault found" in report(repaired)


def test_the_progress_gives_score_and_solved_cases(repaired):
    assert control(repaired, "s-progress").value == "1 of 14 solved, score 2 of 54"


def test_the_picture_of_a_repair_is_that_of_a_correct_implementation(repaired):
    assert picture(repaired) != picture(SpotTheBug())
    assert repaired.caption.endswith("The two pictures are the same.")


def test_the_report_gives_the_evidence_and_how_to_repair_it():
    app = SpotTheBug(guess="no bias")
    app.check()
    assert "Still sign reversed:</b> head 1 of 8 has slope -0.5, expected 0.5." in report(app)
    assert FAULTS["sign reversed"].fix in html.unescape(report(app))


def test_verdict_and_report_do_not_say_the_same():
    app = SpotTheBug(guess="no bias")
    app.check()
    said = f"{verdict(app)} {report(app)}"
    exhibit = BUGS["case 1"].exhibit
    once = ("head 1 of 8 has slope", exhibit.system, exhibit.effect, FAULTS["sign reversed"].fix)
    assert [html.unescape(said).count(part) for part in once] == [1, 1, 1, 1]
    assert FAULTS["sign reversed"].problem not in said, "it stands beside the answer"


def test_code_that_changes_after_the_check_has_no_report(repaired):
    repaired.code = REPAIR + "\n# changed since the check"
    assert report(repaired) == ""
    assert picture(repaired) == picture(SpotTheBug())
    assert repaired.solved == ["case 1"]


def test_the_faulty_code_leaves_a_solved_case_solved(repaired):
    repaired.code = ""
    repaired.check()
    assert repaired.solved == ["case 1"]
    assert "this implementation" in repaired.caption


@each_case(
    "text",
    {
        "nothing but white space": " \n",
        "the faulty code": f"{BUGS['case 1'].code}\n",
    },
)
def test_an_empty_box_gets_the_faulty_code_back(text):
    app = SpotTheBug(code=REPAIR)
    box = control(app, "s-code")
    box.value = text
    assert app.code == ""
    assert box.value == BUGS["case 1"].code


def test_an_error_is_shown_with_its_line():
    app = SpotTheBug(code="def bias(num_heads, query_length, key_length):\n    return <nothing>")
    app.check()
    assert "line 2: SyntaxError" in report(app)


def test_what_code_says_is_escaped():
    app = SpotTheBug(code="def bias(num_heads, *lengths):\n    raise ValueError('<nothing>')")
    app.check()
    assert "ValueError: &lt;nothing&gt;" in report(app)
    assert "<nothing>" not in report(app)


HANGS = Report("case 1", [Finding("does not finish", "no result after 10 seconds")])


def give_up(name, code, seconds):
    """In place of the checker, when it has waited as long as it may."""
    assert seconds == 10
    return HANGS


def test_code_that_hangs_is_reported_with_what_to_do(monkeypatch):
    app = SpotTheBug(code=REPAIR)
    monkeypatch.setattr(spot_the_bug, "try_repair", give_up)
    assert app.check() == HANGS
    assert "no result after 10 seconds" in report(app)
    assert "Restart the kernel" in report(app)


def test_code_that_hangs_is_not_run_again_for_the_picture(monkeypatch, capsys):
    app = SpotTheBug(code="print('running')")
    monkeypatch.setattr(spot_the_bug, "try_repair", give_up)
    app.check()
    assert capsys.readouterr().out == ""


def test_a_repair_can_follow_code_that_fails():
    app = SpotTheBug(code="nonsense")
    assert not app.check().ok
    app.code = REPAIR
    assert app.check().ok


@each_case(
    "result",
    {
        "NaN": "value * torch.nan",
        "zeros": "value * 0",
    },
)
def test_nonsense_is_refused_and_gives_no_nan_in_the_caption(result):
    app = SpotTheBug(
        bug="case 5",
        guess="no bias",
        code=f"def attention(query, key, value):\n    return {result}",
    )
    assert not app.check().ok
    assert "nan%" not in app.caption


# From case to case


def test_next_opens_an_empty_case_and_reset_forgets_the_present_one(repaired):
    control(repaired, "s-next").click()
    control(repaired, "s-reset").click()
    assert repr(repaired) == "SpotTheBug(bug='case 2', guess=None, code='')"
    assert report(repaired) == ""
    repaired.bug = "case 1"
    assert repaired.solved == ["case 1"]
    control(repaired, "s-reset").click()
    assert repr(repaired) == "SpotTheBug(bug='case 1', guess=None, code='')"
    assert repaired.solved == []
    assert report(repaired) == ""


def test_the_case_after_the_last_is_the_first():
    app = SpotTheBug(bug="case 14")
    control(app, "s-next").click()
    assert app.bug == "case 1"


def test_a_case_keeps_its_guess_and_its_code(repaired):
    repaired.bug = "case 2"
    repaired.guess = "no bias"
    repaired.bug = "case 1"
    assert repaired.guess == "sign reversed"
    assert repaired.code == REPAIR
    assert "no fault found" in report(repaired)


# Numbers. Head 2 of 8 has the slope 1/4, and its weight is e^(-distance / 4).


def hovered(app, tile):
    """The weights in the hover texts of a matrix, [rows, keys]; 0 where masked."""
    bug = BUGS[app.bug]
    weights = np.full((len(bug.view.rows), len(bug.view.keys)), np.nan)
    tiles = named_trace(app.figure, "tiles")
    for text in tiles.customdata[tiles.z == tile]:
        place = re.fullmatch(r"(query|head) (\d+), key (\d+)<br>relative weight (.+)", text)
        row = bug.view.rows.index(int(place[2]))
        column = bug.view.keys.index(int(place[3]))
        weights[row, column] = 0 if place[4] == "masked" else float(place[4])
    return weights


def assert_same_in_three_digits(weights, expected):
    np.testing.assert_allclose(weights, expected, rtol=6e-3)


@pytest.mark.parametrize("name", ["case 1", "case 7", "case 14"])
def test_hover_texts_give_the_weights_of_both_matrices(name):
    app = SpotTheBug(bug=name)
    bug = BUGS[name]
    assert_same_in_three_digits(hovered(app, 1), bug.view.correct(bug.causal))
    assert_same_in_three_digits(hovered(app, 2), bug.weights())


@each_case(
    ("name", "title", "text"),
    {
        "a row for each query": (
            "case 1",
            "query position i",
            "query 0, key 1<br>relative weight masked",
        ),
        "a row for each head": ("case 3", "head", "head 1, key 1<br>relative weight 0.000912"),
    },
)
def test_a_row_is_a_query_or_a_head(name, title, text):
    app = SpotTheBug(bug=name)
    assert app.figure.layout.yaxis.title.text == title
    assert named_trace(app.figure, "tiles").customdata[0, 1] == text


def test_on_a_narrow_page_one_picture_is_below_the_other():
    app = SpotTheBug()
    height = app.figure.layout.height
    app.fit(300)
    assert app.figure.layout.height > height


def test_on_a_page_of_middle_width_the_pictures_are_beside_each_other_above_the_answers():
    app = SpotTheBug()
    app.fit(500)
    titles = named_trace(app.figure, "titles")
    assert len(set(titles.x)) == 2
    assert len(set(titles.y)) == 1
    assert app.figure.layout.width == 500, "the answers need no room beside the pictures"


def test_the_answers_have_room_beside_the_picture():
    app = SpotTheBug()
    for width in (620, 934, 1400):
        app.fit(width)
        assert width - app.figure.layout.width >= 230


@each_case(
    ("code", "title"),
    {"faulty": ("", "this one"), "repair": (REPAIR, "your repair")},
)
def test_the_second_picture_says_whose_it_is(code, title):
    app = SpotTheBug(guess="no bias", code=code)
    app.check()
    assert list(named_trace(app.figure, "titles").text) == ["correct", title]
