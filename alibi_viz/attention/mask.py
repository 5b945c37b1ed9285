"""Attention by torch's fused kernel, with the bias as a float mask.

On a GPU in half precision the mask is rounded, so distant keys get less exact biases.
"""

from torch import Tensor

from alibi_viz.attention.inputs import AttentionInputs, Backend
from alibi_viz.bias_cache import shared_bias

__all__ = ["CACHED_BELOW", "MASK"]

CACHED_BELOW = 768  # keys; a cached mask takes at most 4 MiB per head


def _attend(inputs: AttentionInputs) -> Tensor:
    output = inputs.fused_attention(inputs.query, inputs.key, inputs.value, attn_mask=_float_mask(inputs))
    if inputs.has_mask:  # fully masked rows: some kernels return NaN, others 0
        output = output.masked_fill(~inputs.visible().any(-1, keepdim=True), 0.0)
    return output


def _float_mask(inputs: AttentionInputs) -> Tensor:
    """The bias, -inf where a key is masked: broadcastable to [batch, heads, query, key]."""
    small = inputs.key_length < CACHED_BELOW or inputs.query_length == 1
    cache = None
    if small and inputs.slopes is not None and inputs.positions is None:
        cache = shared_bias(inputs.slopes, causal=inputs.causal)
    if cache is None:
        return inputs.bias(inputs.mask_dtype).masked_fill(~inputs.visible(), float("-inf"))
    mask = cache(inputs.query_length, inputs.key_length, dtype=inputs.mask_dtype)[None]
    return mask.masked_fill(~inputs.visible(), float("-inf")) if inputs.has_mask else mask


MASK = Backend("mask", _attend)
