"""Attention by torch's fused kernel, with the bias as a float mask.

In half precision the mask is rounded, so distant keys get less exact biases.
"""

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz.attention.backend import Backend
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.bias_cache import is_cacheable, shared_bias

__all__ = ["CACHE_BELOW", "MASK"]

CACHE_BELOW = 768  # keys; a cached mask takes at most 4 MiB per head


def _attend(inputs: AttentionInputs) -> Tensor:
    output = scaled_dot_product_attention(
        inputs.query,
        inputs.key,
        inputs.value,
        attn_mask=_mask(inputs),
        dropout_p=inputs.dropout,
        scale=inputs.scaling,
        enable_gqa=inputs.group_size > 1,
    )
    if inputs.has_mask:  # fully masked rows: some kernels return NaN, others 0
        output = output.masked_fill(~inputs.visible().any(-1, keepdim=True), 0.0)
    return output


def _mask(inputs: AttentionInputs) -> Tensor:
    """The bias, -inf where a key is masked: broadcastable to [batch, heads, query, key]."""
    slopes = inputs.slopes
    small = inputs.key_length < CACHE_BELOW or inputs.query_length == 1
    if slopes is None or inputs.positions is not None or not small or not is_cacheable(slopes):
        return inputs.bias().masked_fill(~inputs.visible(), float("-inf"))
    bias = shared_bias(slopes, causal=inputs.causal)
    mask = bias(inputs.query_length, inputs.key_length, dtype=inputs.query.dtype).unsqueeze(0)
    return mask.masked_fill(~inputs.visible(), float("-inf")) if inputs.has_mask else mask


MASK = Backend("mask", _attend)
