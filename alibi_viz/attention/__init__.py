"""ALiBi attention: several exact implementations, one per file, behind `alibi_attention`.

`attention_trace` (in `eager`) shows every step. `choose` selects the fastest of the others for a call.
"""

from alibi_viz.attention.choose import BACKENDS, Choice, alibi_attention, choose_backend
from alibi_viz.attention.coordinates import fold
from alibi_viz.attention.eager import AttentionTrace, attention_trace
from alibi_viz.attention.key_statistics import KeyStatistics

__all__ = [
    "BACKENDS",
    "AttentionTrace",
    "Choice",
    "KeyStatistics",
    "alibi_attention",
    "attention_trace",
    "choose_backend",
    "fold",
]
