"""A limit on the share of attention that far keys get together.

Keys at a distance of L or more were never seen in training. Where they get more than the limit, one
constant is subtracted from all of their logits. So their weights shrink by one factor, those of
the near keys grow by another, and the ratios within each of the two groups stay as they were.

>>> import torch
>>> from alibi_viz.surgery.far_share import limit_far_share
>>> logits = torch.tensor([[0.3, 0.3, 0.1, 0.3]]).log()  # of one query; two keys are far
>>> limited = limit_far_share(
...     logits, torch.tensor([3]), torch.arange(4), share=0.2, trained_length=2
... )
>>> limited.softmax(-1)
tensor([[0.1000, 0.1000, 0.2000, 0.6000]])
"""

import math

import torch
from torch import Tensor


def limit_far_share(
    logits: Tensor, queries: Tensor, keys: Tensor, share: float, trained_length: int
) -> Tensor:
    """The logits, lowered for far keys so that these get at most this share.

    Each query sees at least itself, so there is always a near key to get the rest.

    Args:
        logits: with the bias, and -inf for keys that are hidden: [..., query, key].
        queries: their positions, int64 [query].
        keys: their positions, int64 [key].
        share: from 0 to 1.
        trained_length: the training length L, the distance at which far keys begin.

    Returns the shape and dtype of the logits.
    """
    distance = (queries[:, None] - keys).abs()
    is_far = distance >= trained_length

    # exp(far - near) is the odds of far keys, share / (1 - share).
    far = logits.masked_fill(~is_far, -math.inf).logsumexp(-1, keepdim=True)
    near = logits.masked_fill(is_far, -math.inf).logsumexp(-1, keepdim=True)
    highest = near + torch.tensor(share, dtype=torch.float64).logit().item()

    is_limited = is_far & (far > highest)
    return torch.where(is_limited, logits - (far - highest), logits)
