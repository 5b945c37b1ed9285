"""Position methods, registered by name in `POSITIONS`, in the order of these imports."""

# isort: off
from alibi_viz.models.config import POSITIONS
from alibi_viz.models.positions.base import Position, register
from alibi_viz.models.positions.alibi import Alibi
from alibi_viz.models.positions.sinusoidal import Sinusoidal
from alibi_viz.models.positions.rotary import Rotary
from alibi_viz.models.positions.learned import Learned
from alibi_viz.models.positions.none import NoPosition
from alibi_viz.models.positions.relative import Decay, Fire, KerpleLog, Relative, Sandwich, T5Buckets
from alibi_viz.models.positions.forget import Forget

__all__ = [
    "POSITIONS",
    "Alibi",
    "Decay",
    "Fire",
    "Forget",
    "KerpleLog",
    "Learned",
    "NoPosition",
    "Position",
    "Relative",
    "Rotary",
    "Sandwich",
    "Sinusoidal",
    "T5Buckets",
    "register",
]
