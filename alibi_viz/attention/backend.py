"""The interface of the attention implementations."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from alibi_viz.attention.inputs import AttentionInputs

__all__ = ["Backend"]


class Backend(NamedTuple):
    """An exact implementation of ALiBi attention.

    Attributes:
        name: the `backend` argument of `alibi_attention` that selects it.
        attend: compute the output, [batch, heads, query, head_dim].
        unsupported_reason: why it cannot compute these inputs; None if it can.
    """

    name: str
    attend: Callable[[AttentionInputs], Tensor]
    unsupported_reason: Callable[[AttentionInputs], str | None] = lambda inputs: None
