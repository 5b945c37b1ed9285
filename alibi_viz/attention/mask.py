"""Attention by torch's fused kernel, with the bias as a float mask.

On a GPU in half precision the mask is rounded, so distant keys get less exact biases.
"""

import torch
from torch import Tensor

from alibi_viz.attention.inputs import AttentionInputs, Backend
from alibi_viz.bias_cache import AlibiBias, shared_bias

__all__ = ["MASK", "MAX_CACHED_KEYS"]

MAX_CACHED_KEYS = 1024  # a cached mask then takes at most 4 MiB per head


def _attend(inputs: AttentionInputs) -> Tensor:
    output = inputs.fused_attention(inputs.query, inputs.key, inputs.value, attn_mask=_float_mask(inputs))
    if inputs.has_mask:  # fully masked rows: some kernels return NaN, others 0
        output = output.masked_fill(~inputs.visible().any(-1, keepdim=True), 0.0)
    return output


def _float_mask(inputs: AttentionInputs) -> Tensor | None:
    """The bias, -inf where a key is masked: broadcastable to [batch, heads, query, key]. None if there is neither."""
    if inputs.slopes is None and not inputs.causal and not inputs.has_mask:
        return None
    cache = _cache(inputs)
    if cache is None:
        return inputs.bias(inputs.mask_dtype).masked_fill(~inputs.visible(), float("-inf"))
    mask = cache(inputs.query_length, inputs.key_length, dtype=inputs.mask_dtype)[None]
    return mask.masked_fill(~inputs.visible(), float("-inf")) if inputs.has_mask else mask


def _cache(inputs: AttentionInputs) -> AlibiBias | None:
    """The cache that holds the bias of these inputs, if it is small and may be cached."""
    if inputs.slopes is None or inputs.positions is not None:
        return None
    if (
        torch.compiler.is_compiling()
    ):  # nothing is cached, and comparing lengths would give each side a graph of its own
        return None
    is_small = inputs.key_length <= MAX_CACHED_KEYS or inputs.query_length == 1
    return shared_bias(inputs.slopes, causal=inputs.causal) if is_small else None


MASK = Backend("mask", _attend)
