"""A model that needs long for a text doesn't block the controls of AttentionExplorer."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from alibi_viz import lab
from alibi_viz.lab.model_sources import ByteModel, ModelRun
from alibi_viz.widgets import AttentionExplorer
from alibi_viz.widgets.attention import text_app
from tests.widgets.race.small_race import control, message

LAYERS = 4


class SlowModel(ByteModel):
    """The layers of a text, from the second on, wait until they are released."""

    def __init__(self) -> None:
        super().__init__(lab.make_model("alibi", num_layers=LAYERS))
        self.released = threading.Semaphore(0)
        self.failure: BaseException | None = None

    def start(self, text: str, longest: int) -> ModelRun:
        run = super().start(text, longest)
        inputs = run._inputs

        def slow() -> Iterator[Any]:
            yield next(inputs)
            for received in inputs:
                self.released.acquire(timeout=20)
                if self.failure:
                    raise self.failure
                yield received

        run._inputs = slow()
        return run


@pytest.fixture
def source() -> Iterator[SlowModel]:
    source = SlowModel()
    yield source
    source.released.release(100)


@pytest.fixture
def app(source: SlowModel, monkeypatch: pytest.MonkeyPatch) -> AttentionExplorer:
    monkeypatch.setattr(text_app, "PATIENCE", 0.05)
    return AttentionExplorer(source, text="to be or not to be")


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)


def layers_read(app: AttentionExplorer) -> int:
    """How many layers of the latest text are done."""
    return list(app._reader._runs.values())[-1].done


def choose(app: AttentionExplorer, layer: int) -> None:
    control(app, "s-content").index = layer - 1


def test_a_layer_that_is_not_ready_appears_when_the_model_has_reached_it(
    app: AttentionExplorer, source: SlowModel
) -> None:
    before = app.caption
    choose(app, 3)
    assert (app.content, control(app, "s-content").index, app.caption) == ("layer 1", 0, before)
    assert control(app, "s-progress").value == "The model reads 18 tokens …"
    assert message(app) == ""
    app.query, app.head = 5, 2  # other controls answer meanwhile
    assert "Head 2 of 8" in app.caption and "Query 5" in app.caption
    source.released.release(2)
    wait(lambda: app.content == "layer 3" and "layer 3 of 4" in app.caption)
    assert (app.query, app.head, control(app, "s-content").index) == (5, 2, 2)
    assert message(app) == ""
    wait(lambda: control(app, "s-progress").value == "")
    assert control(app, "s-progress").layout.display == "none"


def test_all_layers_are_computed_in_the_background_and_then_answer_at_once(
    app: AttentionExplorer, source: SlowModel
) -> None:
    source.released.release(LAYERS - 1)
    wait(lambda: layers_read(app) == LAYERS)
    for layer in (4, 2, 3, 1):
        choose(app, layer)
        assert f"layer {layer} of 4" in app.caption


def test_code_waits_for_the_model(app: AttentionExplorer, source: SlowModel) -> None:
    threading.Timer(0.3, source.released.release, [LAYERS]).start()
    app.content = "layer 4"
    assert "layer 4 of 4" in app.caption


def test_a_later_choice_replaces_one_that_is_waiting(app: AttentionExplorer, source: SlowModel) -> None:
    choose(app, 4)
    control(app, "s-text").value = "another text"  # its first layer needs no release
    wait(lambda: app.text == "another text")
    assert app.content == "layer 1"
    source.released.release(100)
    wait(lambda: layers_read(app) == LAYERS)
    assert (app.text, app.content) == ("another text", "layer 1")


def test_shuffled_text_appears_when_the_model_has_read_it(app: AttentionExplorer, source: SlowModel) -> None:
    source.released.release(LAYERS - 1)
    app.content = "layer 3"
    wait(lambda: layers_read(app) == LAYERS)
    control(app, "s-shuffle").click()
    assert (app.order, message(app)) == (None, "")
    app.head = 2  # other controls answer meanwhile
    source.released.release(100)
    wait(lambda: app.order == 1 and "shuffled" in app.caption)
    assert (app.content, app.head) == ("layer 3", 2)
    control(app, "s-original").click()
    assert app.order is None, "the original text is still known"
    assert message(app) == ""


def test_a_text_that_was_changed_back_is_not_read(app: AttentionExplorer, source: SlowModel) -> None:
    source.released.release(1)
    app.content = "layer 2"
    box, text = control(app, "s-text"), app.text
    box.value = "another text"
    assert (app.text, box.value) == (text, "another text")
    box.value = text
    source.released.release(100)
    wait(lambda: control(app, "s-progress").value == "")
    time.sleep(0.1)
    assert app.text == box.value == text


def test_an_error_of_the_model_is_shown_and_the_app_stays_usable(app: AttentionExplorer, source: SlowModel) -> None:
    choose(app, 3)
    source.failure = RuntimeError("out of memory")
    source.released.release(100)
    wait(lambda: message(app))
    assert "the model failed on this text: RuntimeError: out of memory" in message(app)
    assert (app.content, control(app, "s-content").index) == ("layer 1", 0)
    source.failure = None
    choose(app, 3)
    wait(lambda: app.content == "layer 3")
    assert message(app) == ""
    app.text = "a new text"
    assert "layer 3 of 4" in app.caption


def test_refresh_reads_a_model_whose_weights_have_changed() -> None:
    model = lab.make_model("alibi")
    app = AttentionExplorer(model, text="to be or not to be")
    before = app.figure.data[0].z[5][2]
    model.transformer.blocks[0].attention.qkv.weight.data.mul_(2)
    app.fit(700)
    assert app.figure.data[0].z[5][2] == before
    app.refresh()
    assert app.figure.data[0].z[5][2] == pytest.approx(4 * before, abs=1e-3)
