"""The small pictures show what the library computes."""

import numpy as np
import pytest
import torch

import alibi_viz as av
from alibi_viz.figures import theme
from alibi_viz.figures.theme import named_trace
from alibi_viz.widgets import AddConstant, Forgetting, PositionZoo, TugOfWar
from alibi_viz.widgets.core.traits import BadValue
from tests.figures.test_matrices import click
from tests.rows import each_case
from tests.widgets.race.small_race import control


def drawn(app, name):
    """The y of a trace."""
    return named_trace(app.figure, name).y


# Forgetting

FORTY_WORDS = "word " * 40


@pytest.mark.parametrize("half_life", [1, 7, 32])
def test_weights_halve_after_the_half_life(half_life):
    from_last_to_first = drawn(Forgetting(half_life=half_life, text=FORTY_WORDS), "weights")[::-1]
    halvings = np.arange(40) / half_life
    np.testing.assert_allclose(from_last_to_first, 0.5**halvings)


def test_words_are_cut_and_escaped_below_the_bars():
    app = Forgetting(text='an "unbelievably_long" <word>', word=0)
    assert app.figure.layout.xaxis.ticktext == ("an", '"unbelievably_l…', "<b>&lt;word&gt;</b>")


def test_a_half_life_of_one_is_one_word():
    assert " 1 word back" in Forgetting(half_life=1).caption


def test_no_word_keeps_a_tiny_percentage():
    assert "keeps under 0.1%" in Forgetting(half_life=1, text=FORTY_WORDS).caption


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


def test_the_label_of_the_marked_word_is_its_weight():
    app = Forgetting(half_life=7)
    (label,) = app.figure.select_annotations({"name": "word"})
    assert label.text == "<b>25%</b>"
    assert label.x == 6


def test_another_text_marks_its_first_word():
    app = Forgetting(text="one two three")
    assert app.word == 2
    app.text = "six words are in this text"
    assert app.word == 5
    assert colored_words(app) == ["six"]


def test_a_click_on_a_word_marks_it():
    app = Forgetting()
    click(app.figure, "columns", x=10)
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


def test_the_axis_ends_just_beyond_the_first_and_the_last_word():
    low, high = Forgetting(text="one two three").figure.layout.xaxis.range
    assert -1 < low <= -0.5  # a word is one wide
    assert 2.5 <= high < 3


def test_the_label_of_the_square_root_stands_where_its_curve_begins():
    app = Forgetting(square_root=True)
    (label,) = app.figure.select_annotations({"name": "square root"})
    curve = named_trace(app.figure, "square root")
    assert label.visible
    assert (label.x, label.y) == (curve.x[0], curve.y[0])


def handle(app):
    """The circle that changes the half-life."""
    return named_trace(app.figure, "handle")


def drag(app, place):
    """Drag the handle of an app to a place on its axis, as the page does."""
    (found,) = app.below_figure
    found.place = place


@pytest.mark.parametrize("half_life", [1, 7, 20])
def test_the_handle_stands_so_many_words_back(half_life):
    assert handle(Forgetting(half_life=half_life)).x[0] == 20 - half_life


def test_the_handle_of_a_half_life_beyond_the_text_stays_in_sight():
    app = Forgetting(half_life=25)
    assert -0.6 < handle(app).x[0] < 0
    (label,) = app.figure.select_annotations({"name": "half-life"})
    assert label.text == "half-life: 25 words, more than the text has"


def half_life_label(app):
    """Where the label of the half-life ends, and which side of it is at the height of the line."""
    (label,) = app.figure.select_annotations({"name": "half-life"})
    assert label.xanchor == "right"
    return label.x, label.yanchor


def test_the_label_of_a_short_half_life_is_left_of_its_handle():
    app = Forgetting(half_life=4)
    end, side = half_life_label(app)
    assert handle(app).x[0] - 1 < end < handle(app).x[0]
    assert side == "middle"


def test_the_label_of_a_long_half_life_is_above_the_line():
    end, side = half_life_label(Forgetting(half_life=10))
    last_word = 20
    assert last_word <= end < last_word + 0.6
    assert side == "bottom"


def test_the_half_life_is_above_the_bars():
    assert handle(Forgetting()).y[0] > 1


def test_a_dragged_handle_sets_the_half_life_and_snaps_to_its_word():
    app = Forgetting()
    drag(app, 12.8)
    assert app.half_life == 7
    assert handle(app).x[0] == 13


@pytest.mark.parametrize(("x", "half_life"), [(25, 1), (-30, 32)], ids=["too far right", "left"])
def test_a_handle_that_is_dragged_out_of_the_picture_stays_within_the_limits(x, half_life):
    app = Forgetting()
    drag(app, x)
    assert app.half_life == half_life


# What is dragged in other apps


@pytest.mark.parametrize(("place", "distance"), [(7.6, 8), (0.2, 1), (9000.0, 255)])
def test_a_dragged_match_is_so_many_tokens_back(place, distance):
    app = TugOfWar()
    drag(app, place)
    assert app.distance == distance
    assert named_trace(app.figure, "match").x[0] == distance


@pytest.mark.parametrize("method", ["alibi", "rotary", "sinusoidal"])
def test_a_dragged_distance_of_the_zoo_stays_in_the_picture(method):
    app = PositionZoo(method=method)
    drag(app, 99.4)
    assert app.distance == 99
    drag(app, -5.0)
    assert app.distance == 0


# AddConstant


def weights_of(app):
    """[query, key], 0 where masked."""
    return np.nan_to_num(named_trace(app.figure, "weights").z.astype(float))


@pytest.fixture(scope="module")
def weights_before():
    return weights_of(AddConstant(constant=0))


def test_the_logits_are_random_content_less_a_quarter_for_each_step_back():
    content = torch.randn(6, 6, generator=torch.Generator().manual_seed(1)).numpy()
    logits = named_trace(AddConstant(constant=0).figure, "logits").z.astype(float)
    for query, key in zip(*np.tril_indices(6), strict=True):
        expected = content[query, key] - (query - key) / 4
        assert logits[query, key] == pytest.approx(expected, abs=1e-6)


def test_a_logit_of_zero_is_white_and_a_weight_has_the_color_of_its_share():
    figure = AddConstant().figure
    logits = named_trace(figure, "logits")
    assert logits.zmin == -logits.zmax
    assert dict(logits.colorscale)[0.5] == "#FFFFFF"
    weights = named_trace(figure, "weights")
    assert (weights.zmin, weights.zmax) == (0, 1)
    assert [color for _, color in weights.colorscale] == list(theme.SEQUENTIAL)


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


@pytest.mark.parametrize("where", ["row", "column"])
def test_a_constant_of_zero_is_said_to_add_nothing(where):
    assert AddConstant(where=where, constant=0).caption.endswith("Nothing is added.")


# TugOfWar


@each_case(
    ("head", "content", "distance"),
    {
        "steep and near": (1, 4, 8),
        "less steep": (3, 4, 16),
        "flat and far": (8, 12, 255),
        "no content": (1, 0, 255),
    },
)
def test_the_match_gets_the_weight_that_a_softmax_gives_it(head, content, distance):
    match = 255 - distance
    logits = av.alibi_bias(av.alibi_slopes(8), 1, 256)[head - 1, 0]
    logits[match] += content
    weight = logits.softmax(-1)[match].item()
    app = TugOfWar(head=head, content=content, distance=distance)
    assert drawn(app, "match")[0] == pytest.approx(weight, abs=1e-6)


@each_case(
    ("distance", "winner"),
    {
        "a distance that costs less": (31, "Content wins"),
        "a distance that costs as much": (32, "A tie"),
        "a distance that costs more": (33, "Distance wins"),
    },
)
def test_the_caption_names_the_winner(distance, winner):
    app = TugOfWar(head=3, content=4, distance=distance)  # of slope 1/8
    assert app.caption.startswith(f"{winner}: ")


@each_case(
    ("head", "content", "is_shown"),
    {
        "32 tokens back": (3, 4, True),
        "3,072 tokens back": (8, 12, False),
        "0 tokens back": (1, 0, False),
    },
)
def test_a_line_shows_where_the_two_tie_unless_it_is_out_of_sight(head, content, is_shown):
    (line,) = TugOfWar(head=head, content=content).figure.select_shapes({"name": "tie"})
    assert line.visible == is_shown


def bar(app, name):
    """Where a bar of a pull starts and ends."""
    number = ["content", "distance", "sum"].index(name)
    pulls = named_trace(app.figure, "pulls")
    start = pulls.base[number]
    return start, start + pulls.x[number]


def test_what_distance_takes_begins_where_content_ends():
    app = TugOfWar(head=3, content=4, distance=16)  # of slope 1/8
    assert bar(app, "content") == (0, 4)
    assert bar(app, "distance") == (4, 2)
    assert bar(app, "sum") == (0, 2)


def test_pulls_are_named_with_their_numbers():
    app = TugOfWar(head=3, content=4, distance=255)
    texts = list(app.figure.layout.yaxis.ticktext)
    assert texts == ["content <b>+4.0</b>", "distance <b>−31.9</b>", "sum <b>−27.9</b>"]  # noqa: RUF001


@each_case(
    ("distance", "is_cut"),
    {"-16, the end of the scale": (160, False), "more": (161, True)},
)
def test_a_bar_that_is_longer_than_the_scale_is_broken(distance, is_cut):
    app = TugOfWar(head=3, content=4, distance=distance)
    assert named_trace(app.figure, "breaks").visible is is_cut
    assert named_trace(app.figure, "arrows").visible is is_cut
    low, _ = app.figure.layout.xaxis.range
    assert bar(app, "sum")[1] >= low


def test_each_bar_that_is_too_long_has_two_slashes():
    app = TugOfWar(head=3, content=4, distance=161)
    slashes = named_trace(app.figure, "breaks")
    assert list(slashes.y) == [1, 1, 2, 2], "content, in row 0, is never too long"
    _, end = bar(app, "sum")
    assert all(end < x < 0 for x in slashes.x)


def test_pulls_and_weights_are_beside_each_other():
    layout = TugOfWar().figure.layout
    assert layout.xaxis.domain[1] < layout.xaxis2.domain[0]


def test_numbers_of_a_slider_with_stops_stand_only_in_its_field():
    assert control(TugOfWar(), "s-distance").readout is False


def test_the_slider_doubles_the_distance_in_eight_steps():
    stops = [int(stop) for stop in control(TugOfWar(), "s-distance").options]
    assert stops[0] == 1
    assert stops[-1] == 255
    assert stops.index(64) - stops.index(32) == 8
    assert {1, 2, 4, 8, 16, 32, 64, 128} <= set(stops)


def test_the_slider_sets_the_distance():
    app = TugOfWar()
    control(app, "s-distance").value = 64
    assert app.distance == 64


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


def test_the_line_of_the_tie_has_a_label():
    (label,) = TugOfWar(head=3, content=4).figure.select_annotations({"name": "tie"})
    assert label.text == "tie, 32 back"
