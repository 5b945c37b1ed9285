"""SlopeExplorer, driven through its traits."""

import numpy as np

from alibi_viz import alibi_slopes
from alibi_viz.widgets import SlopeExplorer
from tests.figures.reading import named_trace


def test_the_figure_shows_the_slopes_of_both_schemes():
    app = SlopeExplorer(num_heads=6, scheme="geometric", compare="official")
    app.num_heads = 12
    for scheme in ("geometric", "official"):
        np.testing.assert_array_equal(named_trace(app.figure, scheme).y, alibi_slopes(12, scheme))


# The caption. Official slopes of 6 heads are those of 4 heads, then every other slope of 8 heads.
