"""The caption of AttentionExplorer. Every share in it is recomputed from slopes and content."""

import re

import pytest
import torch

from alibi_viz import alibi_slopes, attention_trace
from alibi_viz.lab.attention_sources import Words
from alibi_viz.widgets import AttentionExplorer
from alibi_viz.widgets.attention.caption import NEAR

TEXT = "the cat saw the dog and the dog saw the cat"  # eleven words


def share(app: AttentionExplorer, biased: bool) -> torch.Tensor:
    """The weights of the app's text in its head, recomputed: [query, key]."""
    reading = Words().read(app.text, app.content, app.num_heads, 48)
    slopes = alibi_slopes(app.num_heads) if biased else None
    return attention_trace(reading.query, reading.key, slopes, causal=app.causal).weights[0, app.head - 1]


@pytest.mark.parametrize(("head", "query"), [(1, None), (3, 8), (8, 5)])
@pytest.mark.parametrize("bias", [True, False])
def test_caption_gives_the_share_of_the_nearest_tokens(head: int, query: int | None, bias: bool) -> None:
    app = AttentionExplorer(text=TEXT, num_heads=8, head=head, query=query, bias=bias)
    place = 10 if query is None else query
    near = [key for key in range(11) if key <= place and place - key <= NEAR]
    shares = [100 * float(share(app, switch)[place][near].sum()) for switch in (bias, not bias)]
    found = re.search(
        r"gives ([\d.]+)% of its weight to itself and the 3 nearest tokens; with\w* the bias ([\d.]+)%", app.caption
    )
    assert found, app.caption
    assert [float(number) for number in found.groups()] == pytest.approx(shares, abs=0.51)


def test_caption_gives_the_share_of_the_farthest_equal_word() -> None:
    app = AttentionExplorer(text=TEXT, num_heads=8, head=3)
    now, then = (100 * float(share(app, switch)[10, 1]) for switch in (True, False))
    found = re.search(r"The farthest other “cat”, 9 away, gets ([\d.]+)%; without the bias ([\d.]+)%", app.caption)
    assert found, app.caption
    assert [float(number) for number in found.groups()] == pytest.approx([now, then], abs=0.51)
    app.query = 5  # "and" stands there once
    assert "farthest" not in app.caption


def test_caption_of_a_token_that_sees_only_itself() -> None:
    assert "Query 0 “the” sees only itself" in AttentionExplorer(text=TEXT, query=0).caption
    assert "Query 0 “one” sees only itself" in AttentionExplorer(text="one", causal=False).caption
