"""WindowExplorer, driven through its traits and its controls, without a browser."""

import re

import numpy as np
import pytest
import torch
from traitlets import TraitError

from alibi_viz import lab
from alibi_viz.lab.attention_sources import Reading, Words
from alibi_viz.lab.windows import head_windows
from alibi_viz.widgets import WindowExplorer
from tests.widgets.race.small_race import control, message

TEXT = "the cat saw the dog and the dog saw the cat " * 20  # 220 words, 880 bytes


def drawn(app: WindowExplorer) -> tuple[list[int], list[int]]:
    """The bounds and the needed windows in the figure."""
    return tuple(np.asarray(app.figure.data[trace].y).tolist() for trace in (1, 2))


def expected(app: WindowExplorer) -> tuple[list[int], list[int]]:
    table = head_windows(app.source.read(app.text, app.content, app.num_heads, 4096))
    return table["bound"].tolist(), table["needed"].tolist()


def test_built_in_text_of_4096_bytes_is_the_default() -> None:
    model = lab.published_model("alibi").model
    app = WindowExplorer(model)
    assert len(app.text.encode()) == 4096
    assert (app.num_heads, app.content) == (8, "layer 1")
    assert drawn(app) == expected(app)
    assert app.caption.startswith("Head 1, the steepest (slope 1/2), looks ")
    assert "Heads that look at all 4,096 tokens: 1 of 8. In all, " in app.caption
    assert "layer 1 of 2 of the model" in app.caption


@pytest.mark.parametrize("content", Words.contents)
def test_controls_change_the_figure(content: str) -> None:
    app = WindowExplorer(text=TEXT, num_heads=8)
    control(app, "s-content").label = content
    control(app, "s-heads").value = 4
    assert (app.content, app.num_heads) == (content, 4)
    assert drawn(app) == expected(app)
    control(app, "s-text").value = TEXT[:440]
    assert drawn(app) == expected(app)
    assert "110 tokens" in app.figure.layout.annotations[0].text
    assert message(app) == ""


def test_layers_of_a_model_have_windows_of_their_own() -> None:
    app = WindowExplorer(lab.published_model("alibi").model, text=TEXT)
    first = drawn(app)
    control(app, "s-content").index = 1
    assert app.content == "layer 2"
    assert drawn(app) == expected(app) != first


def test_short_text_leaves_nothing_out_and_a_long_one_is_cut() -> None:
    app = WindowExplorer(text="to be")
    assert app.caption.startswith("Every head looks at the whole text, 2 tokens: nothing can be left out.")
    app.text = "be"
    assert app.caption.startswith("Every head looks at the whole text, 1 token: nothing can be left out.")
    app.text = "a " * 5000
    assert "only the first 4,096 of 5,000 tokens are used" in control(app, "s-note").value


def test_heads_without_a_positive_slope_are_mentioned() -> None:
    class Flat(Words):
        def read(self, text: str, content: str, num_heads: int, longest: int) -> Reading:
            reading = super().read(text, content, num_heads, longest)
            slopes = torch.cat((torch.zeros(1), reading.slopes[1:]))
            return Reading(reading.tokens, reading.query, reading.key, slopes, reading.total, "")

    app = WindowExplorer(Flat(), text=TEXT * 3, num_heads=4)
    assert "Heads without a positive slope are not drawn: 1 of 4." in app.caption
    assert app.caption.startswith("Head 2, the steepest (slope 1/16)")
    app.num_heads = 1
    assert app.caption.startswith("Every head looks at the whole text, 660 tokens: nothing can be left out. Heads")


@pytest.mark.parametrize(
    ("trait", "value", "words"),
    [
        ("text", " ", "text must have at least one word"),
        ("num_heads", 33, "num_heads must be an integer from 1 to 32, got 33"),
        ("content", "layer 1", "content must be one of same word, equal, random, got 'layer 1'"),
    ],
)
def test_bad_value_raises_and_changes_nothing(trait: str, value: object, words: str) -> None:
    app = WindowExplorer(text=TEXT)
    before = repr(app), app.caption, app.figure.to_json()
    with pytest.raises((TraitError, ValueError), match=re.escape(words)):
        setattr(app, trait, value)
    assert (repr(app), app.caption, app.figure.to_json()) == before


def test_model_without_alibi_raises_and_an_empty_box_is_a_message() -> None:
    with pytest.raises(ValueError, match="position 'alibi', got 'rotary'"):
        WindowExplorer(lab.make_model("rotary"))
    app = WindowExplorer(text=TEXT)
    control(app, "s-text").value = ""
    assert "at least one word" in message(app)
    control(app, "s-text").value = "to be"
    assert (app.text, message(app)) == ("to be", "")
