"""Attention of a single query, as in decoding, that reads only the keys within the windows."""

import torch
from torch import Tensor

from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.bias import exact_dtype

__all__ = ["attend_one_query"]

_CALL = 2**18  # reading this many numbers of keys takes about as long as one kernel call, measured on two threads


def attend_one_query(inputs: AttentionInputs, windows: tuple[int, ...]) -> Tensor:
    """The output [batch, heads, 1, head_dim]: one call of the kernel for neighboring heads with similar windows."""
    query, slopes, group_size = inputs.query, inputs.slopes, inputs.group_size
    assert slopes is not None
    outputs = []
    for heads, width in _calls(inputs, windows):
        key_heads = slice(heads.start // group_size, -(-heads.stop // group_size))
        steps = torch.arange(width - 1, -1, -1, dtype=exact_dtype(query.dtype))
        bias = -slopes[heads].to(steps.dtype)[:, None, None] * steps  # [heads, 1, width]
        key, value = inputs.key[:, key_heads, -width:], inputs.value[:, key_heads, -width:]
        outputs.append(inputs.fused_attention(query[:, heads], key, value, attn_mask=bias[None]))
    return torch.cat(outputs, dim=1)


def _calls(inputs: AttentionInputs, windows: tuple[int, ...]) -> list[tuple[slice, int]]:
    """The heads and the number of keys of each call. Heads share one where reading more keys costs less than a call.

    With grouped heads, only those of one key head do.
    """
    cost = _CALL // max(1, inputs.key.shape[0] * inputs.key.shape[3])  # of a call, in keys of a head
    calls: list[tuple[slice, int]] = []
    for head, window in enumerate(windows):
        width = min(inputs.key_length, 1 + window)
        if calls and (inputs.group_size == 1 or head % inputs.group_size):
            heads, shared = calls[-1]
            count, wider = head - heads.start, max(shared, width)
            if (count + 1) * wider <= count * shared + width + cost:
                calls[-1] = slice(heads.start, head + 1), wider
                continue
        calls.append((slice(head, head + 1), width))
    return calls
