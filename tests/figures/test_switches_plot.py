"""The picture of the two switches: four cells, one for each state."""

import math

import pandas as pd
import plotly.graph_objects as go
import pytest

from alibi_viz.figures import switches_figure, theme
from alibi_viz.figures.switches_plot import switch_outcomes, switches_picture, tint
from tests.figures.reading import named_trace
from tests.rows import each_case

TRAINED = "as trained"
BRAKE = "far brake"
STOP = "angles stop"
BOTH = "angles stop and far brake"
YARDSTICKS = {"letter frequencies": 4.5, "letter pairs": 3.3}
# {state: bits at 64 and at 1,024 bytes, and the share of the attention on far keys at 1,024}
MEANS = {
    TRAINED: (0.5, 6.0, 0.9),
    BRAKE: (0.5, 1.5, 0.25),
    STOP: (0.5, 3.0, 0.75),
    BOTH: (0.5, 0.75, 0.125),
}


def table():
    """Results of two models of each state, of which one is a little better than the other."""
    rows = []
    for state, (bits_short, bits_long, far_share) in MEANS.items():
        for seed, difference in enumerate((-0.05, 0.05)):
            losses = {"question": "longer sequences", "variant": state, "seed": seed}
            shares = {"question": "attention beyond L", "variant": state, "seed": seed}
            rows.append({**losses, "x": 64, "value": bits_short + difference})
            rows.append({**losses, "x": 1024, "value": bits_long + difference})
            rows.append({**shares, "x": 64, "value": 0.0})
            rows.append({**shares, "x": 1024, "value": far_share + difference})
    with_window = {"question": "longer sequences", "variant": "window", "seed": 0}
    rows.append({**with_window, "x": 64, "value": 0.5})
    rows.append({**with_window, "x": 1024, "value": 0.4})
    return pd.DataFrame(rows)


def words(figure, name):
    """The text of an annotation."""
    (annotation,) = figure.select_annotations({"name": name})
    return str(annotation.text)


def cell(figure, state):
    (shape,) = figure.select_shapes({"name": state})
    return shape


def opacity(color):
    """The last number of an rgba color."""
    return float(color.removesuffix(")").rpartition(",")[2])


@pytest.fixture(scope="module")
def figure():
    return switches_figure(table(), now=BRAKE, yardsticks=YARDSTICKS)


# The four cells


@each_case(
    ("state", "bits", "far_share"),
    {
        "as trained": (TRAINED, "<b>6.00</b>", "far keys get 90%"),
        "far brake": (BRAKE, "<b>1.50</b>", "far keys get 25%"),
        "angles stop": (STOP, "<b>3.00</b>", "far keys get 75%"),
        "both": (BOTH, "<b>0.75</b>", "far keys get 12%"),
    },
)
def test_a_cell_has_the_means_over_all_seeds_on_the_longest_texts(figure, state, bits, far_share):
    assert words(figure, f"bits {state}") == bits
    assert words(figure, f"far share {state}") == far_share


def test_no_change_is_at_the_upper_left_and_both_at_the_lower_right(figure):
    assert words(figure, f"name {TRAINED}") == "as trained"
    assert words(figure, f"name {BOTH}") == "both"
    assert figure.layout.yaxis.range == (2, 0), "the first row is on top"
    assert cell(figure, TRAINED).x1 < cell(figure, BRAKE).x0
    assert cell(figure, TRAINED).y1 < cell(figure, STOP).y0
    assert cell(figure, BOTH).x0 == cell(figure, BRAKE).x0
    assert cell(figure, BOTH).y0 == cell(figure, STOP).y0


def test_columns_and_rows_say_what_the_switches_do(figure):
    headings = [note.text for note in figure.layout.annotations if note.name is None]
    assert headings == [
        "far keys <b>open</b>",
        "far keys <b>braked</b>",
        "<b>new</b> angles",
        "<b>no new</b> angles",
    ]


def test_title_says_how_long_the_texts_are(figure):
    assert words(figure, "title") == "Bits per byte on texts of 1,024 bytes"


def test_words_below_give_the_numbers_a_meaning(figure):
    assert words(figure, "yardsticks") == (
        "With a sliding window, it needs 0.40.<br>"
        "Models that only count: letter frequencies 4.5, letter pairs 3.3."
    )


def test_a_window_that_was_not_measured_is_not_told():
    rows = table().query("variant != 'window'")
    figure = switches_figure(rows, yardsticks=YARDSTICKS)
    assert words(figure, "yardsticks").startswith("Models that only count")


def test_a_higher_loss_has_a_stronger_color(figure):
    from_worst = [opacity(cell(figure, state).fillcolor) for state in (TRAINED, STOP, BRAKE, BOTH)]
    assert from_worst == sorted(set(from_worst), reverse=True)


def test_no_loss_has_no_color_and_eight_bits_or_more_the_full_one():
    assert opacity(tint(0.0)) == 0
    assert opacity(tint(8.0)) == 1
    assert tint(9.5) == tint(8.0)


def test_the_present_state_alone_is_framed(figure):
    framed = [state for state in MEANS if cell(figure, state).line.color == theme.BLUE]
    assert framed == [BRAKE]


def test_no_cell_is_framed_by_default():
    figure = switches_figure(table())
    assert theme.BLUE not in {cell(figure, state).line.color for state in MEANS}


def test_a_state_that_was_not_measured_is_named():
    rows = table()
    incomplete = rows[rows["variant"] != STOP]
    with pytest.raises(ValueError, match="rows must answer 'longer sequences' for 'angles stop'"):
        switches_figure(incomplete)


@pytest.mark.parametrize("column", ["label", "setting"])
def test_rows_of_two_models_or_settings_are_not_mixed(column):
    rows = pd.concat([table().assign(**{column: "one"}), table().assign(**{column: "two"})])
    with pytest.raises(ValueError, match=f"rows must have one {column}, got one, two"):
        switches_figure(rows)


def test_an_unknown_state_is_refused():
    with pytest.raises(ValueError, match=r"now must be among as trained, .*, got 'both'"):
        switches_figure(table(), now="both")


def test_outcomes_count_the_seeds():
    assert switch_outcomes(table())[BOTH].seeds == 2


# The figure of the app


def drawn(now, shown, **options):
    outcomes = switch_outcomes(table())
    return go.Figure(
        switches_picture(
            outcomes, now=now, shown=shown, length=64, yardsticks=YARDSTICKS, **options
        )
    )


def test_a_state_that_is_not_shown_is_a_question_mark_without_a_curve():
    figure = drawn(TRAINED, [TRAINED])
    assert words(figure, f"bits {BOTH}") == "?"
    assert words(figure, f"far share {BOTH}") == ""
    assert cell(figure, BOTH).fillcolor == theme.SHADE
    assert [trace.name for trace in figure.data] == ["cells", TRAINED]


def test_a_curve_has_the_loss_at_each_length():
    curve = named_trace(drawn(STOP, [TRAINED, STOP]), STOP)
    assert list(curve.x) == [64, 1024]
    assert list(curve.y) == pytest.approx([0.5, 3.0])


def test_the_present_curve_is_blue_and_others_are_gray():
    figure = drawn(STOP, [TRAINED, STOP])
    assert named_trace(figure, STOP).line.color == theme.BLUE
    assert named_trace(figure, TRAINED).line.color == theme.GRAY


def test_the_name_of_a_curve_stands_at_its_end():
    (name,) = drawn(BOTH, [TRAINED, BOTH]).select_annotations({"name": f"curve {BOTH}"})
    assert name.text == "<b>both</b>"
    assert name.y == pytest.approx(0.75)


def test_lengths_beyond_training_are_shaded():
    figure = drawn(TRAINED, [TRAINED])
    shade = cell(figure, "longer than training")
    assert shade.x0 == 64
    assert math.log10(shade.x1) == pytest.approx(figure.layout.xaxis2.range[1])


def test_models_that_only_count_are_lines_beside_the_curves():
    figure = drawn(TRAINED, [TRAINED])
    labels = [shape.label.text.strip() for shape in figure.layout.shapes if shape.label.text]
    assert labels == ["letter frequencies alone, 4.50", "letter pairs alone, 3.30"]


def test_the_axis_of_losses_stays_when_more_states_are_shown():
    first = drawn(BOTH, [BOTH]).layout.yaxis2.range
    assert first == drawn(BOTH, MEANS).layout.yaxis2.range
    assert first[1] >= 6.0


def test_the_curves_are_below_the_cells_on_a_narrow_page():
    layout = drawn(TRAINED, [TRAINED], page_width=468).layout
    assert layout.yaxis2.domain[1] < layout.yaxis.domain[0]
