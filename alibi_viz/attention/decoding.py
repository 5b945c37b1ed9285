"""Attention of a single query, as in decoding, that reads only the keys within the windows."""

from itertools import groupby

import torch
from torch import Tensor

from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.bias import exact_dtype

__all__ = ["attend_one_query"]


def attend_one_query(inputs: AttentionInputs, windows: tuple[int, ...]) -> Tensor:
    """The output [batch, heads, 1, head_dim]: one call of the kernel for neighboring heads with similar windows.

    A call for each head would take longer than reading its few keys, and would use a single thread.
    """
    query, slopes, group_size = inputs.query, inputs.slopes, inputs.group_size
    assert slopes is not None

    def similar(head: int) -> tuple[int, int]:
        """Heads with equal results share a call: a power of two, and with grouped heads the key head."""
        return windows[head].bit_length(), head // group_size if group_size > 1 else 0

    outputs = []
    for _, group in groupby(range(len(windows)), key=similar):
        heads = list(group)
        width = min(inputs.key_length, 1 + max(windows[head] for head in heads))
        key_heads = slice(heads[0] // group_size, heads[-1] // group_size + 1)
        steps = torch.arange(width - 1, -1, -1, dtype=exact_dtype(query.dtype))
        bias = -slopes[heads].to(steps.dtype)[:, None, None] * steps  # [heads, 1, width]
        key, value = inputs.key[:, key_heads, -width:], inputs.value[:, key_heads, -width:]
        outputs.append(inputs.fused_attention(query[:, heads], key, value, attn_mask=bias[None]))
    return torch.cat(outputs, dim=1)
