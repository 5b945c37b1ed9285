"""A question that is added to `QUESTIONS` is available in every app, record and command."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import pytest

from alibi_viz import lab
from alibi_viz.cli import main
from alibi_viz.lab.questions import QUESTIONS
from alibi_viz.lab.results import record_table, seed_curves
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Panel
from alibi_viz.widgets import ComparisonExplorer, LengthLab
from tests.widgets.race.small_race import DEADLINE, control, points, until


class WeightNorm(lab.Question):
    """How large are the weights of the output layer?"""

    name = "weight norm"
    summary = "The norm of the output layer."
    unit = "norm"

    def measure(
        self, model: LanguageModel, source: lab.Text | lab.Task, length: int, *, longest: int = 16
    ) -> Iterator[lab.Answer]:
        yield lab.Answer(length, float(model.head.weight.detach().norm()), model.head.weight.numel())

    def axes(self, length: int, xs: Sequence[int]) -> Panel:
        ticks = {x: f"{x}" for x in [*xs, length]}
        return Panel("Norm of the output layer", "training length", "norm", "%{y}", ticks, low=0.0, high=10.0)

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        return [f"The norm of {label} is {seeds[0][length]:.3f}." for label, seeds in seed_curves(results).items()]


@pytest.fixture
def toy() -> Iterator[WeightNorm]:
    toy = WeightNorm()
    QUESTIONS.append(toy)
    yield toy
    QUESTIONS.remove(toy)


def test_a_new_question_is_in_the_records_the_command_line_and_both_apps(
    toy: WeightNorm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results"
    (record,) = lab.sweep([lab.Run("none", length=8, steps=2, longest=2)], path=folder, progress=False)
    (answer,) = [answer for answer in record["answers"] if answer[1] == toy.name]
    _, _, x, norm, unit, count = answer
    assert (x, unit, count) == (8, "norm", 64 * 256)

    assert main(["show", toy.name, str(folder)]) == 0
    assert f"The norm of none is {norm:.3f}." in capsys.readouterr().out

    app = ComparisonExplorer(record_table([record], "mine"), question=toy.name)
    assert f"The norm of none is {norm:.3f}." in app.caption
    assert app.figure.layout.annotations[0].text == "Norm of the output layer"
    assert toy.name in control(app, "s-question").options
    assert toy.name not in ComparisonExplorer().questions, "the published runs do not answer it"


def test_a_new_question_is_an_option_in_length_lab_and_measured_after_a_race(toy: WeightNorm) -> None:
    app = LengthLab(methods=["none"], length=8, steps=10, question=toy.name)
    assert toy.name in control(app, "s-question").options
    assert "The norm of the output layer." in app.caption
    app.train().result(DEADLINE)
    norm = float(app.models["none"].head.weight.detach().norm())
    until(lambda: f"The norm of none is {norm:.3f}." in app.caption, "the measurement")
    assert app.means["none"] == points(app, "mean", "none") == {8: norm}
    assert app.results.query("question == @toy.name")["value"].tolist() == [norm]


def test_length_lab_offers_the_questions_for_a_race_in_their_order() -> None:
    questions = LengthLab().questions
    assert list(questions) == [question.name for question in QUESTIONS if question.in_race]
    assert not {"weight norm", "slopes", "needle margin", "far context"} & {*questions}
