"""AttentionExplorer, driven through its traits and its controls, without a browser."""

import re

import numpy as np
import pytest
import torch
from ipywidgets import Checkbox, Dropdown, IntSlider, Textarea
from traitlets import TraitError

from alibi_viz import AlibiSelfAttention, alibi_slopes, attention_trace, figures, lab
from alibi_viz.figures.attention_layout import BIAS, CONTENT, HEADS, LOGITS, MATRICES, OTHER, WEIGHTS
from alibi_viz.lab.attention_sources import Words
from alibi_viz.widgets import AttentionExplorer
from tests.widgets.race.small_race import control, controls, message

TEXT = "the cat saw the dog and the dog saw the cat"  # eleven words


def cells(app: AttentionExplorer, panel: int) -> np.ndarray:
    return np.array(app.figure.data[panel].z, dtype=object).astype(float)


def share(app: AttentionExplorer, biased: bool) -> torch.Tensor:
    """The weights of the app's text in its head, recomputed: [query, key]."""
    reading = Words().read(app.text, app.content, app.num_heads, 48)
    slopes = alibi_slopes(app.num_heads) if biased else None
    return attention_trace(reading.query, reading.key, slopes, causal=app.causal).weights[0, app.head - 1]


@pytest.mark.parametrize("width", [700, 880, 1100])
def test_matrices_are_nearly_square_and_the_figure_leaves_room_for_the_caption(width: int) -> None:
    app = AttentionExplorer(text=TEXT)
    app.fit(width)
    layout = app.figure.layout
    across = (layout.width - layout.margin.l - layout.margin.r) * (layout.xaxis.domain[1] - layout.xaxis.domain[0])
    down = (layout.height - layout.margin.t - layout.margin.b) * (layout.yaxis.domain[1] - layout.yaxis.domain[0])
    assert 0.9 <= across / down <= 1.2
    assert layout.height <= 770


def test_trace_that_requires_gradients_can_be_drawn() -> None:
    trace = AlibiSelfAttention(8, 2).trace(torch.zeros(1, 3, 8))
    assert trace.weights.requires_grad
    shown = figures.attention_figure(["a", "b", "c"], trace, trace).data[WEIGHTS].z
    assert shown[2][0] == pytest.approx(trace.weights[0, 0, 2, 0].item(), abs=1e-5)


def test_default_app_has_a_readable_repr_and_caption() -> None:
    app = AttentionExplorer()
    assert repr(app) == (
        "AttentionExplorer(text='The cat sat on the mat. The...e door and looked at the cat', num_heads=8, "
        "content='same word', head=3, query=None, law='linear', bias=True, causal=True, order=None)"
    )
    assert app.caption.startswith("Head 3 of 8, slope 1/8, bias on. Query 17 “cat” gives 63% of its weight to itself")
    assert "made up" in app.caption, "says where the content comes from"


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_figure_shows_the_recomputed_weights(bias: bool, causal: bool) -> None:
    app = AttentionExplorer(text=TEXT, num_heads=6, head=5, bias=bias, causal=causal)
    shown = cells(app, WEIGHTS)
    np.testing.assert_allclose(np.nan_to_num(shown), share(app, bias), atol=1e-5)
    np.testing.assert_allclose(np.nan_to_num(app.figure.data[OTHER].y), share(app, not bias)[-1], atol=1e-5)
    assert np.isnan(shown).any() == causal


def test_switching_the_bias_off_keeps_the_content() -> None:
    app = AttentionExplorer(text=TEXT, num_heads=8)
    content = cells(app, CONTENT)
    assert np.nanmin(cells(app, BIAS)) == -10 / 2, "head 1 of 8 has slope 1/2, the first word is 10 tokens away"
    app.bias = False
    assert not np.nan_to_num(cells(app, BIAS)).any()
    np.testing.assert_array_equal(cells(app, LOGITS), content)
    np.testing.assert_array_equal(cells(app, CONTENT), content)


def test_selecting_a_head_changes_the_bias_and_keeps_the_content() -> None:
    app = AttentionExplorer(text=TEXT, num_heads=8)
    content, bias = cells(app, CONTENT), cells(app, BIAS)
    app.head = 3
    np.testing.assert_array_equal(cells(app, CONTENT), content)
    np.testing.assert_allclose(cells(app, BIAS), bias / 4)


def test_equal_content_shows_only_the_bias() -> None:
    app = AttentionExplorer(text=TEXT, num_heads=2, content="equal")
    np.testing.assert_array_equal(cells(app, LOGITS), cells(app, BIAS))
    app.bias = False
    assert cells(app, WEIGHTS)[-1] == pytest.approx([1 / 11] * 11, abs=1e-5)


@pytest.mark.parametrize(
    ("trait", "value", "words"),
    [
        ("text", "", "text must have at least one word, got ''"),
        ("text", " \n ", "text must have at least one word"),
        ("text", 7, "text must be a string, got 7"),
        ("text", "a" * 50_001, "text must have at most 50,000 characters, got 50,001"),
        ("num_heads", 0, "num_heads must be an integer from 1 to 32, got 0"),
        ("num_heads", 2.5, "got 2.5"),
        ("head", 9, "head must be an integer from 1 to num_heads=8, got 9"),
        ("query", 11, "query must be a position from 0 to 10 in this text, got 11"),
        ("query", -1, "query must be an integer from 0 to 4095 or None, got -1"),
        ("content", "nonsense", "content must be one of same word, equal, random, got 'nonsense'"),
        ("bias", 1, "bias must be True or False, got 1"),
    ],
)
def test_bad_value_raises_and_changes_nothing(trait: str, value: object, words: str) -> None:
    app = AttentionExplorer(text=TEXT, num_heads=8, query=3)
    before = repr(app), app.caption, app.figure.to_json()
    with pytest.raises((TraitError, ValueError), match=re.escape(words)):
        setattr(app, trait, value)
    assert (repr(app), app.caption, app.figure.to_json()) == before
    with pytest.raises((TraitError, ValueError), match=re.escape(words)):
        AttentionExplorer(**{"text": TEXT, "num_heads": 8, trait: value})


def test_blank_text_box_shows_a_message_and_stays_blank() -> None:
    app = AttentionExplorer(text=TEXT)
    box = control(app, "s-text")
    assert isinstance(box, Textarea)
    box.value = ""
    assert "at least one word" in message(app)
    assert (box.value, app.text) == ("", TEXT)
    box.value = "<script>alert(1)</script>"
    assert message(app) == ""
    assert app.text == "<script>alert(1)</script>"
    app.text = TEXT
    assert box.value == TEXT


def test_markup_is_escaped_everywhere() -> None:
    app = AttentionExplorer(text="<img/src=x/onerror=alert(1)> <img")
    assert "<img" in app.caption, "plain text, escaped where it is put on the page:"
    shown = [app._caption.value, *app.figure.layout.xaxis3.ticktext, *app.figure.layout.yaxis.ticktext]
    shown += [annotation.text for annotation in app.figure.layout.annotations]
    for panel in (*MATRICES, HEADS):
        shown += np.ravel(app.figure.data[panel].text).tolist()
    assert any("&lt;img" in text for text in shown)
    assert not any("<img" in text for text in shown)
    control(app, "s-head-field").value = "<b>"
    assert "&lt;b&gt;" in message(app)


@pytest.mark.parametrize(
    "text", ["👩\u200d👩\u200d👧 שלום 漢字 e\u0301", "broken \ud83d surrogate", "\ud83d\ude00 pair", "\u200b"]
)
def test_any_text_can_be_encoded_for_a_browser(text: str) -> None:
    app = AttentionExplorer(text=text)
    (app.figure.to_json() + app.caption + app.text + control(app, "s-text").value).encode("utf-8")


def test_controls_and_traits_change_each_other() -> None:
    app = AttentionExplorer(text=TEXT, num_heads=8)
    head, query = control(app, "s-head"), control(app, "s-query")
    assert isinstance(query, IntSlider)
    assert (head.max, query.max, query.value) == (8, 10, 10)
    head.value, query.value = 6, 4
    assert (app.head, app.query) == (6, 4)
    query.value = 10
    assert app.query is None, "the right end follows a longer text"
    bias, causal, content = control(app, "s-bias"), control(app, "s-causal"), control(app, "s-content")
    assert isinstance(bias, Checkbox) and isinstance(causal, Checkbox) and isinstance(content, Dropdown)
    bias.value = causal.value = False
    content.label = "equal"
    assert (app.bias, app.causal, app.content) == (False, False, "equal")
    assert message(app) == ""


def test_head_and_query_stay_in_range_when_text_or_heads_change() -> None:
    app = AttentionExplorer(text=TEXT, num_heads=8, head=8, query=9)
    app.num_heads = 4
    assert app.head == control(app, "s-head").max == 4
    app.text = "a b"
    assert (app.query, control(app, "s-query").max, control(app, "s-query").value) == (None, 1, 1)
    app.text = TEXT
    assert control(app, "s-query").value == 10
    assert message(app) == ""


def test_click_on_a_row_selects_it() -> None:
    app = AttentionExplorer(text=TEXT, num_heads=8)
    click(app, CONTENT, y=4)
    assert app.query == 4
    click(app, HEADS, y=7)
    assert (app.head, app.query) == (7, 4)


def click(app: AttentionExplorer, panel: int, y: int) -> None:
    """What the browser sends for a click on a cell of the first column."""
    points = {"trace_indexes": [panel], "point_indexes": [[y, 0]], "xs": [0], "ys": [y], "zs": [0]}
    app.figure._js2py_pointsCallback = {
        "event_type": "plotly_click",
        "points": points,
        "device_state": None,
        "selector": None,
    }


def test_trained_model_reads_the_bytes_of_the_text() -> None:
    model = lab.make_model("alibi")
    app = AttentionExplorer(model, text="to be")
    assert (app.num_heads, app.head, app.content) == (8, 1, "layer 1")
    assert "s-heads" not in str([widget._dom_classes for widget in controls(app) if hasattr(widget, "_dom_classes")])
    before = cells(app, CONTENT)
    app.content = "layer 2"
    assert not np.allclose(np.nan_to_num(cells(app, CONTENT)), np.nan_to_num(before))
    assert "layer 2 of 2" in app.caption
    with pytest.raises(ValueError, match="num_heads must be 8, as in the model, got 4"):
        app.num_heads = 4
    with pytest.raises(ValueError, match="position 'alibi', got 'none'"):
        AttentionExplorer(lab.make_model("none"))


def test_custom_source_is_used() -> None:
    class Halves(Words):
        contents = ("first", "second")

        def read(self, text: str, content: str, num_heads: int, longest: int) -> lab.attention_sources.Reading:
            return Words().read(text[: len(text) // 2], "equal", num_heads, longest)

    app = AttentionExplorer(Halves(), text="one two " + "x" * 8, content="second")
    assert app.figure.layout.xaxis3.ticktext == ("one", "two")


def test_text_given_as_source_raises_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"source must be a LanguageModel, .*, got 'to be'; pass a text as text="):
        AttentionExplorer("to be")
    with pytest.raises(TypeError, match="source must be a LanguageModel, the name of a pretrained model"):
        AttentionExplorer(torch.nn.Linear(2, 2))  # type: ignore[arg-type]


def test_wider_page_shows_more_labels() -> None:
    app = AttentionExplorer(text="word " * 48)
    app.fit(600)
    few = len(app.figure.layout.xaxis3.ticktext)
    app.fit(1600)
    assert few < len(app.figure.layout.xaxis3.ticktext)
    assert app.figure.layout.width == 1600


def test_snapshot_is_the_same_in_every_run() -> None:
    assert AttentionExplorer(text=TEXT).snapshot().to_json() == AttentionExplorer(text=TEXT).snapshot().to_json()
