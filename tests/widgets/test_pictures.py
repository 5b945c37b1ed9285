"""The small apps: their state reaches the picture and the caption, and the picture the state."""

import numpy as np
import pytest
import torch

from alibi_viz.figures import theme
from alibi_viz.widgets import AddConstant, Forgetting, TugOfWar
from alibi_viz.widgets.core.traits import BadValue
from tests.figures.reading import named_trace
from tests.rows import each_case
from tests.widgets.race.small_race import control


def drag(app, place):
    """Drag the handle of an app to a place on its axis, as the page does."""
    app.plot.dragged = {"handle": 0, "place": place}


# Forgetting


def test_half_life_and_square_root_reach_the_picture():
    app = Forgetting(half_life=7, square_root=True)
    assert named_trace(app.figure, "handle").x[0] == 20 - 7
    assert named_trace(app.figure, "square root")


def test_a_single_word_is_refused():
    app = Forgetting(text="two words")
    with pytest.raises(BadValue, match="a text of 2 to 40 words, got 'one'"):
        app.text = "one"


def colored_words(app):
    """The words whose bars have the color of the mark."""
    colors = named_trace(app.figure, "weights").marker.color
    words = app.text.split()
    return [word for word, color in zip(words, colors, strict=True) if color == theme.ORANGE]


def test_the_bridge_is_marked_at_the_start():
    app = Forgetting()
    assert colored_words(app) == ["bridge."]
    assert "“bridge”, 14 back, keeps 8.8%." in app.caption


def test_another_text_marks_its_first_word():
    app = Forgetting(text="one two three")
    assert app.word == 2
    app.text = "six words are in this text"
    assert app.word == 5
    assert colored_words(app) == ["six"]


def test_a_click_on_a_word_marks_it():
    app = Forgetting()
    app.plot.clicks("columns", {"x": 10})
    assert app.word == 10
    assert colored_words(app) == ["old"]
    assert "“old”, 10 back" in app.caption


def test_the_field_marks_a_word():
    app = Forgetting()
    control(app, "s-word").value = "3"
    assert colored_words(app) == ["where"]


def test_a_word_before_the_first_is_refused():
    app = Forgetting(text="one two three")
    with pytest.raises(BadValue, match="word must be an integer from 0 to 2 in this text, got 3"):
        app.word = 3
    assert app.word == 2


def test_a_dragged_handle_sets_the_half_life_and_snaps_to_its_word():
    app = Forgetting()
    drag(app, 12.8)
    assert app.half_life == 7
    assert named_trace(app.figure, "handle").x[0] == 13


@pytest.mark.parametrize(("x", "half_life"), [(25, 1), (-30, 32)], ids=["too far right", "left"])
def test_a_handle_that_is_dragged_out_of_the_picture_stays_within_the_limits(x, half_life):
    app = Forgetting()
    drag(app, x)
    assert app.half_life == half_life


# AddConstant


def weights_of(app):
    """[query, key], 0 where masked."""
    return np.nan_to_num(named_trace(app.figure, "weights").z)


@pytest.fixture(scope="module")
def weights_before():
    return weights_of(AddConstant(constant=0))


def test_the_logits_are_random_content_less_a_quarter_for_each_step_back():
    content = torch.randn(6, 6, generator=torch.Generator().manual_seed(1)).numpy()
    logits = named_trace(AddConstant(constant=0).figure, "logits").z
    for query, key in zip(*np.tril_indices(6), strict=True):
        expected = content[query, key] - (query - key) / 4
        assert logits[query, key] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("row", [0, 3, 5])
def test_a_constant_in_a_row_changes_no_weight(row, weights_before):
    app = AddConstant(where="row", index=row, constant=5)
    np.testing.assert_allclose(weights_of(app), weights_before, atol=1e-6)
    assert "cancels" in app.caption


@each_case(
    ("column", "rows"),
    {
        "the first, and row 0 has one key: always 1": (0, [1, 2, 3, 4, 5]),
        "one in the middle": (3, [3, 4, 5]),
        "the last": (5, [5]),
    },
)
def test_a_constant_in_a_column_changes_all_rows_that_see_it(column, rows, weights_before):
    app = AddConstant(where="column", index=column, constant=5)
    change = np.abs(weights_of(app) - weights_before).max(axis=1)
    assert np.flatnonzero(change > 1e-3).tolist() == rows
    assert f"in {len(rows)} of 6 rows" in app.caption


# TugOfWar


def test_slope_content_and_distance_reach_the_picture_and_the_caption():
    app = TugOfWar(head=3, content=4, distance=24)  # of slope 1/8
    assert list(app.figure.layout.yaxis.ticktext) == [
        "content <b>+4.0</b>",
        "distance <b>\N{MINUS SIGN}3.0</b>",
        "sum <b>+1.0</b>",
    ]
    match = named_trace(app.figure, "match")
    assert match.x[0] == 24
    assert f"the match gets {match.y[0]:.0%} of the weight" in app.caption


@pytest.mark.parametrize(("place", "distance"), [(7.6, 8), (0.2, 1), (9000.0, 255)])
def test_a_dragged_match_is_so_many_tokens_back(place, distance):
    app = TugOfWar()
    drag(app, place)
    assert app.distance == distance


def test_numbers_of_a_slider_with_stops_stand_only_in_its_field():
    assert control(TugOfWar(), "s-distance").readout is False


def test_the_slider_doubles_the_distance_in_eight_steps():
    stops = [int(stop) for stop in control(TugOfWar(), "s-distance").options]
    assert stops[0] == 1
    assert stops[-1] == 255
    assert stops.index(64) - stops.index(32) == 8
    assert {1, 2, 4, 8, 16, 32, 64, 128} <= set(stops)


def test_a_distance_between_two_stops_is_kept():
    app = TugOfWar()
    app.distance = 101
    assert app.distance == 101
    assert control(app, "s-distance").value == 99
    assert control(app, "s-distance-field").value == "101"


def test_the_button_plays_from_stop_to_stop():
    app = TugOfWar(distance=64)
    play = control(app, "s-distance-play")
    play.value += 8
    assert app.distance == 128
