"""Transformers that differ only in their position method."""

from alibi_viz.models.config import TransformerConfig
from alibi_viz.models.key_value_cache import KeyValueCache
from alibi_viz.models.language_model import LanguageModel
from alibi_viz.models.positions import POSITIONS, Alibi, Learned, Position, Rotary, Sinusoidal, register
from alibi_viz.models.positions.own import Law, Method, method_name, own_method
from alibi_viz.models.positions.provenance import provenance
from alibi_viz.models.positions.sinks import WindowWithSinks
from alibi_viz.models.self_attention import AlibiSelfAttention, SelfAttention
from alibi_viz.models.transformer import Transformer

__all__ = [
    "POSITIONS",
    "Alibi",
    "AlibiSelfAttention",
    "KeyValueCache",
    "LanguageModel",
    "Law",
    "Learned",
    "Method",
    "Position",
    "Rotary",
    "SelfAttention",
    "Sinusoidal",
    "Transformer",
    "TransformerConfig",
    "WindowWithSinks",
    "method_name",
    "own_method",
    "provenance",
    "register",
]
