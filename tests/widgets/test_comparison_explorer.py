"""ComparisonExplorer, driven through its traits: what it shows and says are the rows of its table."""

import numpy as np
import pandas as pd
import pytest
from ipywidgets import Dropdown, ToggleButtons, Widget

from alibi_viz import lab, study
from alibi_viz.figures import theme
from alibi_viz.lab.questions import FAILS, HOLDS, TIE
from alibi_viz.lab.results import record_table, seed_curves
from alibi_viz.study import PARTS
from alibi_viz.widgets import ComparisonExplorer
from alibi_viz.widgets.comparison_explorer import IN_VIEW, WINDOWED
from alibi_viz.widgets.core.traits import BadValue
from alibi_viz.widgets.race.settings import COMMON_METHODS
from tests.widgets.race.small_race import control, controls

SHORT = {WINDOWED: "windowed"}
DEFAULT = ("alibi", "sinusoidal", "rotary", WINDOWED, "none", "kerple-log")


@pytest.fixture(scope="module")
def app() -> ComparisonExplorer:
    return ComparisonExplorer()


@pytest.fixture(autouse=True)
def as_new(app: ComparisonExplorer) -> None:
    with app.hold_trait_notifications():
        app.question, app.methods, app.evaluated = "longer windows", DEFAULT, "as trained"


def box(app: ComparisonExplorer, label: str) -> Widget:
    return next(widget for widget in controls(app) if getattr(widget, "description", "") == label)


def published(question: str, evaluated: str = "as trained") -> dict[str, dict[int, dict[int, float]]]:
    results = study.published_results().query("question == @question")
    curves = seed_curves(results[results["evaluated"] == evaluated])
    windowed = seed_curves(results[(results["evaluated"] == "window") & (results["label"] == "rotary")])
    if windowed and evaluated == "as trained":
        curves[WINDOWED] = windowed["rotary"]
    return curves


def caption(app: ComparisonExplorer) -> str:
    """The caption with a short name for rotary with a window, so that no name contains another."""
    return app.caption.replace(f'"{WINDOWED}"', SHORT[WINDOWED])


def means(app: ComparisonExplorer) -> dict[str, dict[float, float]]:
    return {t.legendgroup: dict(zip(t.x, t.y, strict=True)) for t in app.figure.data[:7] if t.visible}


@pytest.mark.parametrize("question", ["longer windows", "same targets", "needle", "copy", "gap"])
def test_every_seed_and_the_mean_on_screen_are_the_results(app: ComparisonExplorer, question: str) -> None:
    app.question = question
    results = published(question)
    assert set(means(app)) == set(DEFAULT) & set(results)
    for slot, trace in enumerate(app.figure.data[:7]):
        if not trace.visible:
            continue
        seeds = results[trace.legendgroup]
        assert len(seeds) == (PARTS[question].seeds if question in PARTS else PARTS["main"].seeds)
        mean = np.mean([list(points.values()) for points in seeds.values()], axis=0)
        np.testing.assert_allclose(trace.y, mean[np.isfinite(mean)])
        thin = app.figure.data[7 + slot]
        assert thin.legendgroup == trace.legendgroup
        defined = np.isfinite(thin.y)
        expected = [(x, value) for points in seeds.values() for x, value in points.items() if np.isfinite(value)]
        np.testing.assert_allclose(list(zip(thin.x[defined], thin.y[defined], strict=True)), expected)
    shown = app.results
    assert set(shown["label"]) == set(means(app))
    assert (set(shown["question"]), set(shown["evaluated"])) == ({question}, {"as trained"})


def test_only_questions_with_results_are_offered(app: ComparisonExplorer) -> None:
    answered = set(study.published_results()["question"])
    assert list(app.questions) == [question.name for question in lab.QUESTIONS if question.name in answered]
    assert list(control(app, "s-question").options) == list(app.questions)


@pytest.mark.parametrize("evaluated", ["window", "pi", "ntk"])
def test_changed_models_have_results_of_their_own(app: ComparisonExplorer, evaluated: str) -> None:
    app.evaluated = evaluated
    results = published("longer windows", evaluated)
    assert set(means(app)) == set(DEFAULT) & set(results)
    expected = np.mean([list(points.values()) for points in results["rotary"].values()], axis=0)
    np.testing.assert_allclose(list(means(app)["rotary"].values()), expected)
    left_out = caption(app).split("Left out, because there are no such results: ")[1].split(".")[0]
    assert all((SHORT.get(name, name) in left_out) != (name in results) for name in DEFAULT)


def test_a_question_that_is_not_asked_of_changed_models_is_shown_as_trained(app: ComparisonExplorer) -> None:
    app.evaluated = "window"
    assert not control(app, "s-evaluated").disabled
    app.question = "needle"
    assert control(app, "s-evaluated").disabled
    assert "Shown as trained, because this question is not asked of models changed by window." in app.caption
    assert set(means(app)) == set(DEFAULT) - {WINDOWED}


def test_colors_are_those_of_length_lab(app: ComparisonExplorer) -> None:
    app.methods = ("alibi", "sinusoidal", "rotary", "none", "t5", "forget", "kerple-log")
    color = {trace.legendgroup: trace.line.color for trace in app.figure.data[7:14] if trace.visible}
    common = dict(zip(COMMON_METHODS, theme.COLORS, strict=False))
    assert all(color[name] == common[name] for name in ("alibi", "sinusoidal", "rotary", "none"))
    assert len(set(color.values())) == 7


def test_any_seven_methods_have_a_slot_each(app: ComparisonExplorer) -> None:
    trained = ("alibi trained at L", "alibi trained at 2L", "sinusoidal trained at L")
    others = ("t5", "kerple-log", "alibi, learned slopes", "forget", *trained)
    app.methods = others
    assert set(means(app)) == set(others)


def test_marks_and_the_training_length_are_drawn(app: ComparisonExplorer) -> None:
    marks = {note.text: note.x for note in app.figure.layout.annotations if note.visible is not False}
    low, high = app.figure.layout.xaxis2.range
    assert 10 ** (low + marks["alibi 1/m"] * (high - low)) == pytest.approx(256)
    assert 10 ** (low + marks["alibi 4/m"] * (high - low)) == pytest.approx(1024)
    assert app.figure.layout.shapes[1].x0 == 64
    app.methods = ("rotary",)
    assert not any(note.text.startswith("alibi") and note.visible for note in app.figure.layout.annotations)
    app.question = "copy"
    assert app.figure.layout.shapes[4].y0 == 1 / 16
    assert app.figure.layout.shapes[1].x0 == 32  # 32 symbols to copy are 64 tokens


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"evaluated": "linear"}, "evaluated must be one of as trained, window, .*yarn, got 'linear'"),
        ({"question": "text"}, "question must be one of longer windows, gap, .*, got 'text'"),
        ({"methods": ("alibi", "alibi")}, "at most 7 different names out of alibi; "),
        ({"methods": "alibi"}, "got 'alibi'"),
        ({"methods": ("rope",)}, r"got \('rope',\)"),
        ({"methods": (*DEFAULT, "fire", "forget")}, "at most 7"),
    ],
)
def test_a_bad_value_is_named_and_changes_nothing(
    app: ComparisonExplorer, state: dict[str, object], message: str
) -> None:
    before = (repr(app), app.caption)
    ((name, value),) = state.items()
    with pytest.raises(BadValue, match=message):
        setattr(app, name, value)
    with pytest.raises(BadValue, match=message):
        ComparisonExplorer(**state)
    assert (repr(app), app.caption) == before


def test_checkboxes_choose_methods_and_an_eighth_is_refused_in_the_app(app: ComparisonExplorer) -> None:
    box(app, "fire").value = True
    assert set(app.methods) == {*DEFAULT, "fire"}
    box(app, "forget").value = True
    assert "methods must be at most 7" in app._message.value
    assert not box(app, "forget").value
    box(app, "none").value = False
    box(app, "forget").value = True
    assert "none" not in app.methods
    assert "forget" in app.methods
    assert app._message.value == ""


def test_further_methods_are_shown_on_demand_and_only_those_with_an_answer(app: ComparisonExplorer) -> None:
    def in_view() -> list[str]:
        return [label for label in app.labels if box(app, label).layout.display != "none"]

    more = control(app, "s-more")
    assert len(in_view()) >= IN_VIEW and set(DEFAULT) <= set(in_view())
    assert "fire" not in in_view()
    more.value = True
    assert set(in_view()) == set(published("longer windows"))
    more.value = False
    app.methods = (*DEFAULT, "fire")
    assert "fire" in in_view(), "a chosen method can be unchosen"
    app.question = "induction"
    assert set(in_view()) == {*published("induction"), *app.methods} and more.layout.display == "none"


def test_without_a_method_the_caption_says_so_and_the_app_stays_usable(app: ComparisonExplorer) -> None:
    app.methods = ()
    assert "No method is chosen: select at least one." in app.caption
    assert means(app) == {}
    app.methods = ("alibi", "rotary trained at 16L")
    assert "Tested at its training length only: rotary trained at 16L." in app.caption


def test_a_method_that_is_not_defined_beyond_its_training_length_is_said_to_be_so() -> None:
    rows = study.published_results().query("question == 'longer windows' and label == 'alibi'")
    learned = rows.assign(label="learned", value=rows["value"].where(rows["x"] <= 64))
    app = ComparisonExplorer(pd.concat([rows, learned]), methods=("alibi", "learned"))
    assert "Not defined beyond 64: learned." in app.caption


def test_the_caption_is_computed_from_every_seed(app: ComparisonExplorer) -> None:
    curves = published("longer windows")
    sentence = caption(app)[caption(app).index("In every seed ") :].split(". ")[0]
    holding, _, rest = sentence.partition(" hold")
    failing = rest.split(";")[-1]
    for name in DEFAULT:
        rises = [max(value for x, value in seed.items() if x > 64) - seed[64] for seed in curves[name].values()]
        assert (SHORT.get(name, name) in holding) == (max(rises) <= HOLDS)
        assert (SHORT.get(name, name) in failing) == (min(rises) >= FAILS)
    (best,) = [part for part in caption(app).split(". ") if part.startswith("On the longest windows ")]
    leads = [{name: curves[name][seed][1024] for name in DEFAULT} for seed in range(PARTS["main"].seeds)]
    leaders = [name for name in DEFAULT if all(bits[name] <= min(bits.values()) + TIE for bits in leads)]
    assert all(SHORT.get(name, name) in best for name in leaders)
    assert "8 seeds (thin) and their mean (thick), with its 95% interval (bars)" in app.caption


@pytest.mark.parametrize("question", ["longer windows", "same targets", "needle"])
def test_labels_of_marks_avoid_curves(app: ComparisonExplorer, question: str) -> None:
    app.question = question
    low, high = app.figure.layout.yaxis2.range
    left, right = app.figure.layout.xaxis2.range
    notes = [note for note in app.figure.layout.annotations if note.text.startswith("alibi") and note.visible]
    assert len(notes) == 2
    for note in notes:
        x = 10 ** (left + note.x * (right - left))
        nearest = min(app.figure.data[0].x, key=lambda point: abs(point - x))
        values = app.results.loc[app.results["x"] == nearest, "value"].dropna()
        assert min(abs(values - (low + note.y * (high - low)))) > 0.08 * (high - low)


def test_any_table_of_results_can_be_shown() -> None:
    runs = [lab.Run("alibi", task="needle", length=8, steps=2, longest=2, seed=5)]
    records = lab.sweep(runs, progress=False)
    rows = record_table(records, "mine")
    app = ComparisonExplorer(rows)
    assert repr(app) == "ComparisonExplorer(question='needle', methods=('alibi',), evaluated='as trained')"
    assert "Results: mine; a single seed." in app.caption
    assert list(means(app)["alibi"]) == [7, 15]
    assert not any(note.text.startswith("alibi") and note.visible for note in app.figure.layout.annotations), (
        "a table does not say how many heads its models have"
    )


def test_many_questions_are_offered_in_a_menu() -> None:
    rows = study.published_results().query("question == 'same targets' and label == 'alibi'")
    tables = [rows.assign(question=question.name, task=question.task) for question in lab.QUESTIONS]
    few, many = (ComparisonExplorer(pd.concat(tables[:count])) for count in (8, 9))
    assert isinstance(control(few, "s-question"), ToggleButtons)
    menu = control(many, "s-question")
    assert isinstance(menu, Dropdown)
    assert list(menu.options) == list(many.questions) == [question.name for question in lab.QUESTIONS[:9]]
    menu.value = "by position"
    assert many.question == "by position"
    many.question = "attention sinks"
    assert menu.value == "attention sinks"
    with pytest.raises(BadValue, match="question must be one of longer windows, gap, "):
        many.question = "nothing"


def test_a_table_without_answers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"results must answer a question out of longer windows, .*, got none"):
        ComparisonExplorer(lab.results_table([]))
