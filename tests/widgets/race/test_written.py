"""What the models of a race write, below the figure: escaped, with the training length marked."""

import html
import math

import pytest

from alibi_viz import lab
from alibi_viz.widgets.race.settings import RaceSettings
from alibi_viz.widgets.race.written import Written, written_html
from tests.widgets.race.small_race import DEADLINE, ENGLISH, control, small, until

SETTINGS = RaceSettings("text", ("alibi", "learned"), length=32, steps=300, seed=0, seeds=1, learning_rate=8e-3)


def test_after_a_race_the_texts_of_its_models_are_shown() -> None:
    app = small(methods=["alibi", "learned"], seed=3, text=ENGLISH)
    panel = control(app, "s-written")
    assert (app.written, panel.value) == ({}, "")
    app.train().result(DEADLINE)
    text = lab.load_text(ENGLISH)
    for method in ("alibi", "learned"):
        texts = lab.continuations(app.models[method], text, 8, seed=3)
        assert app.written[method].texts == texts
        assert html.escape(texts[0].prompt) in panel.value
    assert app.written["alibi"].known_words == pytest.approx(
        lab.known_words([each.beyond for each in app.written["alibi"].texts], text), nan_ok=True
    )
    assert "alibi</div>" in panel.value
    assert "learned (not defined beyond 8)</div>" in panel.value
    app.question = "needle"
    assert panel.value == "", "these models were not trained on text"


def test_a_stopped_race_shows_no_texts() -> None:
    app = small(steps=2000)
    app.train()
    until(lambda: app.losses.get("none"), "a step")
    app.stop()
    until(lambda: not app.running, "the end")
    assert (app.written, control(app, "s-written").value) == ({}, "")


def test_a_text_is_escaped_and_marked_beyond_the_training_length() -> None:
    text = lab.Continuation("<b>one", "two &", "three\n\x00\x1b\u202e</pre>")
    page = written_html({"alibi": Written([text] * 8, 0.554), "learned": Written([text] * 8, math.nan)}, SETTINGS)
    assert '<span class="prompt">&lt;b&gt;one</span>two &amp;<span class="beyond">three\n\ufffd\ufffd\ufffd&lt;' in page
    assert "There, 55% of the words of alibi occur in the training text." in page, "learned has no words to count"
    assert "in 8 texts per model; the first is shown" in page


def test_without_any_words_no_share_is_shown() -> None:
    page = written_html({"alibi": Written([lab.Continuation("a", "b", "")], math.nan)}, SETTINGS)
    assert "alibi (not defined beyond 32)" in page
    assert "%" not in page.split("</style>")[1]
