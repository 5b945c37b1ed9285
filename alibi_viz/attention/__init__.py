"""ALiBi attention: several exact implementations behind one function, `alibi_attention`.

Read in this order:

- `inputs`: the arguments of a call, their checks, and the `Backend` record
- `dispatch`: `alibi_attention`, `attend` for layers, and the order in which backends are tried
- `dense`: every pair of query and key, step by step ("eager", and `attention_trace`, which shows
  the steps) or by torch's fused kernel ("mask")
- `folded`: the bias as more coordinates of query and key ("folded")
- `skipping`: without the keys whose weight is negligible ("windowed")
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
