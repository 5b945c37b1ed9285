"""AttentionExplorer with other laws than ALiBi's, which is then shown for comparison."""

import re

import numpy as np
import pytest
import torch

from alibi_viz import alibi_slopes, attention_trace
from alibi_viz.figures.attention_layout import BARS, BIAS, CONTENT, HEADS, LOGITS, OTHER, WEIGHTS
from alibi_viz.lab.attention_sources import Words
from alibi_viz.lab.law_trace import law_curve, trace_queries
from alibi_viz.widgets import AttentionExplorer
from alibi_viz.widgets.core.traits import BadValue
from tests.custom_laws import for_four_heads, root
from tests.widgets.race.small_race import control, message

TEXT = "the cat saw the dog and the dog saw the cat"  # eleven words


pytestmark = pytest.mark.usefixtures("forget_custom_methods")


def cells(app: AttentionExplorer, panel: int) -> np.ndarray:
    return np.array(app.figure.data[panel].z, dtype=object).astype(float)


@pytest.mark.parametrize("causal", [True, False])
def test_bias_and_weights_are_those_of_the_law_and_diamonds_those_of_alibi(causal: bool) -> None:
    app = AttentionExplorer(text=TEXT, law=root, num_heads=4, head=2, causal=causal)
    distance = (torch.arange(11)[:, None] - torch.arange(11)).abs()
    bias = -0.25 * distance.sqrt()
    reading = Words().read(TEXT, "same word", 4, 48)
    alibi = attention_trace(reading.query, reading.key, alibi_slopes(4), causal=causal)
    seen = ~np.isnan(cells(app, LOGITS))
    assert seen.sum() == (66 if causal else 121)
    np.testing.assert_allclose(cells(app, BIAS)[seen], bias.numpy()[seen], atol=1e-5)
    logits = alibi.content[0, 1] + bias
    weights = logits.masked_fill(~torch.from_numpy(seen), -torch.inf).softmax(-1).numpy()
    np.testing.assert_allclose(cells(app, WEIGHTS)[seen], weights[seen], atol=1e-5)
    np.testing.assert_allclose(app.figure.data[BARS].y.astype(float), weights[-1], atol=1e-5)
    np.testing.assert_allclose(app.figure.data[OTHER].y, alibi.weights[0, 1, -1], atol=1e-5)
    np.testing.assert_allclose(cells(app, HEADS)[1], weights[-1], atol=1e-5)


def test_caption_titles_and_legend_name_the_law() -> None:
    app = AttentionExplorer(text=TEXT, law=root, num_heads=8)
    titles = " ".join(annotation.text for annotation in app.figure.layout.annotations)
    assert "root(i \N{MINUS SIGN} j)" in titles
    assert "■</span> root" in titles and "◇</span> ALiBi" in titles
    assert app.caption.startswith("Head 1 of 8, law root, bias on. Query 10 “cat” gives")
    assert re.search(r"and the 3 nearest tokens; with ALiBi \d+%", app.caption)
    app.bias = False
    titles = " ".join(annotation.text for annotation in app.figure.layout.annotations)
    assert "■</span> bias off" in titles and "◇</span> root" in titles
    assert "law root, bias off" in app.caption and "; with root " in app.caption
    content = cells(app, CONTENT)
    np.testing.assert_array_equal(cells(app, LOGITS), content)
    app.law = "linear"
    assert "slope 1/2, bias off" in app.caption and "; with the bias " in app.caption


def test_keys_outside_a_window_are_gray_on_both_sides() -> None:
    app = AttentionExplorer(text="a b c d e f g h i j k l m n", law="window", num_heads=2, head=1, query=11)
    expected = [None] * 4 + [pytest.approx(cells(app, WEIGHTS)[11, key], abs=1e-5) for key in range(4, 12)] + [None] * 2
    assert list(app.figure.data[BARS].y) == expected
    assert app.figure.layout.shapes[BARS].path == "M-0.5,0H3.5V1H-0.5ZM11.5,0H13.5V1H11.5Z"
    drawn = app.figure.data[OTHER].y
    assert drawn[0] > 0, "ALiBi gives a weight to a key outside the window"
    assert np.isnan(drawn[12:]).all()
    assert app.figure.data[BIAS].customdata[11][0][1] == "\N{MINUS SIGN}∞ (masked)"


def test_menu_offers_laws_and_a_failing_one_is_a_message() -> None:
    app = AttentionExplorer(text=TEXT, law=for_four_heads, num_heads=4)
    assert repr(app).endswith("query=None, law=for_four_heads, bias=True, causal=True, order=None)")
    control(app, "s-heads").value = 8
    assert "law &#x27;for_four_heads&#x27;, head 5 of 8: IndexError" in message(app)
    assert app.num_heads == 4
    menu = control(app, "s-law")
    menu.value = "logarithmic"
    control(app, "s-heads").value = 8
    assert (message(app), app.num_heads) == ("", 8)
    assert "law logarithmic" in app.caption
    with pytest.raises(BadValue, match="law must be one of linear, "):
        app.law = "quadratic"


@pytest.mark.parametrize("causal", [True, False])
def test_trace_of_some_queries_equals_that_of_all(causal: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 1, 3, 20, 8, generator=generator)
    curve = law_curve(lambda distance, head, num_heads: -distance.float() * 2.0**-head, 3, 20)
    slopes = torch.tensor([0.5, 0.25, 0.125])
    for rows in (range(20), range(7, 12), range(19, 20), range(1), [5, 19, 0, 5]):
        expected = attention_trace(query, key, slopes, causal=causal)
        trace = trace_queries(query, key, curve, rows, causal=causal)
        for step in ("content", "bias", "logits", "weights"):
            shown, full = getattr(trace, step), getattr(expected, step)[:, :, list(rows)]
            seen = trace.logits.isfinite() if step == "bias" else torch.ones_like(trace.logits, dtype=torch.bool)
            torch.testing.assert_close(shown[seen], full[seen])
        plain = trace_queries(query, key, None, rows, causal=causal)
        unbiased = attention_trace(query, key, None, causal=causal)
        torch.testing.assert_close(plain.weights, unbiased.weights[:, :, list(rows)])
