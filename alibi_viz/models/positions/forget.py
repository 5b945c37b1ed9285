"""FoX, the forgetting transformer: ALiBi whose slope is decided by what is read, token by token and head by head."""

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from alibi_viz.models.positions.base import Position

__all__ = ["Forget"]


class Forget(Position):
    """The bias between i and j is the sum of ln f_t over the tokens after j up to i (Lin et al. 2025, equation 5).

    The forget gate f_t = sigmoid(w . x_t + b) reads the input x of the layer. Were it constant, f = e^-m, the sum
    would be -m (i - j): ALiBi. It starts at exactly that, with w = 0 and b from the slopes, so what training makes of
    it is what the data asked for. (The paper starts w at random.) Each layer has gates of its own.

    An encoder gets the same sum over the tokens between, whichever comes first.
    """

    reads_input = True

    def __init__(self, d_model: int, slopes: Tensor) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, len(slopes))
        nn.init.zeros_(self.gate.weight)
        with torch.no_grad():  # sigmoid(b) = e^-m
            self.gate.bias.copy_(-torch.expm1(slopes.double()).log())
        self.register_buffer("initial", slopes.clone(), persistent=False)

    def for_layer(self, layer: int) -> "Forget":
        return self if layer == 0 else Forget(self.gate.in_features, self.get_buffer("initial"))

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        """float32 [batch, heads, query, key]. Raises ValueError without x, or when x does not hold every key."""
        if x is None or x.shape[1] != key_length:
            got = "None" if x is None else f"shape {list(x.shape)}"
            raise ValueError(f"a forget gate reads the layer's input, [batch, key={key_length}, d_model], got {got}")
        # float64: the difference of two long sums would lose the small steps between neighbours
        total = logsigmoid(self.gate(x)).double().cumsum(1).transpose(1, 2)  # [batch, heads, key]
        after = total[:, :, key_length - query_length :, None] - total[:, :, None, :]
        return -after.abs().float()
