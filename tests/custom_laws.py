"""Laws of the distance as a user writes them, for the tests of everything that takes a function."""

from torch import Tensor


def root(distance: Tensor, head: int, num_heads: int) -> Tensor:
    """Bias -sqrt(d) / 2h."""
    return -0.5 * distance.float().sqrt() / head


def for_four_heads(distance: Tensor, head: int, num_heads: int) -> Tensor:
    """Raises IndexError for a fifth head."""
    return -[0.5, 0.25, 0.125, 0.1][head - 1] * distance.float()
