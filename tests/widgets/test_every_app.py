"""What holds in every app: any value is shown or changes nothing, controls say what they do,
closing ends the work."""

import asyncio
import gc
import random
import re
import weakref
from contextlib import suppress
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ipywidgets import (
    Checkbox,
    Dropdown,
    IntSlider,
    SelectionSlider,
    ToggleButtons,
)
from ipywidgets.widgets.widget import _instances
from traitlets import Bool, Float, Int, Tuple

from alibi_viz import lab, widgets
from alibi_viz.widgets.core.controls import below
from alibi_viz.widgets.core.plot import PlotlyScript, plain
from alibi_viz.widgets.core.traits import BadValue, choices
from tests import tables
from tests.custom_laws import root
from tests.notebooks.lessons import named, read
from tests.widgets.race.small_race import control
from tests.widgets.test_comparison_explorer import GAP, WINDOWED

pytestmark = pytest.mark.usefixtures("quick_writing")
APPS = {name: getattr(widgets, name) for name in widgets.__all__ if name != "App"}
MODEL = lab.make_model("alibi", **tables.SMALL)
TEXT = "one two three, " * 1600  # long enough for the published models
SMALL = APPS | {
    "AttentionExplorer": partial(widgets.AttentionExplorer, MODEL, text="to be or"),
    "ComparisonExplorer": partial(widgets.ComparisonExplorer, pd.concat([GAP, WINDOWED])),
    "SlopeSurgery": partial(widgets.SlopeSurgery, MODEL, length=8, lengths=[8, 16], text=TEXT),
}
every_app = pytest.mark.parametrize("name", APPS)


@cache
def opened(name):
    """An app as it opens, for all tests that only look at it; but surgery on a small model."""
    apps = SMALL if name == "SlopeSurgery" else APPS
    return apps[name]()


# Any value of any trait


def nameless(distance, head, num_heads):
    """A law without a name that a menu could show."""
    return -distance.float()


nameless.__name__ = "<lambda>"
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
    "word " * 20_000,
    b"\xff",
    [],
    [None],
    {},
    object(),
    torch.zeros(2),
    nameless,
]


def candidates(app, name, chance, number):
    """So many values of any kind, and twice as many that the trait may take, or nearly."""
    trait = app.traits()[name]
    likely = []
    offered = choices(app, name)
    if isinstance(trait, Tuple):
        likely += [chance.sample(offered, min(count, len(offered))) for count in (0, 1, 3)]
    elif offered:
        likely += offered
    elif isinstance(trait, Int | Float):
        likely += [trait.min, trait.max, trait.max + 1, chance.randint(1, 8)]
    elif isinstance(trait, Bool):
        likely += [True, False]
    if name == "law":
        likely += ["window", root]
    return [
        *chance.sample(ANYTHING, number),
        *chance.sample(likely, min(2 * number, len(likely))),
    ]


def words(app):
    return repr(app), app.caption, app.details


@every_app
@pytest.mark.parametrize(
    "number",
    [1, pytest.param(len(ANYTHING), marks=pytest.mark.weekly)],
    ids=["a few", "all"],
)
def test_any_value_is_shown_or_changes_nothing_and_reset_restores_the_start(name, number):
    app = SMALL[name]()
    chance = random.Random(name)  # other values for every app
    words_at_first = words(app)
    picture_before = plain(app.plot.picture)
    for trait in app.state_names():
        for value in candidates(app, trait, chance, number):
            case = f"{trait} = {value!r:.100}"
            words_before = words(app)
            try:
                setattr(app, trait, value)
            except BadValue as error:
                assert words(app) == words_before, case
                assert plain(app.plot.picture) == picture_before, case
                assert len(str(error)) < 1000, "a message, not a dump"
                continue
            picture_before = plain(app.plot.picture)
            opened_so = SMALL[name](**app._state())
            assert words(app) == words(opened_so), case
            assert picture_before == plain(opened_so.plot.picture), case
            go.Figure(app.plot.picture)  # plotly knows each property
            assert app.caption, case

    control(app, "s-reset").click()
    if name != "SpotTheBug":  # it stays at the case, and forgets only what was done with it
        assert words(app) == words_at_first


# Any text

ODD_PIECES = [
    "\0",
    "\u0301",  # an accent without a letter
    "\u202e",  # from right to left
    "\ud800",  # half of a surrogate pair
    "\u2028",  # a line separator
    "\xa0",
    "<b>",
    "&",
    "$x$",
    "\\",
    " ",
    "<script>alert(1)</script>",
]
PIECES = st.sampled_from(ODD_PIECES) | st.characters() | st.text(max_size=30)
TEXTS = st.lists(PIECES, max_size=60).map("".join)


@cache
def app_with_text(name):
    """One app for all texts."""
    return SMALL[name]()


@pytest.mark.parametrize("name", ["AttentionExplorer", "LengthLab"])
@settings(max_examples=8)
@given(text=TEXTS)
@example("x" * 1_000_000)
@example("word\n" * 1_000_000)
def test_any_text_is_taken_or_refused_and_never_becomes_html(name, text):
    app = app_with_text(name)
    with suppress(BadValue):
        app.text = text
    lines = (app.caption_line, app.details_line, app.message_line)
    assert not any("<script" in line.value for line in lines)
    app.text = "to be or not to be"
    assert app.caption


# Controls


def user_controls(app):
    """All widgets that a user can change."""
    return [widget for widget in below(app) if widget.has_trait("disabled")]


def tips(control):
    """The tooltip of a control, or those of its buttons."""
    return list(control.tooltips) if isinstance(control, ToggleButtons) else [control.tooltip]


def other_value(control):
    """A value that a control doesn't have; None if there is none, or if it takes any text."""
    if isinstance(control, IntSlider):
        return control.max if control.value != control.max else control.min
    if isinstance(control, Checkbox):
        return not control.value
    if isinstance(control, Dropdown | SelectionSlider | ToggleButtons):
        values = [value for _, value in control._options_full]
        return next((value for value in values if value != control.value), None)
    return None


@every_app
def test_every_control_sets_its_trait_and_follows_it(name):
    app = SMALL[name]()
    state = app._state()
    for widget in user_controls(app):
        value = other_value(widget)
        if value is None or widget.disabled or "s-more" in widget._dom_classes:
            continue
        before = widget.value
        widget.value = value
        control_name = f"{type(widget).__name__} {widget._dom_classes}"
        changed = {trait for trait, value in app._state().items() if value != state[trait]}
        assert changed, control_name
        # A control of one trait has its name as a class.
        own = {css.removeprefix("s-") for css in widget._dom_classes} & state.keys()
        assert own <= changed, control_name
        app.set_together(state)
        assert widget.value == before, control_name
        assert app._state() == state, control_name


@every_app
def test_every_control_says_more_in_its_tip_than_in_its_text(name):
    for widget in user_controls(opened(name)):
        described = f"{type(widget).__name__} {widget._dom_classes}"
        assert all(tips(widget)), f"{described} has no tip"
        if tips(widget) == ["Your guess"]:
            continue  # the text of the button is the guess
        text = getattr(widget, "description", "")
        longest_tip = max(tips(widget), key=len)
        assert len(text) < len(longest_tip), described


@every_app
def test_icons_of_controls_are_lowercase_and_folds_have_a_caret(name):
    for widget in user_controls(opened(name)):
        icon = getattr(widget, "icon", "")
        if "s-more" in widget._dom_classes:
            assert icon == "caret-right", widget.description
        assert icon == icon.lower(), widget.description


@every_app
def test_words_that_html_shows_are_not_sent_a_second_time(name):
    assert {"caption", "details"}.isdisjoint(opened(name).keys)


def documented_range(app, trait):
    """The limits of a trait in the docstring, as in "length: 1 to 256 tokens"; None without any."""
    found = re.search(rf"\n        {trait}: .*?([-\d/]+) to (\d[\d,]*)", str(app.__doc__))
    if found is None:
        return None
    low, high = found.groups()
    return Fraction(low), Fraction(high.replace(",", ""))


@every_app
def test_numbers_have_their_documented_range(name):
    app = APPS[name]
    for trait_name in app.state_names():
        trait = app.class_traits()[trait_name]
        documented = documented_range(app, trait_name)
        if isinstance(trait, Int | Float) and documented:
            assert documented == (trait.min, trait.max), trait_name


@every_app
def test_the_reason_of_an_app_is_in_a_lesson(name):
    why = APPS[name].why
    (lesson,) = named([why.lesson])
    assert any(f"## {why.section}\n" in cell.source for cell in read(lesson).cells)


# Closing


def test_a_closed_app_reads_no_text_any_more():
    async def close():
        app = widgets.AttentionExplorer(MODEL, text=TEXT)
        control(app, "s-text").value = "another text"
        debounce = app.works[0]
        assert debounce._work, "the reading of a slow text waits for a pause"
        app.close()
        assert debounce._work is None

    asyncio.run(close())


def test_a_closed_app_adds_no_hover_texts():
    async def close():
        app = widgets.BiasExplorer(num_heads=2, length=4)
        assert app._debounce._work, "hover texts wait for a pause"
        app.close()
        assert app._debounce._work is None

    asyncio.run(close())


def test_a_figure_has_its_hover_texts_at_once():
    async def traces():
        app = widgets.BiasExplorer(num_heads=2, length=4)
        return [trace.name for trace in app.figure.data]

    assert "tiles" in asyncio.run(traces())


@every_app
def test_a_closed_app_leaves_no_widget(name):
    PlotlyScript.current()  # stays, for all apps of a kernel
    before = set(_instances)
    SMALL[name]().close()
    assert set(_instances) == before, "ipywidgets keeps every widget that is not closed"


@every_app
def test_a_closed_app_is_freed(name):
    # What is older than the app is not searched again: that took most of the time.
    gc.freeze()
    app = SMALL[name]()
    app.close()
    reference = weakref.ref(app)
    del app
    gc.collect()
    gc.unfreeze()
    assert reference() is None


# The module


def test_every_app_is_listed():
    assert set(APPS) <= set(dir(widgets))


def test_unknown_app_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'SlopesExplorer'"):
        widgets.SlopesExplorer  # noqa: B018
