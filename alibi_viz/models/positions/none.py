"""No position method: the baseline for all others."""

from alibi_viz.models.positions.base import Position, register

__all__ = ["NoPosition"]


@register("none")
class NoPosition(Position):
    """No positions at all (NoPE, Kazemnejad et al. 2023).

    A decoder can still infer the order of its tokens from the causal mask, because token i averages over i + 1 values.
    """
