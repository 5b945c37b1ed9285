"""How fast each head forgets: the slopes of ALiBi.

Head h subtracts `m_h * distance` from its logits. The slope m_h is the only number that tells one head from
another, and it is fixed before training. Everything else in this package is built on these few lines.
"""

import math

import torch
from torch import Tensor, nn

__all__ = ["MAX_HEADS", "SCHEMES", "LearnedSlopes", "alibi_slopes", "e_fold", "half_life", "reach"]

SCHEMES = ("official", "geometric", "halving")
MAX_HEADS = 65_536  # no model has more; a typing error should not ask for gigabytes


def alibi_slopes(
    num_heads: int,
    scheme: str = "official",
    *,
    bias_max: float = 8.0,
    total_heads: int | None = None,
) -> Tensor:
    """The slope of each head.

    `official` is the paper's code: for a power of two, the geometric sequence 2^(-8/H), 2^(-16/H), ..., 2^-8; for
    any other H, the slopes of the next smaller power of two p, followed by every other slope of 2p until there are H.
    `geometric` uses the sequence itself for every H. `halving` is 2^-1, 2^-2, ..., 2^-H. The three differ in
    general; `official` and `geometric` agree exactly when H is a power of two.

    Args:
        num_heads: number of heads H, 1 to 65536.
        scheme: "official", "geometric" or "halving".
        bias_max: the exponent of the flattest slope, 2^-bias_max (8 in the paper; MPT's `alibi_bias_max`).
            `halving` has no such constant and takes only the default.
        total_heads: when larger than `num_heads`, the remaining heads get slope zero: they see no bias.

    Returns:
        float32 tensor [heads], computed in float64 and rounded once.

    Raises:
        TypeError: `num_heads` or `total_heads` is not an integer, or `bias_max` not a number.
        ValueError: a value is out of range, or the scheme is unknown.

    Source: Press et al. 2021, section 3 and `get_slopes` in the authors' fairseq `transformer.py`.

    >>> alibi_slopes(8)
    tensor([0.5000, 0.2500, 0.1250, 0.0625, 0.0312, 0.0156, 0.0078, 0.0039])
    >>> alibi_slopes(6)
    tensor([0.2500, 0.0625, 0.0156, 0.0039, 0.5000, 0.1250])
    >>> alibi_slopes(6, "geometric")
    tensor([0.3969, 0.1575, 0.0625, 0.0248, 0.0098, 0.0039])
    >>> alibi_slopes(2, total_heads=3)
    tensor([0.0625, 0.0039, 0.0000])
    """
    num_heads = _head_count("num_heads", num_heads)
    total_heads = num_heads if total_heads is None else _head_count("total_heads", total_heads)
    if total_heads < num_heads:
        raise ValueError(f"total_heads must be at least num_heads={num_heads}, got {total_heads}")
    if isinstance(bias_max, bool) or not isinstance(bias_max, int | float):
        raise TypeError(f"bias_max must be a number, got {bias_max!r}")
    if not (math.isfinite(bias_max) and bias_max > 0):
        raise ValueError(f"bias_max must be a positive number, got {bias_max!r}")

    if scheme == "official":
        power = 2 ** (num_heads.bit_length() - 1)  # the largest power of two that is not above num_heads
        finer = _geometric(2 * power, bias_max)[0::2]  # each half a step, on the log scale, above one of `power`
        slopes = _geometric(power, bias_max) + finer[: num_heads - power]
    elif scheme == "geometric":
        slopes = _geometric(num_heads, bias_max)
    elif scheme == "halving":
        if bias_max != 8.0:
            raise ValueError(f"the halving scheme is 2^-h and takes no bias_max, got {bias_max!r}")
        slopes = [2.0**-head for head in range(1, num_heads + 1)]
    else:
        raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, got {scheme!r}")
    return torch.tensor(slopes + [0.0] * (total_heads - num_heads), dtype=torch.float64).to(torch.float32)


class LearnedSlopes(nn.Module):
    """Slopes that training may change, one number a head, kept positive by storing their logarithm.

    The paper reports that trainable slopes "did not yield strong extrapolation results" and slowed training by 3%
    (section 3); they are here so that this can be tried. Calling the module gives the slopes, float32 [heads]. Raises
    TypeError and ValueError when a starting slope is not a positive number, since zero has no logarithm.

    >>> LearnedSlopes(alibi_slopes(4))()
    tensor([0.2500, 0.0625, 0.0156, 0.0039], grad_fn=<ExpBackward0>)
    """

    def __init__(self, initial: Tensor) -> None:
        super().__init__()
        if not isinstance(initial, Tensor) or not initial.is_floating_point():
            got = initial.dtype if isinstance(initial, Tensor) else type(initial).__name__
            raise TypeError(f"learned slopes must start as a floating-point tensor [heads], got {got}")
        if initial.ndim != 1 or not len(initial):
            raise ValueError(f"learned slopes must be [heads], at least one, got shape {list(initial.shape)}")
        if not initial.is_meta and not bool(((initial > 0) & initial.isfinite()).all()):
            raise ValueError(f"learned slopes must start above zero and finite, got {initial.tolist()}")
        self.log_slopes = nn.Parameter(initial.detach().to(torch.float32).log())

    def forward(self) -> Tensor:
        return self.log_slopes.float().exp()


def half_life(slopes: Tensor) -> Tensor:
    """Tokens after which a head's weight has halved, ln 2 / m, in the dtype and shape of `slopes`; inf for slope 0.

    >>> half_life(alibi_slopes(2))
    tensor([ 11.0904, 177.4457])
    """
    return math.log(2) / slopes


def e_fold(slopes: Tensor) -> Tensor:
    """Tokens after which a head's weight has fallen by a factor e, 1 / m.

    >>> e_fold(alibi_slopes(2))
    tensor([ 16., 256.])
    """
    return 1 / slopes


def reach(slopes: Tensor) -> Tensor:
    """Tokens beyond which a head is practically blind, 4 / m: at equal content e^-4 = 1.8% of the nearest weight.

    >>> reach(alibi_slopes(2))
    tensor([  64., 1024.])
    """
    return 4 / slopes


def _geometric(num_heads: int, bias_max: float) -> list[float]:
    return [2.0 ** (-bias_max * head / num_heads) for head in range(1, num_heads + 1)]


def _head_count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if not 1 <= value <= MAX_HEADS:
        raise ValueError(f"{name} must be between 1 and {MAX_HEADS}, got {value}")
    return value
