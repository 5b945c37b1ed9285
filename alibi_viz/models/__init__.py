"""Floor 2: transformers that differ only in how they learn where their tokens are."""

from alibi_viz.models.positions import POSITIONS, Alibi, Learned, Position, Rotary, Sinusoidal
from alibi_viz.models.transformer import LanguageModel, Transformer, TransformerConfig

__all__ = [
    "POSITIONS",
    "Alibi",
    "LanguageModel",
    "Learned",
    "Position",
    "Rotary",
    "Sinusoidal",
    "Transformer",
    "TransformerConfig",
]
