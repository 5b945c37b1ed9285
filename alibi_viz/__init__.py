"""alibi_viz: understand Attention with Linear Biases by moving it.

The floors, bottom to top: `slopes`, `distance`, `bias`, `attention`; `models`; `lab`; `figures`; `widgets`. The names
of the first two are here. `alibi_viz.lab`, `.figures` and `.widgets` are loaded on first use, so that
`import alibi_viz` costs no more than importing torch.
"""

from importlib import import_module
from types import ModuleType

from alibi_viz.attention import AttentionTrace, alibi_attention, attention_trace, choose_backend
from alibi_viz.bias import alibi_bias, bias_from_positions, grid_bias
from alibi_viz.bias_cache import AlibiBias
from alibi_viz.distance import causal_mask
from alibi_viz.models import AlibiSelfAttention, KeyValueCache, LanguageModel, Transformer, TransformerConfig
from alibi_viz.slopes import LearnedSlopes, alibi_slopes, e_fold, half_life, reach

__version__ = "0.1.0"
__all__ = [
    "AlibiBias",
    "AlibiSelfAttention",
    "AttentionTrace",
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
    "grid_bias",
    "half_life",
    "reach",
]

_LAZY = ("figures", "lab", "widgets")


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY:
        return import_module(f"alibi_viz.{name}")
    raise AttributeError(f"module 'alibi_viz' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY])
