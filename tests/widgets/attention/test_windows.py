"""WindowExplorer, driven through its traits and its controls, without a browser."""

import pytest

from alibi_viz import lab
from alibi_viz.figures.theme import named_trace
from alibi_viz.measure.attention_sources import Words
from alibi_viz.measure.attention_statistics import head_spans
from alibi_viz.widgets import WindowExplorer
from alibi_viz.widgets.core.formatting import format_percent
from tests.widgets.race.small_race import control, message

TEXT = "the cat saw the dog and the dog saw the cat " * 20  # 220 words, 880 bytes


def check(app: WindowExplorer) -> None:
    """The figure shows the table of the text, and the caption what the first head, the steepest,
    needs of it."""
    reading = app.source.read(app.text, app.content, app.num_heads, 4096)
    table, length = head_spans(reading), len(reading.tokens)
    for column in ("bound", "needed"):
        assert list(named_trace(app.figure, column).y) == table[column].tolist()
    needed, beyond = (
        f"looks {table['needed'][0]:,.0f} steps back",
        "have at most 2^-24 of a query's weight together.",
    )
    share = (
        f"On average, a head can leave out {format_percent(table['left_out'].mean())} of the pairs."
    )
    first = f"Head 1, the steepest (slope 1/{2 ** (8 // app.num_heads)})"
    assert app.caption == f"{first}, {needed}: keys beyond that {beyond} {share}"
    whole = (
        f"Bounds that include all {length:,} tokens: {(table['bound'] == length - 1).sum()} "
        f"of {app.num_heads}."
    )
    assert app.details == f"{whole} {reading.note}"


def test_built_in_text_of_4096_bytes_is_the_default() -> None:
    app = WindowExplorer(lab.make_model("alibi"))
    assert (len(app.text.encode()), app.num_heads, app.content) == (4096, 8, "layer 1")
    check(app)
    assert (
        "include all 4,096 tokens: " in app.details and "layer 1 of 2 of the model" in app.details
    )
    app.text = TEXT
    control(app, "s-content").value = "layer 2"
    assert app.content == "layer 2"
    check(app)


@pytest.mark.parametrize("content", Words.contents)
def test_controls_change_the_figure(content: str) -> None:
    app = WindowExplorer(text=TEXT, num_heads=8)
    control(app, "s-content").label = content
    control(app, "s-heads").value = 4
    assert (app.content, app.num_heads) == (content, 4)
    check(app)
    control(app, "s-text").value = TEXT[:440]
    check(app)
    control(app, "s-text").value = ""
    assert "at least one word" in message(app)
    control(app, "s-text").value = "be"
    assert (
        app.caption
        == "The bound of every head includes the whole text, 1 token: nothing can be left out."
    )
    assert message(app) == "" and control(app, "s-note").layout.display == "none"
    app.text = "a " * 5000
    assert "only the first 4,096 of 5,000 tokens are used" in control(app, "s-note").value
