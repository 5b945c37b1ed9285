"""A bias that reads the input: the forget gate."""

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from alibi_viz.models.positions.base import Config, Position


class Forget(Position):
    """Sum of ln f_t over the tokens t from j + 1 to i, with a forget gate f_t (FoX).

    The gate f_t = sigmoid(w . x_t + b) reads the input x of the layer. With a constant gate f =
    e^-m the sum is -m (i - j), which is ALiBi. We start at exactly that (w = 0, and b from the
    slopes), so that every difference from ALiBi is learned from the data; the paper starts w at
    random. Each layer has its own gates. In an encoder, the sum runs over the tokens between i and
    j, in either direction.

    Source: Lin et al. 2025, equation 5.
    """

    is_per_layer = True
    reads_input = True

    def __init__(self, d_model: int, slopes: Tensor) -> None:
        super().__init__()
        self.num_heads = len(slopes)
        self.gate = nn.Linear(d_model, len(slopes))
        nn.init.zeros_(self.gate.weight)
        with torch.no_grad():  # sigmoid(b) = e^-m
            self.gate.bias.copy_(-torch.expm1(slopes.double()).log())

    @classmethod
    def from_config(cls, config: Config) -> "Forget":
        return cls(config.d_model, config.slopes())

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        """float32 [batch, heads, query, key].

        Raises ValueError if x is None or does not cover every key.
        """
        if x is None or x.shape[1] != key_length:
            axes = f"[batch, key={key_length}, d_model]"
            got = "None" if x is None else f"shape {list(x.shape)}"
            raise ValueError(f"a forget gate reads the layer's input, {axes}, got {got}")
        # float64, because a bias between neighbors is a small difference of two long sums
        total = logsigmoid(self.gate(x)).double().cumsum(1).transpose(1, 2)  # [batch, heads, key]
        bias = total[:, :, key_length - query_length :, None] - total[:, :, None, :]
        return -bias.float().abs()
