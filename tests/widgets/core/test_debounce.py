"""Work that waits for a still hand, and BiasExplorer's pointer, which is such work."""

import asyncio

from alibi_viz.widgets import BiasExplorer
from alibi_viz.widgets.core.debounce import Later


def test_only_the_last_work_is_done_and_only_after_the_delay():
    async def scene() -> list[str]:
        later, done = Later(0.05), []
        for word in ("one", "two", "three"):
            later(lambda word=word: done.append(word))
            await asyncio.sleep(0.01)
        assert done == []
        await asyncio.sleep(0.1)
        return done

    assert asyncio.run(scene()) == ["three"]


def test_now_does_what_waits_once():
    async def scene() -> list[str]:
        later, done = Later(0.02), []
        later(lambda: done.append("one"))
        later.now()
        assert done == ["one"]
        later.now()
        await asyncio.sleep(0.05)
        return done

    assert asyncio.run(scene()) == ["one"]


def test_without_a_loop_there_is_no_waiting():
    done = []
    Later(60)(lambda: done.append("one"))
    assert done == ["one"]


def test_the_pointer_is_silent_while_the_picture_moves_and_right_when_it_stands_still():
    async def scene() -> None:
        app = BiasExplorer(num_heads=2, length=4)
        app._later.delay = 0.02
        app.length = 5
        hover = app.figure.data[2]
        assert hover.visible is False  # rather than the biases of another length
        await asyncio.sleep(0.1)
        assert hover.visible is True
        assert hover.customdata[4][0].tolist() == [1, 4, 0, 4, -0.25]
        app.length = 3
        picture = app.snapshot()  # does not wait
        assert picture.data[2].visible is True
        assert picture.data[2].customdata[2][0].tolist() == [1, 2, 0, 2, -0.125]

    asyncio.run(scene())
