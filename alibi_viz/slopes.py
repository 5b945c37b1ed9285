"""The slopes of ALiBi: head h subtracts `m_h * distance` from its attention logits."""

import math

import torch
from torch import Tensor, nn

from alibi_viz.arguments import (
    check_choice,
    check_integer,
    check_number,
    check_positive,
    check_slopes,
    check_tensor,
)

SCHEMES = ("official", "geometric", "halving")
MAX_HEADS = 65_536  # far above any real model; a mistyped head count should not allocate gigabytes


def alibi_slopes(num_heads: int, scheme: str = "official", *, bias_max: float = 8.0) -> Tensor:
    """Compute the slope of each head.

    - "official": the paper's code. For a power of two, the geometric sequence 2^(-8/H), 2^(-16/H),
      ..., 2^-8. For any other H, the slopes for the largest power of two p below H, followed by
      every other slope for 2p, up to H.
    - "geometric": the geometric sequence for every H.
    - "halving": 2^-1, 2^-2, ..., 2^-H.

    Args:
        num_heads: number of heads H, 1 to 65536.
        scheme: one of the above.
        bias_max: the smallest slope is 2^-bias_max (`alibi_bias_max` in MPT). Not supported by
            "halving".

    Returns float32 [heads], computed in float64 and rounded once. Raises TypeError and ValueError
    for other arguments.

    The authors chose these slopes for models trained on sequences of 512 to 3,072 tokens: the
    flattest head halves its weight every 177 tokens. If you train on much shorter sequences, try
    slopes 2, 4 and 8 times as steep, or a smaller `bias_max`, which makes the flat heads steeper
    than the others. In our study with sequences of 64 bytes, slopes 8 times as steep lowered the
    loss on text, by 0.02 bits per byte (after long training) to 0.34 (with two heads;
    `alibi_viz.study`, the claim "Steeper slopes help at 64"). But models with steeper slopes
    found fewer values hidden 512 tokens back: 66% instead of 96%. Other factors, other lengths and
    `bias_max` were not tested.

    Source: Press et al. 2021, section 3, and `get_slopes` in the authors' fairseq `transformer.py`.

    >>> import alibi_viz as av
    >>> av.alibi_slopes(8)
    tensor([0.5000, 0.2500, 0.1250, 0.0625, 0.0312, 0.0156, 0.0078, 0.0039])
    >>> av.alibi_slopes(6)
    tensor([0.2500, 0.0625, 0.0156, 0.0039, 0.5000, 0.1250])
    >>> 8 * av.alibi_slopes(4)  # as in our study of sequences of 64 bytes
    tensor([2.0000, 0.5000, 0.1250, 0.0312])
    >>> av.alibi_slopes(4, bias_max=5.0)  # the flattest slope is the same
    tensor([0.4204, 0.1768, 0.0743, 0.0312])
    """
    num_heads = check_integer("num_heads", num_heads, 1, MAX_HEADS)
    bias_max = check_positive("bias_max", bias_max)
    check_choice("scheme", scheme, SCHEMES)
    if scheme == "official":
        slopes = _official(num_heads, bias_max)
    elif scheme == "geometric":
        slopes = _geometric(num_heads, bias_max)
    else:
        if bias_max != 8.0:
            raise ValueError(f"bias_max is not supported by scheme 'halving', got {bias_max!r}")
        slopes = [2.0**-head for head in range(1, num_heads + 1)]
    return torch.tensor(slopes, dtype=torch.float64).to(torch.float32)


def _official(num_heads: int, bias_max: float) -> list[float]:
    power = 2 ** (num_heads.bit_length() - 1)  # the largest power of two <= num_heads
    every_other = _geometric(2 * power, bias_max)[0::2]  # slope for twice as many heads
    return _geometric(power, bias_max) + every_other[: num_heads - power]


def _geometric(num_heads: int, bias_max: float) -> list[float]:
    return [2.0 ** (-bias_max * head / num_heads) for head in range(1, num_heads + 1)]


class LearnedSlopes(nn.Module):
    """Trainable slopes, one parameter per head. Calling the module returns them, float32 [heads].

    The parameters are the logarithms of the slopes, so slopes stay positive. The paper reports that
    trainable slopes "did not yield strong extrapolation results" and slowed training by 3% (section
    3); our study saw lower losses.

    They start at `initial`, floating point [heads]. Weight decay pulls them to 1, and `.bfloat16()`
    rounds their logarithms, so that slopes change by up to 1.6%. Raises TypeError and ValueError.

    >>> import alibi_viz as av
    >>> av.LearnedSlopes(av.alibi_slopes(4))()
    tensor([0.2500, 0.0625, 0.0156, 0.0039], grad_fn=<ExpBackward0>)
    """

    def __init__(self, initial: Tensor) -> None:
        super().__init__()
        check_slopes("initial slopes", initial)
        # On the meta device there are no values to read.
        has_valid_values = initial.is_meta or bool(((initial > 0) & initial.isfinite()).all())
        if len(initial) == 0 or not has_valid_values:
            raise ValueError(
                f"initial slopes must be positive and finite, at least one, got {initial}"
            )
        self.log_slopes = nn.Parameter(initial.detach().to(torch.float32).log())

    def forward(self) -> Tensor:
        return self.log_slopes.float().exp()


def half_life(slopes: Tensor | float) -> Tensor:
    """Distance in tokens over which the weight of a head halves: ln 2 / m.

    Infinite for slope 0. slopes: a number, or a tensor of any shape, which the result then has.

    After 4 / m tokens it has fallen to e^-4 = 1.8%. Neither is a cutoff: content can make up for
    distance.

    >>> import alibi_viz as av
    >>> av.half_life(av.alibi_slopes(2))
    tensor([ 11.0904, 177.4457])
    """
    if isinstance(slopes, Tensor):
        check_tensor("slopes", slopes, "floating-point or integer", "of any shape")
        return math.log(2) / slopes
    number = float(check_number("slopes", slopes))  # torch's integers end at 2^63
    return math.log(2) / torch.tensor(number, dtype=torch.float32)
