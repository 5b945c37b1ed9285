"""A model that needs long for a text doesn't block the controls of AttentionExplorer."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from torch import Tensor

from alibi_viz import lab
from alibi_viz.figures.matrices import named_trace
from alibi_viz.lab.attention_sources import ByteModel, ModelRun
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
        run._layers.blocks[:] = [partial(self.wait, block) for block in run._layers.blocks]
        return run

    def wait(self, block: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
        self.released.acquire(timeout=5)
        if self.failure:
            raise self.failure
        return block(hidden)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowModel]:
    monkeypatch.setattr(text_app, "PATIENCE", 0.05)
    source = SlowModel()
    yield source
    source.released.release(100)


def in_kernel(scene: Callable[[AttentionExplorer], Any], source: SlowModel) -> None:
    """Run a scene as JupyterLab does, in an event loop, with an app that has drawn its first layer."""

    async def run() -> None:
        await asyncio.wait_for(scene(AttentionExplorer(source, text="to be or not to be")), 8)
        source.released.release(100)

    asyncio.run(run())


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def choose(app: AttentionExplorer, layer: int) -> None:
    control(app, "s-content").value = f"layer {layer}"


def test_a_layer_that_is_not_ready_appears_when_the_model_has_reached_it(source: SlowModel) -> None:
    async def scene(app: AttentionExplorer) -> None:
        choose(app, 3)
        assert control(app, "s-progress").value == "The model reads 18 tokens …"
        assert "layer 1 of 4" in app.details and message(app) == ""
        app.attempt(lambda: app.set_trait("query", 5))  # other controls answer meanwhile
        control(app, "s-head").value = 2
        app.fit(700)
        assert "Head 2 of 8" in app.caption and "Query 5" in app.caption and "layer 1 of 4" in app.details
        source.released.release(2)
        await until(lambda: "layer 3 of 4" in app.details)
        assert (app.content, app.query, app.head, control(app, "s-content").value) == ("layer 3", 5, 2, "layer 3")
        assert control(app, "s-progress").layout.display == "none" and message(app) == ""

    in_kernel(scene, source)


def test_all_layers_are_computed_in_the_background_and_then_answer_at_once(source: SlowModel) -> None:
    async def scene(app: AttentionExplorer) -> None:
        choose(app, 4)
        choose(app, 1)  # a later choice replaces one that is waiting
        source.released.release(LAYERS - 1)
        await until(lambda: app._run(app.text).done == LAYERS)
        assert app.content == "layer 1" and "layer 1 of 4" in app.details
        for layer in (4, 2, 3, 1):
            choose(app, layer)
            assert f"layer {layer} of 4" in app.details

    in_kernel(scene, source)


def test_code_waits_for_the_model(source: SlowModel) -> None:
    app = AttentionExplorer(source, text="to be or not to be")
    threading.Timer(0.3, source.released.release, [LAYERS]).start()
    app.content = "layer 4"
    assert "layer 4 of 4" in app.details


def test_shuffled_text_and_new_text_appear_when_the_model_has_read_them(source: SlowModel) -> None:
    async def scene(app: AttentionExplorer) -> None:
        source.released.release(LAYERS - 1)
        app.content = "layer 3"
        await until(lambda: app._run(app.text).done == LAYERS)
        control(app, "s-shuffle").click()
        assert app.order == 1 and "shuffled" not in app.caption
        source.released.release(LAYERS - 1)
        await until(lambda: "shuffled" in app.caption)
        control(app, "s-original").click()
        assert "shuffled" not in app.caption, "the original text is still known"
        control(app, "s-text").value = "a text"
        source.released.release(LAYERS - 1)
        await until(lambda: "Query 5 “t”" in app.caption)
        assert message(app) == ""

    in_kernel(scene, source)


def test_an_error_of_the_model_is_shown_and_the_app_stays_usable(source: SlowModel) -> None:
    async def scene(app: AttentionExplorer) -> None:
        source.failure = RuntimeError("out of memory")
        choose(app, 3)
        source.released.release(100)
        await until(lambda: message(app))
        assert "the model failed on this text: RuntimeError: out of memory" in message(app)
        assert (app.content, control(app, "s-content").value) == ("layer 1", "layer 1")
        source.failure = None
        choose(app, 3)
        await until(lambda: "layer 3 of 4" in app.details)
        assert message(app) == ""

    in_kernel(scene, source)


def test_refresh_reads_a_model_whose_weights_have_changed() -> None:
    model = lab.make_model("alibi")
    app = AttentionExplorer(model, text="to be or not to be")
    content = lambda: named_trace(app.figure, "content").z[5][2]  # noqa: E731
    before = content()
    model.transformer.blocks[0].attention.qkv.weight.data.mul_(2)
    app.fit(700)
    assert content() == before
    app.refresh()
    assert content() == pytest.approx(4 * before, abs=1e-3)
