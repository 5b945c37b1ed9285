"""The exercises: right answers pass, and every hint belongs to a mistake that a reader can make."""

import threading
from itertools import pairwise

import pytest
import torch

from alibi_viz import check, lab, lessons
from alibi_viz.lessons.grading import EXERCISES, HINTS, window
from tests.check.faulty import with_faults
from tests.lessons.tries import RIGHT, WRONG, bias, positive_bias, slopes
from tests.rows import each_case

GRADES = {
    "slopes": lessons.grade_slopes,
    "bias": lessons.grade_bias,
    "attention": lessons.grade_attention,
    "fold": lessons.grade_fold,
    "window": lessons.grade_window,
}
each_exercise = pytest.mark.parametrize("exercise", GRADES)


# Right answers


@pytest.fixture(scope="module", params=GRADES)
def grade_of_right(request):
    """The grade of the right function, for each exercise."""
    return GRADES[request.param](RIGHT[request.param])


def test_a_right_function_is_praised(grade_of_right):
    assert grade_of_right.ok
    assert "is right. Tested with" in str(grade_of_right)


def test_a_right_function_has_the_correct_weights(grade_of_right):
    # The exercise on windows has no weights.
    if grade_of_right.weights:
        yours = grade_of_right.weights["yours"]
        torch.testing.assert_close(yours, grade_of_right.weights["correct"], atol=1e-6, rtol=0)


def slopes_rounded_last(heads):
    return slopes(heads).half()


def test_slopes_may_be_rounded_at_the_end():
    assert lessons.grade_slopes(slopes_rounded_last).ok


# Mistakes and hints


@pytest.fixture
def short_checks(monkeypatch):
    """Attention is checked up to 64 keys: enough for these mistakes, and faster."""
    for exercise in ("attention", "fold"):
        monkeypatch.setitem(EXERCISES[exercise].options, "length", 64)


EVERY_MISTAKE = {
    f"{exercise}, {mistake}": (exercise, mistake)
    for exercise, tries in WRONG.items()
    for mistake in tries
}


@pytest.mark.usefixtures("short_checks")
@each_case(("exercise", "mistake"), EVERY_MISTAKE)
def test_a_mistake_is_named_with_the_hint_of_its_exercise(exercise, mistake):
    grade = GRADES[exercise](WRONG[exercise][mistake])
    hints = HINTS[exercise] if mistake in HINTS[exercise] else HINTS["any"]
    assert not grade.ok
    assert hint_to(mistake, grade) == hints[mistake]


def hint_to(mistake, grade):
    """The hint in the line below that of the mistake."""
    lines = str(grade).splitlines()
    for line, following in pairwise(lines):
        if line.startswith(f"  {mistake}: "):
            return following.removeprefix("  Hint: ")
    return f"{mistake!r} is not named in {grade}"


@each_exercise
def test_every_hint_is_tried(exercise):
    assert HINTS[exercise].keys() <= WRONG[exercise].keys()


@pytest.mark.usefixtures("short_checks")
def test_without_a_hint_the_problem_is_said():
    grade = lessons.grade_attention(with_faults("window"))
    problem = check.FAULTS["window"].problem
    assert hint_to("window", grade).lower() == f"{problem}.".lower()


# The window


@pytest.mark.parametrize("slope", [8.0, 0.5, 1 / 16, 1 / 256])
def test_the_window_is_the_smallest_beyond_which_the_weights_add_up_to_the_share(
    slope,
):
    weights = torch.exp(-slope * torch.arange(20_000.0, dtype=torch.float64))
    # The share of all keys at least so far back
    share_from = weights.flip(0).cumsum(0).flip(0) / weights.sum()
    steps = window(slope, 0.01)
    assert share_from[steps + 1] <= 0.01
    assert share_from[steps] > 0.01


def test_24_windows_are_compared():
    compared = set()

    def record(slope, share):
        compared.add((slope, share))
        return window(slope, share)

    lessons.grade_window(record)
    slopes_compared = {slope for slope, _ in compared}
    shares_compared = {share for _, share in compared}
    assert len(compared) == 24
    assert slopes_compared == {1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256}
    assert shares_compared == {0.01, 0.001, 2**-24}


# A function that isn't written yet


@each_exercise
@each_case(
    "blank",
    {
        "nothing": None,
        "three dots": ...,
        "a pair of three dots": (..., ...),
    },
)
def test_a_blank_gets_a_note_and_no_mistake(exercise, blank):
    def my_function(*_):
        return blank

    grade = GRADES[exercise](my_function)
    assert not grade.ok
    assert grade.report is None
    assert str(grade).startswith("my_function isn't written yet, or returns nothing.")


@each_exercise
def test_the_call_that_looks_for_a_blank_suits_the_exercise(exercise):
    calls = []

    def my_function(*arguments):
        calls.append(arguments)

    GRADES[exercise](my_function)
    (example,) = calls
    assert RIGHT[exercise](*example) is not None


# A function that never ends


@pytest.fixture
def never():
    """An event that does not happen during the test."""
    event = threading.Event()
    yield event
    event.set()


@each_case(
    "hanging_heads",
    {
        "in the example": 8,
        "in the check": 128,
    },
)
def test_a_function_that_never_ends_is_a_mistake(hanging_heads, never, monkeypatch):
    monkeypatch.setattr("alibi_viz.lessons.grading.SECONDS", 0.1)

    def my_slopes(heads):
        if heads == hanging_heads:
            never.wait()
        return slopes(heads)

    assert "does not finish: " in str(lessons.grade_slopes(my_slopes))


# What a notebook shows


def blank_bias(heads, queries, keys):
    """Not written yet."""


@each_case(
    ("function", "pictures"),
    {
        "the goal, before the function is written": (blank_bias, 1),
        "what was wanted, what came, and the difference": (positive_bias, 3),
        "the goal and the reader's own weights": (bias, 2),
    },
)
def test_a_notebook_shows_weights(function, pictures):
    page = lessons.grade_bias(function)._repr_html_()
    assert page.count("<img") == pictures


def test_the_weights_of_a_right_function_are_called_yours():
    assert "yours" in lessons.grade_bias(bias)._repr_html_()


def test_before_a_function_is_written_there_are_no_weights_of_yours():
    assert "yours" not in lessons.grade_bias(blank_bias)._repr_html_()


# if_written


def test_a_written_function_is_used_without_a_note(capsys):
    assert lessons.if_written(torch.rand, otherwise=slopes) is torch.rand
    assert capsys.readouterr().out == ""


def test_the_example_may_have_other_arguments():
    def my_sum(first, second=None):
        return None if second is None else first + second

    assert lessons.if_written(my_sum, slopes, 3.0, 4.0) is my_sum


def test_an_unwritten_function_is_replaced_with_a_note(capsys):
    def my_slopes(heads):
        """Not written yet."""

    assert lessons.if_written(my_slopes, otherwise=slopes) is slopes
    assert capsys.readouterr().out == "my_slopes isn't written yet, so slopes is used.\n"


# with_attention


@pytest.fixture(scope="module")
def alibi_model():
    """An untrained model, and some letters for it to continue."""
    return lab.make_model("alibi").eval(), torch.arange(97, 117)[None]


def test_a_model_with_correct_attention_writes_the_same(alibi_model):
    model, prompt = alibi_model
    mine = lessons.with_attention(model, RIGHT["attention"])
    expected = model.generate(prompt, 8, temperature=0)
    assert mine.generate(prompt, 8, temperature=0).tolist() == expected.tolist()
    torch.testing.assert_close(mine(prompt), model(prompt))


def test_a_model_with_wrong_attention_writes_something_else(alibi_model):
    model, prompt = alibi_model
    mine = lessons.with_attention(model, lambda query, key, value: 0 * query)
    assert not torch.allclose(mine(prompt), model(prompt))


def test_a_model_with_own_attention_decodes_with_single_queries(alibi_model):
    lengths = []

    def attention(query, key, value):
        lengths.append((query.shape[2], key.shape[2]))
        return RIGHT["attention"](query, key, value)

    model, prompt = alibi_model
    lessons.with_attention(model, attention).generate(prompt, 2, temperature=0)
    # Two layers. The last one needs only the last letter of the prompt.
    assert lengths == [(20, 20), (1, 20), (1, 21), (1, 21)]
