"""Positions that come from the content.

CoPE and stick-breaking attention compute their weights step by step, because these are not the
softmax of content plus a bias. The forget gate is a bias that reads the layer's input.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, pad

from alibi_viz.bias import causal_mask, right_aligned
from alibi_viz.models.configuration import TransformerConfig
from alibi_viz.models.positions.base import Position


def scaled_products(query: Tensor, vectors: Tensor) -> Tensor:
    """q . v / sqrt(head_dim), at least float32, for vectors [n, head_dim] or keys [batch,
    key_heads, n, head_dim]."""
    if vectors.ndim == 4:
        vectors = vectors.repeat_interleave(query.shape[1] // vectors.shape[1], dim=1)
    products = query * query.shape[-1] ** -0.5 @ vectors.mT
    return products.to(torch.promote_types(products.dtype, torch.float32))


def visible_keys(content: Tensor, bias: Tensor | None) -> Tensor:
    """bool [..., query, key]: True for keys that are not after the query, and that no window hides
    (bias -inf)."""
    visible = causal_mask(*content.shape[-2:], device=content.device)
    return visible if bias is None else visible & (bias > -math.inf)


class Cope(Position):
    """Vectors e[p_ij] added to the keys, p_ij the sum of the gates g_it for t = j..i (CoPE,
    Golovneva et al. 2024).

    A gate g_it = sigmoid(q_i . k_t / sqrt(head_dim)) is how much query i counts token t. The logits
    are q_i . (k_j + e[p_ij]) / sqrt(head_dim). The position p_ij is a fraction, so e[p] is
    interpolated between the vectors of the integers around it. It is capped at a quarter of the
    training length, so that training reaches the cap. Each layer has its own vectors e, shared by
    its heads, which start at zero. Decoders only. This is the default of the authors' code
    (facebookresearch/RAM); in the paper (arXiv 2405.18719) q . e isn't scaled.
    """

    is_per_layer = True
    decoder_only = True
    config_fields = ("head_dim", "max_length")

    def __init__(self, head_dim: int, trained_length: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(
            torch.zeros(max(trained_length // 4, 1) + 1, head_dim)
        )  # of positions 0, 1, ...

    def positions(self, content: Tensor, visible: Tensor) -> Tensor:
        """The position of each key, seen from each query, [batch, heads, query, key], from the
        scaled content.

        >>> keys = torch.zeros(1, 1, 1, 4)  # without content, every gate is a half
        >>> Cope(8, trained_length=64).positions(keys, torch.ones(1, 4, dtype=torch.bool))
        tensor([[[[2.0000, 1.5000, 1.0000, 0.5000]]]])
        """
        gates = content.sigmoid() * visible
        return gates.flip(-1).cumsum(-1).flip(-1).clamp(max=len(self.vectors) - 1)

    def weigh(self, query: Tensor, key: Tensor, bias: Tensor | None, *, causal: bool) -> Tensor:
        content = scaled_products(query, key)
        visible = visible_keys(content, bias)
        position = self.positions(content, visible)
        # The logit of each integer position, [batch, heads, query, positions]; then of the two
        # around each position
        integers = scaled_products(query, self.vectors)
        below = (
            position.detach().nan_to_num().long()
        )  # a run that diverges ends with a NaN, not out of bounds
        low = integers.gather(-1, below)
        high = integers.gather(-1, (below + 1).clamp(max=len(self.vectors) - 1))
        logits = content + low + (position - below) * (high - low)
        return logits.masked_fill(~visible, -math.inf).softmax(-1)


class StickBreaking(Position):
    """Each key takes a share b_ij = sigmoid(q_i . k_j / sqrt(d)) of what nearer keys left over (Tan
    et al. 2024).

    The weight of a key j < i is b_ij times the product of 1 - b_it over the keys t between j and i
    (stick-breaking attention, arXiv 2410.17980), so recent keys come first, without any positions.
    What all keys leave over becomes the weight of the token itself, as in the authors' code by
    default. Nothing is learned. Decoders only.

    >>> query = key = torch.zeros(1, 1, 4, 8)  # equal content: every share is a half
    >>> StickBreaking().weights(query, key)[0, 0]
    tensor([[1.0000, 0.0000, 0.0000, 0.0000],
            [0.5000, 0.5000, 0.0000, 0.0000],
            [0.2500, 0.5000, 0.2500, 0.0000],
            [0.1250, 0.2500, 0.5000, 0.1250]])
    """

    decoder_only = True

    def weigh(self, query: Tensor, key: Tensor, bias: Tensor | None, *, causal: bool) -> Tensor:
        content = scaled_products(query, key)
        queries, keys = right_aligned(*content.shape[-2:], device=content.device)
        itself = queries[:, None] == keys
        takes_share = visible_keys(content, bias) & ~itself
        # Logarithms, because products of many small numbers underflow. ln(1 - sigmoid(x)) = ln
        # sigmoid(-x).
        left = logsigmoid(-content).masked_fill(~takes_share, 0.0)
        left_from = left.flip(-1).cumsum(-1).flip(-1)  # by this key and all nearer ones
        left_before = pad(left_from[..., 1:], (0, 1)) if len(keys) else left_from
        shares = (logsigmoid(content) + left_before).exp() * takes_share
        return torch.where(itself, left.sum(-1, keepdim=True).exp(), shares)


class Forget(Position):
    """Sum of ln f_t over the tokens t from j + 1 to i, with a forget gate f_t (FoX, Lin et al.
    2025, equation 5).

    The gate f_t = sigmoid(w . x_t + b) reads the input x of the layer. With a constant gate f =
    e^-m the sum is -m (i - j), which is ALiBi. We start at exactly that (w = 0, and b from the
    slopes), so that every difference from ALiBi is learned from the data; the paper starts w at
    random. Each layer has its own gates. In an encoder, the sum runs over the tokens between i and
    j, in either direction.
    """

    is_per_layer = True
    reads_input = True

    def __init__(self, d_model: int, slopes: Tensor) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, len(slopes))
        nn.init.zeros_(self.gate.weight)
        with torch.no_grad():  # sigmoid(b) = e^-m
            self.gate.bias.copy_(-torch.expm1(slopes.double()).log())

    @classmethod
    def from_config(cls, config: TransformerConfig) -> "Forget":
        return cls(config.d_model, config.slopes())

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        """float32 [batch, heads, query, key]. Raises ValueError if x is None or does not cover
        every key."""
        if x is None or x.shape[1] != key_length:
            got = "None" if x is None else f"shape {list(x.shape)}"
            raise ValueError(
                f"a forget gate reads the layer's input, [batch, key={key_length}, d_model], got "
                f"{got}"
            )
        # float64, because a bias between neighbors is a small difference of two long sums
        total = logsigmoid(self.gate(x)).double().cumsum(1).transpose(1, 2)  # [batch, heads, key]
        bias = total[:, :, key_length - query_length :, None] - total[:, :, None, :]
        return -bias.float().abs()
