"""The buttons Shuffle, Original order and Reset of AttentionExplorer, and the caption of a shuffled text."""

import re

import pytest

from alibi_viz import lab
from alibi_viz.figures.attention_layout import BARS, TILES
from alibi_viz.lab.shuffle import shuffle_words
from alibi_viz.widgets import AttentionExplorer
from tests.widgets.race.small_race import control, message

TEXT = "the cat saw the dog and the dog saw the cat"  # eleven words


def shown(app: AttentionExplorer) -> tuple[str, ...]:
    return app.figure.layout.xaxis3.ticktext


def test_shuffle_and_original_order_move_the_words_and_keep_the_text() -> None:
    app = AttentionExplorer(text=TEXT)
    before = app.figure.to_json()
    shuffle, restore = control(app, "s-shuffle"), control(app, "s-original")
    assert restore.disabled
    orders = set()
    for order in (1, 2, 3):
        shuffle.click()
        assert (app.order, app.text, restore.disabled) == (order, TEXT, False)
        assert shown(app) == tuple(shuffle_words(TEXT, order).split())
        orders.add(shown(app))
    assert len(orders) == 3
    restore.click()
    assert (app.order, restore.disabled) == (None, True)
    assert app.figure.to_json() == before
    assert message(app) == ""


def test_caption_says_that_weights_only_move_without_bias_and_mask() -> None:
    app = AttentionExplorer(text=TEXT, bias=False, causal=False, order=1)
    assert "Every query shown gives each token the same weight as in the original order" in app.caption
    assert "the largest difference is 0.000." in app.caption
    app.causal = True
    assert "The last query gives each token the same weight" in app.caption
    found = re.search(r"Those of other queries change by up to ([\d.]+), because the mask now hides other", app.caption)
    assert found and float(found[1]) > 0.1
    app.bias = True
    found = re.search(r"weights of the last query change by up to ([\d.]+); its content is the same", app.caption)
    assert found and float(found[1]) > 0.01
    app.order = None
    assert "shuffled" not in app.caption


def test_caption_says_that_the_second_layer_depends_on_the_order() -> None:
    app = AttentionExplorer(lab.make_model("alibi"), text=TEXT, bias=False, causal=False, order=1)
    assert "the largest difference is 0.000." in app.caption
    app.content = "layer 2"
    assert "in this layer, queries and keys depend on the order, and content changes by up to" in app.caption


def test_caption_says_why_nothing_is_shuffled_or_compared() -> None:
    app = AttentionExplorer(text="one two", order=4)
    assert "There is nothing to shuffle" in app.caption
    app = AttentionExplorer(text=" ".join(f"w{number}" for number in range(5000)), order=0)
    assert "This gives other tokens, so the weights cannot be compared" in app.caption, "only 4,096 are read"


def test_new_text_is_not_shuffled() -> None:
    app = AttentionExplorer(text=TEXT, order=1, query=3)
    control(app, "s-text").value = "another short text"
    assert (app.order, app.query) == (None, None)
    assert shown(app) == ("another", "short", "text")
    assert message(app) == ""


@pytest.mark.parametrize("value", [-1, 2**31, 1.5, True])
def test_bad_order_raises_and_changes_nothing(value: object) -> None:
    app = AttentionExplorer(text=TEXT)
    with pytest.raises(ValueError, match="order must be an integer from 0 to 2147483647 or None"):
        app.order = value  # type: ignore[assignment]
    assert app.order is None


def test_reset_restores_the_state_at_the_start() -> None:
    app = AttentionExplorer(text=TEXT, num_heads=6, head=4, query=5, order=2)
    before = repr(app), app.caption, app.figure.data[BARS].to_plotly_json()
    app.text, app.num_heads, app.bias, app.causal, app.law = "some other words here", 2, False, False, "power"
    app.order, app.content = 9, "equal"
    assert repr(app) != before[0]
    control(app, "s-reset").click()
    assert message(app) == ""
    assert (repr(app), app.caption) == before[:2]
    assert str(app.figure.data[BARS].to_plotly_json()) == str(before[2])
    assert control(app, "s-text").value == TEXT


def test_click_on_a_tile_selects_its_head_and_keeps_the_query() -> None:
    app = AttentionExplorer(text=TEXT, num_heads=8, query=4)
    row = next(at for at, cells in enumerate(app.figure.data[TILES].z) if 6 in cells)
    column = list(app.figure.data[TILES].z[row]).index(6)
    points = {"trace_indexes": [TILES], "point_indexes": [[row, column]], "xs": [0], "ys": [0], "zs": [6]}
    app.figure._js2py_pointsCallback = {
        "event_type": "plotly_click",
        "points": points,
        "device_state": None,
        "selector": None,
    }
    assert (app.head, app.query) == (6, 4)
    assert "Head 6 of 8" in app.caption and "Query 4" in app.caption
