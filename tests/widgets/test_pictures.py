"""The small pictures show what the library computes."""

from typing import Any

import numpy as np
import pytest

import alibi_viz as av
from alibi_viz.figures.matrices import named_trace
from alibi_viz.widgets import AddConstant, Forgetting, TugOfWar
from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.traits import BadValue


def drawn(app: App, name: str) -> Any:
    """The y of a trace."""
    return named_trace(app.figure, name).y


# Forgetting

FORTY_WORDS = "word " * 40


@pytest.mark.parametrize("half_life", [1, 7, 32])
def test_weights_halve_after_the_half_life(half_life: int) -> None:
    from_last_to_first = drawn(Forgetting(half_life=half_life, text=FORTY_WORDS), "weights")[::-1]
    halvings = np.arange(40) / half_life
    np.testing.assert_allclose(from_last_to_first, 0.5**halvings)


def test_words_are_cut_and_escaped_below_the_bars() -> None:
    app = Forgetting(text='an "unbelievably_long" <word>')
    assert app.figure.layout.xaxis.ticktext == ("an", '"unbelievably_l…', "&lt;word&gt;")


def test_a_half_life_of_one_is_one_word() -> None:
    assert " 1 word back" in Forgetting(half_life=1).caption


def test_no_word_keeps_a_tiny_percentage() -> None:
    assert "keeps under 0.1%" in Forgetting(half_life=1, text=FORTY_WORDS).caption


def test_a_single_word_is_refused() -> None:
    app = Forgetting(text="two words")
    with pytest.raises(BadValue, match="a text of 2 to 40 words, got 'one'"):
        app.text = "one"


# AddConstant


def weights_of(app: AddConstant) -> np.ndarray:
    """[query, key], 0 where masked."""
    return np.nan_to_num(named_trace(app.figure, "weights").z.astype(float))


@pytest.fixture(scope="module")
def weights_before() -> np.ndarray:
    return weights_of(AddConstant(constant=0))


@pytest.mark.parametrize("row", range(6))
def test_a_constant_in_a_row_changes_no_weight(row: int, weights_before: np.ndarray) -> None:
    app = AddConstant(where="row", index=row, constant=5)
    np.testing.assert_allclose(weights_of(app), weights_before, atol=1e-6)
    assert "cancels" in app.caption


@pytest.mark.parametrize(
    ("column", "rows"),
    [
        pytest.param(0, [1, 2, 3, 4, 5], id="0, as row 0 has one key: always 1"),
        pytest.param(1, [1, 2, 3, 4, 5], id="1"),
        pytest.param(2, [2, 3, 4, 5], id="2"),
        pytest.param(3, [3, 4, 5], id="3"),
        pytest.param(4, [4, 5], id="4"),
        pytest.param(5, [5], id="5"),
    ],
)
def test_a_constant_in_a_column_changes_all_rows_that_see_it(
    column: int, rows: list[int], weights_before: np.ndarray
) -> None:
    app = AddConstant(where="column", index=column, constant=5)
    change = np.abs(weights_of(app) - weights_before).max(axis=1)
    assert np.flatnonzero(change > 1e-3).tolist() == rows
    assert f"in {len(rows)} of 6 rows" in app.caption


@pytest.mark.parametrize("where", ["row", "column"])
def test_a_constant_of_zero_is_said_to_add_nothing(where: str) -> None:
    assert AddConstant(where=where, constant=0).caption.endswith("Nothing is added.")


# TugOfWar


@pytest.mark.parametrize(
    ("head", "content", "distance"),
    [
        pytest.param(1, 4, 8, id="steep and near"),
        pytest.param(3, 4, 16, id="less steep"),
        pytest.param(8, 12, 255, id="flat and far"),
        pytest.param(1, 0, 255, id="no content"),
    ],
)
def test_the_match_gets_the_weight_that_a_softmax_gives_it(
    head: int, content: int, distance: int
) -> None:
    match = 255 - distance
    logits = av.alibi_bias(av.alibi_slopes(8), 1, 256)[head - 1, 0]
    logits[match] += content
    weight = logits.softmax(-1)[match].item()
    app = TugOfWar(head=head, content=content, distance=distance)
    assert drawn(app, "match")[0] == pytest.approx(weight, abs=1e-6)


@pytest.mark.parametrize(
    ("distance", "winner"),
    [
        pytest.param(31, "Content wins", id="a distance that costs less"),
        pytest.param(32, "A tie", id="a distance that costs as much"),
        pytest.param(33, "Distance wins", id="a distance that costs more"),
    ],
)
def test_the_caption_names_the_winner(distance: int, winner: str) -> None:
    app = TugOfWar(head=3, content=4, distance=distance)  # of slope 1/8
    assert app.caption.startswith(f"{winner}: ")


@pytest.mark.parametrize(
    ("head", "content", "is_shown"),
    [
        pytest.param(3, 4, True, id="32 tokens back"),
        pytest.param(8, 12, False, id="3,072 tokens back"),
        pytest.param(1, 0, False, id="0 tokens back"),
    ],
)
def test_a_line_shows_where_the_two_tie_unless_it_is_out_of_sight(
    head: int, content: int, is_shown: bool
) -> None:
    (line,) = TugOfWar(head=head, content=content).figure.select_shapes({"name": "tie"})
    assert line.visible == is_shown
