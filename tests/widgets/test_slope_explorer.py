"""SlopeExplorer, driven through its traits."""

import numpy as np
import pytest

from alibi_viz import alibi_slopes
from alibi_viz.slopes import SCHEMES
from alibi_viz.widgets import SlopeExplorer


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("heads", [1, 2, 6, 8, 12, 64])
def test_figure_shows_the_slopes_for_the_traits(heads, scheme):
    app = SlopeExplorer()
    app.num_heads, app.scheme, app.compare = heads, scheme, "halving"
    main, other = app.figure.data[:2]
    assert np.array_equal(main.y, alibi_slopes(heads, scheme).numpy())
    assert np.array_equal(other.y, alibi_slopes(heads, "halving").numpy())
    assert (main.name, other.name) == (scheme, "halving")
    app.compare = None
    assert app.figure.data[1].visible is False


def test_caption_gives_the_steepest_and_flattest_head_in_tokens():
    caption = SlopeExplorer(num_heads=12, compare=None).caption
    assert "12 heads, official slopes." in caption
    assert "Steepest: head 9, slope 0.707; its weight halves every 0.98 tokens and is below 2% beyond 5.66." in caption
    assert "Flattest: head 8, slope 1/256; its weight halves every 177 tokens and is below 2% beyond 1,024." in caption


def test_caption_of_one_head():
    assert SlopeExplorer(num_heads=1, compare="halving").caption == (
        "1 head, official slopes. Steepest: head 1, slope 1/256; its weight halves every 177 tokens and is below 2% "
        "beyond 1,024. Official and halving slopes differ in 1 of 1 head, by up to a factor of 128."
    )


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16, 32, 64])
def test_official_and_geometric_agree_at_powers_of_two(heads):
    assert "official and geometric agree exactly" in SlopeExplorer(num_heads=heads).caption


@pytest.mark.parametrize(("heads", "power"), [(3, 2), (6, 4), (12, 8), (63, 32)])
def test_official_and_geometric_differ_elsewhere_and_caption_explains_why(heads, power):
    caption = SlopeExplorer(num_heads=heads).caption
    official, geometric = alibi_slopes(heads).double(), alibi_slopes(heads, "geometric").double()
    differ = int((official != geometric).sum())
    factor = max(float((official / geometric).max()), float((geometric / official).max()))
    assert (
        f"Official and geometric slopes differ in {differ} of {heads} heads, by up to a factor of {factor:.3g}."
        in caption
    )
    assert f"adds every other slope of {2 * power} heads until there are {heads}." in caption
    assert (
        f"by up to a factor of {factor:.3g}."
        in SlopeExplorer(num_heads=heads, scheme="geometric", compare="official").caption
    )


def test_caption_does_not_explain_the_official_rule_at_a_power_of_two():
    caption = SlopeExplorer(num_heads=4, compare="halving").caption
    assert "Official and halving slopes differ in 4 of 4 heads" in caption
    assert "power of two" not in caption


def test_caption_does_not_mention_the_official_rule_between_other_schemes():
    caption = SlopeExplorer(num_heads=6, scheme="geometric", compare="halving").caption
    assert "Geometric and halving slopes differ in 6 of 6 heads" in caption
    assert "official" not in caption.lower()


def test_caption_writes_huge_factors_as_powers_of_ten():
    assert "by up to a factor of 7.21 x 10^16." in SlopeExplorer(num_heads=64, compare="halving").caption


def test_scheme_is_not_compared_with_itself():
    assert "agree" not in SlopeExplorer(scheme="halving", compare="halving").caption
