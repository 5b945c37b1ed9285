"""AttentionExplorer, driven through its traits and its controls, without a browser."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from alibi_viz import alibi_slopes, attention_trace, lab
from alibi_viz.figures.matrices import named_trace
from alibi_viz.measure.attention_sources import ByteModel, Words, shuffle_words
from alibi_viz.widgets import AttentionExplorer
from alibi_viz.widgets.attention.attention_explorer import MAX_TOKENS
from alibi_viz.widgets.core.formatting import format_percent
from tests.figures.test_matrices import click
from tests.widgets.race.small_race import control, message, visible_controls

TEXT = "the cat saw the dog and the dog saw the cat"  # eleven words


def words(app: AttentionExplorer) -> tuple[str, ...]:
    return app.figure.get_subplot(2, 1).xaxis.ticktext


def cells(app: AttentionExplorer, step: str) -> np.ndarray:
    return np.array(named_trace(app.figure, step).z, dtype=object).astype(float)  # NaN for the gaps


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("head", "query"), [(1, None), (3, 8), (8, 5), (2, 4), (3, 3), (1, 0)])
def test_figure_and_caption_give_the_weights(
    head: int, query: int | None, bias: bool, causal: bool
) -> None:
    app = AttentionExplorer(
        text=TEXT, num_heads=8, head=head, query=query, bias=bias, causal=causal
    )
    place, tokens = 10 if query is None else query, TEXT.split()
    reading = Words().read(TEXT, app.content, 8, MAX_TOKENS)
    slopes = (alibi_slopes(8), None) if bias else (None, alibi_slopes(8))
    traces = [attention_trace(reading.query, reading.key, each, causal=causal) for each in slopes]
    for step in ("content", "bias", "logits", "weights"):
        values = torch.where(traces[0].logits.isneginf(), torch.nan, getattr(traces[0], step))[
            0, head - 1
        ]
        np.testing.assert_allclose(cells(app, step), values, atol=1e-5)
    visible = range(place + 1 if causal else 11)
    near = [key for key in visible if abs(place - key) <= 3]
    receivers = (
        f"itself and the {len(near) - 1} nearest tokens" if len(near) < len(visible) else "itself"
    )

    def shares(keys: list[int]) -> str:
        here, there = (
            format_percent(trace.weights[0, head - 1, place, keys].sum()) for trace in traces
        )
        return f"{here}{{}}; {'without' if bias else 'with'} the bias {there}."

    given = shares(near if len(near) < len(visible) else [place]).format(
        f" of its weight to {receivers}"
    )
    state = f"Head {head} of 8, slope 1/{2**head}, bias {'on' if bias else 'off'}."
    assert app.caption == f"{state} Query {place} “{tokens[place]}” gives {given}"
    equal = sorted(
        (abs(key - place), key) for key in visible if key != place and tokens[key] == tokens[place]
    )
    (distance, far), word = equal[-1] if equal else (0, 0), tokens[place]
    told = f"The farthest other “{word}”, {distance} away, gets {shares([far]).format('')} " * bool(
        equal
    )
    assert app.details == told + reading.note and "made up" in reading.note, (
        "says where the content comes from"
    )
    title = f"m = 1/{2**head}<br>-m {'(i - j)' if causal else '|i - j|'}".replace(
        "-", "\N{MINUS SIGN}"
    )
    titles = [annotation.text for annotation in app.figure.layout.annotations]
    assert titles[1] == f"+  bias, {title if bias else 'switched off'}"
    assert (titles[2].find("bias on") < titles[2].find("bias off")) == bias, (
        "what is shown comes first"
    )


def test_blank_text_box_shows_a_message_and_stays_blank() -> None:
    app = AttentionExplorer(text=TEXT)
    box = control(app, "s-text")
    box.value = ""
    assert "at least one word" in message(app) and (box.value, app.text) == ("", TEXT)
    control(app, "s-reset").click()
    assert (message(app), box.value) == ("", TEXT)
    box.value = " "
    box.value = TEXT
    assert message(app) == "", "also when the last good text is typed again"
    box.value = "<script>alert(1)</script>"
    assert (message(app), app.text) == ("", "<script>alert(1)</script>")
    app.text = TEXT
    assert box.value == TEXT
    app.text = "x" * 50_000
    with pytest.raises(ValueError, match="text must have at most 50,000 characters, got 50,001"):
        app.text = "x" * 50_001


def test_markup_is_escaped_everywhere() -> None:
    app = AttentionExplorer(text="<img/src=x/onerror=alert(1)> <img")
    assert "<img" in app.caption, "plain text, escaped where it is put on the page:"
    found = [app._caption.value, *words(app), *app.figure.get_subplot(1, 1).yaxis.ticktext]
    found += [annotation.text for annotation in app.figure.layout.annotations]
    found += [
        str(trace.customdata.tolist()) for trace in app.figure.data if trace.customdata is not None
    ]
    assert sum("&lt;img" in text for text in found) > 6 and not any(
        "<img" in text for text in found
    )


def test_controls_clicks_and_traits_change_each_other_and_stay_in_range() -> None:
    app = AttentionExplorer(text=TEXT, num_heads=8)
    head, query = control(app, "s-head"), control(app, "s-query")
    assert (head.max, query.value) == (8, "")
    first = ["s-text", "s-bias", "s-head", "s-head-field", "s-shuffle", "s-more", "s-reset"]
    assert visible_controls(app) == first, "the slider and its field are one of six controls"
    head.value, query.value = 6, "4 "
    assert (app.head, app.query) == (6, 4)
    for bad in ("11", "-1", "four"):
        query.value = bad
        assert "query must be" in message(app) and (app.query, query.value) == (4, "4")
    query.value = " "
    assert app.query is None, "the last token, also of a longer text"
    control(app, "s-bias").value = control(app, "s-causal").value = False
    control(app, "s-content").label = "equal"
    assert (app.bias, app.causal, app.content, message(app)) == (False, False, "equal", "")
    assert cells(app, "weights")[-1] == pytest.approx([1 / 11] * 11, abs=1e-5)
    app.num_heads, app.query, app.text = 4, 9, "a b"
    assert app.head == head.max == 4 and (app.query, query.value, message(app)) == (None, "", "")
    app.set_together({"query": 2, "text": "to be or"})
    assert app.query == 2, "the new text deselects, and then it is selected again"
    app.text, app.num_heads = TEXT, 8
    click(app.figure, "content", 0, 0, y=4)
    assert app.query == 4
    assert next(app.figure.select_shapes({"name": "weights"})).y0 == 3.5, (
        "the row of the query is framed"
    )
    click(app.figure, "tiles", *np.argwhere(named_trace(app.figure, "tiles").z == 6)[0])
    assert (app.head, app.query) == (6, 4)


def test_trained_model_reads_the_bytes_of_the_text() -> None:
    app = AttentionExplorer(lab.make_model("alibi"), text="to be")
    assert (app.num_heads, app.head, app.content) == (8, 1, "layer 1")
    before = np.nan_to_num(cells(app, "content"))
    app.content = "layer 2"
    assert (
        not np.allclose(np.nan_to_num(cells(app, "content")), before)
        and "layer 2 of 2" in app.details
    )
    with pytest.raises(ValueError, match="num_heads must be 8, as in the model, got 4"):
        app.num_heads = 4


def test_another_object_raises() -> None:
    with pytest.raises(
        TypeError, match=r"source must be a LanguageModel, .*, got 'to be'; pass a text as text="
    ):
        AttentionExplorer("to be")
    with pytest.raises(ValueError, match="position 'alibi', unchanged, got 'none'"):
        AttentionExplorer(lab.make_model("none"))
    with pytest.raises(ValueError, match="source must have at most 32 heads to be drawn, got 33"):
        AttentionExplorer(lab.make_model("alibi", num_heads=33, d_model=66))
    assert (
        AttentionExplorer(lab.make_model("alibi", num_heads=32, d_model=64), text="a").num_heads
        == 32
    )


def test_a_model_runs_once_for_a_text_until_refresh() -> None:
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


def test_an_error_of_a_model_is_a_message_and_changes_nothing() -> None:
    class Failing(ByteModel):
        def run(self, text: str, longest: int) -> Any:
            if text != TEXT:
                raise RuntimeError("out of memory")
            assert app is None or "Reading" in app._caption.value
            return super().run(text, longest)

    app: AttentionExplorer | None = None
    app = AttentionExplorer(Failing(lab.make_model("alibi")), text=TEXT)
    before = repr(app), app.caption, app._caption.value
    control(app, "s-text").value = "another text"
    assert "the model failed on this text: out of memory" in message(app)
    assert (repr(app), app.caption, app._caption.value) == before
    app.refresh()
    assert app._caption.value == before[2]


def test_a_long_text_is_cut_and_says_so() -> None:
    app = AttentionExplorer(text="word " * 100, num_heads=32)
    note = control(app, "s-note")
    assert (note.value, note.layout.display) == (
        f"only the first {MAX_TOKENS} of 100 tokens are used",
        None,
    )
    assert (
        cells(app, "weights").shape == (MAX_TOKENS, MAX_TOKENS)
        and f"Query {MAX_TOKENS - 1} " in app.caption
    )
    assert len(app.figure.to_json()) < 2_500_000, "what a change sends to the browser"
    labels = len(words(app))
    app.fit(2000)
    assert len(words(app)) > labels, "there is room for more"
    app.text = "short"
    assert note.layout.display == "none" and message(app) == ""


def test_shuffle_original_order_and_reset_move_the_words_and_keep_the_text() -> None:
    app = AttentionExplorer(text=TEXT, num_heads=6, head=4)
    before = repr(app), app.caption, app.figure.to_json()
    shuffle, restore = control(app, "s-shuffle"), control(app, "s-original")
    hidden = lambda: restore.layout.display == "none"  # noqa: E731
    assert hidden()
    for order in (1, 2, 3):
        shuffle.click()
        assert (app.order, app.text, hidden()) == (order, TEXT, False)
        assert words(app) == tuple(shuffle_words(TEXT, order).split())
    restore.click()
    assert hidden() and (repr(app), app.caption, app.figure.to_json()) == before
    app.order, app.query = 1, 3
    control(app, "s-text").value = "another short text"
    assert (app.order, app.query, words(app)) == (None, None, ("another", "short", "text"))
    app.num_heads, app.bias, app.causal, app.order, app.content = 2, False, False, 9, "equal"
    control(app, "s-reset").click()
    assert (repr(app), app.caption, message(app), control(app, "s-text").value) == (
        *before[:2],
        "",
        TEXT,
    )
    assert control(app, "s-head").value == 4


def test_caption_gives_what_a_shuffle_changes() -> None:
    app = AttentionExplorer(lab.make_model("alibi"), text=TEXT, bias=False, causal=False, order=1)

    def change() -> float:
        (found,) = re.findall(
            r"the last query gives to each token change by up to ([\d.]+)\.", app.caption
        )
        return float(found)

    assert change() == 0
    app.causal = True
    assert change() == 0
    app.content = "layer 2"
    assert change() > 0
    app.content, app.bias = "layer 1", True
    readings = [
        app.source.read(text, "layer 1", 8, MAX_TOKENS) for text in (TEXT, shuffle_words(TEXT, 1))
    ]
    traces = [
        attention_trace(each.query, each.key, each.slopes).weights[0, 0, -1] for each in readings
    ]
    pairs = zip(traces, readings, strict=True)
    before, after = (
        pd.Series(weights.numpy()).groupby(each.tokens).sum() for weights, each in pairs
    )
    assert change() == pytest.approx((after - before).abs().max(), abs=6e-4) and change() > 0.01
    app.text, app.order = "to be or not " * MAX_TOKENS, 1
    assert (
        "shuffling changes which words are read" in app.caption and "change by" not in app.caption
    )
    app.order = None
    assert "shuffled" not in app.caption
