"""What a reader sees first: the caption of an app as it opens, its limits, and its check boxes."""

import pytest

from tests.widgets.test_every_app import APPS, SMALL


def opened(name, **state):
    """An app as it opens, but surgery on a small model."""
    apps = SMALL if name == "SlopeSurgery" else APPS
    return apps[name](**state)


CAPTIONS = {
    "AddConstant": (
        "+3 on every logit of row 4: no weight changes. A constant in a row cancels in its softmax."
    ),
    "AttentionExplorer": (
        "Head 3 of 8, slope 1/8, bias on. Query 17 “cat” gives 63% of its weight to itself and the "
        "3 nearest tokens; without the bias 30%."
    ),
    "BiasExplorer": (
        "8 heads, 64 x 64, relative form, −m (i − j). At distance 63, head 1 leaves under 0.1%, "  # noqa: RUF001
        "while head 8 still leaves 78%."
    ),
    "Forgetting": (
        "A half-life of 4 words is a slope of 0.173: 4 words back, a word weighs half as much as "
        "the last one. “bridge”, 14 back, keeps 8.8%."
    ),
    "PositionZoo": (
        "200 tokens back is longer than in training, with the logit −12.5. The same straight line "  # noqa: RUF001
        "goes on (head 4 of 8, slope 1/16)."
    ),
    "PrecisionMicroscope": (
        "Head 1 of 8, key form in bfloat16: the 64 nearest keys of query 2,047 have 9 different "
        "biases. The largest error is 0.491, for query 1,036 and key 1,036: 88% instead of 39%."
    ),
    "SlopeExplorer": (
        "8 heads, official slopes: 1/2 (head 1, half-life 1.39 tokens) to 1/256 (head 8, half-life "
        "177). Official and geometric slopes agree exactly."
    ),
    "SpotTheBug": "Case 1 of 14, easy, causal: head 2 of 8, 16 tokens.",
    "TugOfWar": (
        "Content wins: a distance of 16 costs 2, content gives 4: the match gets 47% of the "
        "weight. They tie 32 tokens back."
    ),
    "TwoSwitches": (
        "As trained, rotary needs 5.96 bits per byte on texts of 1,024 bytes, and far keys get 98% "
        "of its attention. The numbers are means over 8 seeds, and the text below is by the model "
        "of seed 0."
    ),
    "WindowExplorer": (
        "Head 1, the steepest (slope 1/2), looks 33 steps back: keys beyond that have at most "
        "2^−24 of a query's weight together. On average, a head can leave out 37% of the pairs."  # noqa: RUF001
    ),
}


@pytest.mark.parametrize("name", CAPTIONS)
def test_app_opens_with_its_caption(name):
    assert opened(name).caption == CAPTIONS[name]


# The smallest and the largest value of a number, which a picture can bear
LIMITS = [
    pytest.param("AddConstant", "constant", -9, 9),
    pytest.param("AddConstant", "index", 0, 5),
    pytest.param("AttentionExplorer", "num_heads", 1, 32),
    pytest.param("AttentionExplorer", "query", 0, 71),
    pytest.param("BiasExplorer", "num_heads", 1, 32),
    pytest.param("BiasExplorer", "length", 1, 256),
    pytest.param("Forgetting", "half_life", 1, 32),
    pytest.param("Forgetting", "word", 0, 20),
    pytest.param("LengthLab", "length", 8, 128),
    pytest.param("LengthLab", "steps", 10, 2000),
    pytest.param("LengthLab", "seeds", 1, 5),
    pytest.param("PositionZoo", "distance", 0, 255),
    pytest.param("SlopeExplorer", "num_heads", 1, 64),
    pytest.param("SlopeSurgery", "factor", 1 / 16, 16),
    pytest.param("SlopeSurgery", "sinks", 0, 64),
    pytest.param("SlopeSurgery", "window", 1, 4096),
    pytest.param("TugOfWar", "content", 0, 12),
    pytest.param("TugOfWar", "distance", 1, 255),
    pytest.param("TugOfWar", "head", 1, 8),
    pytest.param("WindowExplorer", "num_heads", 1, 32),
]


@pytest.mark.parametrize(("name", "trait", "low", "high"), LIMITS)
def test_number_beyond_its_limits_is_refused(name, trait, low, high):
    app = opened(name)
    for value in (low - 1, high + 1):
        with pytest.raises(ValueError, match=f"{trait} must be "):
            setattr(app, trait, value)


def test_bias_of_the_attention_explorer_can_be_switched_off():
    app = opened("AttentionExplorer", bias=False)
    assert app.caption == (
        "Head 3 of 8, slope 1/8, bias off. Query 17 “cat” gives 30% of its weight to itself and "
        "the 3 nearest tokens; with the bias 63%."
    )


def test_without_the_causal_mask_the_relative_form_favors_keys_ahead():
    app = opened("BiasExplorer", causal=not opened("BiasExplorer").causal)
    assert app.caption.endswith("while head 8 still leaves 78%; keys ahead are favored.")


def test_square_root_forgets_less():
    app = opened("Forgetting", square_root=True)
    assert app.caption.endswith("keeps 8.8%, and with the square root 52%.")
