"""BiasExplorer, driven through its traits and its controls, without a browser."""

import html
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from alibi_viz import alibi_bias, alibi_slopes, causal_mask, laws
from alibi_viz.bias import FORMS
from alibi_viz.figures.matrices import named_trace
from alibi_viz.models import Position
from alibi_viz.widgets import BiasExplorer
from alibi_viz.widgets.core.traits import BadValue
from tests.custom_laws import for_four_heads, root
from tests.figures.test_matrices import click
from tests.widgets.race.small_race import control, message

MINUS = "\N{MINUS SIGN}"

pytestmark = pytest.mark.usefixtures("forget_custom_methods")


def read(app: BiasExplorer) -> dict[tuple[int, int, int], float | str]:
    """The biases in the hover texts: (head, query, key) -> bias."""
    layer = named_trace(app.figure, "tiles")
    return {
        (head, cell[0], cell[1]): cell[3]
        for heads, cells in zip(layer.z, layer.customdata, strict=True)
        for head, cell in zip(heads, cells, strict=True)
        if head is not None
    }


def titles(app: BiasExplorer) -> list[str]:
    return list(named_trace(app.figure, "titles").text)


def words(app: BiasExplorer) -> str:
    return f"{app.caption} {app.details}"


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("form", [*FORMS, "root"])
def test_hover_texts_give_the_bias_for_the_traits(form: str, causal: bool) -> None:
    app = BiasExplorer()
    app.num_heads, app.length, app.causal, app.scheme = 6, 10, causal, "geometric"
    if form == "root":
        app.law = root
        distance = (torch.arange(10)[:, None] - torch.arange(10)).abs()
        bias = -0.5 * distance.sqrt() / torch.arange(1, 7)[:, None, None]
    else:
        app.form = form
        bias = alibi_bias(alibi_slopes(6, "geometric"), 10, form=form).expand(-1, 10, -1)
    found = read(app)
    assert len(found) == 6 * 10 * 10
    for (head, query, key), value in found.items():
        expected = bias[head - 1, query, key].item()
        if (causal and not causal_mask(10)[query, key]) or np.isinf(expected):
            assert value == "masked"
        else:
            assert value == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("trait", "values", "allowed"),
    [
        ("num_heads", (0, 33, 2.5, 10**30), "an integer from 1 to 32"),
        ("length", (0, 257), "an integer from 1 to 256"),
        ("form", ("relativ", None), "one of relative, key, end, symmetric, split"),
        ("show", ("weights",), "one of weight, bias"),
        ("scale", ("log",), "one of linear, logarithmic"),
        ("causal", (1,), "True or False"),
        ("head", (0, "1"), "an integer from 1 to 32 or None"),
        ("head", (4,), "None or an integer from 1 to num_heads=3"),
        ("law", ("root",), "one of linear, logarithmic, "),
        ("law", (3, Position), r"a name or a function law\(distance, head, num_heads\)"),
    ],
)
def test_bad_value_raises_and_changes_nothing(trait: str, values: tuple[Any, ...], allowed: str) -> None:
    app = BiasExplorer(num_heads=3, length=5)
    before, state = app.figure.to_json(), repr(app)
    for value in values:
        with pytest.raises(BadValue, match=f"{trait} must be {allowed}.*got"):
            setattr(app, trait, value)
        with pytest.raises(BadValue, match=f"{trait} must be {allowed}.*got"):
            BiasExplorer(**{"num_heads": 3, trait: value})
    assert (app.figure.to_json(), repr(app)) == (before, state)


def test_head_is_enlarged_by_menu_or_click_and_all_are_shown_again() -> None:
    app = BiasExplorer(num_heads=8, length=40, show="bias")
    assert len(read(app)) < 8 * 40 * 40
    menu = control(app, "s-head")
    assert [label for label, _ in menu.options] == ["all", *map(str, range(1, 9))] and menu.label == "all"
    menu.label = "3"
    bias, found = alibi_bias(alibi_slopes(8), 40), read(app)
    assert set(found) == {(3, query, key) for query in range(40) for key in range(40)}
    assert found[3, 39, 0] == bias[2, 39, 0].item() and titles(app) == ["head 3, m = 1/8"]
    assert app.caption.startswith(f"Head 3 of 8, slope 1/8: 40 x 40, relative form, {MINUS}m (i {MINUS} j).")
    assert f"The bias ranges from {MINUS}4.88 to 0." in app.caption and "head's own" in app.details
    click(app.figure, "tiles", 5, 5)
    assert (app.head, menu.label) == (None, "all")
    z = named_trace(app.figure, "tiles").z
    click(app.figure, "tiles", *np.argwhere(z == 7)[0])
    assert (app.head, menu.label) == (7, "7")


def test_enlarged_head_stays_with_more_heads_and_ends_when_it_is_removed() -> None:
    app = BiasExplorer(num_heads=3, length=5, head=2)
    menu = control(app, "s-head")
    for heads, head, label in ((12, 2, "2"), (2, 2, "2"), (1, None, "all")):
        app.num_heads = heads
        assert (app.head, menu.label, len(menu.options)) == (head, label, heads + 1)
    assert set(read(app)) == {(1, query, key) for query in range(5) for key in range(5)}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({}, "Gray is masked: the keys after each query."),
        ({"causal": False}, "The keys ahead get a positive bias. Without a mask every query favors the last keys"),
        ({"form": "key"}, "a constant, so the softmax gives the same weights"),
        ({"form": "end", "causal": False}, "same weights. Without a mask every query favors the last keys"),
        ({"form": "symmetric", "causal": False}, "treated alike"),
        ({"law": "power", "causal": False}, "treated alike"),
        ({"form": "split", "causal": False}, "Gray is masked: the side to which a head does not attend."),
        ({"form": "split"}, "see only their own position"),
        ({"law": "window", "length": 20}, f"query and the keys to which the law gives {MINUS}infinity."),
    ],
)
def test_details_explain_the_form_and_what_is_masked(state: dict[str, Any], expected: str) -> None:
    assert expected in BiasExplorer(**{"num_heads": 4, "length": 8, **state}).details


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"show": "bias"}, f"ranges from {MINUS}31.5 (head 1) to 0."),
        ({"show": "bias", "num_heads": 12, "causal": False}, f"from {MINUS}44.5 (head 9) to 44.5 (head 9)."),
        ({"show": "bias", "num_heads": 2, "length": 5, "form": "key"}, "from 0 to 0.25 (head 1)."),
        ({"show": "bias", "num_heads": 1, "length": 1}, "The bias is 0."),
        ({}, "At distance 63, head 1 leaves under 0.1%, while head 8 still leaves 78%."),
        ({"form": "key"}, "At distance 63, head 1 leaves under 0.1%, while head 8 still leaves 78%."),
        ({"causal": False}, "At distance 63, head 1 leaves under 0.1%, while head 8 still leaves 78%."),
        ({"form": "split"}, "while head 4 still leaves 1.9%."),  # 5 to 8 look ahead
        ({"form": "split", "causal": False}, "while head 8 still leaves 78%."),
        ({"head": 7}, "At distance 63, head 7 leaves 61%."),
        ({"law": "window", "num_heads": 3, "length": 20}, "head 1 leaves 0%, while head 3 still leaves 100%."),
        ({"law": root}, "the bias is root(d), where d = i"),
        ({"law": root}, "At distance 63, head 1 leaves 1.9%, while head 8 still leaves 61%."),
    ],
)
def test_caption_gives_the_extremes_of_the_bias_or_of_the_weight_left(state: dict[str, Any], expected: str) -> None:
    assert expected in BiasExplorer(**state).caption


def test_caption_says_nothing_that_is_not_seen() -> None:
    one = BiasExplorer(num_heads=1, length=1)
    assert not re.search("distance|Gray|Click|uniform", words(one))
    assert "masked" not in one.figure.layout.annotations[0].text
    assert "Gray" not in words(BiasExplorer(num_heads=2, length=4, form="symmetric", causal=False))


def test_bias_is_one_choice_away_and_heads_that_look_uniform_are_named_on_a_linear_scale_only() -> None:
    app = BiasExplorer(num_heads=8, length=64)
    show, scale = control(app, "s-show"), control(app, "s-scale")
    assert (show.label, scale.disabled) == ("weight left, e^bias", True)
    show.label = "bias"
    assert (app.show, scale.disabled) == ("bias", False)
    assert app.figure.layout.coloraxis.colorbar.ticktext[0] == f"{MINUS}31.5"
    assert "On a linear color scale 3 heads look uniform (head 8 stays within 0.246)." in app.details
    linear = app.figure.layout.images[0].source
    app.scale = "logarithmic"
    assert "uniform" not in words(app) and app.figure.layout.annotations[0].text.startswith("bias, logarithmic scale")
    assert app.figure.layout.images[0].source != linear


def test_figure_fits_the_page_and_is_updated_in_place() -> None:
    app = BiasExplorer(num_heads=8, length=16)
    traces, wide = list(app.figure.data), app.figure.layout.width
    app.fit(500)
    app.length = 17
    assert app.figure.layout.width <= 510 < wide
    app.num_heads, app.length = 32, 256
    assert all(new is old for new, old in zip(app.figure.data, traces, strict=True))


def test_linear_is_alibi_and_other_laws_disable_the_controls_of_alibi() -> None:
    app = BiasExplorer(num_heads=3, length=5)
    before = app.snapshot()
    form, scheme, menu = (control(app, css) for css in ("s-form", "s-scheme", "s-law"))
    assert not form.disabled and not scheme.disabled and menu.value == "linear"
    app.law = laws.square_root
    assert (app.law, form.disabled, scheme.disabled) == ("square_root", True, True)
    assert all("m =" not in title for title in titles(app)), "a law has no slopes"
    app.law = root
    assert (app.law, menu.value) == (root, "root") and "law=root, form=" in repr(app)
    menu.value = "power"
    assert app.law == "power" and "the bias is power(d)" in app.caption
    assert "root" in dict(control(BiasExplorer(), "s-law").options), "a later app offers it too"
    app.law = laws.linear
    assert (app.law, form.disabled) == ("linear", False) and app.snapshot() == before


def nan_at_three(distance: Tensor, head: int, num_heads: int) -> Tensor:
    return torch.where(distance == 3, torch.nan, -distance.float())


def one_value(distance: Tensor, head: int, num_heads: int) -> Tensor:
    return torch.zeros(1)


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        (nan_at_three, "law 'nan_at_three', head 1 of 2: the bias at distance 3 is nan, expected a number or -inf"),
        (one_value, "law 'one_value', head 1 of 2: for distances [64] it must return a tensor [64], got shape [1]"),
    ],
)
def test_failing_law_is_named_in_code_and_in_the_menu_and_changes_nothing(
    law: Callable[..., Tensor], expected: str
) -> None:
    app = BiasExplorer(num_heads=2, length=5)
    before = app.figure.to_json(), repr(app), app.caption
    with pytest.raises(BadValue, match=re.escape(expected)):
        app.law = law
    menu = control(app, "s-law")
    menu.value = law.__name__
    assert expected in html.unescape(message(app)) and menu.value == "linear"
    assert (app.figure.to_json(), repr(app), app.caption) == before


def test_law_for_four_heads_asked_for_eight_is_a_message_in_the_app() -> None:
    app = BiasExplorer(law=for_four_heads, num_heads=4, length=5)
    slider = control(app, "s-heads")
    slider.value = 8
    assert "law 'for_four_heads', head 5 of 8: IndexError: list index out of range" in html.unescape(message(app))
    assert (app.num_heads, slider.value) == (4, 4)
    control(app, "s-law").value = "linear"
    slider.value = 8
    assert (message(app), app.num_heads) == ("", 8)
