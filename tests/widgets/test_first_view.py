"""What a reader sees first: the caption of an app as it opens."""

import pytest

from alibi_viz.widgets import BiasExplorer, Forgetting
from tests.widgets.test_every_app import opened

pytestmark = pytest.mark.usefixtures("quick_writing")

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
}


@pytest.mark.parametrize("name", CAPTIONS)
def test_app_opens_with_its_caption(name):
    assert opened(name).caption == CAPTIONS[name]


def test_without_the_causal_mask_the_relative_form_favors_keys_ahead():
    app = BiasExplorer(causal=False)
    assert app.caption.endswith("while head 8 still leaves 78%; keys ahead are favored.")


def test_square_root_forgets_less():
    app = Forgetting(square_root=True)
    assert app.caption.endswith("keeps 8.8%, and with the square root 52%.")
