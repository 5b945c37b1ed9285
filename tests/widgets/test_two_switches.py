"""TwoSwitches, driven through its traits and its controls: a state is shown once it was visited,
with the published numbers and a text of the published model."""

import threading

import pytest

from alibi_viz import lab, study
from alibi_viz.measure.continuations import Continuation
from alibi_viz.study.records import published_records, table_by_setting
from alibi_viz.widgets import TwoSwitches, two_switches
from alibi_viz.widgets.two_switches import Writer, Written, write_in, written_html
from tests.figures.reading import named_trace
from tests.rows import each_case
from tests.widgets.conftest import quick_written
from tests.widgets.race.small_race import DEADLINE, control

pytestmark = pytest.mark.usefixtures("quick_writing")

TRAINED = "as trained"
BRAKE = "far brake"
STOP = "angles stop"
BOTH = "angles stop and far brake"


continuations = lab.continuations  # what the model writes, in place of `quick_writing`


def bits_in_cell(app, state):
    (annotation,) = app.figure.select_annotations({"name": f"bits {state}"})
    return str(annotation.text)


def states_with_a_number(app):
    return {state for state in app.states if bits_in_cell(app, state) != "?"}


def states_with_a_curve(app):
    return {trace.name for trace in app.figure.data} & {*app.states}


# The states


def test_a_state_stays_visible_after_it_was_visited():
    app = TwoSwitches()
    control(app, "s-far_brake").value = True
    control(app, "s-far_brake").value = False
    assert app.now == TRAINED
    assert states_with_a_number(app) == {TRAINED, BRAKE}
    assert states_with_a_curve(app) == {TRAINED, BRAKE}


def test_the_present_state_is_always_among_the_visited():
    app = TwoSwitches(far_brake=True, visited=[])
    assert app.visited == (BRAKE,)
    app.visited = [BOTH]
    assert app.visited == (BRAKE, BOTH)


@each_case(
    ("x", "y", "state"),
    {
        "upper right": (1.5, 0.5, BRAKE),
        "lower left": (0.5, 1.5, STOP),
        "lower right": (1.5, 1.5, BOTH),
    },
)
def test_a_click_on_a_cell_switches_to_its_state(x, y, state):
    app = TwoSwitches()
    app.plot.clicks("cells", {"x": x, "y": y})
    assert app.now == state
    assert states_with_a_number(app) == {TRAINED, state}


def test_a_switch_shows_on_its_button_whether_it_is_on():
    app = TwoSwitches(far_brake=True)
    assert control(app, "s-angles_stop").icon == "toggle-off"
    assert control(app, "s-far_brake").icon == "toggle-on"


# The numbers


def test_a_number_is_the_mean_of_the_published_models():
    results = table_by_setting(published_records(["main"]), "published")
    is_meant = (results["label"] == "rotary") & (results["question"] == "longer sequences")
    longest = results[is_meant & (results["x"] == 1024)]
    app = TwoSwitches(visited=TwoSwitches.states)
    for state in (TRAINED, BRAKE, STOP, BOTH):
        losses = longest[longest["variant"] == state]["value"]
        assert len(losses) == 8
        mean = losses.sum() / 8
        assert bits_in_cell(app, state) == f"<b>{mean:.2f}</b>"
        assert named_trace(app.figure, state).y[-1] == pytest.approx(mean)


# The text


def panel(app):
    return str(app.writer.panel.value)


def test_the_text_of_the_present_state_is_shown_when_it_has_been_written():
    app = TwoSwitches()
    app.angles_stop = True
    app.writer.wait(DEADLINE)
    assert "a time, angles stop</span>" in panel(app)


def test_a_text_is_written_once_for_each_state(monkeypatch):
    asked = []

    def write(state):
        asked.append(state)
        return quick_written(state)

    monkeypatch.setattr(two_switches, "write_in", write)
    app = TwoSwitches()
    app.far_brake = True
    app.far_brake = False
    app.far_brake = True
    app.writer.wait(DEADLINE)
    assert sorted(asked) == [TRAINED, BRAKE]


def test_the_reader_is_told_that_the_model_is_writing(monkeypatch):
    may_end = threading.Event()

    def write(state):
        may_end.wait(DEADLINE)
        return quick_written(state)

    monkeypatch.setattr(two_switches, "write_in", write)
    app = TwoSwitches(far_brake=True)
    assert "With the far brake, the model is writing …" in panel(app)
    may_end.set()
    app.writer.wait(DEADLINE)
    assert "a time, far brake</span>" in panel(app)


def test_a_text_that_comes_late_does_not_replace_another(monkeypatch):
    may_end = threading.Event()

    def write(state):
        if state == TRAINED:
            may_end.wait(DEADLINE)
        return quick_written(state)

    monkeypatch.setattr(two_switches, "write_in", write)
    app = TwoSwitches()
    app.far_brake = True
    may_end.set()
    app.writer.wait(DEADLINE)
    assert "a time, far brake</span>" in panel(app)


def test_a_failure_to_write_is_told(monkeypatch):
    def write(_):
        raise RuntimeError("no <memory>")

    monkeypatch.setattr(two_switches, "write_in", write)
    writer = Writer()
    writer.show(TRAINED)
    with pytest.raises(RuntimeError):
        writer.wait(DEADLINE)
    assert "could not be written: no &lt;memory&gt;" in writer.panel.value


def test_the_part_beyond_the_training_length_is_marked_and_text_is_escaped():
    page = written_html(TRAINED, Written(Continuation("<b>One", " two", " & three"), 0.554, 8))
    assert '<span class="prompt">&lt;b&gt;One</span><span class="within"> two</span>' in page
    assert '<span class="beyond"> &amp; three</span>' in page


def test_the_published_model_writes_in_the_state(monkeypatch):
    monkeypatch.setattr(lab, "continuations", continuations)
    model = study.published_model("rotary").model
    changed = lab.modify(model, far_slope=1 / 16, trained_length=64)
    texts = lab.continuations(changed, lab.load_text(), 64, seed=0)
    written = write_in(BRAKE)
    assert written.text == texts[0]
    assert 0.7 < written.known_words < 1
