"""Position methods: one class each, behind one protocol."""

from alibi_viz.models.positions.base import POSITIONS, Alibi, Learned, Position, Rotary, Sinusoidal

__all__ = ["POSITIONS", "Alibi", "Learned", "Position", "Rotary", "Sinusoidal"]
