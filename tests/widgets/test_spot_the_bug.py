"""SpotTheBug, driven through its traits and its buttons."""

import pytest

from alibi_viz.check import FAULTS
from alibi_viz.figures.theme import named_trace
from alibi_viz.lessons import BUGS
from alibi_viz.widgets import SpotTheBug, spot_the_bug
from alibi_viz.widgets.core.formatting import format_percent
from tests.lessons.repairs import REPAIRS
from tests.widgets.race.small_race import control

REPAIR = REPAIRS["sign reversed"]


@pytest.mark.parametrize("name", BUGS)
def test_nothing_before_the_guess_names_the_fault(name):
    app = SpotTheBug(bug=name)
    visible = " ".join(
        [app.caption, app.details, repr(app), control(app, "s-verdict").value]
    ).lower()
    assert not [fault for fault in FAULTS if fault in visible]
    assert app._revealed.layout.display == "none" and not control(app, "s-code").continuous_update
    assert not any(control(app, f"s-answer-{number}").button_style for number in range(4))
    assert app.caption.startswith(f"C{name[1:]} of {len(BUGS)}, {BUGS[name].tier}, ")
    assert app.caption.count(". ") == 0 and "The largest difference is in" in app.details, (
        "folded, for who is stuck"
    )


def test_right_guesses_and_repairs_score_by_tier_and_weights_trained_that_way_are_no_fault():
    app, expected = SpotTheBug(), 0
    for points, (name, bug) in zip([1] * 5 + [2] * 5 + [3] * 4, BUGS.items(), strict=True):
        app.bug = name
        app.guess = bug.answers[0] if name == "case 2" else bug.fault
        expected += points * (name != "case 2")
        verdict = control(app, "s-verdict").value
        assert app.score == expected and ("<b>Right:" in verdict) == (name != "case 2")
        styles = {
            answer: control(app, f"s-answer-{at}").button_style
            for at, answer in enumerate(bug.answers)
        }
        assert {each: style for each, style in styles.items() if style} == {
            app.guess: "danger",
            bug.fault: "success",
        }
        assert ("for them it is no fault" in verdict) == bool(bug.exhibit.trained)
    assert "The authors of bloom and falcon" in verdict
    app.bug, app.code = "case 13", REPAIRS["content too weak"]
    assert app.check().ok and app.score == expected + 3
    assert control(app, "s-progress").value == f"1 of 14 solved, score {expected + 3} of 54"


def test_first_guess_reveals_the_fault_and_a_repair_that_passes_the_check_replaces_the_picture():
    app = SpotTheBug()
    control(app, "s-answer-1").click()
    control(app, "s-answer-0").click()  # the first guess counts
    verdict = control(app, "s-verdict").value
    assert "<b>Right:</b> it is <b>sign reversed</b>" in verdict and app.guess == "sign reversed"
    assert "head 1 of 8 has slope -0.5, expected 0.5" in verdict
    assert 'href="https://github.com/meta-pytorch/attention-gym/pull/86"' in verdict
    assert (
        app._revealed.layout.display is None and control(app, "s-code").value == BUGS["case 1"].code
    )
    faulty = app.figure.layout.images[0].source
    control(app, "s-code").value = REPAIR
    assert app.code == REPAIR
    control(app, "s-check").click()
    assert "no fault found" in control(app, "s-report").value and app.solved == ["case 1"]
    assert app.figure.layout.images[0].source != faulty and app.caption.endswith(
        "The two pictures are the same."
    )
    app.code = REPAIR + "\n# changed since the check"
    assert app.figure.layout.images[0].source == faulty
    assert (control(app, "s-report").value, app.solved) == ("", ["case 1"])
    for empty in (" \n", f"{BUGS['case 1'].code}\n"):
        control(app, "s-code").value = empty
        assert (app.code, control(app, "s-code").value) == ("", BUGS["case 1"].code)
    app.check()
    assert "this implementation" in app.caption and app.solved == ["case 1"], (
        "once solved, always solved"
    )


def test_error_in_the_code_is_shown_with_its_line_a_hanging_call_ends_and_the_app_stays_usable(
    monkeypatch,
):
    app = SpotTheBug(guess="sign reversed")
    app.code = "def bias(num_heads, query_length, key_length):\n    return <nothing>"
    app.check()
    assert "line 2: SyntaxError" in control(app, "s-report").value
    assert "<nothing>" not in control(app, "s-report").value
    with monkeypatch.context() as patch:
        patch.setattr(spot_the_bug, "SECONDS", 0.2)
        app.code = "import time\ndef bias(n, q, k):\n    time.sleep(2)"
        app.check()
    report = control(app, "s-report").value
    assert "no result after 0.2 seconds" in report and "Restart the kernel" in report
    app.code = REPAIR
    assert app.check().ok


@pytest.mark.parametrize("result", ["value * torch.nan", "value[:, :, :1] / 0", "value * 0"])
def test_nonsense_is_reported_and_drawn_as_no_number(result):
    app = SpotTheBug(
        bug="case 5",
        guess="no bias",
        code=f"def attention(query, key, value):\n    return {result}",
    )
    assert (
        not app.check().ok
        and "nan%" not in app.caption
        and ("has 0% of" in app.caption) == (result == "value * 0")
    )


def test_each_case_keeps_its_guess_and_its_code_until_reset():
    app = SpotTheBug(guess="sign reversed", code=REPAIR)
    app.check()
    control(app, "s-next").click()
    assert (
        repr(app) == "SpotTheBug(bug='case 2', guess=None, code='')"
        and control(app, "s-report").value == ""
    )
    app.guess = "no bias"
    control(app, "s-reset").click()
    assert (app.guess, app.solved) == (None, ["case 1"])
    app.bug = "case 1"
    assert (app.guess, app.code) == ("sign reversed", REPAIR) and "no fault found" in control(
        app, "s-report"
    ).value
    for _ in range(2):
        control(app, "s-reset").click()
        assert (app.guess, app.code, app.solved, control(app, "s-report").value) == (
            None,
            "",
            [],
            "",
        )
        app.check()  # of the faulty code, which leaves a report
    app.bug = list(BUGS)[-1]
    control(app, "s-next").click()
    assert app.bug == "case 1", "the cases form a ring"


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("case 4", "easy, causal: the last query of each head of 12, 16 tokens."),
        ("case 7", "medium, an encoder: head 2 of 8, 16 tokens."),
        ("case 10", "medium, causal: head 2 of 8, 16 tokens, decoding the last 5 tokens."),
        ("case 13", "hard, causal: head 3 of 8, 16 tokens."),
        (
            "case 14",
            "hard, causal: the last query of each head of 8, 2,048 tokens, decoding the last "
            "token.",
        ),
    ],
)
def test_caption_and_hover_say_what_was_called_and_the_numbers_that_differ(name, called):
    app, bug = SpotTheBug(bug=name, guess=BUGS[name].fault), BUGS[name]
    correct, faulty = bug.view.correct(bug.causal), bug.weights()
    kind, layer = "head" if "each head" in called else "query", named_trace(app.figure, "tiles")
    places = [f"{kind} {row}{{}} key {key}" for row in bug.view.rows for key in bug.view.keys]
    for tile, weights in ((1, correct), (2, faulty)):
        told = [f"{weight:.3g}" if weight else "masked" for weight in weights.flatten().tolist()]
        texts = [
            f"{place.format(',')}<br>relative weight {each}"
            for place, each in zip(places, told, strict=True)
        ]
        assert (
            layer.customdata[layer.z == tile].tolist() == texts
            and len(layer.y) == len(bug.view.rows) + 1
        )
    at = int((faulty - correct).abs().argmax())
    got, wanted = (format_percent(weights.flatten()[at]) for weights in (faulty, correct))
    differ = (
        f"The largest difference is in {places[at].format(':')} has {got} of the largest "
        "weight in its row"
    )
    assert (
        app.caption
        == f"C{name[1:]} of 14, {called} {differ} in this implementation; correct is {wanted}."
    )
    assert app.figure.layout.yaxis.title.text == ("query position i" if kind == "query" else "head")
    height = app.figure.layout.height
    app.fit(300)
    assert app.figure.layout.height > height, "one picture below the other"
    words = "The tokens are 5 words in turn, and equal words have the content 4."
    assert app.details == (words if name == "case 13" else "All tokens have the same content.")
