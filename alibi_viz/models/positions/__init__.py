"""Position methods, by name in `POSITIONS`. To add one, write a subclass of `Position` and register it."""

from alibi_viz.models.config import POSITIONS
from alibi_viz.models.positions.absolute import Learned, Sinusoidal
from alibi_viz.models.positions.alibi import Alibi
from alibi_viz.models.positions.base import NoPosition, Position, register
from alibi_viz.models.positions.forget import Forget
from alibi_viz.models.positions.relative import Decay, Fire, KerpleLog, Relative, Sandwich, T5Buckets
from alibi_viz.models.positions.rotary import Rotary

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

# In the order of menus
register("alibi")(Alibi)
register("sinusoidal")(Sinusoidal)
register("rotary")(Rotary)
register("learned")(Learned)
register("none")(NoPosition)
register("t5")(T5Buckets)
register("kerple-log")(KerpleLog)
register("sandwich")(Sandwich)
register("fire")(Fire)
register("decay")(Decay)
register("forget")(Forget)
