"""Claims on longer windows than in training."""

from functools import partial
from typing import Any

from alibi_viz.lab.claims.claim import PILOT, UNSEEN, VERSION_1, Claim, Seed
from alibi_viz.lab.claims.papers import cite
from alibi_viz.lab.claims.wording import holds, worse

__all__ = ["CLAIMS"]

OURS = "this project"
EARLY: dict[str, Any] = {"written": "2026-11-21", "seen": PILOT}
POST_HOC: dict[str, Any] = {"written": "2026-11-22", "seen": VERSION_1}
NEW: dict[str, Any] = {"written": "2026-11-22", "seen": UNSEEN}
YARN: dict[str, Any] = {"written": "2026-11-22", "seen": PILOT}  # it was tried while its rule was written
OVERTRAINED = (
    "ALiBi trained for long extrapolates well only to about 12% beyond the training length "
    f"({cite('alibi interpolation', 'section 1')}); trained on 2,048 tokens alone it does not extrapolate well in "
    f"practice (model card of {cite('btlm')})"
)
WITH_SINKS = (
    f"pretrained models, MPT among them, need the first tokens beside a window ({cite('streaming')}; "
    f"{cite('lm-infinite')})"
)
EIGHT_HEADS = "with eight heads it is the other way round in this comparison, see the rows of rotary, 8 heads"


def _rises_more(label: str, seed: Seed) -> float:
    return seed.rise(f"{label}, four times the steps") - seed.rise(f"{label}, a quarter of the steps")


CLAIMS = (
    holds("alibi", cite("alibi", "table 2"), contrary=OVERTRAINED, **EARLY),
    worse("sinusoidal fails", cite("alibi", "table 2"), ("sinusoidal", 4), ("alibi", 4), at_least=0.5, **EARLY),
    worse("rotary fails", cite("alibi", "table 2"), ("rotary", 16), ("rotary", 1), at_least=0.5, **EARLY),
    Claim(
        "windows of 2L hide how badly rotary fails: its loss rises at least three times as much to 4L as to 2L",
        OURS,
        lambda s: s.bits("rotary", 4) - s.bits("rotary", 1) - 3 * (s.bits("rotary", 2) - s.bits("rotary", 1)),
        **EARLY,
    ),
    worse(
        "without positions the loss rises with length",
        OURS,
        ("none", 16),
        ("none", 1),
        at_least=0.1,
        contrary=f"on small algorithmic tasks, no positions generalize best ({cite('nope')})",
        **EARLY,
    ),
    holds("t5", cite("alibi", "table 3: to about 2L"), times=2, written="2026-11-22", seen=VERSION_1),
    worse("t5 fails far beyond its source's claim", OURS, ("t5", 16), ("t5", 1), at_least=0.5, **POST_HOC),
    holds("kerple-log", cite("kerple"), **EARLY),
    holds("sandwich", cite("sandwich"), **EARLY),
    holds("fire", cite("fire"), **EARLY),
    holds("forget", cite("forget"), **EARLY),
    holds("xpos", cite("xpos", "with blockwise causal attention, which is not used here"), **NEW),
    holds("cope", cite("cope"), **NEW),
    holds("stick-breaking", cite("stick-breaking"), **NEW),
    holds("bam", cite("bam"), **NEW),
    holds("randomized", cite("randomized", "on algorithmic tasks"), **NEW),
    worse(
        "alibi is at its best at 4L",
        "the review of version 0.1",
        ("alibi", 16),
        ("alibi", 4),
        at_least=0.0,
        **POST_HOC,
    ),
    worse(
        "early token curse", cite("alibi", "appendix B"), ("alibi", 1), ("alibi", 16, "window"), at_least=0.01, **EARLY
    ),
    Claim(
        "alibi acts like a soft window: limiting its attention to L changes its loss at 16L by at most 0.05 bits",
        cite("sandwich"),
        lambda s: abs(s.bits("alibi", 16, "window") - s.bits("alibi", 16)),
        at_most=0.05,
        contrary=WITH_SINKS,
        **EARLY,
    ),
    worse(
        "a window of L repairs rotary",
        OURS,
        ("rotary", 16, "window"),
        ("alibi", 16),
        at_most=0.05,
        contrary=WITH_SINKS,
        **EARLY,
    ),
    worse(
        "rotary with a window of L is the better of the two",
        OURS,
        ("alibi", 16),
        ("rotary", 16, "window"),
        at_least=0.1,
        **POST_HOC,
    ),
    worse(
        "without fine-tuning, PI does harm",
        OURS,
        ("rotary", 2, "pi"),
        ("rotary", 2),
        at_least=0.02,
        contrary=f"at 4 times its length, LLaMA is far better with PI than without ({cite('pi')})",
        **EARLY,
    ),
    *(
        worse(
            f"without fine-tuning, {name} helps",
            source,
            ("rotary", 2),
            ("rotary", 2, name.lower()),
            at_least=0.02,
            contrary=EIGHT_HEADS,
            **history,
        )
        for name, source, history in (("NTK", "bloc97 2023", EARLY), ("YaRN", cite("yarn"), YARN))
    ),
    worse(
        "YaRN is better than NTK",
        cite("yarn"),
        ("rotary", 4, "ntk"),
        ("rotary", 4, "yarn"),
        at_least=0.02,
        contrary=EIGHT_HEADS,
        **YARN,
    ),
    worse(
        "interpolating alibi's slopes helps beyond the training length",
        cite("alibi interpolation", "for models trained for long"),
        ("alibi", 2),
        ("alibi", 2, "slopes interpolated"),
        at_least=0.01,
        written="2026-11-22",
        seen=PILOT,
    ),
    Claim(
        "alibi gains nothing from context beyond L: on the same targets, 16L of context saves at most 0.02 bits",
        cite("alibi", "appendix B"),
        lambda s: s.bits("alibi", 1, question="same targets") - s.bits("alibi", 16, question="same targets"),
        at_most=0.02,
        **EARLY,
    ),
    Claim(
        "sandwich gains from context beyond L: on the same targets, 16L of context saves at least 0.01 bits",
        cite("sandwich"),
        lambda s: s.bits("sandwich", 1, question="same targets") - s.bits("sandwich", 16, question="same targets"),
        0.01,
        **POST_HOC,
    ),
    *(
        Claim(
            f"after 16 times as many steps, {label} extrapolates less well: its loss rises at least 0.05 bits more "
            "from L to 16L",
            cite("alibi interpolation", "section 1" if label == "alibi" else "section 1, on alibi; carried over here"),
            partial(_rises_more, label),
            0.05,
            **NEW,
        )
        for label in ("alibi", "rotary", "forget")
    ),
    Claim(
        "the steepest slope decides: with 8 heads alibi is at least 0.02 bits better than with 4 at L",
        "the review of version 0.1",
        lambda s: s.bits("alibi", 1) - s.bits("alibi, 8 heads", 1),
        0.02,
        **NEW,
    ),
)
