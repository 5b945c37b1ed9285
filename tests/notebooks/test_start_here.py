"""What the lesson "Start here" says after its race. The published models are from this race, which
lesson 9 runs."""

from alibi_viz import lab, study
from alibi_viz.measure.continuations import known_words
from alibi_viz.widgets import LengthLab
from tests.notebooks.lessons import FOLDER, code_cells, read


def test_the_race_of_the_first_lesson_ends_as_it_says() -> None:
    (cell,) = code_cells(read(FOLDER / "00_start_here.ipynb"))
    assert 'methods=["alibi", "rotary"]' in cell.source
    race, text, loss, words = LengthLab(), lab.load_text(), {}, {}
    for name in ("alibi", "rotary"):
        run = study.published_model(name)
        assert [run.settings[key] for key in ("length", "steps", "seed")] == [64, 400, 0]
        assert (race.length, race.steps, race.seed) == (64, 400, 0)
        loss[name] = lab.loss_by_length(run.model, text, lab.evaluation_lengths(64))
        words[name] = known_words(
            [each.beyond for each in lab.continuations(run.model, text, 64)], text
        )
    assert 0 < loss["alibi"][64] - loss["rotary"][64] < 0.1, "rotary is a little better at 64"
    assert max(loss["alibi"].values()) == loss["alibi"][64], "ALiBi's loss doesn't rise"
    assert 5.5 < loss["rotary"][1024] < 5.7, "about 5.6 bits"
    assert loss["rotary"][1024] > max(text.yardsticks.values()), "worse than counting letters"
    assert words["alibi"] > 0.9
    assert words["rotary"] < 0.5
