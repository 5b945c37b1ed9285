"""Attention written out step by step: the reference, and the only implementation that shows every step.

    logits[i, j] = q_i . k_j / sqrt(head_dim) + bias[i, j]

The bias is *not* divided by sqrt(head_dim).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import dropout

from alibi_viz.attention.inputs import AttentionInputs, Backend
from alibi_viz.attention.windows import needed_windows

__all__ = ["EAGER", "AttentionTrace", "attention_trace"]


@dataclass(frozen=True)
class AttentionTrace:
    """The steps of attention, each [batch, heads, query, key] in the dtype of the query.

    Attributes:
        content: q . k / sqrt(head_dim) for every pair, masked or not.
        bias: the ALiBi bias.
        logits: content + bias, -inf where a key is masked.
        weights: softmax of the logits over the keys; zeros for a query without any visible key.
    """

    content: Tensor
    bias: Tensor
    logits: Tensor
    weights: Tensor

    def windows(self, tolerance: float | None = None) -> tuple[int, ...]:
        """How many steps back each head looks: further away, every query has at most `tolerance` of its weight.

        The default tolerance is that of `alibi_attention`. Its backend "windowed" must find windows without computing
        the weights, so its windows are wider; `choose_backend` returns them.

        >>> q = k = torch.zeros(1, 8, 500, 4)
        >>> attention_trace(q, k, alibi_slopes(8)).windows()
        (33, 66, 133, 266, 490, 499, 499, 499)
        """
        if tolerance is None:
            tolerance = torch.finfo(self.weights.dtype).eps / 2
        return needed_windows(self.weights, tolerance)


def attention_trace(
    query: Tensor,
    key: Tensor,
    slopes: Tensor | None,
    *,
    causal: bool = True,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    positions: Tensor | None = None,
    scale: float | None = None,
) -> AttentionTrace:
    """Compute every step of attention from content to weights, for inspection.

    Arguments and errors are those of `alibi_attention`.

    >>> q = k = torch.zeros(1, 1, 3, 4)  # equal content, so the weights come from the bias alone
    >>> attention_trace(q, k, torch.tensor([1.0])).weights[0, 0]
    tensor([[1.0000, 0.0000, 0.0000],
            [0.2689, 0.7311, 0.0000],
            [0.0900, 0.2447, 0.6652]])
    """
    inputs = AttentionInputs(query, key, key, slopes, causal, key_padding_mask, attn_mask, positions, scale)
    return _trace(inputs.check().autocast())


def _trace(inputs: AttentionInputs) -> AttentionTrace:
    key = inputs.key.repeat_interleave(inputs.group_size, dim=1)  # [batch, heads, key, head_dim]
    content = (inputs.query * inputs.scaling) @ key.transpose(-2, -1)
    bias = inputs.bias(inputs.query.dtype).expand_as(content)
    logits = (content + bias).masked_fill(~inputs.visible(), float("-inf"))
    is_masked = (logits == float("-inf")).all(-1, keepdim=True)  # a fully masked row: zeros instead of NaN
    weights = logits.masked_fill(is_masked, 0.0).softmax(-1).masked_fill(is_masked, 0.0)
    return AttentionTrace(content, bias, logits, weights)


def _attend(inputs: AttentionInputs) -> Tensor:
    weights = dropout(_trace(inputs).weights, inputs.dropout)
    return weights @ inputs.value.repeat_interleave(inputs.group_size, dim=1)


EAGER = Backend("eager", _attend)
