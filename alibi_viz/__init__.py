"""Understand Attention with Linear Biases (ALiBi) by exploring it: slopes, biases, attention and small transformers.

`alibi_viz.check` finds faults in other implementations, `alibi_viz.lab` trains and compares models, `alibi_viz.study`
has our own results with it, `alibi_viz.figures` draws plotly figures, `alibi_viz.widgets` has the apps and
`alibi_viz.lessons` checks exercises. These are loaded on first use, so `import alibi_viz` takes hardly longer than
importing torch.

To read the code, start with `slopes`, then `distance`, `bias`, `attention`, `models`, `lab`, `figures` and `widgets`:
each imports only from those before it.
"""

from importlib import import_module
from importlib.metadata import version
from typing import Any

from alibi_viz.attention import AttentionTrace, KeyStatistics, alibi_attention, attention_trace, choose_backend, fold
from alibi_viz.bias import alibi_bias, bias_from_positions, grid_bias
from alibi_viz.bias_cache import AlibiBias
from alibi_viz.distance import causal_mask
from alibi_viz.models import AlibiSelfAttention, KeyValueCache, LanguageModel, Transformer, TransformerConfig
from alibi_viz.slopes import LearnedSlopes, alibi_slopes, e_fold, half_life, reach

__all__ = [
    "AlibiBias",
    "AlibiSelfAttention",
    "AttentionTrace",
    "KeyStatistics",
    "KeyValueCache",
    "LanguageModel",
    "LearnedSlopes",
    "Transformer",
    "TransformerConfig",
    "alibi_attention",
    "alibi_bias",
    "alibi_slopes",
    "attention_trace",
    "bias_from_positions",
    "causal_mask",
    "choose_backend",
    "e_fold",
    "fold",
    "grid_bias",
    "half_life",
    "reach",
]

_LAZY = ("check", "figures", "lab", "lessons", "study", "widgets")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("alibi-viz")
    if name in _LAZY:
        return import_module(f"alibi_viz.{name}")
    raise AttributeError(f"module 'alibi_viz' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY])
