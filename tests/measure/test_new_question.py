"""A question that is added to `QUESTIONS` is available in every app and record."""

import pytest

from alibi_viz import lab
from alibi_viz.measure.questions import QUESTIONS, Question
from alibi_viz.measure.table import Axes
from alibi_viz.train.results import record_table
from alibi_viz.train.run import measure
from alibi_viz.widgets import ComparisonExplorer
from tests.tables import SMALL
from tests.widgets.race.small_race import control


def weight_norm(model, source, length, longest):
    yield length, float(model.head.weight.detach().norm()), model.head.weight.numel()


@pytest.fixture
def toy():
    question = Question(
        name="weight norm",
        measure=weight_norm,
        summary="The norm of the output layer.",
        figure=Axes(
            title="Norm of the output layer",
            x_title="training length",
            point="length {x}",
            unit="norm",
        ),
    )
    QUESTIONS.append(question)
    yield question
    QUESTIONS.remove(question)


def test_a_new_question_is_in_records_and_in_comparison_explorer(toy):
    record = measure(lab.Run("none", length=8, steps=2, longest=2, model=SMALL))
    (row,) = [row for row in record["rows"] if row["question"] == toy.name]
    assert row["x"] == 8
    assert row["unit"] == "norm"
    assert row["count"] == 16 * 256

    app = ComparisonExplorer(record_table([record], "mine"), question=toy.name)
    assert f"none {row['value']:.2f} to {row['value']:.2f} norm." in app.caption
    assert app.figure.layout.annotations[0].text == "Norm of the output layer"
    assert toy.figure.title in dict(control(app, "s-question").options)
