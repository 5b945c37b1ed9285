"""ALiBi (Attention with Linear Biases) to explore: slopes, biases, attention, small transformers.

`alibi_viz.check` finds faults in other implementations, `alibi_viz.lab` trains and compares models,
`alibi_viz.study` has our own results with it, `alibi_viz.figures` draws plotly figures,
`alibi_viz.widgets` has the apps and `alibi_viz.lessons` checks exercises. They load on first use,
so `import alibi_viz` is as fast as importing torch.

To read the code, start with `minimal`, then `slopes`, `bias`, `attention`, `models`, `check`,
`data`, `surgery`, `measure`, `train`, `figures` and `widgets`. None imports from those after it,
except that a report of `check` loads `figures` to draw itself in a notebook.
"""

from importlib.metadata import version
from typing import Any

from alibi_viz.arguments import load_module
from alibi_viz.attention import (
    AttentionTrace,
    alibi_attention,
    attention_trace,
    choose_backend,
    fold,
)
from alibi_viz.bias import alibi_bias, causal_mask
from alibi_viz.cached_bias import AlibiBias
from alibi_viz.models import (
    AlibiSelfAttention,
    KeyValueCache,
    LanguageModel,
    Transformer,
    TransformerConfig,
)
from alibi_viz.slopes import LearnedSlopes, alibi_slopes, half_life

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
    "causal_mask",
    "choose_backend",
    "fold",
    "half_life",
]

# Loaded on first use: {name: module}
_LAZY = {
    "check": "alibi_viz.check",
    "figures": "alibi_viz.figures",
    "gallery": "alibi_viz.check.gallery",
    "lab": "alibi_viz.lab",
    "lessons": "alibi_viz.lessons",
    "precision": "alibi_viz.measure.rounding",
    "study": "alibi_viz.study",
    "widgets": "alibi_viz.widgets",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("alibi-viz")
    if name in _LAZY:
        return load_module(_LAZY[name])
    raise AttributeError(f"module 'alibi_viz' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAZY])
