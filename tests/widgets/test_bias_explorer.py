"""BiasExplorer, driven through its traits and its controls, without a browser."""

import numpy as np
import pytest
from ipywidgets import Dropdown, Text
from tests.widgets.core.test_app import control, message

from alibi_viz import alibi_bias, alibi_slopes, causal_mask
from alibi_viz.bias import FORMS
from alibi_viz.widgets import BiasExplorer
from alibi_viz.widgets.core.traits import BadValue

MINUS = "\N{MINUS SIGN}"
IMAGE, HOVER, TITLES = 0, 2, 4


def read(app: BiasExplorer) -> dict[tuple[int, int, int], float | str]:
    """What the pointer finds: (head, query, key) -> bias."""
    trace = app.figure.data[HOVER]
    cells = [cell for row in trace.customdata for cell in row if cell[0] is not None]
    return {(head, query, key): value for head, query, key, _, value in cells}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_the_pointer_finds_the_bias_of_the_traits(form, causal):
    app = BiasExplorer()
    app.num_heads, app.length, app.form, app.causal, app.scheme = 6, 10, form, causal, "geometric"
    bias = alibi_bias(alibi_slopes(6, "geometric"), 10, form=form).expand(-1, 10, -1)
    found = read(app)
    assert len(found) == 6 * 10 * 10
    for (head, query, key), value in found.items():
        expected = bias[head - 1, query, key].item()
        if (causal and not causal_mask(10)[query, key]) or np.isinf(expected):
            assert value == "masked"
        else:
            assert np.float32(value) == expected


@pytest.mark.parametrize(
    ("trait", "values", "allowed"),
    [
        ("num_heads", (0, -1, 33, 2.5, 10**30), "an integer from 1 to 32"),
        ("length", (0, -1, 257, 7.5), "an integer from 1 to 256"),
        ("form", ("relativ", None, 3), "one of relative, key, end, symmetric, split"),
        ("scale", ("log",), "one of linear, logarithmic"),
        ("causal", (1, "yes"), "True or False"),
        ("head", (0, 33, 1.5, "1"), "an integer from 1 to 32 or None"),
    ],
)
def test_a_bad_value_is_refused_and_nothing_moves(trait, values, allowed):
    app = BiasExplorer(num_heads=3, length=5)
    before, state = app.figure.to_json(), repr(app)
    for value in values:
        with pytest.raises(BadValue, match=f"{trait} must be {allowed}, got"):
            setattr(app, trait, value)
    assert (app.figure.to_json(), repr(app)) == (before, state)


def test_a_bad_length_in_its_field_is_answered_in_the_app():
    app = BiasExplorer(num_heads=3, length=5)
    control(app, Text, "s-length-field").value = "257"
    assert "length must be an integer from 1 to 256, got 257" in message(app)
    assert (app.length, control(app, Text, "s-length-field").value) == (5, "5")


def test_an_enlarged_head_is_shown_alone_with_every_cell_under_the_pointer():
    app = BiasExplorer(num_heads=8, length=40)
    assert len(read(app)) < 8 * 40 * 40
    app.head = 3
    bias = alibi_bias(alibi_slopes(8), 40)
    found = read(app)
    assert set(found) == {(3, query, key) for query in range(40) for key in range(40)}
    assert found[3, 39, 0] == bias[2, 39, 0].item()
    assert list(app.figure.data[TITLES].text) == ["head 3, m = 1/8"]
    assert f"Head 3 of 8, slope 1/8: 40 x 40, relative form, {MINUS}m (i {MINUS} j)." in app.caption
    assert f"The bias goes from {MINUS}4.88 to 0." in app.caption
    assert "head's own" in app.caption


def test_the_menu_enlarges_and_goes_back():
    app = BiasExplorer(num_heads=3, length=5)
    menu = control(app, Dropdown, "s-head")
    assert [label for label, _ in menu.options] == ["all heads", "head 1", "head 2", "head 3"]
    assert menu.label == "all heads"
    menu.label = "head 2"
    assert app.head == 2
    menu.label = "all heads"
    assert app.head is None
    assert menu.label == "all heads"  # not a blank


def test_more_heads_keep_the_enlarged_one_and_fewer_may_end_it():
    app = BiasExplorer(num_heads=3, length=5, head=2)
    menu = control(app, Dropdown, "s-head")
    app.num_heads = 12
    assert (app.head, menu.label, len(menu.options)) == (2, "head 2", 13)
    app.num_heads = 2
    assert (app.head, menu.label) == (2, "head 2")
    app.num_heads = 1
    assert (app.head, menu.label, len(menu.options)) == (None, "all heads", 2)
    assert set(read(app)) == {(1, query, key) for query in range(5) for key in range(5)}


def test_a_head_that_does_not_exist_is_refused():
    with pytest.raises(BadValue, match="head must be None or an integer from 1 to num_heads=3, got 4"):
        BiasExplorer(num_heads=3, head=4)


def test_a_click_enlarges_a_head_and_another_goes_back():
    app = BiasExplorer(num_heads=4, length=6)
    click = {"point_indexes": [[8, 9]], "trace_indexes": [HOVER], "xs": [0], "ys": [0]}
    assert app.figure.data[HOVER].customdata[8][9][0] == 4

    def clicked() -> None:  # what plotly does when the page reports a click
        app.figure._js2py_pointsCallback = {
            "event_type": "plotly_click",
            "points": click,
            "device_state": {"alt": False, "ctrl": False, "meta": False, "shift": False, "button": 0, "buttons": 1},
            "selector": None,
        }

    clicked()
    assert app.head == 4
    click["point_indexes"] = [[0, 0]]
    clicked()
    assert app.head is None
    click["point_indexes"] = [[6, 0]]  # the gap between two rows of tiles
    assert app.figure.data[HOVER].z[6][0] is None
    clicked()
    assert app.head is None


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({}, "Grey is masked: the keys after each query."),
        ({"causal": False}, "the future is rewarded"),
        ({"form": "key"}, "a constant, which the softmax does not see"),
        ({"causal": False}, "every query favours the last keys"),
        ({"form": "key", "causal": False}, "every query favours the last keys"),
        ({"form": "key", "causal": False}, "a constant, which the softmax does not see"),
        ({"form": "end", "causal": False}, "every query favours the last keys"),
        ({"form": "symmetric", "causal": False}, "treated alike"),
        ({"form": "split", "causal": False}, "Grey is masked: the side that a head does not look at."),
        ({"form": "split"}, "see only their own token"),
    ],
)
def test_the_caption_says_what_the_form_means(state, words):
    assert words in BiasExplorer(num_heads=4, length=8, **state).caption


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"num_heads": 8, "length": 64}, f"from {MINUS}31.5 (head 1) to 0."),
        ({"num_heads": 12, "length": 64, "causal": False}, f"from {MINUS}44.5 (head 9) to 44.5 (head 9)."),
        ({"num_heads": 2, "length": 5, "form": "key"}, "from 0 to 0.25 (head 1)."),
        ({"num_heads": 1, "length": 1}, "The bias is 0."),
    ],
)
def test_the_caption_names_the_extremes(state, words):
    assert words in BiasExplorer(**state).caption


def test_the_caption_warns_of_heads_that_look_flat_on_one_linear_scale_only():
    app = BiasExplorer(num_heads=8, length=64)
    assert "3 look almost flat on one linear scale (head 8 never goes beyond 0.246 in size)" in app.caption
    linear = app.figure.data[IMAGE].source
    app.scale = "logarithmic"
    assert "flat" not in app.caption
    assert app.figure.layout.annotations[0].text.startswith("logarithmic scale")
    assert app.figure.data[IMAGE].source != linear
    app.scale, app.num_heads = "linear", 1
    assert "flat" not in app.caption and "Click" not in app.caption


def test_nothing_is_called_grey_where_nothing_is_masked():
    assert "Grey" not in BiasExplorer(num_heads=1, length=1).caption
    assert "Grey" not in BiasExplorer(num_heads=2, length=4, form="symmetric", causal=False).caption
    assert "masked" not in BiasExplorer(num_heads=1, length=1).figure.layout.annotations[0].text


def test_the_picture_follows_the_width_of_the_page():
    app = BiasExplorer(num_heads=8, length=16)
    wide = app.figure.layout.width
    app.fit(500)
    assert app.figure.layout.width <= 510 < wide
    app.length = 17
    assert app.figure.layout.width <= 510


def test_traces_are_made_once():
    app = BiasExplorer()
    traces = list(app.figure.data)
    for heads, length in ((1, 1), (32, 33), (5, 256)):
        app.num_heads, app.length = heads, length
    assert all(new is old for new, old in zip(app.figure.data, traces, strict=True))
    assert repr(app).startswith(
        "BiasExplorer(num_heads=5, length=256, form='relative', causal=True, scheme='official',"
    )
