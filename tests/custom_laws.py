"""Laws of the distance as a user writes them, for the tests of everything that takes a function."""

from torch import Tensor

from alibi_viz.models.positions.custom import LawFunction


def root(distance: Tensor, head: int, num_heads: int) -> Tensor:
    """Bias -sqrt(d) / 2h."""
    return -0.5 * distance.float().sqrt() / head


def for_four_heads(distance: Tensor, head: int, num_heads: int) -> Tensor:
    """Raises IndexError for a fifth head."""
    return -[0.5, 0.25, 0.125, 0.1][head - 1] * distance.float()


def steep(slope: float) -> LawFunction:
    """A new law with every call. All have one name and one text, and only their slope differs."""

    def law(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -slope * distance.float()

    return law
