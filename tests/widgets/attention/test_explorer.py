"""AttentionExplorer, driven through its traits, its controls and clicks, without a browser."""

import re

import numpy as np
import pandas as pd
import pytest

from alibi_viz import attention_trace, lab
from alibi_viz.measure.attention_sources import ByteModel, Words, shuffle_words
from alibi_viz.widgets import AttentionExplorer
from alibi_viz.widgets.attention.attention_explorer import MAX_TOKENS
from alibi_viz.widgets.attention.sum_line import SumLine
from alibi_viz.widgets.core.controls import below
from tests.figures.reading import named_trace
from tests.rows import each_case
from tests.widgets.race.small_race import control, message

TEXT = "the cat saw the dog and the dog saw the cat"  # eleven words


def explore(text=TEXT, **state):
    """The app on random vectors, whose content is known."""
    return AttentionExplorer(text=text, **{"content": "random vectors", **state})


def words(app):
    """The words below the bars; that of the query is in bold."""
    figure = app.figure
    bars = figure.layout[named_trace(figure, "bars").xaxis.replace("x", "xaxis")]
    return [re.sub("</?b>", "", text) for text in bars.ticktext]


def cells(app, step):
    """The cells of a matrix, which the app shows from now on; NaN for the gaps."""
    app.matrices = True
    return named_trace(app.figure, step).z


# The picture and its words


def test_a_matrix_shows_a_step_of_the_head():
    app = explore(head=3, query=1, causal=False)
    reading = Words().read(TEXT, app.content, MAX_TOKENS)
    trace = attention_trace(reading.query, reading.key, reading.slopes, causal=False)
    np.testing.assert_allclose(cells(app, "logits"), trace.logits[0, 2], atol=1e-5)
    weights = named_trace(app.figure, "bars").y
    np.testing.assert_allclose(weights, trace.weights[0, 2, 1], atol=1e-5)


def test_the_line_below_is_the_sum_of_the_heaviest_key_besides_the_query():
    app = explore(head=3, query=8)
    (line,) = [widget for widget in below(app) if isinstance(widget, SumLine)]
    assert line.query == 8
    assert line.rest.startswith("“saw” → “saw”, 6 back: 2.00 − 0.75 = 1.25 → 20%. ")  # noqa: RUF001
    app.query = 0  # it has no other key
    assert line.rest.startswith("“the” → “the”, 0 back: ")


def test_markup_is_escaped_in_the_picture_and_the_caption():
    app = explore("<img/src=x/onerror=alert(1)> <img", matrices=True)
    assert "<img" in app.caption
    assert "<img" not in app.caption_line.value
    assert "<img" not in str(app.plot.picture)


# The text box


def test_a_rejected_text_stays_in_the_box_until_it_is_mended_or_reset():
    app = AttentionExplorer(text=TEXT)
    box = control(app, "s-text")
    box.value = ""
    assert "at least one word" in message(app)
    assert (box.value, app.text) == ("", TEXT)
    box.value = TEXT
    assert message(app) == ""
    box.value = " "
    control(app, "s-reset").click()
    assert (box.value, message(app)) == (TEXT, "")


def test_a_long_text_is_cut_and_a_note_says_so():
    app = AttentionExplorer(lab.make_model("alibi", num_heads=32, d_model=64), text="word " * 100)
    note = control(app, "s-note")
    assert note.value == f"only the first {MAX_TOKENS} of 500 letters are used"
    assert cells(app, "weights").shape == (MAX_TOKENS, MAX_TOKENS)
    assert len(app.figure.to_json()) < 2_500_000
    app.text = "short"
    assert note.layout.display == "none"
    assert control(app, "s-text").value == "short"


# Controls and clicks


def test_the_field_of_the_query_is_empty_for_the_last_token():
    app = explore()
    query = control(app, "s-query")
    query.value = "4 "
    assert app.query == 4
    query.value = " "
    assert app.query is None


@pytest.mark.parametrize("text", ["11", "four"])
def test_a_query_that_is_no_position_is_refused(text):
    app = explore(query=4)
    query = control(app, "s-query")
    query.value = text
    assert "query must be" in message(app)
    assert (app.query, query.value) == (4, "4")


def test_a_head_that_the_model_does_not_have_is_refused():
    app = AttentionExplorer(lab.make_model("alibi", num_heads=4), text=TEXT)
    assert control(app, "s-head").max == 4
    with pytest.raises(ValueError, match="head must be one of 1, 2, 3, 4, got 5"):
        app.head = 5


def test_a_new_text_deselects_the_query_unless_both_are_set_together():
    app = explore(query=9)
    app.text = "a b"
    assert app.query is None
    app.set_together({"query": 2, "text": "to be or"})
    assert app.query == 2


@each_case(
    ("trace", "point", "selected"),
    {
        "small matrix": ("tiles", {"x": 3, "y": 9, "z": 6}, (6, None)),
        "row": ("content", {"x": 2, "y": 4, "z": 0.5}, (1, 4)),
        "bar": ("columns", {"x": 4, "y": 0.3}, (1, 4)),
    },
)
def test_a_click_selects_a_head_or_a_query(trace, point, selected):
    app = explore(matrices=True)
    app.plot.clicks(trace, point)
    assert (app.head, app.query) == selected


# Trained models


def share_moved(app, head):
    """The share of a head's weight that content moves, as the title of its small matrix says."""
    title = named_trace(app.figure, "titles").text[head - 1]
    (percent,) = re.findall(r": (\d+)%", title)
    return int(percent) / 100


@pytest.mark.parametrize("bias", [True, False])
def test_content_moves_hardly_any_weight_in_the_flat_heads_of_the_published_model(bias):
    app = AttentionExplorer(content="layer 2", head=8, bias=bias)
    shares = [share_moved(app, head) for head in app.heads]
    assert min(shares[:5]) > 0.1
    assert max(shares[5:]) < 0.05
    assert f"content moves {shares[7]:.0%} of its weight" in app.caption


def test_diamonds_are_the_weights_at_equal_content():
    app = AttentionExplorer(text="abc", bias=False)
    np.testing.assert_allclose(named_trace(app.figure, "other").y, [1 / 3] * 3, atol=1e-6)


def test_random_vectors_take_the_place_of_the_model_and_have_as_many_heads():
    app = AttentionExplorer(lab.make_model("alibi", num_heads=2), text="to be", head=2)
    control(app, "s-content").value = "random vectors"
    assert words(app) == ["to", "be"]
    assert len(named_trace(app.figure, "titles").text) == 2
    assert "Content is made up" in app.details


def test_a_trained_model_reads_the_bytes_of_the_text():
    app = AttentionExplorer(lab.make_model("alibi"), text="to be")
    assert (len(app.heads), app.head, app.content) == (4, 1, "layer 1")
    assert words(app) == ["t", "o", "␣", "b", "e"]
    of_layer_1 = np.nan_to_num(cells(app, "content"))
    app.content = "layer 2"
    assert not np.allclose(np.nan_to_num(cells(app, "content")), of_layer_1)
    assert "layer 2 of 2" in app.details


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


def test_a_model_runs_once_for_a_text_until_refresh():
    model = lab.make_model("alibi")
    app = AttentionExplorer(model, text=TEXT)
    before = cells(app, "content")
    runs = []
    model.register_forward_hook(lambda *_: runs.append(1))
    model.transformer.blocks[0].attention.qkv.weight.data.mul_(2)
    app.content = "layer 2"
    app.content = "layer 1"
    app.fit(600)
    assert runs == []
    np.testing.assert_array_equal(cells(app, "content"), before)
    app.refresh()
    assert runs == [1]
    np.testing.assert_allclose(cells(app, "content"), 4 * before, atol=1e-3)


def test_an_error_of_a_model_is_a_message_and_changes_nothing():
    class Failing(ByteModel):
        def run(self, text, longest):
            if text != TEXT:
                raise RuntimeError("out of memory")
            return super().run(text, longest)

    app = AttentionExplorer(Failing(lab.make_model("alibi")), text=TEXT)
    before = repr(app), app.caption, app.caption_line.value
    control(app, "s-text").value = "another text"
    assert "the model failed on this text: out of memory" in message(app)
    assert (repr(app), app.caption, app.caption_line.value) == before


# The order of the words


def test_shuffle_moves_the_words_in_another_way_each_time_and_can_be_undone():
    app = explore()
    before = (repr(app), app.caption, app.figure.to_json())
    restore = control(app, "s-original")
    assert restore.layout.display == "none"
    for order in (1, 2):
        control(app, "s-shuffle").click()
        assert app.order == order
        assert words(app) == shuffle_words(TEXT, order).split()
    assert restore.layout.display is None
    restore.click()
    assert (repr(app), app.caption, app.figure.to_json()) == before


def test_a_new_text_is_in_its_own_order():
    app = explore(order=1)
    control(app, "s-text").value = "another short text"
    assert app.order is None
    assert words(app) == ["another", "short", "text"]


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
    app.content = "layer 2"
    assert change_in_caption(app) > 0


def test_caption_gives_what_a_shuffle_changes():
    app = AttentionExplorer(lab.make_model("alibi"), text=TEXT, order=1)

    weights = []
    for text in (TEXT, shuffle_words(TEXT, 1)):
        reading = app.source.read(text, "layer 1", MAX_TOKENS)
        trace = attention_trace(reading.query, reading.key, reading.slopes)
        last_query = trace.weights[0, 0, -1].numpy()
        weights.append(pd.Series(last_query).groupby(reading.tokens).sum())
    change = (weights[1] - weights[0]).abs().max()
    assert change_in_caption(app) == pytest.approx(change, abs=6e-4)
    assert app.details.startswith("Query 42 “t”: ")


def test_a_text_has_at_most_50_000_characters():
    app = AttentionExplorer(text="x" * 50_000)
    with pytest.raises(ValueError, match="text must have at most 50,000 characters, got 50,001"):
        app.text = "x" * 50_001
