"""FarShare, driven through its traits: settings leave dots, with the published numbers and text."""

import html
import re

import pytest

from alibi_viz import lab, study
from alibi_viz.study.far_keys import with_far_keys
from alibi_viz.study.far_texts import far_texts
from alibi_viz.widgets import FarShare
from alibi_viz.widgets.core.traits import BadValue
from tests.figures.reading import named_trace
from tests.widgets.race.small_race import control


def num_dots(app):
    return sum(
        len(named_trace(app.figure, name).x) for name in ("unseen angles", "no unseen angle")
    )


def test_a_setting_keeps_its_dot_after_it_was_visited():
    app = FarShare()
    control(app, "s-stop").value = 31
    control(app, "s-stop").value = 1024
    assert app.visited == ((31, 0.0), (1024, 0.0))
    assert num_dots(app) == 2


def test_the_present_setting_is_always_among_the_visited():
    app = FarShare(brake=1 / 16, visited=[])
    assert app.visited == ((1024, 1 / 16),)
    app.visited = [(8, 0.0)]
    assert app.visited == ((8, 0.0), (1024, 1 / 16))


def test_reset_removes_the_dots():
    app = FarShare()
    app.stop = 8
    control(app, "s-reset").click()
    assert app.visited == ((1024, 0.0),)


def test_the_caption_has_the_means_of_the_published_models():
    rows = study.far_keys().query("stop == share_stop == 31 and brake == 0.25")
    app = FarShare(stop=31, brake=1 / 4)
    assert "angles that stop at 31 letters and a brake of slope 1/4" in app.caption
    assert f"needs {rows['bits'].mean():.2f} bits per letter" in app.caption
    large = named_trace(app.figure, "now")
    assert large.x[0] == pytest.approx(rows["far_share"].mean())


def test_a_distance_that_was_not_measured_is_refused():
    with pytest.raises(BadValue, match=r"stop must be one of 8, 16, .*, got 30"):
        FarShare(stop=30)


def test_the_text_of_the_setting_is_shown_with_its_unknown_words():
    app = FarShare(stop=8)
    text = control(app, "s-written").value
    written = far_texts()[8, 0.0].written
    assert written.beyond in html.unescape(re.sub("<[^>]*>", "", text))
    assert "<s>" in text


def test_the_published_texts_are_those_of_the_published_model():
    model = with_far_keys(study.published_model("rotary").model, 31, 1 / 4, 64)
    texts = lab.continuations(model, lab.load_text(), 64)
    assert texts[0] == far_texts()[31, 1 / 4].written


def test_words_return_where_far_keys_get_less():
    texts = far_texts()
    assert texts[1024, 0.0].known_words < texts[31, 0.0].known_words
