"""The same bytes, with ever more text before them: what is gained beyond the training length, and what only seems so.

Cut into windows that do not overlap, a text gives its first bytes of each window little context, and short windows have
many first bytes. Much of what a longer window gains there is this "early token curse" going away (Press et al. 2021,
appendix B). Here the targets stay the same, and each has the context that is asked for, less a stride: nothing but the
context changes.
"""

import math
from collections.abc import Iterable

import torch
from torch.nn.functional import cross_entropy

from alibi_viz.lab.evaluation import TOKENS_A_BATCH, evaluating
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel

__all__ = ["loss_by_context"]


def loss_by_context(
    model: LanguageModel,
    text: Text,
    contexts: Iterable[int],
    *,
    targets: int = 256,
    stride: int = 1,
    longest: int | None = None,
) -> dict[int, float]:
    """Mean bits per byte of one frozen set of targets, each predicted from the c bytes before it.

    Args:
        model, text: as in `loss_by_length`; the last tenth of the text is used.
        contexts: numbers of bytes c, at least `stride` each.
        targets: how many bytes are predicted, rounded down to a multiple of the stride.
        stride: by how much the window slides. 1 gives every target exactly c bytes; s scores s targets a window, which
            is s times as fast and gives them c - s + 1 to c bytes.
        longest: the targets start after this many bytes; the largest context by default. Set it to compare calls.

    NaN for a context at which the positions are not defined.
    Raises ValueError when a number is out of range, or the text too short for the longest context.

    >>> losses = lab.loss_by_context(lab.make_model(), lab.load_text(), [8, 64], targets=64, stride=8)
    >>> [round(loss) for loss in losses.values()]  # untrained: about log2(256) bits
    [8, 8]
    """
    contexts = list(contexts)
    for name, value in (*(("context", one) for one in contexts), ("targets", targets), ("stride", stride)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number from 1 up, got {value!r}")
    if min(contexts) < stride or targets < stride:
        raise ValueError(f"contexts and targets must be at least the stride {stride}, got {contexts} and {targets}")
    first = max(contexts) if longest is None else longest  # the frozen targets are first + 1, first + 2, ...
    needed = first + targets // stride * stride + 1
    if first < max(contexts) or needed > len(text.validation):
        raise ValueError(
            f"contexts up to {max(contexts)} with {targets} targets after {first} bytes need {needed:,} bytes; "
            f"the validation part of {text.name} has {len(text.validation):,}"
        )
    ends = torch.arange(first + stride, needed, stride)
    return {context: _loss(model, text, ends, context, stride) for context in contexts}


def _loss(model: LanguageModel, text: Text, ends: torch.Tensor, context: int, stride: int) -> float:
    """Mean bits of the last `stride` targets of each window of `context` bytes that ends before `ends`."""
    longest = model.transformer.position.longest
    if longest is not None and context > longest:
        return math.nan
    windows = text.validation[ends[:, None] + torch.arange(-context, 1)].long()  # [windows, context + 1]
    total = 0.0
    with evaluating(model) as device:
        for some in windows.to(device).split(max(1, TOKENS_A_BATCH // context)):
            logits = model(some[:, :-1])[:, -stride:]
            total += float(cross_entropy(logits.flatten(0, 1), some[:, -stride:].flatten(), reduction="sum"))
    return total / (len(ends) * stride) / math.log(2)
