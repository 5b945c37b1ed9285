"""ComparisonExplorer, driven through its traits and its controls: what it shows and says are the
rows of its table."""

import pandas as pd
import pytest

from alibi_viz import lab
from alibi_viz.widgets import ComparisonExplorer
from tests.rows import each_case
from tests.tables import table
from tests.widgets.race.small_race import control, message, visible_controls


def losses(start, rise):
    """The losses of two seeds, which rise whenever the length doubles."""
    one_seed = {64: start, 128: start + rise, 256: start + 2 * rise}
    other_seed = {length: loss + 0.2 for length, loss in one_seed.items()}
    return [one_seed, other_seed]


# More labels than fit into the figure, in another order than that of the app
LONGER = table(
    "longer sequences",
    {
        "rotary": losses(2.0, rise=0.5),
        "alibi": losses(2.1, rise=0.0),
        "none": losses(2.2, rise=0.5),
        "sinusoidal": losses(2.3, rise=0.5),
        "fire": losses(2.4, rise=0.5),
        "forget": losses(2.5, rise=0.5),
        "t5": losses(2.6, rise=0.5),
        "kerple-log": losses(2.7, rise=0.5),
        "my law, steep": losses(2.8, rise=0.5),
    },
    length=64,
)
WINDOWED = table(
    "longer sequences",
    {"rotary": losses(2.0, rise=0.3), "alibi": losses(2.1, rise=0.0)},
    length=64,
    variant="window",
)
GAP = table(
    "gap",
    {
        "rotary": [{10: 0.5, 20: 1.0}, {10: 0.6, 20: 1.2}],
        "alibi": [{10: 0.0, 20: 0.0}, {10: 0.0, 20: 0.01}],
    },
    length=64,
)
NEEDLE = table(
    "needle",
    {
        "alibi": [{31: 0.95, 63: 0.92}, {31: 0.97, 63: 0.94}],
        "none": [{31: 0.91, 63: 0.1}, {31: 0.93, 63: 0.2}],
    },
)
RESULTS = pd.concat([LONGER, WINDOWED, GAP, NEEDLE])
FIRST_SEVEN = ("alibi", "sinusoidal", "rotary", "none", "kerple-log", "fire", "forget")

# What is shown


@each_case(
    ("options", "rows"),
    {
        "as trained": ({"question": "longer sequences"}, LONGER),
        "changed models": ({"variant": "window"}, WINDOWED),
        "another question": ({"question": "gap"}, GAP),
        "a question that changed models are not asked": (
            {"question": "needle", "variant": "window"},
            NEEDLE,
        ),
    },
)
def test_results_are_the_rows_of_the_question_and_the_variant(options, rows):
    shown = rows[rows["label"].isin(FIRST_SEVEN)]
    pd.testing.assert_frame_equal(ComparisonExplorer(RESULTS, **options).results, shown)


def test_curves_are_those_of_the_chosen_methods_with_their_names():
    figure = ComparisonExplorer(RESULTS, question="needle").figure
    groups = [trace.legendgroup for trace in figure.select_traces({"mode": "lines+markers"})]
    assert groups == ["alibi", "none"]
    assert len(list(figure.select_annotations({"name": "name of a curve"}))) == 2


# What is said


# Yardsticks


def yardsticks(text):
    """The heights of the lines beside losses up to 5, on a text with this fingerprint."""
    rows = table("longer sequences", {"none": [{64: 1.0, 256: 5.0}]}, length=64, text=text)
    lines = ComparisonExplorer(rows).figure.select_shapes({"name": "yardstick"})
    return [line.y0 for line in lines]


def test_losses_on_a_built_in_text_have_its_yardsticks():
    tales = lab.load_text()
    assert yardsticks(tales.fingerprint) == list(tales.yardsticks.values())
    assert yardsticks("0123456789abcdef") == [], "of an unknown text"


# What is offered


def test_only_questions_with_results_are_offered():
    menu = control(ComparisonExplorer(RESULTS), "s-question")
    offered = [
        lab.find_question(name).figure.title for name in ("longer sequences", "gap", "needle")
    ]
    assert list(dict(menu.options)) == offered


@each_case(
    ("question", "disabled"),
    {
        "asked of changed models": ("longer sequences", False),
        "asked of models as trained": ("gap", True),
    },
)
def test_variants_can_be_chosen_where_they_were_measured(question, disabled):
    app = ComparisonExplorer(RESULTS, question=question)
    assert control(app, "s-variant").disabled == disabled


@each_case(
    ("results", "question", "variant"),
    {
        "the first question that has results": (NEEDLE, "needle", "as trained"),
        "as trained, whatever comes first": (
            pd.concat([WINDOWED, LONGER]),
            "longer sequences",
            "as trained",
        ),
        "changed, without others": (WINDOWED, "longer sequences", "window"),
    },
)
def test_the_app_opens_with_what_there_is(results, question, variant):
    app = ComparisonExplorer(results)
    assert (app.question, app.variant) == (question, variant)


# Methods


def test_unfolded_methods_begin_with_the_common_ones():
    app = ComparisonExplorer(RESULTS)
    control(app, "s-more").value = True
    first_row = 4  # controls, see above
    boxes = visible_controls(app)[first_row:]
    assert boxes == [
        "s-alibi",
        "s-sinusoidal",
        "s-rotary",
        "s-none",
        "s-kerple-log",
        "s-fire",
        "s-forget",
        "s-t5",
        "s-my-law-steep",
    ]


def test_an_eighth_method_is_refused():
    app = ComparisonExplorer(RESULTS)
    box = control(app, "s-t5")
    box.value = True
    assert "methods must be at most 7" in message(app)
    assert not box.value
    assert app.methods == FIRST_SEVEN


def test_a_method_can_take_the_place_of_another():
    app = ComparisonExplorer(RESULTS)
    control(app, "s-t5").value = True  # refused, with a message
    control(app, "s-none").value = False
    control(app, "s-t5").value = True
    assert set(app.methods) == {*FIRST_SEVEN, "t5"} - {"none"}
    assert message(app) == ""


# Tables that are refused


@each_case(
    ("results", "message"),
    {
        "not a table": (
            "results",
            "results must be a table, got .*: lab.read_results reads that of a folder",
        ),
        "no rows": (
            RESULTS.head(0),
            "results must answer a question out of longer sequences, .*, got none",
        ),
        "two steps": (
            pd.concat([LONGER, LONGER.assign(step=9)]),
            "have one 'step': choose by that column, or label the models apart",
        ),
        "the same rows twice": (
            pd.concat([LONGER, LONGER]),
            "one row for a label, seed and x: label the models apart",
        ),
        "blocks of the text": (
            pd.concat([LONGER.assign(block=1), LONGER.assign(block=2)]),
            "for a label, seed and x: read them without `by_block`",
        ),
    },
)
def test_what_is_no_table_of_results_is_refused(results, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ComparisonExplorer(results)
