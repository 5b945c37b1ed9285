"""What a race says when its text was learned by heart."""

import pytest

from alibi_viz import lab
from alibi_viz.measure.questions import main_question
from alibi_viz.widgets.race.captions import caption
from alibi_viz.widgets.race.state import RaceState
from tests.tables import table


def said_after_a_race(training_loss):
    """What is said at once about a finished race whose loss on unseen text is 3 bits per byte."""
    seed = 3
    question = main_question("text")
    race = RaceState("text", ("alibi",), length=32, steps=100, seed=seed, seeds=1)
    race.start()
    training = table(question.name, {"alibi": [{100: training_loss}]}).assign(
        question="training loss"
    )
    losses = {x: 3.0 for x in lab.evaluation_lengths(32)}
    longer = table(question.name, {"alibi": [losses]})
    race.rows = [*training.to_dict("records"), *longer.to_dict("records")]
    race.models = {seed: {"alibi": lab.make_model("alibi")}}
    race.complete = [seed]
    race.state = "finished"
    summary, _ = caption(race, question, race.results(question), note="", measuring=False)
    return summary


def test_learning_by_heart_is_said_first():
    summary = said_after_a_race(training_loss=1.0)
    assert summary.startswith("ALiBi (1.00 bits per byte there, 3.00 on unseen text) has learned")


@pytest.mark.parametrize("training_loss", [2.5, 3.5])
def test_learning_is_not_called_learning_by_heart(training_loss):
    assert "by heart" not in said_after_a_race(training_loss)
