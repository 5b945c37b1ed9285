"""Debounce, and the hover layer of BiasExplorer, which is debounced."""

import asyncio

from alibi_viz.widgets import BiasExplorer
from alibi_viz.widgets.core.debounce import Debounce


def test_only_the_last_work_runs_and_only_after_the_delay():
    async def scene() -> list[str]:
        debounce, done = Debounce(0.05), []
        for word in ("one", "two", "three"):
            debounce(lambda word=word: done.append(word))
            await asyncio.sleep(0.01)
        assert done == []
        await asyncio.sleep(0.1)
        return done

    assert asyncio.run(scene()) == ["three"]


def test_flush_runs_waiting_work_once():
    async def scene() -> list[str]:
        debounce, done = Debounce(0.02), []
        debounce(lambda: done.append("one"))
        debounce.flush()
        assert done == ["one"]
        debounce.flush()
        await asyncio.sleep(0.05)
        return done

    assert asyncio.run(scene()) == ["one"]


def test_without_an_event_loop_work_runs_at_once():
    done = []
    Debounce(60)(lambda: done.append("one"))
    assert done == ["one"]


def test_hover_is_hidden_while_the_picture_changes_and_correct_afterwards():
    async def scene() -> None:
        app = BiasExplorer(num_heads=2, length=4)
        app._debounce.delay = 0.02
        app.length = 5
        hover = app.figure.data[0]
        assert hover.visible is False  # it still holds the biases of the previous length
        await asyncio.sleep(0.1)
        assert hover.visible is True
        assert hover.customdata[4][0].tolist()[:4] == [4, 0, 4, -0.25]
        app.length = 3
        picture = app.snapshot()  # flushes
        assert picture.data[0].visible is True
        assert picture.data[0].customdata[2][0].tolist()[:4] == [2, 0, 2, -0.125]

    asyncio.run(scene())
