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


def test_results_are_those_of_the_chosen_methods():
    app = ComparisonExplorer(RESULTS, methods=["t5", "rotary"])
    assert set(app.results["label"]) == {"rotary", "t5"}


def test_curves_are_those_of_the_chosen_methods_with_their_names():
    figure = ComparisonExplorer(RESULTS, question="needle").figure
    groups = [trace.legendgroup for trace in figure.select_traces({"mode": "lines+markers"})]
    assert groups == ["alibi", "none"]
    assert len(list(figure.select_annotations({"name": "name of a curve"}))) == 2


# What is said


@each_case(
    ("options", "caption", "details"),
    {
        "two sentences, and the others as details": (
            {},
            "In every seed ALiBi holds (+0.00 at most); rotary (+1.00), none (+1.00), sinusoidal "
            "(+1.00), fire (+1.00), forget (+1.00) and kerple-log (+1.00) fail. With sequences of "
            "256 bytes ALiBi is best in every seed.",
            "With sequences of 64 bytes rotary is best in every seed.",
        ),
        "methods without results": (
            {"variant": "window", "methods": ("alibi", "rotary", "none", "t5")},
            "Left out, because there are no such results: none and t5. In every seed ALiBi holds "
            "(+0.00 at most); rotary fails (+0.60).",
            "With sequences of 256 bytes ALiBi is best in every seed. With sequences of 64 bytes "
            "rotary is best in every seed.",
        ),
        "a label with a comma": (
            {"question": "gap", "methods": ("alibi", "my law, steep")},
            'Left out, because there are no such results: "my law, steep". From step 10 to step '
            "20, means over seeds: ALiBi +0.00 to +0.01 bits per byte.",
            "A small gap early on may only mean that little has been learned yet.",
        ),
        "a variant that was not measured": (
            {"question": "needle", "variant": "window", "methods": ("alibi", "none")},
            "This is as trained, because it wasn't measured with window. Solved, with at least 90% "
            "correct answers in every seed: ALiBi up to 63 and none up to 31.",
            "With examples of 63 tokens ALiBi is best in every seed. Guessing is right 6.2% of the "
            "time.",
        ),
        "no method": ({"methods": ()}, "No method is chosen: select at least one.", ""),
    },
)
def test_the_caption_says_what_holds_in_every_seed(options, caption, details):
    app = ComparisonExplorer(RESULTS, **options)
    assert app.caption == caption
    assert app.details == details


# Yardsticks


def yardsticks(text):
    """The heights of the lines beside losses up to 5, on a text with this fingerprint."""
    rows = table("longer sequences", {"none": [{64: 1.0, 256: 5.0}]}, length=64, text=text)
    lines = ComparisonExplorer(rows).figure.select_shapes({"name": "yardstick"})
    return [line.y0 for line in lines]


def test_losses_on_a_built_in_text_have_its_yardsticks():
    tales = lab.load_text()
    assert yardsticks(tales.fingerprint) == list(tales.yardsticks.values())


def test_losses_on_an_unknown_text_have_no_yardsticks():
    assert yardsticks("0123456789abcdef") == []


# What is offered


def test_only_questions_with_results_are_offered():
    menu = control(ComparisonExplorer(RESULTS), "s-question")
    assert list(dict(menu.options)) == ["longer sequences", "gap", "needle"]


def test_the_menu_chooses_the_question():
    app = ComparisonExplorer(RESULTS)
    control(app, "s-question").value = "gap"
    assert app.question == "gap"


def test_the_app_opens_with_the_first_question_that_has_results():
    assert ComparisonExplorer(NEEDLE).question == "needle"


def test_the_app_opens_with_the_models_as_trained():
    windowed_first = pd.concat([WINDOWED, LONGER])
    assert ComparisonExplorer(windowed_first).variant == "as trained"


def test_the_app_opens_with_changed_models_if_there_are_no_others():
    assert ComparisonExplorer(WINDOWED).variant == "window"


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


# Methods


def test_methods_are_folded_at_first():
    app = ComparisonExplorer(RESULTS)
    assert visible_controls(app) == ["s-question", "s-variant", "s-more", "s-reset"]


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


def test_the_app_opens_with_the_first_seven_methods():
    assert ComparisonExplorer(RESULTS).methods == FIRST_SEVEN


def test_an_app_with_seven_methods_has_a_full_repr():
    assert str(FIRST_SEVEN) in repr(ComparisonExplorer(RESULTS))


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
