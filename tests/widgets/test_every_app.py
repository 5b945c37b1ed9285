"""What holds in every app: any value is shown or changes nothing, controls say what they do,
closing ends the work."""

import asyncio
import gc
import os
import random
import re
import weakref
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ipywidgets import ToggleButton, ToggleButtons
from ipywidgets.widgets.widget import _instances

from alibi_viz import lab, widgets
from alibi_viz.widgets.core.app import App
from alibi_viz.widgets.core.controls import below
from alibi_viz.widgets.core.traits import BadValue, Count, Flag, Law, Names, Number
from tests.custom_laws import root
from tests.notebooks.lessons import named, read
from tests.widgets.race.small_race import control

APPS = {name: getattr(widgets, name) for name in widgets.__all__ if name != "App"}
MODEL = lab.make_model("alibi")
TEXT = "one two three, " * 300
SMALL: dict[str, Callable[..., App]] = APPS | {
    "SlopeSurgery": partial(widgets.SlopeSurgery, MODEL, length=8, lengths=[8, 16], text=TEXT),
    "WindowExplorer": partial(widgets.WindowExplorer, **{"text": TEXT}),
}
ANYTHING = [
    None,
    True,
    -1,
    0,
    3,
    2.5,
    float("nan"),
    10**400,
    np.int64(2),
    "",
    "nonsense",
    "<b>x</b>",
    [],
    [None],
    {},
]
ANYTHING += [
    object(),
    torch.zeros(2),
    lambda distance, head, num_heads: -distance.float(),
    b"\xff",
    "word " * 20_000,
]


def candidates(app: App, name: str, chance: random.Random) -> list[Any]:
    """A few values that the trait may take, and some that it must not."""
    trait, values = app.traits()[name], list(chance.sample(ANYTHING, 6))
    if isinstance(trait, Count | Number):
        values += [trait.min, trait.max, trait.max + 1, chance.randint(1, 8)]
    elif isinstance(trait, Names):
        values += [chance.sample(trait.offered(app), 3)]
    elif hasattr(trait, "offered"):
        values += chance.sample(trait.offered(app), min(3, len(trait.offered(app))))
        values += [root] * isinstance(trait, Law)
    elif isinstance(trait, Flag):
        values += [True, False]
    return values


def words(app: App) -> tuple[str, str, str]:
    return repr(app), app.caption, app.details


def curves(app: App) -> list[Any]:
    """The data of the visible traces; hidden ones may keep old data."""
    traces = [trace for trace in app.figure.data if trace.visible is not False]
    return [trace[key] for trace in traces for key in "xyz" if key in trace]


@pytest.mark.parametrize("name", APPS)
def test_any_value_of_any_trait_is_shown_or_changes_nothing(name: str) -> None:
    app, chance = SMALL[name](), random.Random(0)
    for trait in app._names():
        for value in candidates(app, trait, chance):
            before = words(app), app.figure.to_json()
            try:
                setattr(app, trait, value)
            except BadValue as error:
                assert (words(app), app.figure.to_json()) == before, (trait, value)
                assert len(str(error)) < 1000, "a message, not a dump"
            else:
                fresh = SMALL[name](**app._state())
                assert words(app) == words(fresh), (trait, value)
                np.testing.assert_equal(curves(app), curves(fresh), str((trait, value)))
            assert app.caption


PIECES = ["\0", "\u0301", "\u202e", "\ud800", "\u2028", "\xa0", "<b>", "&", "$x$", "\\", " "]
PIECES += ["<script>alert(1)</script>"]
TEXTS = st.lists(st.sampled_from(PIECES) | st.characters() | st.text(max_size=30), max_size=60).map(
    "".join
)
with_text = cache(lambda name: APPS[name]())


@pytest.mark.parametrize("name", ["AttentionExplorer", "LengthLab", "WindowExplorer"])
@settings(max_examples=int(os.environ.get("EXAMPLES", "12")), deadline=None, derandomize=True)
@given(text=TEXTS)
@example("x" * 10_000_000)
@example("word\n" * 10_000_000)
def test_any_text_is_taken_or_refused_with_a_reason(name: str, text: str) -> None:
    app = with_text(name)  # one for all texts
    with suppress(BadValue):
        app.text = text
    assert "<script" not in app._caption.value + app._details.value + app._message.value
    app.text = "to be or not to be"
    assert app.caption


@pytest.mark.parametrize("app", APPS.values())
def test_controls_say_what_they_do_numbers_have_their_range_and_the_reason_is_in_a_lesson(
    app: type[App],
) -> None:
    controls = [widget for widget in below(app()) if widget.has_trait("disabled")]
    assert len(controls) > 3
    assert not {"caption", "details"} & {*app().keys}, "what HTML shows isn't sent twice"
    for each in controls:
        tips = each.tooltips if isinstance(each, ToggleButtons) else [each.tooltip]
        assert tips and all(tips), (type(each).__name__, each._dom_classes)
        text, icon = getattr(each, "description", ""), getattr(each, "icon", "")
        assert icon == ("caret-right" if isinstance(each, ToggleButton) else icon.lower()), text
        assert len(text) < len(max(tips, key=len)) or tips == ["Your guess"], (
            "the tip says more than the text"
        )
    for name, trait in app.class_traits(state=True).items():
        told = re.search(rf"\n        {name}: .*?([-\d/]+) to (\d[\d,]*)", str(app.__doc__))
        if told and isinstance(trait, Count | Number):
            assert (trait.min, trait.max) == (Fraction(told[1]), int(told[2].replace(",", ""))), (
                "as documented"
            )
    (lesson,) = named([app.why.lesson])
    assert any(f"## {app.why.section}\n" in cell.source for cell in read(lesson).cells)


def test_a_closed_app_does_nothing_more() -> None:
    async def close() -> None:
        bias = widgets.BiasExplorer(num_heads=2, length=4)
        for app in (
            slow := [widgets.AttentionExplorer(MODEL, text=TEXT), widgets.WindowExplorer(text=TEXT)]
        ):
            control(app, "s-text").value = "another text"
        for app, debounce in ((bias, bias._debounce), *((app, app.works[0]) for app in slow)):
            assert debounce._work, "the hover texts and the reading of a slow text come later"
            app.close()
            assert debounce._work is None
        bias = widgets.BiasExplorer(num_heads=2, length=4)
        bias.snapshot()
        assert bias._debounce._work is None, "a picture has its hover texts at once"

    asyncio.run(close())


def test_apps_are_attributes_of_widgets_and_an_unknown_name_raises() -> None:
    assert "BiasExplorer" in dir(widgets)
    with pytest.raises(AttributeError, match="has no attribute 'SlopesExplorer'"):
        widgets.SlopesExplorer  # noqa: B018


@pytest.mark.parametrize("name", APPS)
def test_a_closed_app_leaves_no_widget_and_is_freed(name: str) -> None:
    before, app = set(_instances), SMALL[name]()
    app.close()
    assert set(_instances) == before, "ipywidgets keeps every widget that is not closed"
    gone = weakref.ref(app)
    del app
    gc.collect()
    assert gone() is None
