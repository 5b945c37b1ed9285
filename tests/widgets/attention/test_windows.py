"""WindowExplorer, driven through its traits and its controls, without a browser."""

import pandas as pd
import pytest

from alibi_viz import lab
from alibi_viz.data.text import load_text
from alibi_viz.figures.theme import named_trace
from alibi_viz.measure.attention_sources import Words
from alibi_viz.measure.attention_statistics import head_spans
from alibi_viz.widgets import WindowExplorer
from alibi_viz.widgets.attention import window_explorer
from tests.widgets.race.small_race import control, message

TEXT = "the cat saw the dog and the dog saw the cat " * 20  # 220 words, 880 bytes


def small_model():
    return lab.make_model("alibi", num_heads=2, d_model=16)


# The figure


def assert_spans_are_drawn(app):
    """The figure shows the spans of the heads in the text of the app."""
    spans = head_spans(app.source.read(app.text, app.content, app.num_heads, 4096))
    assert list(named_trace(app.figure, "bound").y) == spans["bound"].tolist()
    assert list(named_trace(app.figure, "needed").y) == spans["needed"].tolist()


@pytest.mark.parametrize("content", Words().contents)
def test_the_figure_shows_the_spans_of_words(content):
    assert_spans_are_drawn(WindowExplorer(text=TEXT, content=content, num_heads=4))


@pytest.mark.parametrize("content", ["layer 1", "layer 2"])
def test_the_figure_shows_the_spans_in_a_model(content):
    assert_spans_are_drawn(WindowExplorer(small_model(), text=TEXT, content=content))


# The caption

STATED_SPANS = pd.DataFrame(
    {
        "head": [1, 2, 3],
        "slope": [1 / 8, 1 / 2, 1 / 4],
        "bound": [219, 34, 100],
        "needed": [150, 30, 80],
        "left_out": [0.0, 0.6, 0.3],
    }
)


def stated_spans(reading):
    """In place of the spans of a reading, which take long for thousands of tokens."""
    return STATED_SPANS


@pytest.fixture
def without_measuring(monkeypatch):
    monkeypatch.setattr(window_explorer, "head_spans", stated_spans)


def test_the_caption_gives_what_the_steepest_head_needs_and_what_can_be_left_out(
    without_measuring,
):
    assert WindowExplorer(text=TEXT).caption == (
        "Head 2, the steepest (slope 1/2), looks 30 steps back: keys beyond that have at most "
        "2^−24 of a query's weight together. On average, a head can leave out 30% of the pairs."  # noqa: RUF001
    )


def test_the_details_count_the_bounds_that_include_all_tokens(without_measuring):
    details = WindowExplorer(text=TEXT).details
    assert details.startswith("Bounds that include all 220 tokens: 1 of 3. Content is made up")


def test_the_details_name_the_layer_of_a_model():
    details = WindowExplorer(small_model(), text=TEXT, content="layer 2").details
    assert "Bounds that include all 880 tokens: " in details
    assert "layer 2 of 2 of the model" in details


def test_a_single_word_leaves_nothing_out():
    assert WindowExplorer(text="be").caption == (
        "The bound of every head includes the whole text, 1 token: nothing can be left out."
    )


# The text


def test_the_built_in_text_is_the_default(without_measuring):
    start = bytes(load_text().validation[:4096].tolist())
    assert WindowExplorer().text.encode() == start


def test_typing_changes_the_text():
    app = WindowExplorer(text=TEXT)
    control(app, "s-text").value = "the cat saw the dog"
    assert app.text == "the cat saw the dog"
    assert "the whole text, 5 tokens: " in app.caption


def test_a_blank_text_shows_a_message():
    app = WindowExplorer(text=TEXT)
    control(app, "s-text").value = ""
    assert "at least one word" in message(app)


def test_the_message_goes_with_the_next_text():
    app = WindowExplorer(text=TEXT)
    box = control(app, "s-text")
    box.value = ""
    box.value = "be"
    assert message(app) == ""


def test_a_note_says_that_a_long_text_is_cut(without_measuring):
    app = WindowExplorer(text="a " * 5000)
    assert "only the first 4,096 of 5,000 tokens are used" in control(app, "s-note").value


def test_a_short_text_has_no_note():
    assert control(WindowExplorer(text="be"), "s-note").layout.display == "none"


# The other controls


def test_the_menu_chooses_the_content():
    app = WindowExplorer(text=TEXT)
    control(app, "s-content").label = "equal"
    assert app.content == "equal"


def test_the_menu_chooses_the_layer_of_a_model():
    app = WindowExplorer(small_model(), text=TEXT)
    assert app.content == "layer 1"
    control(app, "s-content").value = "layer 2"
    assert app.content == "layer 2"


def test_the_slider_changes_the_heads():
    app = WindowExplorer(text=TEXT)
    control(app, "s-heads").value = 4
    assert app.num_heads == 4
    assert_spans_are_drawn(app)


def test_the_heads_of_a_model_are_fixed():
    assert WindowExplorer(small_model(), text=TEXT).num_heads == 2
