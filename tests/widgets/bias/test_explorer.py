"""BiasExplorer, driven through its traits and its controls, without a browser."""

import numpy as np
import pytest
from ipywidgets import Dropdown, Text

from alibi_viz import alibi_bias, alibi_slopes, causal_mask
from alibi_viz.bias import FORMS
from alibi_viz.widgets import BiasExplorer
from alibi_viz.widgets.core.traits import BadValue
from tests.widgets.core.test_app import control, message

MINUS = "\N{MINUS SIGN}"
HOVER, TITLES = 0, 1


def read(app: BiasExplorer) -> dict[tuple[int, int, int], float | str]:
    """The biases in the hover texts: (head, query, key) -> bias."""
    trace = app.figure.data[HOVER]
    cells = [cell for row in trace.customdata for cell in row if cell[0] is not None]
    return {(head, query, key): value for head, query, key, _, value, _ in cells}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_hover_texts_give_the_bias_for_the_traits(form, causal):
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
        ("show", ("weights", None), "one of weight, bias"),
        ("scale", ("log",), "one of linear, logarithmic"),
        ("causal", (1, "yes"), "True or False"),
        ("head", (0, 33, 1.5, "1"), "an integer from 1 to 32 or None"),
    ],
)
def test_bad_value_raises_and_changes_nothing(trait, values, allowed):
    app = BiasExplorer(num_heads=3, length=5)
    before, state = app.figure.to_json(), repr(app)
    for value in values:
        with pytest.raises(BadValue, match=f"{trait} must be {allowed}, got"):
            setattr(app, trait, value)
    assert (app.figure.to_json(), repr(app)) == (before, state)


def test_bad_length_in_the_text_field_shows_a_message():
    app = BiasExplorer(num_heads=3, length=5)
    control(app, Text, "s-length-field").value = "257"
    assert "length must be an integer from 1 to 256, got 257" in message(app)
    assert (app.length, control(app, Text, "s-length-field").value) == (5, "5")


def test_enlarged_head_is_shown_alone_with_a_hover_text_for_every_cell():
    app = BiasExplorer(num_heads=8, length=40, show="bias")
    assert len(read(app)) < 8 * 40 * 40
    app.head = 3
    bias = alibi_bias(alibi_slopes(8), 40)
    found = read(app)
    assert set(found) == {(3, query, key) for query in range(40) for key in range(40)}
    assert found[3, 39, 0] == bias[2, 39, 0].item()
    assert list(app.figure.data[TITLES].text) == ["head 3, m = 1/8"]
    assert f"Head 3 of 8, slope 1/8: 40 x 40, relative form, {MINUS}m (i {MINUS} j)." in app.caption
    assert f"The bias ranges from {MINUS}4.88 to 0." in app.caption
    assert "head's own" in app.caption


def test_head_menu_enlarges_a_head_and_shows_all_again():
    app = BiasExplorer(num_heads=3, length=5)
    menu = control(app, Dropdown, "s-head")
    assert [label for label, _ in menu.options] == ["all", "1", "2", "3"]
    assert menu.label == "all"
    menu.label = "2"
    assert app.head == 2
    menu.label = "all"
    assert app.head is None
    assert menu.label == "all"  # not a blank


def test_enlarged_head_stays_with_more_heads_and_ends_when_it_is_removed():
    app = BiasExplorer(num_heads=3, length=5, head=2)
    menu = control(app, Dropdown, "s-head")
    app.num_heads = 12
    assert (app.head, menu.label, len(menu.options)) == (2, "2", 13)
    app.num_heads = 2
    assert (app.head, menu.label) == (2, "2")
    app.num_heads = 1
    assert (app.head, menu.label, len(menu.options)) == (None, "all", 2)
    assert set(read(app)) == {(1, query, key) for query in range(5) for key in range(5)}


def test_head_above_num_heads_raises():
    with pytest.raises(BadValue, match="head must be None or an integer from 1 to num_heads=3, got 4"):
        BiasExplorer(num_heads=3, head=4)


def test_click_enlarges_a_head_and_another_click_shows_all():
    app = BiasExplorer(num_heads=4, length=6)
    click = {"point_indexes": [[8, 9]], "trace_indexes": [HOVER], "xs": [0], "ys": [0]}
    assert app.figure.data[HOVER].customdata[8][9][0] == 4

    def clicked() -> None:  # what plotly sends for a click on the page
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
        ({}, "Gray is masked: the keys after each query."),
        ({"causal": False}, "The keys ahead get a positive bias"),
        ({"form": "key"}, "a constant, so the softmax gives the same weights"),
        ({"causal": False}, "every query favors the last keys"),
        ({"form": "key", "causal": False}, "every query favors the last keys"),
        ({"form": "key", "causal": False}, "a constant, so the softmax gives the same weights"),
        ({"form": "end", "causal": False}, "every query favors the last keys"),
        ({"form": "symmetric", "causal": False}, "treated alike"),
        ({"form": "split", "causal": False}, "Gray is masked: the side to which a head does not attend."),
        ({"form": "split"}, "see only their own position"),
    ],
)
def test_caption_explains_the_form(state, words):
    assert words in BiasExplorer(num_heads=4, length=8, **state).caption


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"num_heads": 8, "length": 64}, f"ranges from {MINUS}31.5 (head 1) to 0."),
        ({"num_heads": 12, "length": 64, "causal": False}, f"from {MINUS}44.5 (head 9) to 44.5 (head 9)."),
        ({"num_heads": 2, "length": 5, "form": "key"}, "from 0 to 0.25 (head 1)."),
        ({"num_heads": 1, "length": 1}, "The bias is 0."),
    ],
)
def test_caption_gives_the_extremes_of_the_bias(state, words):
    assert words in BiasExplorer(show="bias", **state).caption


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({}, "position. At distance 63, head 1 leaves under 0.1%, while head 8 still leaves 78%."),
        (
            {"form": "key"},
            "relative to the query's own position. At distance 63, head 1 leaves under 0.1%, while head 8",
        ),
        ({"causal": False}, "relative to the last key. At distance 63, head 1 leaves under 0.1%, while head 8 still"),
        ({"form": "symmetric", "causal": False}, "relative to the query's own position. At distance 63, head 1"),
        (
            {"form": "split"},
            "At distance 63, head 1 leaves under 0.1%, while head 4 still leaves 1.9%.",
        ),  # 5 to 8 look ahead
        ({"form": "split", "causal": False}, "while head 8 still leaves 78%."),
        ({"head": 7}, "At distance 63, head 7 leaves 61%."),
        ({"num_heads": 1, "length": 5}, "At distance 4, head 1 leaves 98%."),
    ],
)
def test_caption_says_how_much_weight_distance_leaves(state, words):
    assert words in BiasExplorer(**state).caption


def test_caption_of_a_single_token_names_no_distance():
    assert "distance" not in BiasExplorer(num_heads=2, length=1).caption


def test_bias_is_one_choice_away_and_the_color_scale_menu_belongs_to_it():
    app = BiasExplorer(num_heads=8, length=64)
    show, scale = control(app, Dropdown, "s-show"), control(app, Dropdown, "s-scale")
    assert (show.label, scale.disabled) == ("weight left, e^bias", True)
    assert app.figure.layout.coloraxis.colorbar.ticktext[-1] == "100%"
    show.label = "bias"
    assert (app.show, scale.disabled) == ("bias", False)
    assert app.figure.layout.coloraxis.colorbar.ticktext[0] == f"{MINUS}31.5"


def test_caption_warns_of_heads_that_look_uniform_on_a_linear_scale_only():
    app = BiasExplorer(num_heads=8, length=64, show="bias")
    assert "On a linear color scale 3 heads look uniform (head 8 stays within 0.246)." in app.caption
    linear = app.figure.layout.images[0].source
    app.scale = "logarithmic"
    assert "uniform" not in app.caption
    assert app.figure.layout.annotations[0].text.startswith("bias, logarithmic scale")
    assert app.figure.layout.images[0].source != linear
    app.scale, app.num_heads = "linear", 1
    assert "uniform" not in app.caption and "Click" not in app.caption


def test_caption_and_legend_do_not_mention_gray_if_nothing_is_masked():
    assert "Gray" not in BiasExplorer(num_heads=1, length=1).caption
    assert "Gray" not in BiasExplorer(num_heads=2, length=4, form="symmetric", causal=False).caption
    assert "masked" not in BiasExplorer(num_heads=1, length=1).figure.layout.annotations[0].text


def test_figure_fits_the_width_of_the_page():
    app = BiasExplorer(num_heads=8, length=16)
    wide = app.figure.layout.width
    app.fit(500)
    assert app.figure.layout.width <= 510 < wide
    app.length = 17
    assert app.figure.layout.width <= 510


def test_traces_are_created_once():
    app = BiasExplorer()
    traces = list(app.figure.data)
    for heads, length in ((1, 1), (32, 33), (5, 256)):
        app.num_heads, app.length = heads, length
    assert all(new is old for new, old in zip(app.figure.data, traces, strict=True))
    assert repr(app).startswith(
        "BiasExplorer(num_heads=5, length=256, show='weight', law='linear', form='relative', causal=True,"
    )
