"""BiasExplorer, driven through its traits and its controls, without a browser."""

import html
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from alibi_viz import alibi_bias, alibi_slopes, causal_mask, laws
from alibi_viz.bias import FORMS
from alibi_viz.figures.theme import named_trace
from alibi_viz.widgets import BiasExplorer
from alibi_viz.widgets.core.traits import BadValue
from tests.custom_laws import for_four_heads, root
from tests.figures.test_matrices import click
from tests.widgets.race.small_race import control, message

MINUS = "\N{MINUS SIGN}"


def read(app: BiasExplorer) -> dict[tuple[int, int, int], float | str]:
    """The biases in the hover texts: (head, query, key) -> bias."""
    layer = named_trace(app.figure, "tiles")
    return {
        (head, cell[0], cell[1]): cell[3]
        for heads, cells in zip(layer.z, layer.customdata, strict=True)
        for head, cell in zip(heads, cells, strict=True)
        if head is not None
    }


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("form", [*FORMS, "root"])
def test_hover_texts_give_the_bias_for_the_traits(form: str, causal: bool) -> None:
    app = BiasExplorer()
    app.num_heads, app.length, app.causal = 6, 10, causal
    if form == "root":
        app.law = root
        bias = (
            -0.5
            * (torch.arange(10)[:, None] - torch.arange(10)).abs().sqrt()
            / torch.arange(1, 7)[:, None, None]
        )
    else:
        app.form = form
        bias = alibi_bias(alibi_slopes(6), 10, form=form).expand(-1, 10, -1)
    hidden = bias.isinf() | (~causal_mask(10) & torch.tensor(causal))
    biases = zip(np.ndindex(6, 10, 10), bias.flatten().tolist(), hidden.flatten(), strict=True)
    expected = {
        (h + 1, q, k): "masked" if hide else pytest.approx(value, 1e-6)
        for (h, q, k), value, hide in biases
    }
    assert read(app) == expected


def test_head_is_enlarged_by_menu_or_click_and_all_are_shown_again() -> None:
    app = BiasExplorer(num_heads=8, length=40, show="bias")
    assert len(read(app)) < 8 * 40 * 40
    menu = control(app, "s-head")
    menu.label = "3"
    bias, found = alibi_bias(alibi_slopes(8), 40), read(app)
    assert set(found) == {(3, query, key) for query in range(40) for key in range(40)}
    assert found[3, 39, 0] == bias[2, 39, 0].item() and named_trace(app.figure, "titles").text == (
        "head 3, m = 1/8",
    )
    assert app.caption.startswith(
        f"Head 3 of 8, slope 1/8: 40 x 40, relative form, {MINUS}m (i {MINUS} j)."
    )
    assert f"The bias ranges from {MINUS}4.88 to 0." in app.caption
    click(app.figure, "tiles", 5, 5)
    assert (app.head, menu.label) == (None, "all")
    click(app.figure, "tiles", *np.argwhere(named_trace(app.figure, "tiles").z == 7)[0])
    assert (app.head, menu.label) == (7, "7")
    app.num_heads = 7
    assert BiasExplorer(num_heads=7, head=7).head == app.head == 7, "the last one"
    app.num_heads = 5
    assert (app.head, menu.label, len(menu.options)) == (None, "all", 6), (
        "the enlarged head was removed"
    )


@pytest.mark.parametrize("show", ["weight", "bias"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    "rule", [*({"form": form} for form in FORMS), {"law": "window"}, {"law": root}]
)
def test_caption_of_two_sentences_gives_the_extremes_drawn(
    rule: dict[str, Any], causal: bool, show: str
) -> None:
    app = BiasExplorer(num_heads=4, length=12, show=show, causal=causal, **rule)
    found, sentences = read(app), app.caption.split(". ")
    assert len(sentences) == 2 and control(app, "s-form").disabled == ("law" in rule)
    assert "law" not in rule or (f"(d), where d = |i {MINUS} j|" in sentences[0]) != causal
    if show == "bias":
        visible = [value for value in found.values() if value != "masked"]
        ends = [
            float(end.strip(".").replace(MINUS, "-"))
            for end in sentences[1].split(" from ")[1].split(" to ")
        ]
        assert ends == pytest.approx(
            [min(visible), max(visible)], rel=5e-3
        ) and not app.caption.endswith(f" {MINUS}0.")
        return
    heads = re.findall(r"head (\d) (?:still )?leaves ([\d.]+%|under)", sentences[1])
    assert sentences[1].startswith("At distance 11, head") and heads
    is_ahead = not causal and rule.get("form") in ("relative", "key", "end")
    assert sentences[1].endswith("; keys ahead are favored.") == is_ahead
    shares = []
    for head, percent in heads:
        row = [found[int(head), 11, key] for key in range(12)]
        if row[0] == "masked":  # the head looks ahead, or the law hides the key
            row = [found[int(head), 0, key] for key in range(11, -1, -1)]
        left = (
            0.0
            if row[0] == "masked"
            else np.exp(row[0] - max(value for value in row if value != "masked"))
        )
        assert percent == "under" or float(percent[:-1]) / 100 == pytest.approx(left, abs=0.005)
        shares.append(left)
    assert shares == sorted(shares), "the steepest head first"


def test_bias_has_colors_of_its_own_and_the_figure_fits_the_page() -> None:
    app = BiasExplorer(num_heads=8, length=64)
    wide, weights = app.figure.layout.width, app.figure.layout.images[0].source
    control(app, "s-show").label = "bias"
    assert app.figure.layout.coloraxis.colorbar.ticktext[0] == f"{MINUS}31.5"
    assert app.figure.layout.images[0].source != weights
    app.fit(500)
    assert (
        app.figure.layout.width <= 510 < wide
        and app.figure.layout.height != BiasExplorer().figure.layout.height
    )
    assert BiasExplorer(num_heads=1, length=4).caption.startswith("1 head, 4 x 4, ")
    assert "head 1 leaves under 0.1%" in BiasExplorer(length=256).caption


def nan_at_three(distance: Tensor, head: int, num_heads: int) -> Tensor:
    return torch.where(distance == 3, torch.nan, -distance.float())


def test_library_laws_keep_their_names_and_a_failing_law_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = BiasExplorer(num_heads=2, length=5, law=laws.window)
    assert app.law == control(app, "s-law").value == "window", "the library's own law"
    app.law = laws.linear
    before = app.figure.to_json(), repr(app), app.caption
    expected = (
        "law 'nan_at_three', head 1 of 2: the bias at distance 3 is nan, expected a number or -inf"
    )
    with pytest.raises(BadValue, match=expected):
        app.law = nan_at_three
    menu = control(app, "s-law")
    menu.value = "nan_at_three"
    assert expected in html.unescape(message(app)) and menu.value == "linear"
    assert (app.figure.to_json(), repr(app), app.caption) == before
    app.num_heads, app.law = 4, for_four_heads
    control(app, "s-heads").value = 8
    assert (
        "law 'for_four_heads', head 5 of 8: IndexError: list index out of range"
        in html.unescape(message(app))
    )
    assert (app.num_heads, control(app, "s-heads").value) == (4, 4)
    monkeypatch.setattr(root, "__name__", "linear")
    for law, words in (
        (root, "a law of your own cannot be called 'linear'"),
        (Tensor, "law must be a name or a func"),
    ):
        with pytest.raises(BadValue, match=words):
            app.law = law
