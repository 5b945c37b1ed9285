"""The slopes of ALiBi: how fast the attention of each head falls with distance.

Head h subtracts `m_h * distance` from its logits. The slope m_h is fixed before training and is all that distinguishes
one head from another.
"""

import math

import torch
from torch import Tensor, nn

__all__ = ["MAX_HEADS", "SCHEMES", "LearnedSlopes", "alibi_slopes", "check_slopes", "e_fold", "half_life", "reach"]

SCHEMES = ("official", "geometric", "halving")
MAX_HEADS = 65_536  # far above any real model; a mistyped head count should not allocate gigabytes


def alibi_slopes(
    num_heads: int,
    scheme: str = "official",
    *,
    bias_max: float = 8.0,
    total_heads: int | None = None,
) -> Tensor:
    """Compute the slope of each head.

    - "official": the paper's code. For a power of two, the geometric sequence 2^(-8/H), 2^(-16/H), ..., 2^-8. For
      any other H, the slopes for the largest power of two p below H, followed by every other slope for 2p, up to H.
    - "geometric": the geometric sequence for every H. Equal to "official" exactly when H is a power of two.
    - "halving": 2^-1, 2^-2, ..., 2^-H.

    Args:
        num_heads: number of heads H, 1 to 65536.
        scheme: "official", "geometric" or "halving".
        bias_max: the smallest slope is 2^-bias_max (8 in the paper; `alibi_bias_max` in MPT). "halving" accepts only
            the default.
        total_heads: length of the result; heads beyond `num_heads` get slope 0 (no bias). `num_heads` by default.

    Returns:
        float32 tensor [heads], computed in float64 and rounded once.

    Raises:
        TypeError: `num_heads` or `total_heads` is not an integer, or `bias_max` is not a number.
        ValueError: a value is out of range, or the scheme is unknown.

    Source: Press et al. 2021, section 3, and `get_slopes` in the authors' fairseq `transformer.py`.

    >>> alibi_slopes(8)
    tensor([0.5000, 0.2500, 0.1250, 0.0625, 0.0312, 0.0156, 0.0078, 0.0039])
    >>> alibi_slopes(6)
    tensor([0.2500, 0.0625, 0.0156, 0.0039, 0.5000, 0.1250])
    >>> alibi_slopes(6, "geometric")
    tensor([0.3969, 0.1575, 0.0625, 0.0248, 0.0098, 0.0039])
    >>> alibi_slopes(2, total_heads=3)
    tensor([0.0625, 0.0039, 0.0000])
    """
    num_heads = _check_head_count("num_heads", num_heads)
    total_heads = num_heads if total_heads is None else _check_head_count("total_heads", total_heads)
    if total_heads < num_heads:
        raise ValueError(f"total_heads must be at least num_heads={num_heads}, got {total_heads}")
    if isinstance(bias_max, bool) or not isinstance(bias_max, int | float):
        raise TypeError(f"bias_max must be a number, got {bias_max!r}")
    if not (math.isfinite(bias_max) and bias_max > 0):
        raise ValueError(f"bias_max must be a positive number, got {bias_max!r}")

    if scheme == "official":
        power = 2 ** (num_heads.bit_length() - 1)  # the largest power of two <= num_heads
        extra = _geometric(2 * power, bias_max)[0::2]  # every other slope for twice as many heads
        slopes = _geometric(power, bias_max) + extra[: num_heads - power]
    elif scheme == "geometric":
        slopes = _geometric(num_heads, bias_max)
    elif scheme == "halving":
        if bias_max != 8.0:
            raise ValueError(f"scheme 'halving' is 2^-h and takes no bias_max, got {bias_max!r}")
        slopes = [2.0**-head for head in range(1, num_heads + 1)]
    else:
        raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, got {scheme!r}")
    return torch.tensor(slopes + [0.0] * (total_heads - num_heads), dtype=torch.float64).to(torch.float32)


class LearnedSlopes(nn.Module):
    """Trainable slopes, one parameter per head. The module stores their logarithm, so they stay positive.

    The paper reports that trainable slopes "did not yield strong extrapolation results" and slowed training by 3%
    (section 3). Calling the module returns the slopes, float32 [heads].

    Args:
        initial: floating-point tensor [heads] of positive numbers.

    Raises:
        TypeError: `initial` is not a floating-point tensor.
        ValueError: its shape is not [heads], or a slope is not positive and finite.

    >>> LearnedSlopes(alibi_slopes(4))()
    tensor([0.2500, 0.0625, 0.0156, 0.0039], grad_fn=<ExpBackward0>)
    """

    def __init__(self, initial: Tensor) -> None:
        super().__init__()
        check_slopes("initial slopes", initial)
        if not len(initial):
            raise ValueError("initial slopes must be [heads] with at least one head, got shape [0]")
        if not initial.is_meta and not bool(((initial > 0) & initial.isfinite()).all()):
            raise ValueError(f"initial slopes must be positive and finite, got {initial.tolist()}")
        self.log_slopes = nn.Parameter(initial.detach().to(torch.float32).log())

    def forward(self) -> Tensor:
        return self.log_slopes.float().exp()


def half_life(slopes: Tensor) -> Tensor:
    """Distance in tokens over which a head's attention weight halves: ln 2 / m. Infinite for slope 0.

    Returns a tensor with the shape and dtype of `slopes`.

    >>> half_life(alibi_slopes(2))
    tensor([ 11.0904, 177.4457])
    """
    return math.log(2) / slopes


def e_fold(slopes: Tensor) -> Tensor:
    """Distance in tokens over which a head's attention weight falls by a factor of e: 1 / m.

    >>> e_fold(alibi_slopes(2))
    tensor([ 16., 256.])
    """
    return 1 / slopes


def reach(slopes: Tensor) -> Tensor:
    """Distance in tokens at which the bias reduces a head's attention weight to e^-4 = 1.8%: 4 / m.

    This is a convention, not a cutoff: a head can attend to keys further away if their content scores high enough.

    >>> reach(alibi_slopes(2))
    tensor([  64., 1024.])
    """
    return 4 / slopes


def check_slopes(name: str, slopes: Tensor) -> None:
    """Raise TypeError or ValueError unless `slopes` is a floating-point tensor [heads] of finite numbers.

    The values are checked on the CPU only: reading them would stall a GPU and break a compiled graph.
    """
    if not isinstance(slopes, Tensor):
        raise TypeError(f"{name} must be a floating-point tensor [heads], got {type(slopes).__name__}")
    if not slopes.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor [heads], got dtype {slopes.dtype}")
    if slopes.ndim != 1:
        raise ValueError(f"{name} must be [heads], got shape {list(slopes.shape)}")
    if not slopes.is_cpu or torch.compiler.is_compiling():
        return
    if not all(map(math.isfinite, slopes.tolist())):
        raise ValueError(f"{name} must be finite, got {slopes.tolist()}")


def _geometric(num_heads: int, bias_max: float) -> list[float]:
    return [2.0 ** (-bias_max * head / num_heads) for head in range(1, num_heads + 1)]


def _check_head_count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if not 1 <= value <= MAX_HEADS:
        raise ValueError(f"{name} must be between 1 and {MAX_HEADS}, got {value}")
    return value
