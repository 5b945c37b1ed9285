"""Floor 2: transformers that differ only in how they learn where their tokens are."""

from alibi_viz.models.key_value_cache import KeyValueCache
from alibi_viz.models.language_model import LanguageModel
from alibi_viz.models.positions import POSITIONS, Alibi, Learned, Position, Rotary, Sinusoidal
from alibi_viz.models.self_attention import AlibiSelfAttention
from alibi_viz.models.transformer import Transformer, TransformerConfig

__all__ = [
    "POSITIONS",
    "Alibi",
    "AlibiSelfAttention",
    "KeyValueCache",
    "LanguageModel",
    "Learned",
    "Position",
    "Rotary",
    "Sinusoidal",
    "Transformer",
    "TransformerConfig",
]
