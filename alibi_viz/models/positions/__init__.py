"""Position methods: one file per method, registered by name in `POSITIONS`, in the order of these imports."""

# isort: off
from alibi_viz.models.config import POSITIONS
from alibi_viz.models.positions.base import Position, register
from alibi_viz.models.positions.alibi import Alibi
from alibi_viz.models.positions.sinusoidal import Sinusoidal
from alibi_viz.models.positions.rotary import Rotary
from alibi_viz.models.positions.learned import Learned
from alibi_viz.models.positions.none import NoPosition
from alibi_viz.models.positions.t5 import T5Buckets
from alibi_viz.models.positions.kerple import KerpleLog
from alibi_viz.models.positions.sandwich import Sandwich
from alibi_viz.models.positions.fire import Fire
from alibi_viz.models.positions.decay import Decay
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
    "Rotary",
    "Sandwich",
    "Sinusoidal",
    "T5Buckets",
    "register",
]
