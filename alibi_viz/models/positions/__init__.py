"""Position methods, by name in `POSITIONS`. To add one, write a subclass of `Position` and register it."""

from alibi_viz.models.config import POSITIONS
from alibi_viz.models.positions.absolute import Learned, Randomized, Sinusoidal
from alibi_viz.models.positions.base import NoPosition, Position, register
from alibi_viz.models.positions.contextual import Cope, Forget, StickBreaking
from alibi_viz.models.positions.relative import Alibi, Bam, Decay, Fire, KerpleLog, Relative, Sandwich, T5Buckets
from alibi_viz.models.positions.rotary import Rotary, Xpos

__all__ = [
    "POSITIONS",
    "Alibi",
    "Bam",
    "Cope",
    "Decay",
    "Fire",
    "Forget",
    "KerpleLog",
    "Learned",
    "NoPosition",
    "Position",
    "Randomized",
    "Relative",
    "Rotary",
    "Sandwich",
    "Sinusoidal",
    "StickBreaking",
    "T5Buckets",
    "Xpos",
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
register("xpos")(Xpos)
register("bam")(Bam)
register("stick-breaking")(StickBreaking)
register("cope")(Cope)
register("randomized")(Randomized)
