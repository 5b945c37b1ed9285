"""Laws of the distance as a user writes them, for the tests of everything that takes a function."""


def root(distance, head, num_heads):
    """Bias -sqrt(d) / 2h."""
    return -0.5 * distance.float().sqrt() / head


def for_four_heads(distance, head, num_heads):
    """Raises IndexError for a fifth head."""
    return -[0.5, 0.25, 0.125, 0.1][head - 1] * distance.float()


def steep(slope):
    """A new law with every call. All have one name and one text, and only their slope differs."""

    def law(distance, head, num_heads):
        return -slope * distance.float()

    return law


def nearly_flat(distance, head, num_heads):
    """Every head leaves 100% of the weight, although no two are the same."""
    return -1e-6 * (num_heads - head + 1) * distance.float()
