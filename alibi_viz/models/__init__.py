"""Transformers that differ only in their position method. The methods are in `positions`."""

from alibi_viz.models.cache import KeyValueCache
from alibi_viz.models.configuration import TransformerConfig
from alibi_viz.models.positions import POSITIONS, Position
from alibi_viz.models.self_attention import AlibiSelfAttention, SelfAttention
from alibi_viz.models.transformer import LanguageModel, Transformer

__all__ = [
    "POSITIONS",
    "AlibiSelfAttention",
    "KeyValueCache",
    "LanguageModel",
    "Position",
    "SelfAttention",
    "Transformer",
    "TransformerConfig",
]
