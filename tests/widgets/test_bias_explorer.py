"""BiasExplorer, driven through its traits and its controls, without a browser."""

import html
from base64 import b64decode
from io import BytesIO

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from PIL import Image
from torch import Tensor

from alibi_viz import alibi_bias, alibi_slopes, causal_mask, laws
from alibi_viz.widgets import BiasExplorer
from alibi_viz.widgets.core.traits import BadValue
from tests.custom_laws import for_four_heads, root
from tests.figures.reading import named_trace
from tests.rows import each_case
from tests.widgets.race.small_race import control, message

NO_TEXT = np.inf


def hovered(app):
    """The biases in the hover texts, [heads, query, key].

    NaN where the text says "masked", and `NO_TEXT` where there is none.
    """
    biases = np.full((app.num_heads, app.length, app.length), NO_TEXT)
    tiles = named_trace(app.figure, "tiles")
    for heads, texts in zip(tiles.z, tiles.customdata, strict=True):
        for head, text in zip(heads, texts, strict=True):
            if head is None:  # a gap between two tiles
                continue
            query, key, _, bias, _ = text
            number = "nan" if bias == "masked" else bias.replace("\N{MINUS SIGN}", "-")
            biases[head - 1, query, key] = float(number)
    return biases


def state(app):
    return repr(app), app.caption, app.figure.to_json()


# Hover texts


@pytest.mark.parametrize(
    ("form", "causal"),
    [("relative", True), ("key", False), ("end", True), ("symmetric", False), ("split", False)],
)
def test_hover_texts_give_the_bias_in_every_form(form, causal):
    app = BiasExplorer(num_heads=3, length=5, form=form, causal=causal)
    bias = alibi_bias(alibi_slopes(3), 5, form=form).expand(-1, 5, -1)
    masked = bias.isinf()
    if causal:
        masked = masked | ~causal_mask(5)
    np.testing.assert_allclose(hovered(app), bias.masked_fill(masked, torch.nan), rtol=5e-3)


def test_hover_texts_give_the_bias_of_a_law():
    app = BiasExplorer(num_heads=2, length=3, law=root, causal=False)
    first_head = [
        [0, -0.5, -0.5 * 2**0.5],
        [-0.5, 0, -0.5],
        [-0.5 * 2**0.5, -0.5, 0],
    ]
    second_head = 0.5 * np.array(first_head)
    np.testing.assert_allclose(hovered(app), [first_head, second_head], rtol=5e-3)


def test_hover_texts_say_masked_where_a_law_hides_a_key():
    app = BiasExplorer(num_heads=1, length=12, law="window", causal=False)
    last_query = hovered(app)[0, 11]
    assert last_query[4:].tolist() == [0] * 8, "a window of 8 keys"
    assert np.isnan(last_query[:4]).all()


# The enlarged head


def test_every_cell_of_an_enlarged_head_has_a_hover_text():
    app = BiasExplorer(num_heads=8, length=40, head=3, causal=False)
    np.testing.assert_allclose(hovered(app)[2], alibi_bias(alibi_slopes(8), 40)[2], rtol=5e-3)


def test_only_the_enlarged_head_is_shown():
    app = BiasExplorer(num_heads=8, length=4, head=3)
    assert named_trace(app.figure, "titles").text == ("head 3, m = 1/8",)


def test_a_click_enlarges_the_head_under_the_pointer_and_another_shows_all_again():
    app = BiasExplorer(num_heads=8, length=4)
    app.plot.clicks("tiles", {"z": 7})
    assert app.head == 7
    app.plot.clicks("tiles", {"z": 7})
    assert app.head is None


def test_the_row_under_the_pointer_is_drawn_beside_the_tiles_while_it_is_there():
    app = BiasExplorer(num_heads=8, length=8)
    app.fit(1200)
    app.plot.pointed = {"trace": "tiles", "z": 7, "custom": [5, 2, 3, "", 0.5]}
    assert app.figure.layout.annotations[-1].text.endswith("head 7, query 5")
    app.num_heads = 6
    assert app.figure.layout.annotations[-1].text.endswith("head 3, query 7")


def test_the_button_shows_all_heads_again():
    app = BiasExplorer(num_heads=8, length=4, head=3)
    control(app, "s-all").click()
    assert app.head is None
    assert control(app, "s-all").layout.display == "none"


def test_all_are_shown_when_the_enlarged_head_goes():
    app = BiasExplorer(num_heads=8, length=4, head=7)
    app.num_heads = 5
    menu = control(app, "s-head")
    assert app.head is None
    assert menu.label == "all"
    assert len(menu.options) == 6, "all, and five heads"


# The caption. Four heads have the slopes 1/4, 1/16, 1/64 and 1/256.


# The figure


def test_the_figure_is_equally_high_for_any_number_of_heads():
    app = BiasExplorer(num_heads=1, length=4)
    height = app.figure.layout.height
    for heads in (8, 9, 32):
        app.num_heads = heads
        assert app.figure.layout.height == height
    app.head = 5
    assert app.figure.layout.height == height


# The image


def image_size(figure):
    """The width and height of the image of all tiles."""
    (image,) = figure.layout.images
    _, encoded = image.source.split(",")
    width, height = Image.open(BytesIO(b64decode(encoded))).size
    return width, height


@each_case(
    ("pixel_ratio", "image_pixels"),
    {
        "unknown screen": (0, 1.5),
        "coarse screen": (1, 1),
        "coarse screen, zoomed in": (1.25, 1.5),
    },
)
def test_the_image_has_as_many_pixels_as_the_screen_needs(pixel_ratio, image_pixels):
    app = BiasExplorer(num_heads=6, length=4)  # two rows of tiles
    app.fit(800, pixel_ratio)
    shown = go.Figure(app.plot.picture)
    (image,) = shown.layout.images
    assert image_size(shown) == (image.sizex * image_pixels, image.sizey * image_pixels)


@pytest.mark.parametrize("head", [None, 2], ids=["all heads", "one head"])
def test_a_saved_picture_does_not_depend_on_the_screen(head):
    app = BiasExplorer(num_heads=2, length=4, head=head)
    app.fit(800, pixel_ratio=2)
    on_fine_screen = app.figure
    app.fit(800, pixel_ratio=1)
    assert app.figure == on_fine_screen


# Laws


def nan_at_three(distance, head, num_heads):
    return torch.where(distance == 3, torch.nan, -distance.float())


NAN_AT_THREE = (
    "law 'nan_at_three', head 1 of 2: the bias at distance 3 is nan, expected a number or -inf"
)


def small(**options):
    return BiasExplorer(**{"num_heads": 2, "length": 5, **options})


def test_only_alibi_has_forms():
    app = small(law="linear")
    form = control(app, "s-form")
    assert not form.disabled
    app.law = "window"
    assert form.disabled


def test_a_law_of_the_library_keeps_its_name():
    app = small(law=laws.window)
    assert app.law == "window"
    assert control(app, "s-law").value == "window"


def test_a_law_that_fails_is_refused_and_changes_nothing():
    app = small()
    before = state(app)
    with pytest.raises(BadValue, match=NAN_AT_THREE):
        app.law = nan_at_three
    assert state(app) == before


def test_a_law_that_fails_cannot_be_chosen_from_the_menu():
    app = small()
    with pytest.raises(BadValue):
        app.law = nan_at_three  # the menu offers it from now on
    menu = control(app, "s-law")
    menu.value = "nan_at_three"
    assert NAN_AT_THREE in html.unescape(message(app))
    assert menu.value == "linear"


def test_heads_for_which_a_law_fails_are_taken_back():
    app = small(num_heads=4, law=for_four_heads)
    slider = control(app, "s-heads")
    slider.value = 8
    expected = "law 'for_four_heads', head 5 of 8: IndexError: list index out of range"
    assert expected in html.unescape(message(app))
    assert app.num_heads == 4
    assert slider.value == 4


def test_an_own_law_cannot_have_the_name_of_another():
    def linear(distance, head, num_heads):
        return -distance.float()

    with pytest.raises(BadValue, match="a law of your own cannot be called 'linear'"):
        small(law=linear)


def test_a_class_is_no_law():
    with pytest.raises(BadValue, match="law must be a name or a func"):
        small(law=Tensor)
