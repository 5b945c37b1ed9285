"""Claims on why a method works on longer windows: what the softmax and the attention do there."""

from functools import partial
from typing import Any

from alibi_viz.lab.claims.claim import UNSEEN, Claim, Seed
from alibi_viz.lab.claims.papers import cite
from alibi_viz.lab.claims.wording import worse
from alibi_viz.lab.tasks import TASKS

__all__ = ["CLAIMS"]

OURS = "this project"
NEW: dict[str, Any] = {"written": "2026-11-22", "seen": UNSEEN}


def _beyond(label: str, seed: Seed) -> float:
    """The share of the attention on keys at least L back, on windows of 16 L."""
    return seed.bits(label, 16, question="attention beyond L")


def _growth(label: str, seed: Seed) -> float:
    """How many bits the denominator grows from windows of 8 L to 16 L; at equal content without a bias, by 1."""
    far, near = (seed.bits(label, times, question="softmax denominator") for times in (16, 8))
    return far - near


def _margin(times: int, seed: Seed) -> float:
    """The needle's margin found minus the margin needed, in nats, at the largest distance in `times` L tokens."""
    distance = TASKS["needle"].max_distance(times * seed.length)
    return seed.answer("needle", "alibi", "needle margin", distance)


CLAIMS = (
    Claim(
        "the softmax's denominator stays bounded: from windows of 8L to 16L it grows by at most 0.1 bits for alibi",
        OURS,
        partial(_growth, "alibi"),
        at_most=0.1,
        **NEW,
    ),
    *(
        Claim(
            f"the softmax's denominator is not bounded for {label}: from windows of 8L to 16L it grows by 0.3 bits",
            OURS,
            partial(_growth, label),
            0.3,
            **NEW,
        )
        for label in ("none", "rotary")
    ),
    Claim(
        "on windows of 16L, alibi gives at most 40% of its attention to keys at least L back",
        OURS,
        partial(_beyond, "alibi"),
        at_most=0.4,
        limits=(0, 1),
        **NEW,
    ),
    *(
        Claim(
            f"on windows of 16L, {label} gives at least 60% of its attention to keys at least L back",
            OURS,
            partial(_beyond, label),
            0.6,
            limits=(0, 1),
            **NEW,
        )
        for label in ("none", "rotary")
    ),
    *(
        worse(
            "a window needs the first tokens, the sinks",
            cite("streaming", "on pretrained models"),
            (label, 16, "window"),
            (label, 16, "window and sinks"),
            at_least=0.01,
            **NEW,
        )
        for label in ("alibi", "none")
    ),
    Claim(
        "needle: within L the best head of alibi has the margin that the needle needs",
        OURS,
        partial(_margin, 1),
        0.0,
        **NEW,
    ),
    Claim(
        "needle: 32L back no head of alibi has the margin that the needle needs",
        OURS,
        partial(_margin, 32),
        at_most=0.0,
        **NEW,
    ),
)
