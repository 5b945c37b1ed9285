"""A window with attention sinks. It depends on absolute positions, so it is a class, not a law of the distance."""

import torch
from torch import Tensor

from alibi_viz.arguments import check_integer
from alibi_viz.bias import right_aligned
from alibi_viz.models.config import TransformerConfig
from alibi_viz.models.positions.base import Position

__all__ = ["WindowWithSinks"]


class WindowWithSinks(Position):
    """Attend to the last `window` tokens and to the first `sinks` (StreamingLLM, Xiao et al. 2024).

    Trained models put much weight on their first tokens, whatever these are, and fail when a window hides them.

    Args:
        window: how many tokens back a query sees, its own included; in a model, the training length.
        sinks: how many tokens at the start every query sees.

    Raises TypeError or ValueError unless `window` is an integer of at least 1 and `sinks` one of at least 0.

    >>> WindowWithSinks(2, sinks=1).bias(1, 5)
    tensor([[[0., -inf, -inf, 0., 0.]]])
    """

    def __init__(self, window: int, sinks: int = 4) -> None:
        super().__init__()
        check_integer("window", window, 1)
        check_integer("sinks", sinks, 0)
        self.window, self.sinks = window, sinks

    @classmethod
    def from_config(cls, config: TransformerConfig) -> "WindowWithSinks":
        return cls(config.max_length)

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        queries, keys = right_aligned(query_length, key_length, device=None if x is None else x.device)
        visible = (queries[:, None] - keys < self.window) | (keys < self.sinks)
        return torch.zeros(1, *visible.shape, device=visible.device).masked_fill(~visible, -torch.inf)
