"""ComparisonExplorer, driven through its traits: what it shows and says are the rows of its
table."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from alibi_viz import lab, study
from alibi_viz.measure import sentences
from alibi_viz.measure.table import over_seeds
from alibi_viz.widgets import ComparisonExplorer
from alibi_viz.widgets.core.traits import BadValue
from tests.tables import table
from tests.widgets.race.small_race import control, visible_controls

LABELS = [
    "rotary",
    "alibi",
    "none",
    "sinusoidal",
    "fire",
    "forget",
    "t5",
    "cope",
    "kerple-log",
    "a, b",
    "decay",
]
SHOWN = ("alibi", "sinusoidal", "rotary", "none", "fire", "forget", "t5")


def words(app: ComparisonExplorer) -> str:
    """The caption, of at most two sentences, and the details."""
    assert app.caption.count(". ") <= 1, app.caption
    return f"{app.caption} {app.details}"


def values(labels: list[str], xs: list[int]) -> dict[str, list[dict[int, float]]]:
    """Three seeds of each label."""
    return {
        label: [dict(zip(xs, RANDOM.random(len(xs)), strict=True)) for _ in range(3)]
        for label in labels
    }


RANDOM, LENGTHS = np.random.default_rng(0), [64, 128, 256, 512, 1024]
TABLE = pd.concat(
    [
        table("longer sequences", values(LABELS, LENGTHS), 64),
        table("longer sequences", values(["rotary", "alibi"], LENGTHS), 64, variant="window"),
        table("gap", values(LABELS[:4], [10, 20]), 64),
        table("needle", values(["alibi", "none"], [31, 63]), 32),
    ]
)


@pytest.mark.parametrize(
    ("question", "variant", "shown"),
    [
        ("longer sequences", "as trained", SHOWN),
        ("longer sequences", "window", ("alibi", "rotary")),
        ("gap", "as trained", ("alibi", "sinusoidal", "rotary", "none")),
        ("needle", "window", ("alibi", "none")),  # is not asked of changed models
    ],
)
def test_rows_and_means_on_screen_are_those_of_the_table(
    question: str, variant: str, shown: tuple[str, ...]
) -> None:
    app = ComparisonExplorer(TABLE)
    app.variant, app.question = variant, question
    asked = variant if question == "longer sequences" else "as trained"
    rows = TABLE[
        (TABLE["question"] == question) & (TABLE["variant"] == asked) & TABLE["label"].isin(SHOWN)
    ]
    pd.testing.assert_frame_equal(app.results, rows)
    means = {trace.legendgroup: list(trace.y) for trace in app.figure.data[:7] if trace.visible}
    assert means == {
        label: pytest.approx(over_seeds(rows)["mean"][label].tolist()) for label in shown
    }
    assert app.caption.startswith(
        "This is as trained, because it wasn't measured with window."
    ) == (asked != variant)
    left_out = [label for label in SHOWN if label not in shown]
    told = sentences.sentences(lab.find_question(question).findings(rows))
    told = [f"Left out, because there are no such results: {sentences.join(left_out)}."] * bool(
        left_out
    ) + told
    assert words(app).strip().endswith(" ".join(told))
    assert control(app, "s-variant").disabled == (question != "longer sequences")


def test_the_published_results_can_be_opened_at_the_twelve_claims() -> None:
    app = ComparisonExplorer(question="twelve claims")
    table = study.verdict_table(study.published_results(by_block=True))
    drawn = [
        (text, x)
        for trace in app.figure.data
        for x, (text, _) in zip(trace.x, trace.customdata, strict=True)
    ]
    assert len(drawn) == len(table) and {text for text, _ in drawn} == set(table["text"])
    assert {text for text, x in drawn if x > 0} == set(table.query("margin > 0")["text"])
    tales, python = (
        dict(own[["claim", "verdict"]].values) for _, own in table.groupby("setting", sort=False)
    )
    counts = [
        [*tales.values()].count(verdict) for verdict in ("seen here", "not seen here", "can't tell")
    ]
    counts += [sum(tales[claim] == verdict for claim, verdict in python.items()), len(python)]
    assert app.caption.startswith("Of twelve claims") and re.findall(r"\d+", app.caption) == [
        *map(str, counts)
    ]
    assert app.caption.count(". ") == 1 and control(app, "s-more").disabled, (
        "they are about all methods"
    )
    with pytest.raises(BadValue, match="question must be one of"):
        ComparisonExplorer(TABLE, question="twelve claims")


def test_only_questions_with_results_are_offered_and_at_most_seven_methods_are_shown() -> None:
    app = ComparisonExplorer(TABLE)
    menu = control(app, "s-question")
    assert list(dict(menu.options)) == ["longer sequences", "gap", "needle"]
    menu.value = "gap"
    assert app.question == "gap"
    assert ComparisonExplorer(TABLE.query("question == 'needle'")).question == "needle", (
        "the first one"
    )
    assert ComparisonExplorer(TABLE.query("variant == 'window'")).variant == "window", (
        "there is no other"
    )
    assert visible_controls(app) == ["s-question", "s-variant", "s-more", "s-reset"], (
        "a calm first screen"
    )
    control(app, "s-more").value = True
    assert visible_controls(app)[3:6] == [
        "s-reset",
        "s-alibi",
        "s-sinusoidal",
    ] and "s-cope" in visible_controls(app)
    assert (
        set(app.methods) == {*SHOWN}
        and "..." not in repr(app)
        and not control(app, "s-more").disabled
    )
    control(app, "s-cope").value = True
    assert "methods must be at most 7" in app._message.value and not control(app, "s-cope").value
    control(app, "s-none").value = False
    control(app, "s-cope").value = True
    assert {"cope"} <= set(app.methods) and "none" not in app.methods and app._message.value == ""
    app.methods = ()
    assert "No method is chosen: select at least one." in words(app)


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ("results", "results must be an instance of DataFrame, got str"),
        (TABLE.head(0), "results must answer a question out of longer sequences, .*, got none"),
        (
            pd.concat([TABLE, TABLE.assign(step=9)]),
            "have one 'step': choose by that column, or label the models apart",
        ),
        (pd.concat([TABLE, TABLE]), "one row for a label, seed and x: label the models apart"),
        (
            pd.concat([TABLE.assign(block=1)] * 2),
            "for a label, seed and x: read them without `by_block`",
        ),
    ],
)
def test_what_is_no_table_of_results_is_refused(results: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        ComparisonExplorer(results)
