"""Claims on which of two methods predicts better, in the range of training lengths and at equal training."""

from typing import Any

from alibi_viz.lab.claims.claim import PILOT, UNSEEN, VERSION_1, Claim
from alibi_viz.lab.claims.papers import cite
from alibi_viz.lab.claims.wording import worse

__all__ = ["CLAIMS"]

EARLY: dict[str, Any] = {"written": "2026-11-21", "seen": PILOT}
POST_HOC: dict[str, Any] = {"written": "2026-11-22", "seen": VERSION_1}
NEW: dict[str, Any] = {"written": "2026-11-22", "seen": UNSEEN}
LONGER_IS_BETTER = (
    "on about 3,000 tokens, ALiBi trained on 3,072 has perplexity 17.60, and trained on 1,024 it has 17.92 "
    f"({cite('alibi', 'table 2')})"
)
EQUAL_UPDATES = f"at equal updates, the paper's 1.3B models have the opposite order ({cite('alibi', 'figure 5')})"
BETTER = ("sandwich", "forget", "fire", "alibi, learned slopes", "kerple-log", "rotary", "t5")  # at L, in version 0.1

CLAIMS = (
    worse(
        "at short training lengths",
        cite("alibi", "table 5"),
        ("alibi", 1),
        ("sinusoidal", 1),
        at_least=0.01,
        **EARLY,
    ),
    *(worse("in range", "version 0.1", ("alibi", 1), (label, 1), at_least=0.05, **POST_HOC) for label in BETTER),
    worse(
        "no positions are nearly as good in range",
        cite("no positions", "table 1"),
        ("none", 1),
        ("sinusoidal", 1),
        at_most=0.1,
        **NEW,
    ),
    worse(
        "learned slopes are worse",
        cite("alibi", "section 3"),
        ("alibi, learned slopes", 16),
        ("alibi", 16),
        at_least=0.02,
        **EARLY,
    ),
    *(
        worse("better than alibi at 16L too", "version 0.1", ("alibi", 16), (label, 16), at_least=0.05, **POST_HOC)
        for label in ("alibi, learned slopes", "forget", "kerple-log", "sandwich")
    ),
    worse(
        "training on shorter windows pays, at equal tokens",
        cite("alibi", "abstract"),
        ("sinusoidal trained at 2L", 2),
        ("alibi trained at L", 2),
        at_least=0.02,
        contrary=EQUAL_UPDATES,
        **EARLY,
    ),
    worse(
        "training on shorter windows pays, at equal tokens",
        cite("alibi", "figure 5"),
        ("sinusoidal trained at 16L", 16),
        ("alibi trained at L", 16),
        at_least=0.02,
        contrary=EQUAL_UPDATES,
        **NEW,
    ),
    worse(
        "alibi itself is better when trained on short windows, at equal tokens",
        "this project",
        ("alibi trained at 16L", 16),
        ("alibi trained at L", 16),
        at_least=0.02,
        contrary=LONGER_IS_BETTER,
        **NEW,
    ),
    worse(
        "at equal tokens",
        "this project",
        ("alibi trained at L", 16),
        ("rotary trained at 16L", 16),
        at_most=0.05,
        **EARLY,
    ),
    Claim(
        "with 247M parameters, alibi beats sinusoidal at L = 512: perplexity 19.73 against 20.05",
        cite("alibi", "table 2"),
        **EARLY,
    ),
    Claim(
        "1.3B parameters: 8.92 at 2048 after training at 1024, sinusoidal 9.01 after 2048, in the same time",
        cite("alibi", "figure 5"),
        contrary="at the same number of updates, sinusoidal has 8.83 in the same figure",
        **EARLY,
    ),
    Claim("11% faster with 11% less memory, thanks to the shorter training length", cite("alibi", "abstract"), **EARLY),
)
