"""ComparisonExplorer, driven through its traits: what it shows and says are the published records."""

import numpy as np
import pytest
from ipywidgets import Widget

from alibi_viz import lab
from alibi_viz.figures import theme
from alibi_viz.widgets import ComparisonExplorer
from alibi_viz.widgets.comparison.words import best, fates, scores
from alibi_viz.widgets.core.traits import BadValue
from alibi_viz.widgets.race.traits import METHODS
from tests.widgets.race.small_race import control, controls

DEFAULT = ("alibi", "sinusoidal", "rotary", "none", "t5", "kerple-log")


@pytest.fixture(scope="module")
def app() -> ComparisonExplorer:
    return ComparisonExplorer()


@pytest.fixture(autouse=True)
def as_new(app: ComparisonExplorer) -> None:
    with app.hold_trait_notifications():
        app.task, app.methods, app.rule = "longer windows", DEFAULT, "as trained"


def box(app: ComparisonExplorer, label: str) -> Widget:
    return next(widget for widget in controls(app) if getattr(widget, "description", "") == label)


def means(app: ComparisonExplorer) -> dict[str, dict[float, float]]:
    return {t.name: dict(zip(t.x, t.y, strict=True)) for t in app.figure.data[:7] if t.visible}


@pytest.mark.parametrize(
    ("shown", "task", "table"),
    [
        ("longer windows", "text", "by_length"),
        ("same targets", "text", "by_context"),
        ("needle", "needle", "accuracy"),
        ("copy", "copy", "accuracy"),
        ("gap", "text", "gap"),
    ],
)
def test_every_seed_and_the_mean_on_screen_are_the_records(
    app: ComparisonExplorer, shown: str, task: str, table: str
) -> None:
    app.task = shown
    records = lab.published_curves(task, table)
    assert set(means(app)) == set(DEFAULT)
    for slot, trace in enumerate(app.figure.data[:7]):
        if not trace.visible:
            continue
        seeds = records[trace.name]
        assert len(seeds) == 3
        np.testing.assert_allclose(trace.y, np.mean([list(points.values()) for points in seeds.values()], axis=0))
        thin = app.figure.data[7 + slot]
        assert thin.name == trace.name
        defined = np.isfinite(thin.y)
        np.testing.assert_allclose(thin.x[defined], [place for points in seeds.values() for place in points])
        np.testing.assert_allclose(thin.y[defined], [value for points in seeds.values() for value in points.values()])


@pytest.mark.parametrize("rule", ["window", "pi", "ntk"])
def test_a_rule_shows_its_own_records_and_names_who_has_none(app: ComparisonExplorer, rule: str) -> None:
    app.rule = rule
    records = lab.published_curves("text", rule)
    assert set(means(app)) == set(DEFAULT) & set(records)
    np.testing.assert_allclose(
        list(means(app)["rotary"].values()), np.mean([list(s.values()) for s in records["rotary"].values()], axis=0)
    )
    assert "Left out, because there are no such runs: " in app.caption
    left_out = app.caption.split("no such runs: ")[1].split(".")[0]
    assert all((name in left_out) != (name in records) for name in DEFAULT)


def test_a_rule_is_for_longer_windows_only(app: ComparisonExplorer) -> None:
    app.rule = "window"
    app.task = "needle"
    assert control(app, "s-rule").disabled
    assert "Rule window is left out" in app.caption
    assert set(means(app)) == set(DEFAULT)


def test_colours_are_those_of_the_laboratory(app: ComparisonExplorer) -> None:
    app.methods = (*METHODS, "fire", "forget")
    color = {trace.name: trace.line.color for trace in app.figure.data[7:14] if trace.visible}
    assert {name: color[name] for name in METHODS} == dict(zip(METHODS, theme.COLORS, strict=False))
    assert len(set(color.values())) == 7


def test_others_find_a_place_whoever_they_are(app: ComparisonExplorer) -> None:
    others = ("t5", "kerple-log", "sandwich", "fire", "decay", "alibi, learned slopes", "forget")
    app.methods = others
    assert set(means(app)) == set(others)


def test_lengths_are_marked(app: ComparisonExplorer) -> None:
    said = {note.text: note.x for note in app.figure.layout.annotations if note.visible is not False}
    low, high = app.figure.layout.xaxis2.range
    assert 10 ** (low + said["alibi 1/m"] * (high - low)) == pytest.approx(256)
    assert 10 ** (low + said["alibi 4/m"] * (high - low)) == pytest.approx(1024)
    assert app.figure.layout.shapes[1].x0 == 64
    app.methods = ("rotary",)
    assert not any(note.text.startswith("alibi") and note.visible for note in app.figure.layout.annotations)
    app.task = "copy"
    assert app.figure.layout.shapes[4].y0 == 1 / 16
    assert app.figure.layout.shapes[1].x0 == 32  # 32 symbols to copy are 64 tokens


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"rule": "yarn"}, "rule must be one of as trained, window, pi, ntk, got 'yarn'"),
        ({"task": "text"}, "task must be one of longer windows, same targets, needle, copy, gap, got 'text'"),
        ({"methods": ("alibi", "alibi")}, "at most 7 different ones among alibi; "),
        ({"methods": "alibi"}, "got 'alibi'"),
        ({"methods": ("rope",)}, r"got \['rope'\]"),
        ({"methods": (*DEFAULT, "fire", "forget")}, "at most 7"),
    ],
)
def test_a_bad_value_is_named_and_changes_nothing(app: ComparisonExplorer, state: dict[str, object], said: str) -> None:
    before = (repr(app), app.caption)
    ((name, value),) = state.items()
    with pytest.raises(BadValue, match=said):
        setattr(app, name, value)
    with pytest.raises(BadValue, match=said):
        ComparisonExplorer(**state)
    assert (repr(app), app.caption) == before


def test_the_boxes_choose_methods_and_an_eighth_is_refused_in_the_app(app: ComparisonExplorer) -> None:
    box(app, "fire").value = True
    assert app.methods == (*DEFAULT, "fire")
    box(app, "forget").value = True
    assert "methods must be at most 7" in app._message.value
    assert not box(app, "forget").value
    box(app, "none").value = False
    box(app, "forget").value = True
    assert "none" not in app.methods
    assert "forget" in app.methods
    assert app._message.value == ""


def test_without_a_method_it_says_so_and_stays_usable(app: ComparisonExplorer) -> None:
    app.methods = ()
    assert "choose one above" in app.caption
    assert means(app) == {}
    app.methods = ("learned", "rotary trained at 16L")
    assert "Not defined beyond the training length: learned." in app.caption
    assert "Tested at its training length only: rotary trained at 16L." in app.caption


def test_the_caption_is_computed_from_every_seed(app: ComparisonExplorer) -> None:
    curves = lab.published_curves("text", "by_length")
    rise = {name: [points[1024] - points[64] for points in curves[name].values()] for name in DEFAULT}
    assert "alibi and kerple-log do not break" in app.caption
    assert max(rise["alibi"] + rise["kerple-log"]) <= 0.1
    assert "none drifts" in app.caption
    assert 0.1 < min(rise["none"]) <= max(rise["none"]) < 0.5
    assert "sinusoidal, rotary and t5 break" in app.caption
    assert min(rise["sinusoidal"] + rise["rotary"] + rise["t5"]) >= 0.5
    assert "kerple-log is best in every seed" in app.caption
    for seed in range(3):
        assert min(DEFAULT, key=lambda name: curves[name][seed][1024]) == "kerple-log"


def test_where_seeds_disagree_nothing_is_claimed() -> None:
    flat, steep = {64: 2.0, 128: 2.0}, {64: 2.0, 128: 3.0}
    assert fates({"a": {0: flat, 1: steep}}, differences=False) == ["The seeds do not agree on a."]
    assert fates({"a": {0: {1: 0.9, 2: 0.0}}}, differences=True) == [
        "In every seed: a does not break (at most 0.1 bit worse)."
    ]
    assert best({"a": {0: flat, 1: steep}, "b": {0: steep, 1: flat}}, lowest=True).endswith(
        "no method is best in every seed."
    )
    assert best({"a": {0: flat}, "b": {0: flat}}, lowest=False).endswith("a and b are best in every seed.")
    assert best({"a": {0: flat}}, lowest=True) == ""
    assert scores({"a": {0: {63: 1.0}, 1: {63: 0.4}}}) == ["Neither in every seed: a."]
    assert scores({"a": {0: {63: 0.4}}}) == ["Right less than half of the time there, in every seed: a."]


@pytest.mark.parametrize("task", ["longer windows", "same targets", "needle"])
def test_the_words_of_a_mark_stand_where_no_curve_passes(app: ComparisonExplorer, task: str) -> None:
    app.task = task
    low, high = app.figure.layout.yaxis2.range
    notes = [note for note in app.figure.layout.annotations if note.text.startswith("alibi") and note.visible]
    assert len(notes) == 2
    for note in notes:
        at = min(app.figure.data[0].x, key=lambda place: abs(place - 10**note.x))
        seeds = [points for name in DEFAULT for points in app.curves[name].values()]
        distance = min(abs(points[int(at)] - (low + note.y * (high - low))) for points in seeds)
        assert distance > 0.08 * (high - low)
