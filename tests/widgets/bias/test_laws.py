"""BiasExplorer with other laws than ALiBi's: the tiles, the caption, the menu, and laws that fail."""

import html
import re
from collections.abc import Callable, Iterator

import pytest
import torch
from ipywidgets import Dropdown
from torch import Tensor

from alibi_viz import laws
from alibi_viz.models import Position
from alibi_viz.widgets import BiasExplorer
from alibi_viz.widgets.core.traits import BadValue
from tests.custom_laws import for_four_heads, root
from tests.widgets.bias.test_explorer import read
from tests.widgets.core.test_app import control, message

MINUS = "\N{MINUS SIGN}"


pytestmark = pytest.mark.usefixtures("forget_custom_methods")


@pytest.mark.parametrize("causal", [True, False])
def test_hover_texts_give_the_bias_of_the_law(causal: bool) -> None:
    app = BiasExplorer(law=root, num_heads=3, length=7, causal=causal)
    found = read(app)
    assert len(found) == 3 * 7 * 7
    for (head, query, key), value in found.items():
        if causal and key > query:
            assert value == "masked"
        else:
            assert value == pytest.approx(-0.5 * abs(query - key) ** 0.5 / head, abs=1e-6)


def test_caption_says_what_is_seen() -> None:
    app = BiasExplorer(law=root)
    assert app.caption == (
        f"8 heads, 64 x 64, the bias is root(d), where d = i {MINUS} j. Color shows e^bias: the weight left to a key "
        "of equal content, relative to the most favored key. At distance 63, head 1 leaves 1.9%, while head 8 still "
        "leaves 61%. Gray is masked: the keys after each query. Click a head to enlarge it."
    )
    app.causal, app.show, app.head = False, "bias", 2
    assert app.caption == (
        f"Head 2 of 8: 64 x 64, the bias is root(d), where d = |i {MINUS} j|. The bias ranges from {MINUS}1.98 to 0. "
        "Keys before and after a query are treated alike, as in an encoder. The color scale is this head's own. "
        "Click the tile to see all heads."
    )


def test_keys_to_which_a_law_gives_minus_infinity_are_masked() -> None:
    app = BiasExplorer(law="window", num_heads=2, length=20)
    found = read(app)
    assert found[1, 19, 12] == 0 and found[1, 19, 11] == "masked"
    assert "At distance 19, head 1 leaves 0%." in BiasExplorer(law="window", num_heads=1, length=20).caption
    assert "At distance 19, head 1 leaves 0%, while head 3 still leaves 100%." in (
        BiasExplorer(law="window", num_heads=3, length=20).caption
    )
    assert f"the keys after each query and the keys to which the law gives {MINUS}infinity." in app.caption
    assert "The bias is 0." in BiasExplorer(law="window", num_heads=1, length=20, show="bias").caption


def test_linear_is_alibi_and_other_laws_disable_the_controls_of_alibi() -> None:
    app = BiasExplorer(num_heads=3, length=5)
    before = app.snapshot()
    form, scheme = control(app, Dropdown, "s-form"), control(app, Dropdown, "s-scheme")
    assert not form.disabled and not scheme.disabled
    app.law = laws.square_root
    assert (app.law, form.disabled, scheme.disabled) == ("square_root", True, True)
    assert all("m =" not in title for title in app.figure.data[1].text), "a law has no slopes"
    app.law = laws.linear
    assert (app.law, form.disabled) == ("linear", False)
    assert app.snapshot() == before


def test_menu_offers_the_laws_of_the_package_and_the_users_own() -> None:
    app = BiasExplorer(num_heads=3, length=5)
    menu = control(app, Dropdown, "s-law")
    assert [text for text, _ in menu.options] == laws.__all__
    assert menu.value == "linear"
    app.law = root
    assert (app.law, menu.value) == (root, "root")
    assert repr(app).startswith("BiasExplorer(num_heads=3, length=5, show='weight', law=root, form=")
    menu.value = "power"
    assert app.law == "power" and "the bias is power(d)" in app.caption
    menu.value = "root"
    assert app.law is root
    assert "root" in dict(control(BiasExplorer(), Dropdown, "s-law").options), "a later app offers it too"


def test_new_definition_of_the_same_name_is_drawn() -> None:
    app = BiasExplorer(law=root, num_heads=1, length=5)

    def changed(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -2.0 * distance

    changed.__name__ = "root"
    app.law = changed
    assert read(app)[1, 4, 0] == -8
    assert control(app, Dropdown, "s-law").value == "root"


def nan_at_three(distance: Tensor, head: int, num_heads: int) -> Tensor:
    return torch.where(distance == 3, torch.nan, -distance.float())


def one_value(distance: Tensor, head: int, num_heads: int) -> Tensor:
    return torch.zeros(1)


def random_values(distance: Tensor, head: int, num_heads: int) -> Tensor:
    return torch.rand(len(distance))


def needs_numpy(distance: Tensor, head: int, num_heads: int) -> Tensor:
    return distance.no_such_method()


@pytest.mark.parametrize(
    ("law", "words"),
    [
        (nan_at_three, "law 'nan_at_three', head 1 of 2: the bias at distance 3 is nan, expected a number or -inf"),
        (one_value, "law 'one_value', head 1 of 2: for distances [64] it must return a tensor [64], got shape [1]"),
        (random_values, "it must depend on nothing but its arguments"),
        (needs_numpy, "law 'needs_numpy', head 1 of 2: AttributeError: "),
        ("root", "law must be one of linear, logarithmic, "),
        (3, "law must be a name or a function law(distance, head, num_heads), got 3"),
        (Position, "law must be a name or a function law(distance, head, num_heads)"),
    ],
)
def test_bad_law_is_named_and_changes_nothing(law: Callable[..., Tensor] | str | int, words: str) -> None:
    app = BiasExplorer(num_heads=2, length=5)
    before = app.figure.to_json(), repr(app), app.caption
    with pytest.raises(BadValue, match=re.escape(words)):
        app.law = law
    assert (app.figure.to_json(), repr(app), app.caption) == before
    with pytest.raises(ValueError, match=re.escape(words)):
        BiasExplorer(law=law, num_heads=2, length=5)


def test_law_for_four_heads_asked_for_eight_is_a_message_in_the_app() -> None:
    app = BiasExplorer(law=for_four_heads, num_heads=4, length=5)
    slider = next(child for child in walk(app) if "s-heads" in child._dom_classes)
    slider.value = 8
    assert "law 'for_four_heads', head 5 of 8: IndexError: list index out of range" in html.unescape(message(app))
    assert (app.num_heads, slider.value) == (4, 4)
    slider.value = 3
    assert message(app) == "" and app.caption.startswith("3 heads, 5 x 5, the bias is for_four_heads(d)")
    control(app, Dropdown, "s-law").value = "linear"
    slider.value = 8
    assert (message(app), app.num_heads) == ("", 8)


def test_bad_law_chosen_in_the_menu_is_a_message_in_the_app() -> None:
    app = BiasExplorer(num_heads=2, length=5)
    with pytest.raises(BadValue):
        app.law = nan_at_three
    menu = control(app, Dropdown, "s-law")
    menu.value = "nan_at_three"
    assert "the bias at distance 3 is nan" in message(app)
    assert (menu.value, app.law) == ("linear", "linear")


def test_own_law_cannot_replace_alibi() -> None:
    def linear(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -distance.float()

    with pytest.raises(BadValue, match="a law of your own cannot be called 'linear', which is ALiBi"):
        BiasExplorer(law=linear)


def walk(widget: object) -> Iterator[object]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from walk(child)
