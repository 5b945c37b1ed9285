"""AttentionExplorer on texts that are too long to show whole: a part around the query, and the query's full row."""

import statistics
import time

import numpy as np
import pytest

from alibi_viz import alibi_slopes, attention_trace, lab
from alibi_viz.figures.attention_layout import BARS, BIAS, CONTENT, HEADS, LOGITS, MATRICES, OTHER, WEIGHTS
from alibi_viz.lab.attention_sources import Words
from alibi_viz.lab.model_sources import ByteModel, ModelRun
from alibi_viz.widgets import AttentionExplorer
from tests.widgets.race.small_race import control, message

WORDS = [f"w{number % 97}" for number in range(4096)]
TEXT = " ".join(WORDS)


def cells(app: AttentionExplorer, panel: int) -> np.ndarray:
    return np.array(app.figure.data[panel].z, dtype=object).astype(float)


@pytest.mark.parametrize("query", [0, 70, 199])
@pytest.mark.parametrize("causal", [True, False])
def test_part_around_the_query_and_its_full_row_are_those_of_the_whole_text(query: int, causal: bool) -> None:
    app = AttentionExplorer(text=" ".join(WORDS[:200]), num_heads=4, head=2, query=query, causal=causal)
    reading = Words().read(app.text, "same word", 4, 4096)
    on, off = (attention_trace(reading.query, reading.key, slopes, causal=causal) for slopes in (alibi_slopes(4), None))
    start = {0: 0, 70: 46, 199: 152}[query]
    part = slice(start, start + 48)
    seen = ~np.isnan(cells(app, LOGITS))
    steps = zip(MATRICES, (on.content, on.bias, on.logits, on.weights), strict=True)
    for panel, step in steps:
        np.testing.assert_allclose(cells(app, panel)[seen], step[0, 1, part, part].numpy()[seen], atol=2e-5)
        assert (app.figure.data[panel].x0, app.figure.data[panel].y0) == (start, start)
    expected = on.weights[0, :, query].reshape(4, 50, 4).sum(-1).numpy()  # 200 keys in 50 bars
    np.testing.assert_allclose(np.nan_to_num(cells(app, HEADS)), expected, atol=1e-4)
    np.testing.assert_allclose(np.nan_to_num(app.figure.data[BARS].y.astype(float)), expected[1], atol=1e-4)
    compared = off.weights[0, 1, query].reshape(50, 4).sum(-1)
    np.testing.assert_allclose(np.nan_to_num(app.figure.data[OTHER].y), compared, atol=1e-4)
    assert f"The matrices show tokens {start} to {start + 47} of 200, around the query" in app.caption
    assert "the right column shows all keys, 4 in each bar." in app.caption


def test_hover_texts_and_axes_give_positions_in_the_text() -> None:
    app = AttentionExplorer(text=" ".join(WORDS[:200]), num_heads=4, query=70)
    assert app.figure.data[CONTENT].text[24][0] == "query 70 “w70”<br>key 46 “w46”<br>distance 24"
    assert app.figure.data[BARS].hovertext[0] == "query 70 “w70”<br>keys 0 to 3<br>distance 67 to 70"
    assert app.figure.data[BARS].hovertext[17] == "query 70 “w70”<br>keys 68 to 71<br>distance 0 to 2"
    assert app.figure.data[BARS].x[0] == 1.5
    axis = app.figure.layout.xaxis5
    assert (axis.tickmode, axis.ticktext, axis.range) == ("auto", None, (-0.5, 199.5))
    assert "<b>w70</b>" in app.figure.layout.yaxis.ticktext
    titles = [annotation.text for annotation in app.figure.layout.annotations]
    assert titles[4] == "every head, 4 keys per cell"
    app.fit(480)
    titles = [annotation.text.partition("<br>")[0] for annotation in app.figure.layout.annotations]
    assert titles[:5:2] == ["content", "=  logits", "in every head"] and titles[3] == "→  weights"
    app.text = "short again"
    axis = app.figure.layout.xaxis5
    assert (axis.tickmode, axis.ticktext) == ("array", ("short", "again"))


def test_text_of_48_tokens_is_shown_whole() -> None:
    app = AttentionExplorer(text=" ".join(WORDS[:48]), query=3)
    assert cells(app, CONTENT).shape == (48, 48)
    assert app.figure.data[CONTENT].x0 == 0
    assert "The matrices show" not in app.caption


def test_click_on_a_row_selects_its_position_in_the_text() -> None:
    app = AttentionExplorer(text=TEXT, query=2000)
    points = {"trace_indexes": [BIAS], "point_indexes": [[0, 0]], "xs": [1976], "ys": [1976], "zs": [0]}
    app.figure._js2py_pointsCallback = {
        "event_type": "plotly_click",
        "points": points,
        "device_state": None,
        "selector": None,
    }
    assert app.query == 1976
    assert "tokens 1,952 to 1,999 of 4,096" in app.caption


def test_tokens_beyond_4096_are_cut_with_a_note_at_the_text_box() -> None:
    app = AttentionExplorer(text=f"{TEXT} and more")
    note = control(app, "s-note")
    assert (note.value, note.layout.display) == ("only the first 4,096 of 4,098 tokens are used", None)
    assert control(app, "s-query").max == 4095
    app.text = "short"
    assert note.layout.display == "none"


def test_interactions_with_4096_tokens_take_less_than_a_second() -> None:
    app = AttentionExplorer(text=TEXT)
    times = []
    changes = [("query", 100), ("head", 5), ("bias", False), ("causal", False), ("law", "power"), ("content", "equal")]
    for name, value in [*changes, ("query", 2100), ("bias", True), ("num_heads", 12), ("text", f"{TEXT[:-3]} other")]:
        started = time.perf_counter()
        setattr(app, name, value)
        times.append(time.perf_counter() - started)
    assert message(app) == ""
    assert statistics.median(times) < 1, times
    assert len(app.figure.to_json()) < 2_000_000, "what a change sends to the browser"


def test_text_is_read_once_for_all_queries_heads_and_layers() -> None:
    class Counting(ByteModel):
        runs = 0

        def start(self, text: str, longest: int) -> ModelRun:
            self.runs += 1
            return super().start(text, longest)

    source = Counting(lab.make_model("alibi"))
    app = AttentionExplorer(source, text=TEXT[:2000])
    app.query, app.head, app.bias, app.law, app.content = 5, 2, False, "power", "layer 2"
    app.fit(600)
    assert source.runs == 1
    app.refresh()
    assert source.runs == 2


def test_part_of_a_long_text_equals_what_the_model_computes() -> None:
    model = lab.make_model("alibi")
    app = AttentionExplorer(model, text=TEXT[:300], content="layer 2", head=3, query=250)
    reading = ByteModel(model).read(TEXT[:300], "layer 2", 8, 300)
    weights = attention_trace(reading.query, reading.key, reading.slopes).weights[0, 2].detach()
    np.testing.assert_allclose(np.nan_to_num(cells(app, WEIGHTS)), weights[226:274, 226:274], atol=2e-5)
    sums = weights[250].reshape(60, 5).sum(-1)
    np.testing.assert_allclose(np.nan_to_num(app.figure.data[BARS].y.astype(float)), sums, atol=1e-4)
