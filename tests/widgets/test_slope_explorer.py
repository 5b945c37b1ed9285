"""SlopeExplorer, driven through its traits."""

import numpy as np

from alibi_viz import alibi_slopes
from alibi_viz.widgets import SlopeExplorer
from tests.figures.reading import named_trace
from tests.rows import each_case


def test_the_figure_shows_the_slopes_of_both_schemes():
    app = SlopeExplorer(num_heads=6, scheme="geometric", compare="official")
    app.num_heads = 12
    for scheme in ("geometric", "official"):
        np.testing.assert_array_equal(named_trace(app.figure, scheme).y, alibi_slopes(12, scheme))


def test_the_slopes_of_the_other_scheme_can_be_hidden():
    app = SlopeExplorer(compare="halving")
    app.compare = None
    assert [trace.name for trace in app.figure.data] == ["official", "lines"]


# The caption. Official slopes of 6 heads are those of 4 heads, then every other slope of 8 heads.


@each_case(
    ("heads", "scheme", "ends"),
    {
        "1": (1, "official", "1 head, official slopes: 1/256 (head 1, half-life 177 tokens)."),
        "6, where the steepest is not the first": (
            6,
            "official",
            "6 heads, official slopes: 1/2 (head 5, half-life 1.39 tokens) to 1/256 (head 4, "
            "half-life 177).",
        ),
        "6, geometric": (
            6,
            "geometric",
            "6 heads, geometric slopes: 0.397 (head 1, half-life 1.75 tokens) to 1/256 (head 6, "
            "half-life 177).",
        ),
    },
)
def test_the_caption_gives_the_steepest_and_the_flattest_head(heads, scheme, ends):
    assert SlopeExplorer(num_heads=heads, scheme=scheme, compare=None).caption == ends


@each_case(
    ("heads", "scheme", "compare", "comparison"),
    {
        "another number of heads": (
            6,
            "official",
            "geometric",
            # Head 5: 2^-1 and 2^(-8 * 5/6)
            "Official and geometric slopes differ in 6 of 6, by up to a factor of 50.8.",
        ),
        "some heads": (
            12,
            "official",
            "halving",
            # Head 12: 2^-3.5 and 2^-12
            "Official and halving slopes differ in 4 of 12, by up to a factor of 362.",
        ),
        "the same": (63, "halving", "halving", "Halving and halving slopes agree exactly."),
    },
)
def test_the_caption_says_how_two_schemes_differ(heads, scheme, compare, comparison):
    app = SlopeExplorer(num_heads=heads, scheme=scheme, compare=compare)
    assert app.caption.endswith(f"). {comparison}")
