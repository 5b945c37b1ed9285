"""Claims on how far back a model finds, copies or recalls."""

from typing import Any

from alibi_viz.lab.claims.claim import PILOT, UNSEEN, VERSION_1, Claim
from alibi_viz.lab.claims.papers import cite
from alibi_viz.lab.claims.wording import finds, more_accurate, recalls

__all__ = ["CLAIMS"]

OURS = "this project"
EARLY: dict[str, Any] = {"written": "2026-11-21", "seen": PILOT}
POST_HOC: dict[str, Any] = {"written": "2026-11-22", "seen": VERSION_1}
NEW: dict[str, Any] = {"written": "2026-11-22", "seen": UNSEEN}
CONTROL: dict[str, Any] = {"written": "2026-11-22", "seen": PILOT}

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
    finds("bam", cite("bam", "on passkeys"), **NEW),
    more_accurate("kerple-log", "alibi", 4, OURS, at_least=0.1, **EARLY),
    more_accurate("kerple-log", "alibi", 16, f"{OURS}, after 4L had shown no difference", at_least=0.1, **POST_HOC),
    more_accurate("forget", "alibi", 16, "version 0.1", at_least=0.1, **POST_HOC),
    more_accurate("rotary", "alibi", 1, "a common belief", at_least=0.01, **EARLY),
    more_accurate("none", "alibi", 4, cite("nope", "on other small tasks"), at_least=0.1, **EARLY),
    *(
        more_accurate("alibi", label, 4, "version 0.1", at_least=0.1, **POST_HOC)
        for label in ("sinusoidal", "rotary", "none", "t5", "fire")
    ),
    recalls("alibi trained at 16L", f"{OURS}: a control", at_least=1.0, **CONTROL),
    recalls("alibi trained at 16L", f"{OURS}: a control", at_least=0.5, task="text with passages", **CONTROL),
    recalls("alibi", f"{OURS}: alibi does use context beyond L where it pays", at_least=0.3, **CONTROL),
    recalls("alibi", OURS, at_least=0.3, task="text with passages", **CONTROL),
    *(recalls(label, OURS, at_least=0.3, **CONTROL) for label in ("none", "rotary")),
    *(recalls(label, OURS, at_least=0.3, **NEW) for label in ("sinusoidal", "kerple-log")),
    Claim(
        "passages: with 16L of context, alibi trained at L recalls 0.5 bits less from beyond L than trained at 16L",
        OURS,
        lambda s: (
            s.answer("passages", "alibi", "far context", 1024)
            - s.answer("passages", "alibi trained at 16L", "far context", 1024)
        ),
        0.5,
        **CONTROL,
    ),
    Claim(
        "induction: in examples of 16L, the accuracy of kerple-log is at least 0.1 higher than that of alibi",
        OURS,
        lambda s: s.accuracy("induction", "kerple-log", 16) - s.accuracy("induction", "alibi", 16),
        0.1,
        **NEW,
    ),
    Claim(
        "needles at twice the training length: alibi near zero in a language model", cite("drope", "tables"), **EARLY
    ),
    Claim(
        "perplexity is not retrieval: models that hold their perplexity fail on longer retrieval tasks",
        cite("ruler"),
        **NEW,
    ),
)
