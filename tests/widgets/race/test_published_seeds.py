"""Published seeds are drawn beside the live ones, at the same multiples of the training length."""

import numpy as np
import pytest

from alibi_viz import lab
from alibi_viz.lab.results import seed_curves
from alibi_viz.widgets import LengthLab
from tests.widgets.race.small_race import open_tab, trace


def published_curves(question: str, label: str) -> dict[int, dict[int, float]]:
    results = lab.published_results()
    return seed_curves(results.query("question == @question and evaluated == 'as trained'"))[label]


@pytest.mark.parametrize("name", ["longer windows", "same targets", "gap"])
def test_published_seeds_are_drawn_at_the_same_multiples(trained: LengthLab, name: str) -> None:
    open_tab(trained, name)
    trained.published = True
    seeds = published_curves(name, "none")
    drawn = trace(trained, "published", "none")
    expected = [value for points in seeds.values() for value in points.values()]
    assert drawn.y[~np.isnan(drawn.y)].tolist() == pytest.approx(expected)
    xs = [x if name == "gap" else x * 8 // 64 for x in seeds[0]]
    assert drawn.x[: len(xs)].tolist() == xs
    assert "Dotted lines: published seeds, trained elsewhere for 600 steps on windows of 64" in trained.caption
    assert ("drawn at the same multiples of 8" in trained.caption) == (name != "gap")
    trained.published = False
    assert trace(trained, "published", "none").visible is False


def test_published_distances_are_drawn_at_the_same_multiples(trained: LengthLab) -> None:
    trained.published = True
    trained.question = "needle"
    drawn = trace(trained, "published", "alibi")
    assert drawn.x[:6].tolist() == [7, 15, 31, 63, 127, 255]
    assert drawn.y[0] == published_curves("needle", "alibi")[0][63]


def test_a_question_without_published_seeds_says_so(trained: LengthLab, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("report", "captions"):
        name = f"alibi_viz.widgets.race.{module}.published_seeds"
        monkeypatch.setattr(name, lambda *_: lab.results_table([]))
    trained.published = True
    trained.question = "induction"
    assert trace(trained, "published", "alibi").visible is False
    assert "There are no published seeds for this question." in trained.caption
