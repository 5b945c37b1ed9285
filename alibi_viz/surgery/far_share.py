"""Change the share of attention that far keys get together.

Keys at a distance of L or more were never seen in training. One constant for each query is added to
all of their logits. So their weights change by one factor, those of the near keys by another, and
the ratios within each of the two groups stay as they were.

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

    Args:
        logits: with the bias, and -inf for keys that are hidden: [..., query, key].
        queries: their positions, int64 [query].
        keys: their positions, int64 [key].
        share: from 0 to 1.
        trained_length: the training length L, the distance at which far keys begin.

    Returns the shape and dtype of the logits.
    """
    is_far = _is_far(queries, keys, trained_length)
    # exp(log_odds) is share / (1 - share).
    highest = torch.tensor(share, dtype=torch.float64).logit().item()
    log_odds = _log_odds(logits, is_far)
    is_limited = is_far & (log_odds > highest)
    return torch.where(is_limited, logits - (log_odds - highest), logits)


def copy_far_share(
    logits: Tensor, others: Tensor, queries: Tensor, keys: Tensor, trained_length: int
) -> Tensor:
    """The logits, changed for far keys so that these get the share that they have in others.

    Args:
        logits, others: with the bias, and -inf for keys that are hidden: [..., query, key].
        queries, keys, trained_length: as in `limit_far_share`.

    Returns the shape and dtype of the logits.

    >>> import torch
    >>> from alibi_viz.surgery.far_share import copy_far_share
    >>> logits = torch.tensor([[0.3, 0.3, 0.1, 0.3]]).log()  # of one query; two keys are far
    >>> others = torch.tensor([[0.1, 0.1, 0.4, 0.4]]).log()
    >>> copied = copy_far_share(logits, others, torch.tensor([3]), torch.arange(4), 2)
    >>> copied.softmax(-1)
    tensor([[0.1000, 0.1000, 0.2000, 0.6000]])
    """
    is_far = _is_far(queries, keys, trained_length)
    excess = _log_odds(logits, is_far) - _log_odds(others, is_far)
    # A hidden key stays hidden.
    return torch.where(is_far & logits.isfinite(), logits - excess, logits)


def _is_far(queries: Tensor, keys: Tensor, trained_length: int) -> Tensor:
    """Which keys are at least the training length away, bool [query, key]."""
    return (queries[:, None] - keys).abs() >= trained_length


def _log_odds(logits: Tensor, is_far: Tensor) -> Tensor:
    """The logarithm of what far keys get, relative to what near keys get: [..., query, 1].

    Each query sees at least itself, so there is always a near key. It is -inf without far keys.
    """
    # Adding a mask is faster than filling by one.
    nothing = logits.new_zeros(is_far.shape)
    far = (logits + nothing.masked_fill(~is_far, -math.inf)).logsumexp(-1, keepdim=True)
    near = (logits + nothing.masked_fill(is_far, -math.inf)).logsumexp(-1, keepdim=True)
    return far - near
