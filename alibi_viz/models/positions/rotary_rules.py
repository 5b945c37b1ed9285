"""Rules that take rotary positions beyond their training length L without more training. At length L', s = L'/L:

    pi    position interpolation: i -> i / s, so that no angle is new (Chen et al. 2023)
    ntk   base -> base s^(d / (d - 2)): fast pairs keep their angles, the slowest is stretched by s (bloc97 2023)

The first was meant to be followed by some training at the new length, the second to do without. Here there is none.
"""

from torch import Tensor

from alibi_viz.models.positions.base import Rotary

__all__ = ["ROTARY_RULES", "RuledRotary"]

ROTARY_RULES = ("plain", "pi", "ntk")


class RuledRotary(Rotary):
    """Rotary positions that follow a rule when there are more keys than the training length, and are plain otherwise.

    Raises ValueError for an unknown rule or a training length below 1.

    >>> rotary = RuledRotary(8, "pi", trained_length=16)
    >>> rotary.at(16).stretch, rotary.at(64).stretch
    (1.0, 4.0)
    """

    def __init__(self, head_dim: int, rule: str, trained_length: int) -> None:
        super().__init__(head_dim)
        if rule not in ROTARY_RULES:
            raise ValueError(f"the rule of rotary positions must be one of {', '.join(ROTARY_RULES)}, got {rule!r}")
        if trained_length < 1:
            raise ValueError(f"trained_length must be 1 or more, got {trained_length}")
        if rule == "ntk" and head_dim <= 2:
            raise ValueError(f"rule 'ntk' divides by head_dim - 2, so head_dim must be above 2, got {head_dim}")
        self.rule, self.trained_length = rule, trained_length

    def at(self, length: int) -> Rotary:
        """The rotary positions that the rule gives at this length."""
        s = max(1.0, length / self.trained_length)
        if self.rule == "pi":
            return Rotary(self.head_dim, base=self.base, stretch=s)
        if self.rule == "ntk":
            return Rotary(self.head_dim, base=self.base * s ** (self.head_dim / (self.head_dim - 2)))
        return self

    def transform(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        rotary = self.at(key.shape[-2])
        return super().transform(query, key) if rotary is self else rotary.transform(query, key)
