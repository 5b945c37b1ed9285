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


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (
            {"num_heads": 12, "compare": None},
            "12 heads, official slopes. Steepest: head 9, slope 0.707; its weight halves every 0.98 tokens and is "
            "below 2% beyond 5.66. Flattest: head 8, slope 1/256; its weight halves every 177 tokens and is below 2% "
            "beyond 1,024.",
        ),
        (
            {"num_heads": 1, "compare": "halving"},
            "1 head, official slopes. Steepest: head 1, slope 1/256; its weight halves every 177 tokens and is below "
            "2% beyond 1,024. Official and halving slopes differ in 1 of 1 head, by up to a factor of 128.",
        ),
    ],
)
def test_caption_gives_the_steepest_and_flattest_head_in_tokens(state, expected):
    assert SlopeExplorer(**state).caption == expected


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 12, 16, 63, 64])
def test_caption_says_how_far_two_schemes_differ_and_explains_the_official_rule(heads):
    caption = SlopeExplorer(num_heads=heads).caption
    official, geometric = alibi_slopes(heads).double(), alibi_slopes(heads, "geometric").double()
    differ = int((official != geometric).sum())
    if heads in (1, 2, 16, 64):
        assert differ == 0 and "official and geometric agree exactly" in caption and "power of two" not in caption
        return
    factor = f"by up to a factor of {max((official / geometric).max(), (geometric / official).max()):.3g}."
    assert f"Official and geometric slopes differ in {differ} of {heads} heads, {factor}" in caption
    power = {3: 2, 6: 4, 12: 8, 63: 32}[heads]
    assert f"adds every other slope of {2 * power} heads until there are {heads}." in caption
    assert factor in SlopeExplorer(num_heads=heads, scheme="geometric", compare="official").caption


def test_caption_explains_nothing_that_is_not_compared():
    caption = SlopeExplorer(num_heads=6, scheme="geometric", compare="halving").caption
    assert "Geometric and halving slopes differ in 6 of 6 heads" in caption and "official" not in caption.lower()
    assert "power of two" not in SlopeExplorer(num_heads=4, compare="halving").caption
    assert "agree" not in SlopeExplorer(scheme="halving", compare="halving").caption
    assert "by up to a factor of 7.21 x 10^16." in SlopeExplorer(num_heads=64, compare="halving").caption
