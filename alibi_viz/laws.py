"""Laws to start from: how the bias of a head may depend on the distance.

Each is a function law(distance, head, num_heads) -> bias, where distance is int64 [n], head counts
from 1, and the bias is floating point [n]. Copy one, change it, and use it wherever a position
method is asked for. What depends on more than the distance is a subclass of
`alibi_viz.models.Position`.

>>> import torch
>>> from alibi_viz import laws
>>> laws.square_root(torch.tensor([1, 4, 9]), head=1, num_heads=8)
tensor([-0.5000, -1.0000, -1.5000])
"""

import torch
from torch import Tensor

from alibi_viz.arguments import check_integer
from alibi_viz.slopes import alibi_slopes

__all__ = ["linear", "logarithmic", "power", "square_root", "window"]


def linear(distance: Tensor, head: int, num_heads: int) -> Tensor:
    """-m d: ALiBi itself (Press et al. 2021, section 3)."""
    _check_head(head, num_heads)
    return -alibi_slopes(num_heads)[head - 1] * distance


def square_root(distance: Tensor, head: int, num_heads: int) -> Tensor:
    """-m sqrt(d): Step-Audio's variant.

    Source: StepFun 2025; the code is in NVIDIA/TensorRT-LLM issue 5392.
    """
    _check_head(head, num_heads)
    return -alibi_slopes(num_heads)[head - 1] * distance.sqrt()


def logarithmic(distance: Tensor, head: int, num_heads: int) -> Tensor:
    """-p ln(1 + d) with p = 2h/H: KERPLE's logarithmic law without learning.

    Source: Chi et al. 2022, equation 6.
    """
    _check_head(head, num_heads)
    return -2 * head / num_heads * distance.float().log1p()


def power(distance: Tensor, head: int, num_heads: int) -> Tensor:
    """-m d^p with p = h/H: KERPLE's power law (Chi et al. 2022) without learning."""
    _check_head(head, num_heads)
    return -alibi_slopes(num_heads)[head - 1] * distance.float() ** (head / num_heads)


def window(distance: Tensor, head: int, num_heads: int) -> Tensor:
    """0 for the last 4 * 2^h tokens, -inf beyond: a sliding window per head."""
    _check_head(head, num_heads)
    length = 2 ** min(head + 2, 62)  # larger numbers don't fit into int64
    no_bias = torch.zeros(len(distance), device=distance.device)
    return no_bias.masked_fill(distance >= length, -torch.inf)


def _check_head(head: int, num_heads: int) -> None:
    check_integer("num_heads", num_heads, 1)
    check_integer("head", head, 1, num_heads)
