"""SlopeExplorer, driven through its traits."""

import numpy as np
import pytest

from alibi_viz import alibi_slopes
from alibi_viz.slopes import SCHEMES
from alibi_viz.widgets import SlopeExplorer


@pytest.mark.parametrize("compare", [None, *SCHEMES])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("heads", [1, 6, 8, 63, 64])
def test_figure_and_caption_give_the_slopes_for_the_traits(heads: int, scheme: str, compare: str | None) -> None:
    app = SlopeExplorer()
    app.num_heads, app.scheme, app.compare = heads, scheme, compare
    slopes, other = alibi_slopes(heads, scheme), alibi_slopes(heads, compare or scheme)
    assert np.array_equal(app.figure.data[0].y, slopes) and app.figure.data[0].name == scheme
    assert app.figure.data[1].visible is (compare is not None)
    assert compare is None or np.array_equal(app.figure.data[1].y, other)
    assert f"(head {int(slopes.argmax()) + 1}, half-life " in app.caption
    assert f"(head {int(slopes.argmin()) + 1}, " in app.caption
    differ = int((slopes != other).sum())
    assert ("agree exactly" in app.caption) == (compare is not None and not differ)
    assert (f" differ in {differ} of {heads}, by up to a factor of " in app.caption) == (differ > 0)


def test_caption_gives_the_largest_factor() -> None:
    caption = SlopeExplorer(num_heads=12).caption
    assert caption.endswith(" Official and geometric slopes differ in 12 of 12, by up to a factor of 45.3.")
