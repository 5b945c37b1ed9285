"""What the apps say in many states, as one text.

`make words` writes it to captions.txt, whose diff shows every word that a change of
the code changes.
"""

import math
from pathlib import Path

import torch

from alibi_viz import lab
from alibi_viz.lessons import BUGS
from alibi_viz.measure.continuations import Continuation
from alibi_viz.widgets import (
    AddConstant,
    AttentionExplorer,
    BiasExplorer,
    ComparisonExplorer,
    FarShare,
    Forgetting,
    LengthLab,
    PositionZoo,
    SlopeExplorer,
    SlopeSurgery,
    SpotTheBug,
    TugOfWar,
)
from alibi_viz.widgets.core.traits import short_repr
from alibi_viz.widgets.race import captions
from alibi_viz.widgets.race.state import RaceState, Written
from tests.custom_laws import nearly_flat, root
from tests.tables import table
from tests.widgets.race.small_race import ENGLISH, control
from tests.widgets.test_comparison_explorer import RESULTS
from tests.widgets.test_slope_surgery import make_small, small_app

FILE = Path(__file__).with_name("captions.txt")

# The apps


def attention(**state):
    """AttentionExplorer of a text with equal words, whose vectors are random."""
    text = "the cat saw the dog and the dog saw the cat"
    return AttentionExplorer(**{"text": text, "content": "random vectors", **state})


def attention_of_model(**state):
    return AttentionExplorer(lab.make_model("alibi"), text="to be", **state)


def bias(**state):
    """BiasExplorer with the slopes 1/4, 1/16, 1/64 and 1/256."""
    return BiasExplorer(**{"num_heads": 4, "length": 12, **state})


def comparison(**state):
    return ComparisonExplorer(RESULTS, **state)


def surgery(method="alibi", **state):
    """SlopeSurgery of an untrained model."""
    return small_app(make_small(method), **state)


def solved(bug):
    """SpotTheBug with a right guess."""
    return SpotTheBug(bug=bug, guess=BUGS[bug].fault)


STATES = {
    AddConstant: [
        {},
        {"where": "column", "index": 3, "constant": -9},
        {"where": "column", "constant": 0},
    ],
    AttentionExplorer: [{}, {"content": "layer 2", "head": 8}],
    attention: [
        {"head": 8, "query": 5, "bias": False},  # without an equal word
        {"head": 2, "query": 4, "causal": False},
        {"query": 3},  # all tokens are near
        {"order": 1},
        {"order": 1, "text": "to be or not " * 72},  # too long
    ],
    attention_of_model: [{"content": "layer 2"}],
    BiasExplorer: [{}, {"causal": False}, {"num_heads": 1, "length": 256}],
    bias: [
        {"form": "split"},
        {"form": "symmetric", "causal": False},
        {"form": "end", "head": 3},
        {"form": "key", "causal": False, "show": "bias"},
        {"law": "window"},
        {"law": "window", "length": 4, "show": "bias"},
        {"law": root, "head": 3, "show": "bias"},
        {"law": root, "causal": False},
        {"law": nearly_flat},
    ],
    comparison: [
        {},
        {"variant": "window", "methods": ("alibi", "rotary", "none", "t5")},
        {"question": "gap", "methods": ("alibi", "my law, steep")},
        {"question": "needle", "variant": "window", "methods": ("alibi", "none")},
        {"methods": ()},
    ],
    FarShare: [{}, {"stop": 31}, {"brake": 1 / 16}, {"stop": 63, "brake": 1 / 4}],
    Forgetting: [
        {},
        {"half_life": 1, "text": "word " * 40},
        {"half_life": 7, "square_root": True},
    ],
    LengthLab: [{}, {"methods": ("none",), "length": 8}, {"methods": ()}],
    PositionZoo: [
        {},
        {"distance": 1},
        {"method": "none", "distance": 0},
        {"method": "t5", "distance": 63},
        {"method": "kerple-log", "distance": 255},
        {"method": "sinusoidal", "distance": 200},
        {"method": "rotary", "distance": 63},
        {"method": "rotary", "distance": 64},
        {"method": "rotary", "base": 8},
    ],
    SlopeExplorer: [
        {},
        {"num_heads": 1, "compare": None},
        {"num_heads": 6},  # of which head 5 is the steepest
        {"num_heads": 12, "compare": "halving"},
        {"scheme": "halving", "compare": "official"},
    ],
    SlopeSurgery: [{}],
    surgery: [
        {"factor": 2**2.5, "dropped": "3", "window": 10},
        {"factor": 2.0, "dropped": "all"},
        {"window": 6, "sinks": 4},
        {"window": 1, "lengths": [16]},
        {"method": "rotary", "factor": 2.0, "sinks": 4},
        {"method": "learned", "lengths": [16, 32]},  # and not defined beyond 16
    ],
    SpotTheBug: [{}, {"bug": "case 7"}, {"bug": "case 10"}, {"guess": "no bias"}],
    solved: [{"bug": "case 4"}, {"bug": "case 13"}, {"bug": "case 14"}],
    TugOfWar: [{}, {"distance": 31}, {"distance": 32}, {"distance": 33}, {"content": 0}],
}


def said_by(app):
    """The caption and the details of an app, and a verdict as HTML if it has one."""
    parts = [app.caption, app.details]
    if isinstance(app, SpotTheBug):
        parts.append(control(app, "s-verdict").value)
    app.close()
    return parts


# Races that are over, made by hand, which no model has run


def said_after_race(
    *, state="finished", training=None, text=None, is_outdated=False, guesses=None, **curves
):
    """What LengthLab says after a race with these losses, {method: {length: bits}}.

    The training loss of all methods is `training`.
    """
    race = RaceState(
        methods={method: method for method in curves},
        length=8,
        steps=100,
        seed=3,
        text=text,
        guesses=guesses or {},
        emma=None,
    )
    race.state = state
    race.source = lab.load_text(text)
    losses = {method: [losses] for method, losses in curves.items()}
    race.rows = table("longer sequences", losses, length=8).to_dict("records")
    if training is not None:
        trained = table("longer sequences", {method: [{100: training}] for method in curves})
        race.rows += trained.assign(question="training loss").to_dict("records")
    texts = [Continuation("once", " upon", " a time")] * 8
    race.moments = {100: dict.fromkeys(curves, Written(texts, 1.0, []))}
    return captions.caption(race, race.results(), None, is_outdated=is_outdated)


HOLDS = {8: 2.0, 16: 2.05}
DEGRADES = {8: 2.0, 16: 2.3}
FAILS = {8: 2.1, 16: 3.0}
WORSE_THAN_COUNTING = {8: 2.0, 16: 6.0}
NOT_DEFINED = {8: 2.5, 16: math.nan}
AFTER_RACES = [
    {"alibi": HOLDS, "none": FAILS},
    {"alibi": HOLDS, "learned": NOT_DEFINED},
    {"alibi": HOLDS, "none": WORSE_THAN_COUNTING},
    {"alibi": FAILS, "training": 1.0},
    {"alibi": FAILS, "training": 1.6},
    {"alibi": HOLDS, "is_outdated": True},
    {"alibi": HOLDS, "is_outdated": True, "state": "stopped"},
    {"alibi": HOLDS, "text": ENGLISH + ENGLISH[:300]},  # which repeats itself
    {"alibi": DEGRADES, "guesses": {"alibi": "degrades"}},
    {"alibi": HOLDS, "none": FAILS, "guesses": {"alibi": "holds", "none": "holds"}},
    {
        "alibi": HOLDS,
        "rotary": FAILS,
        "none": FAILS,
        "guesses": {"alibi": "holds", "rotary": "fails", "none": "holds"},
    },
]


def heading(name, state):
    """What is opened, nearly as code: TugOfWar(distance=31)."""
    values = []
    for trait, value in state.items():
        values.append(f"{trait}={getattr(value, '__name__', short_repr(value))}")
    return f"{name}({', '.join(values)})"


def words():
    """What is said in all states: for each a heading, and a line for every sentence."""
    said = {}
    for open_app, states in STATES.items():
        for state in states:
            said[heading(open_app.__name__, state)] = said_by(open_app(**state))
    for race in AFTER_RACES:
        said[heading("after_race", race)] = said_after_race(**race)

    lines = []
    for name, parts in said.items():
        lines.append(name)
        for part in filter(None, parts):
            sentences = part.replace(". ", ".\n").splitlines()
            lines += [f"    {sentence}" for sentence in sentences]
            lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    torch.set_num_threads(1)  # as in the tests
    FILE.write_text(words(), encoding="utf-8")
