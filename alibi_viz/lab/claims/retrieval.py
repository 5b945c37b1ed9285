"""Claims on how far back a model finds, copies or recalls."""

from typing import Any

from alibi_viz.lab.claims.claim import PILOT, VERSION_1, Claim
from alibi_viz.lab.claims.papers import cite
from alibi_viz.lab.claims.wording import finds, more_accurate

__all__ = ["CLAIMS"]

OURS = "this project"
EARLY: dict[str, Any] = {"written": "2026-11-21", "seen": PILOT}
POST_HOC: dict[str, Any] = {"written": "2026-11-22", "seen": VERSION_1}

CLAIMS = (
    Claim(
        "needle: alibi's accuracy is at least 0.4 lower 32L back, beyond 4/m of its flattest head, than within L",
        OURS,
        lambda s: s.accuracy("needle", "alibi", 1) - s.accuracy("needle", "alibi", 32),
        0.4,
        **EARLY,
    ),
    *(finds(label, OURS, **EARLY) for label in ("none", "t5", "kerple-log")),
    finds("fire", "version 0.1", **POST_HOC),
    finds("bam", cite("bam", "on passkeys"), written="2026-11-22", seen="before any run"),
    more_accurate("kerple-log", "alibi", 4, OURS, at_least=0.1, **EARLY),
    more_accurate("kerple-log", "alibi", 16, f"{OURS}, after 4L had shown no difference", at_least=0.1, **POST_HOC),
    more_accurate("forget", "alibi", 16, "version 0.1", at_least=0.1, **POST_HOC),
    more_accurate("rotary", "alibi", 1, "a common belief", at_least=0.01, **EARLY),
    more_accurate("none", "alibi", 4, cite("nope", "on other small tasks"), at_least=0.1, **EARLY),
    *(
        more_accurate("alibi", label, 4, "version 0.1", at_least=0.1, **POST_HOC)
        for label in ("sinusoidal", "rotary", "none", "t5", "fire")
    ),
    Claim(
        "needles at twice the training length: alibi near zero in a language model", cite("drope", "tables"), **EARLY
    ),
    Claim(
        "perplexity is not retrieval: models that hold their perplexity fail on longer retrieval tasks",
        cite("ruler"),
        written="2026-11-22",
        seen="before any run",
    ),
)
