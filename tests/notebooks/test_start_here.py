"""What the lesson "Start here" says after its race."""

from alibi_viz.widgets import LengthLab
from tests.notebooks.lessons import FOLDER, code_cells, read


def test_the_race_of_the_first_lesson_ends_as_it_says() -> None:
    (cell,) = code_cells(read(FOLDER / "00_start_here.ipynb"))
    assert 'methods=["alibi", "sinusoidal"]' in cell.source
    race = LengthLab(methods=["alibi", "sinusoidal"])
    race.train().result(300)
    alibi, sinusoidal = race.means["alibi"], race.means["sinusoidal"]
    assert abs(alibi[64] - sinusoidal[64]) < 0.3, "about equally good on postcards"
    assert max(alibi.values()) - alibi[64] < 0.05, "ALiBi's loss doesn't rise"
    assert 6 < sinusoidal[1024] < 8.5, "about 7 bits"
    assert race.written["alibi"].known_words > 0.9 and race.written["sinusoidal"].known_words < 0.1
