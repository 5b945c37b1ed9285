"""Position methods: a name in `POSITIONS`, a function of the distance, or a subclass of `Position`.

To add one to the library, write a subclass of `Position` and give it a name in `methods`.
"""

from alibi_viz.models.positions.base import Position
from alibi_viz.models.positions.methods import POSITIONS, Method

__all__ = ["POSITIONS", "Method", "Position"]
