"""ALiBi attention: several exact implementations behind `alibi_attention` (in `dispatch`, which
chooses one).

`attention_trace` (in `dense`) shows every step.
"""

from alibi_viz.attention.dense import AttentionTrace, attention_trace
from alibi_viz.attention.dispatch import Choice, alibi_attention, choose_backend
from alibi_viz.attention.folded import fold
from alibi_viz.attention.inputs import KeyBall

__all__ = [
    "AttentionTrace",
    "Choice",
    "KeyBall",
    "alibi_attention",
    "attention_trace",
    "choose_backend",
    "fold",
]
