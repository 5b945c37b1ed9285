"""AttentionExplorer, driven through its traits and its controls, without a browser."""

import html
import re

import numpy as np
import pandas as pd
import pytest
import torch

from alibi_viz import alibi_slopes, attention_trace, lab
from alibi_viz.figures.theme import named_trace
from alibi_viz.measure.attention_sources import ByteModel, Words, shuffle_words
from alibi_viz.widgets import AttentionExplorer
from alibi_viz.widgets.attention.attention_explorer import MAX_TOKENS
from tests.figures.test_matrices import click
from tests.rows import each_case
from tests.widgets.race.small_race import control, message, visible_controls

TEXT = "the cat saw the dog and the dog saw the cat"  # eleven words


def words(app):
    """The words below the bars; that of the query is in bold."""
    bars = app.figure.layout[named_trace(app.figure, "bars").xaxis.replace("x", "xaxis")]
    return tuple(re.sub("</?b>", "", text) for text in bars.ticktext)


def cells(app, step):
    """The cells of a matrix, which the app shows from now on."""
    app.matrices = True
    return np.array(named_trace(app.figure, step).z, dtype=object).astype(float)  # NaN for the gaps


# The picture


@each_case(
    ("step", "bias", "causal"),
    {
        "content": ("content", True, True),
        "bias in both directions": ("bias", True, False),
        "logits": ("logits", True, True),
        "weights without bias": ("weights", False, True),
    },
)
def test_a_matrix_shows_a_step_of_the_head(step, bias, causal):
    app = AttentionExplorer(text=TEXT, num_heads=8, head=3, bias=bias, causal=causal)
    reading = Words().read(TEXT, app.content, 8, MAX_TOKENS)
    slopes = alibi_slopes(8) if bias else None
    trace = attention_trace(reading.query, reading.key, slopes, causal=causal)
    expected = getattr(trace, step)[0, 2].masked_fill(trace.logits[0, 2].isneginf(), torch.nan)
    np.testing.assert_allclose(cells(app, step), expected, atol=1e-5)


def titles(app):
    """The title of each panel."""
    return {annotation.name: annotation.text for annotation in app.figure.layout.annotations}


@each_case(
    ("options", "title"),
    {
        "causal": ({}, "bias, −1/8 (i − j)"),  # noqa: RUF001
        "both directions": ({"causal": False}, "bias, −1/8 |i − j|"),  # noqa: RUF001
        "without bias": ({"bias": False}, "bias, switched off"),
    },
)
def test_the_title_of_the_bias_is_its_formula(options, title):
    app = AttentionExplorer(text=TEXT, num_heads=8, head=3, **options)
    assert titles(app)["bias"] == title


@pytest.mark.parametrize("bias", [True, False], ids=["with bias", "without bias"])
def test_what_is_shown_comes_first_in_the_legend(bias):
    legend = titles(AttentionExplorer(text=TEXT, bias=bias))["bars"]
    bias_on_is_first = legend.find("bias on") < legend.find("bias off")
    assert bias_on_is_first == bias


def test_markup_is_escaped_everywhere():
    app = AttentionExplorer(text="<img/src=x/onerror=alert(1)> <img")
    app.matrices = True
    shown = [app._caption.value, *words(app), *app.figure.get_subplot(2, 1).yaxis.ticktext]
    shown += titles(app).values()
    for trace in app.figure.data:
        if trace.customdata is not None:
            shown.append(str(trace.customdata.tolist()))
    assert not any("<img" in text for text in shown)
    assert sum("&lt;img" in text for text in shown) > 6


def test_the_caption_itself_is_plain_text():
    assert "<img" in AttentionExplorer(text="<img").caption


# The matrices, on demand


def shown_matrices(app):
    steps = ("content", "bias", "logits", "weights")
    return [step for step in steps if named_trace(app.figure, step).visible]


def test_the_app_opens_without_the_matrices():
    assert shown_matrices(AttentionExplorer(text=TEXT)) == []


def test_a_box_shows_the_matrices():
    app = AttentionExplorer(text=TEXT)
    control(app, "s-matrices").value = True
    assert shown_matrices(app) == ["content", "bias", "logits", "weights"]


def test_the_text_below_stays_where_it_is_when_the_matrices_come():
    app = AttentionExplorer(text=TEXT)
    height = app.figure.layout.height
    app.matrices = True
    assert app.figure.layout.height == height


# The line of the sum: 2 between equal words, and slope 1/8


def line(app, key):
    """The line while the pointer is above the bar of a key."""
    return html.unescape(named_trace(app.figure, "columns").customdata[key])


def test_the_line_of_a_bar_is_the_sum_behind_its_weight():
    app = AttentionExplorer(text=TEXT, num_heads=8, head=3)
    assert line(app, 1).startswith("“cat” → “cat”, 9 back: 2.00 − 1.12 = 0.88 → ")  # noqa: RUF001


def test_the_weight_in_the_line_is_that_of_the_bar():
    app = AttentionExplorer(text=TEXT, num_heads=8, head=3)
    weight = named_trace(app.figure, "bars").y[1]
    assert line(app, 1).endswith(f" → {100 * weight:.0f}%")


def test_without_the_bias_the_line_is_the_content():
    app = AttentionExplorer(text=TEXT, bias=False)
    assert line(app, 1).startswith("“cat” → “cat”, 9 back: 2.00 → ")


def test_the_line_of_a_masked_key_says_so():
    app = AttentionExplorer(text=TEXT, query=4)
    assert line(app, 10) == "“dog” → “cat”, 6 ahead: masked"


def test_the_line_of_a_token_with_markup_is_escaped_for_plotly():
    app = AttentionExplorer(text="<b>x</b> y")
    assert "<b>" not in named_trace(app.figure, "columns").customdata[0]
    assert "“<b>x<”" in line(app, 0)


def test_at_rest_the_line_is_an_example():
    app = AttentionExplorer(text=TEXT, num_heads=8, head=3, bias=False)
    # The heaviest key besides the query itself
    assert app._sum_line.rest.startswith("“cat” → “cat”, 9 back: 2.00 → ")


def test_the_example_follows_the_query():
    app = AttentionExplorer(text=TEXT)
    app.query = 8
    assert app._sum_line.query == 8
    assert app._sum_line.rest.startswith("“saw” → ")


def test_the_only_key_of_a_query_is_its_own_example():
    app = AttentionExplorer(text=TEXT, query=0)
    assert app._sum_line.rest.startswith("“the” → “the”, 0 back: ")
    assert " → 100%. " in app._sum_line.rest


# The caption

MADE_UP = (
    "Content is made up, the same in every head: 2 between equal words at any distance, and a "
    "fixed random number around 0 between different words."
)


@each_case(
    ("options", "caption", "of_equal_word"),
    {
        "another query": (
            {"head": 3, "query": 8},
            "Head 3 of 8, slope 1/8, bias on. Query 8 “saw” gives 62% of its weight to itself and "
            "the 3 nearest tokens; without the bias 46%.",
            "The farthest other “saw”, 6 away, gets 20%; without the bias 29%.",
        ),
        "without bias, and no equal word": (
            {"head": 8, "query": 5, "bias": False},
            "Head 8 of 8, slope 1/256, bias off. Query 5 “and” gives 90% of its weight to itself "
            "and the 3 nearest tokens; with the bias 90%.",
            "",
        ),
        "both directions": (
            {"head": 2, "query": 4, "causal": False},
            "Head 2 of 8, slope 1/4, bias on. Query 4 “dog” gives 91% of its weight to itself and "
            "the 6 nearest tokens; without the bias 81%.",
            "The farthest other “dog”, 3 away, gets 21%; without the bias 28%.",
        ),
        "all visible tokens are near": (
            {"head": 3, "query": 3},
            "Head 3 of 8, slope 1/8, bias on. Query 3 “the” gives 48% of its weight to itself; "
            "without the bias 41%.",
            "The farthest other “the”, 3 away, gets 33%; without the bias 41%.",
        ),
    },
)
def test_caption_gives_the_weights_of_the_query(options, caption, of_equal_word):
    app = AttentionExplorer(text=TEXT, num_heads=8, **options)
    assert app.caption == caption
    assert app.details == f"{of_equal_word} {MADE_UP}".strip()


# The text box


def test_a_blank_text_shows_a_message_and_stays_blank():
    app = AttentionExplorer(text=TEXT)
    box = control(app, "s-text")
    box.value = ""
    assert "at least one word" in message(app)
    assert box.value == ""
    assert app.text == TEXT


def test_reset_puts_the_text_back_into_the_box():
    app = AttentionExplorer(text=TEXT)
    box = control(app, "s-text")
    box.value = ""
    control(app, "s-reset").click()
    assert box.value == TEXT
    assert message(app) == ""


def test_the_message_goes_when_the_last_good_text_is_typed_again():
    app = AttentionExplorer(text=TEXT)
    box = control(app, "s-text")
    box.value = " "
    box.value = TEXT
    assert message(app) == ""


def test_a_text_that_is_set_in_code_appears_in_the_box():
    app = AttentionExplorer(text="to be")
    app.text = TEXT
    assert control(app, "s-text").value == TEXT


def test_a_text_has_at_most_50_000_characters():
    app = AttentionExplorer(text="x" * 50_000)
    with pytest.raises(ValueError, match="text must have at most 50,000 characters, got 50,001"):
        app.text = "x" * 50_001


# Head and query


def test_the_first_row_of_controls_is_short():
    assert visible_controls(AttentionExplorer(text=TEXT)) == [
        "s-text",
        "s-head",
        "s-head-field",
        "s-bias",
        "s-matrices",
        "s-shuffle",
        "s-more",
        "s-reset",
    ]


def test_controls_set_the_head_and_the_query():
    app = AttentionExplorer(text=TEXT, num_heads=8)
    control(app, "s-head").value = 6
    control(app, "s-query").value = "4 "
    assert app.head == 6
    assert app.query == 4


@pytest.mark.parametrize("text", ["11", "four"])
def test_a_query_that_is_no_position_is_refused(text):
    app = AttentionExplorer(text=TEXT, query=4)
    query = control(app, "s-query")
    query.value = text
    assert "query must be" in message(app)
    assert app.query == 4
    assert query.value == "4"


def test_an_empty_field_is_the_last_query():
    app = AttentionExplorer(text=TEXT, query=4)
    control(app, "s-query").value = " "
    assert app.query is None


def test_the_bias_the_mask_and_the_content_can_be_switched_off():
    app = AttentionExplorer(text=TEXT)
    control(app, "s-bias").value = False
    control(app, "s-causal").value = False
    control(app, "s-content").label = "equal"
    assert cells(app, "weights")[-1] == pytest.approx([1 / 11] * 11, abs=1e-5)


def test_fewer_heads_move_a_head_that_is_gone():
    app = AttentionExplorer(text=TEXT, num_heads=8, head=6)
    app.num_heads = 4
    assert app.head == 4
    assert control(app, "s-head").max == 4


def test_a_new_text_deselects_the_query():
    app = AttentionExplorer(text=TEXT, query=9)
    app.text = "a b"
    assert app.query is None
    assert control(app, "s-query").value == ""


def test_a_query_that_is_set_together_with_a_text_is_kept():
    app = AttentionExplorer(text=TEXT)
    app.set_together({"query": 2, "text": "to be or"})
    assert app.query == 2


def test_a_click_on_a_row_selects_its_query():
    app = AttentionExplorer(text=TEXT, matrices=True)
    click(app.figure, "content", y=4)
    assert app.query == 4
    (frame,) = app.figure.select_shapes({"name": "weights"})
    assert frame.y0 == 3.5


def test_a_click_on_a_bar_selects_its_token_as_the_query():
    app = AttentionExplorer(text=TEXT)
    click(app.figure, "columns", x=4)
    assert app.query == 4


def test_a_click_on_a_small_matrix_selects_its_head():
    app = AttentionExplorer(text=TEXT, num_heads=8)
    row, column = np.argwhere(named_trace(app.figure, "tiles").z == 6)[0]
    click(app.figure, "tiles", row, column)
    assert app.head == 6


# Other sources


def test_a_trained_model_reads_the_bytes_of_the_text():
    app = AttentionExplorer(lab.make_model("alibi"), text="to be")
    assert (app.num_heads, app.head, app.content) == (4, 1, "layer 1")
    assert words(app) == ("t", "o", "␣", "b", "e")


def test_each_layer_of_a_model_has_its_own_content():
    app = AttentionExplorer(lab.make_model("alibi"), text="to be")
    of_layer_1 = np.nan_to_num(cells(app, "content"))
    app.content = "layer 2"
    assert not np.allclose(np.nan_to_num(cells(app, "content")), of_layer_1)
    assert "layer 2 of 2" in app.details


def test_a_model_keeps_its_number_of_heads():
    app = AttentionExplorer(lab.make_model("alibi"), text="to be")
    with pytest.raises(ValueError, match="num_heads must be 4, as in the model, got 8"):
        app.num_heads = 8


@each_case(
    ("source", "error", "reason"),
    {
        "text": (
            "to be",
            TypeError,
            r"source must be a LanguageModel, .*, got 'to be'; pass a text as text=",
        ),
        "without ALiBi": (
            lab.make_model("none"),
            ValueError,
            "position 'alibi', unchanged, got 'none'",
        ),
        "too many heads": (
            lab.make_model("alibi", num_heads=33, d_model=66),
            ValueError,
            "source must have at most 32 heads to be drawn, got 33",
        ),
    },
)
def test_another_source_is_refused(source, error, reason):
    with pytest.raises(error, match=reason):
        AttentionExplorer(source)


def test_32_heads_can_be_drawn():
    model = lab.make_model("alibi", num_heads=32, d_model=64)
    assert AttentionExplorer(model, text="a").num_heads == 32


def test_a_model_runs_once_for_a_text_until_refresh():
    model = lab.make_model("alibi")
    app, runs = AttentionExplorer(model, text=TEXT), []
    model.register_forward_hook(lambda *_: runs.append(1))
    content = lambda: float(cells(app, "content")[5][2])  # noqa: E731
    before = content()
    app.query, app.head, app.bias, app.content = 5, 2, False, "layer 2"
    app.content, app.head = "layer 1", 1
    model.transformer.blocks[0].attention.qkv.weight.data.mul_(2)
    app.fit(600)
    assert runs == [] and content() == before
    app.refresh()
    assert runs == [1] and content() == pytest.approx(4 * before, abs=1e-3)


def test_an_error_of_a_model_is_a_message_and_changes_nothing():
    class Failing(ByteModel):
        def run(self, text, longest):
            if text != TEXT:
                raise RuntimeError("out of memory")
            assert app is None or "Reading" in app._caption.value
            return super().run(text, longest)

    app = None
    app = AttentionExplorer(Failing(lab.make_model("alibi")), text=TEXT)
    before = repr(app), app.caption, app._caption.value
    control(app, "s-text").value = "another text"
    assert "the model failed on this text: out of memory" in message(app)
    assert (repr(app), app.caption, app._caption.value) == before
    app.refresh()
    assert app._caption.value == before[2]


# Long texts


def test_a_long_text_is_cut_and_says_so():
    app = AttentionExplorer(text="word " * 100)
    note = control(app, "s-note")
    assert note.value == f"only the first {MAX_TOKENS} of 100 tokens are used"
    assert note.layout.display is None
    assert cells(app, "weights").shape == (MAX_TOKENS, MAX_TOKENS)


def test_a_short_text_has_no_note():
    app = AttentionExplorer(text="word " * 100)
    app.text = "short"
    assert control(app, "s-note").layout.display == "none"


def test_a_change_sends_at_most_two_and_a_half_megabytes():
    app = AttentionExplorer(text="word " * 100, num_heads=32, matrices=True)
    assert len(app.figure.to_json()) < 2_500_000


def test_a_wider_page_has_more_labels():
    app = AttentionExplorer(text="word " * 100, matrices=True)
    before = len(words(app))
    app.fit(2000)
    assert len(words(app)) > before


# The order of the words


def test_shuffle_moves_the_words_in_another_way_each_time():
    app = AttentionExplorer(text=TEXT)
    for order in (1, 2, 3):
        control(app, "s-shuffle").click()
        assert app.order == order
        assert words(app) == tuple(shuffle_words(TEXT, order).split())
    assert app.text == TEXT


def test_the_button_for_the_original_order_is_shown_after_a_shuffle():
    app = AttentionExplorer(text=TEXT)
    restore = control(app, "s-original")
    assert restore.layout.display == "none"
    control(app, "s-shuffle").click()
    assert restore.layout.display is None


def test_the_original_order_is_restored():
    app = AttentionExplorer(text=TEXT)
    before = (repr(app), app.caption, app.figure.to_json())
    control(app, "s-shuffle").click()
    control(app, "s-original").click()
    assert (repr(app), app.caption, app.figure.to_json()) == before


def test_a_new_text_is_in_its_own_order():
    app = AttentionExplorer(text=TEXT, order=1, query=3)
    control(app, "s-text").value = "another short text"
    assert app.order is None
    assert words(app) == ("another", "short", "text")


def change_in_caption(app):
    """By how much the caption says that weights have changed."""
    (found,) = re.findall(
        r"the last query gives to each token change by up to ([\d.]+)\.", app.caption
    )
    return float(found)


@pytest.mark.parametrize("causal", [True, False])
def test_without_a_bias_the_first_layer_knows_no_order(causal):
    model = lab.make_model("alibi")
    app = AttentionExplorer(model, text=TEXT, bias=False, causal=causal, order=1)
    assert change_in_caption(app) == 0


def test_the_second_layer_knows_the_order():
    app = AttentionExplorer(lab.make_model("alibi"), text=TEXT, bias=False, order=1)
    app.content = "layer 2"
    assert change_in_caption(app) > 0


def test_caption_gives_what_a_shuffle_changes():
    app = AttentionExplorer(lab.make_model("alibi"), text=TEXT, order=1)

    def weights_by_token(text):
        reading = app.source.read(text, "layer 1", 4, MAX_TOKENS)
        trace = attention_trace(reading.query, reading.key, reading.slopes)
        return pd.Series(trace.weights[0, 0, -1].numpy()).groupby(reading.tokens).sum()

    change = (weights_by_token(shuffle_words(TEXT, 1)) - weights_by_token(TEXT)).abs().max()
    assert change > 0.01
    assert change_in_caption(app) == pytest.approx(change, abs=6e-4)


def test_a_shuffle_of_a_text_that_is_cut_changes_which_words_are_read():
    app = AttentionExplorer(text="to be or not " * MAX_TOKENS, order=1)
    assert "shuffling changes which words are read" in app.caption
    assert "change by" not in app.caption


def test_after_a_shuffle_the_details_start_with_the_query():
    app = AttentionExplorer(text=TEXT, order=1)
    assert app.details.startswith("Query 10 “cat” gives ")


def test_after_a_shuffle_the_caption_starts_with_the_head():
    app = AttentionExplorer(text=TEXT, order=1, head=2)
    assert app.caption.startswith("Head 2 of 8, slope 1/4, bias on. With the words ")


def test_without_a_shuffle_the_caption_says_nothing_of_it():
    app = AttentionExplorer(text=TEXT, order=1)
    app.order = None
    assert "shuffled" not in app.caption
