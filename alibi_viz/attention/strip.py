"""Blockwise causal attention that reuses a single block of bias.

The bias depends only on the distance i - j, so every block of 192 consecutive queries needs the same values, shifted
along the keys. We compute the block for the last 192 queries, [heads, 192, key], and slice it for all others. Queries
e - 192 to e - 1 attend to the first e keys and use the lower right corner of the block, [heads, 192, e].

This avoids a [query, key] tensor and most work on masked keys: torch's causal kernel computes keys in blocks of 512,
so up to 511 masked keys per query; here there are at most 191. On the CPU that saves about as much time as reading the
bias costs. Up to 512 tokens it saves more, so ALiBi takes about as long as `is_causal` without a bias.
"""

import torch
from torch import Tensor

from alibi_viz.attention.inputs import AttentionInputs, Backend
from alibi_viz.bias import alibi_bias, mask_future
from alibi_viz.bias_cache import shared_bias

__all__ = ["ROWS", "SHORT_KEYS", "SMALL_BLOCK", "STRIP", "bias_strip"]

ROWS = 192  # queries per block; with fewer, torch's kernel uses smaller blocks, which is slow on many threads
SMALL_BLOCK, SHORT_KEYS = 64, 512  # up to 512 keys, blocks of 64 queries are faster; all measured on the CPU
_LARGEST_CACHED = 2**14  # heads * keys; the cache then takes at most 32 MiB in float32


def bias_strip(slopes: Tensor, key_length: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """The bias of the last queries, -inf where the key comes after the query: [1, heads, min(192, key), key].

    Small results are views of a shared cache: read them, don't write to them.
    """
    rows = min(ROWS, key_length)
    cache = shared_bias(slopes, causal=True) if len(slopes) * key_length <= _LARGEST_CACHED else None
    if cache is not None:
        return cache(rows, key_length, dtype=dtype)[None]
    return mask_future(alibi_bias(slopes, rows, key_length, dtype=dtype))[None]


def _attend(inputs: AttentionInputs) -> Tensor:
    query, key, value = inputs.query, inputs.key, inputs.value
    slopes = torch.zeros(1, device=query.device) if inputs.slopes is None else inputs.slopes
    strip = bias_strip(slopes, inputs.key_length, dtype=inputs.mask_dtype)
    height, width = strip.shape[-2:]
    end = inputs.key_length - inputs.query_length
    if inputs.query_length == height <= SMALL_BLOCK:
        # a single block: for inputs this short, slicing it would take a noticeable time
        return inputs.fused_attention(query, key, value, attn_mask=strip)
    outputs = []
    for block in query.split(SMALL_BLOCK if inputs.key_length <= SHORT_KEYS else ROWS, dim=2):
        end += block.shape[2]
        if end == inputs.key_length:  # a full slice would still cost a copy in the backward pass
            visible_key, visible_value = key, value
        else:
            visible_key, visible_value = key[:, :, :end], value[:, :, :end]
        bias = strip[:, :, height - block.shape[2] :, width - end :]  # 4 axes: with 3, torch takes a slow path
        output = inputs.fused_attention(block, visible_key, visible_value, attn_mask=bias)
        outputs.append(output.transpose(1, 2))  # the kernel's own layout, so a model joins the heads without a copy
    joined = torch.cat(outputs, dim=1) if len(outputs) > 1 else outputs[0]
    return joined.transpose(1, 2)


def _unsupported_reason(inputs: AttentionInputs) -> str | None:
    if not inputs.causal:
        return "without a causal mask every query attends to every key, so blocks save nothing"
    if inputs.has_mask:
        return "a padding or attention mask differs between queries, so they cannot share one block of bias"
    if inputs.positions is not None:
        return "with explicit positions the bias is not constant along diagonals"
    return None


STRIP = Backend("strip", _attend, _unsupported_reason)
