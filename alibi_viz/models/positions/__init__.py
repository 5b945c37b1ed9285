"""Position methods, by name in `POSITIONS`. To add one, write a subclass of `Position` and give it
a name below.

Your own functions and classes need no place here: pass them wherever a method is asked for (see
`custom`).
"""

from alibi_viz.models.configuration import POSITIONS
from alibi_viz.models.positions.absolute import Learned, Sinusoidal
from alibi_viz.models.positions.base import NoPosition, Position
from alibi_viz.models.positions.contextual import Cope, Forget, StickBreaking
from alibi_viz.models.positions.relative import (
    Alibi,
    Bam,
    Decay,
    Fire,
    KerpleLog,
    Sandwich,
    T5Buckets,
)
from alibi_viz.models.positions.rotary import Rotary, Xpos

__all__ = ["POSITIONS", "Position"]

POSITIONS |= {  # in the order of menus
    "alibi": Alibi,
    "sinusoidal": Sinusoidal,
    "rotary": Rotary,
    "learned": Learned,
    "none": NoPosition,
    "t5": T5Buckets,
    "kerple-log": KerpleLog,
    "sandwich": Sandwich,
    "fire": Fire,
    "decay": Decay,
    "forget": Forget,
    "xpos": Xpos,
    "bam": Bam,
    "stick-breaking": StickBreaking,
    "cope": Cope,
}
for name, method in POSITIONS.items():
    method.name = name
