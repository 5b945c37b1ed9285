"""What the models of a race write, below the figure: escaped, with the training length and the
mentions marked."""

import html
import math

import pytest

from alibi_viz import lab
from alibi_viz.measure.continuations import Continuation, known_words
from alibi_viz.widgets.race.captions import written_html
from alibi_viz.widgets.race.state import RaceState, Written
from tests.widgets.race.small_race import DEADLINE, ENGLISH, control, small

RACE = RaceState("text", ("alibi", "learned"), length=32, steps=300, seed=0, seeds=1)


def page(*parts: str, known_words: float = math.nan) -> str:
    """What is shown of a text by alibi, without the style."""
    RACE.written = {"alibi": Written([Continuation(*parts)] * 8, known_words)}
    return written_html(RACE)


def test_after_a_race_the_texts_of_its_models_are_shown() -> None:
    app = small(methods=["alibi", "learned"], seed=3, text=ENGLISH)
    panel = control(app, "s-written")
    assert (app.written, panel.value) == ({}, "")
    app.train().result(DEADLINE)
    text = lab.load_text(ENGLISH)
    for method in ("alibi", "learned"):
        texts = lab.continuations(app.models[method], text, 8, seed=3)
        assert app.written[method].texts == texts and html.escape(texts[0].prompt) in panel.value
        share = known_words([each.beyond for each in texts], text)
        assert app.written[method].known_words == pytest.approx(share, nan_ok=True)
    assert "learned (not defined beyond 8)</div>" in panel.value
    app.question = "needle"
    assert panel.value == "", "these models were not trained on text"


def test_text_is_escaped_and_shaded_and_its_mentions_are_bold_or_if_new_underlined() -> None:
    shown = page("<b>one", "two &", "three\n\x00\x1b\u202e</pre>", known_words=0.554)
    assert '<span class="prompt">&lt;b&gt;one</span><span class="within">two &amp;</span>' in shown
    assert '<span class="beyond">three\n\ufffd\ufffd\ufffd&lt;' in shown
    assert (
        "alibi: 55% of the shaded words, in 8 such texts, occur in the training text</div>" in shown
    )
    assert "Names" not in shown, "a text without mentions needs no legend"
    shown = page("Leo was a fox", " in the mi", "ll. Mia, a fox, hid a bell in the mill. ")
    assert (
        "from the first 32 bytes" in shown
        and '"prompt"><b>Leo</b> was a <b>fox</b></span>' in shown
    )
    assert (
        "Names" in page("Leo", " was", " here.")
        and "<u>Leo</u>" in page("He", " is ", "Leo.").partition("Names")[2]
    )
    assert "<u>Mia</u>, a <b>fox</b>, hid a <u>bell</u> in the <b>mill</b>." in shown
