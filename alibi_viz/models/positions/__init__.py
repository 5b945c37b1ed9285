"""Position methods, by name in `POSITIONS`.

To add one, write a subclass of `Position` and give it a name below. Your own functions and classes
need no place here: pass them wherever a method is asked for (see `registry`).
"""

from collections.abc import Mapping

from alibi_viz.models.positions.absolute import Learned, Sinusoidal
from alibi_viz.models.positions.base import NoPosition, Position
from alibi_viz.models.positions.forget_gate import Forget
from alibi_viz.models.positions.relative import Alibi, Decay, Fire, KerpleLog, T5Buckets
from alibi_viz.models.positions.rotary import Rotary, Xpos

__all__ = ["POSITIONS", "Position"]

# The built-in methods, in the order of menus
POSITIONS: Mapping[str, type[Position]] = {
    "alibi": Alibi,
    "sinusoidal": Sinusoidal,
    "rotary": Rotary,
    "learned": Learned,
    "none": NoPosition,
    "t5": T5Buckets,
    "kerple-log": KerpleLog,
    "fire": Fire,
    "decay": Decay,
    "forget": Forget,
    "xpos": Xpos,
}
