"""ALiBi with FlexAttention: the bias as a small function that torch compiles into its own kernel.

The first call compiles for several seconds. On the CPU, FlexAttention has only a forward pass; on a GPU it has both.
On the CPU each shape is compiled separately, because the C++ code that torch 2.13 generates for dynamic shapes does not
always compile; after eight shapes torch falls back to uncompiled code.
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from alibi_viz.attention.inputs import AttentionInputs, Backend

__all__ = ["FLEX", "alibi_score_mod"]

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def alibi_score_mod(slopes: Tensor, *, offset: Tensor | int = 0, symmetric: bool = False) -> ScoreMod:
    """Make FlexAttention's `score_mod(score, batch, head, query, key)` that adds the bias.

    Args:
        slopes: float32 [heads], on the device of the attention.
        offset: position of the first query, key length - query length when decoding.
        symmetric: add -m |i - j|, for encoders, instead of -m (i - j).

    >>> score_mod = alibi_score_mod(alibi_slopes(8))
    >>> score_mod(torch.tensor(0.0), *torch.tensor([0, 0, 7, 4]))  # batch 0, head 0, query 7, key 4
    tensor(-1.5000)
    """

    def score_mod(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        distance = query + offset - key
        return score - slopes[head] * (distance.abs() if symmetric else distance)

    return score_mod


def _attend(inputs: AttentionInputs) -> Tensor:
    query, key, value, slopes = inputs.query, inputs.key, inputs.value, inputs.slopes
    # a tensor: for an int that changes between calls, torch 2.13 generates invalid C++ code
    offset = torch.tensor(inputs.key_length - inputs.query_length, device=query.device)
    score_mod = None
    if slopes is not None:
        score_mod = alibi_score_mod(slopes.to(torch.float32), offset=offset, symmetric=not inputs.causal)
    options = {"scale": inputs.scaling, "enable_gqa": inputs.group_size > 1}
    attention = _compiled(query.device.type == "cpu")
    return attention(query, key, value, score_mod=score_mod, block_mask=_block_mask(inputs, offset), **options)


def _block_mask(inputs: AttentionInputs, offset: Tensor) -> BlockMask | None:
    is_real, device = inputs.key_padding_mask, str(inputs.query.device)
    if is_real is None:
        return _causal_block_mask(inputs.query_length, inputs.key_length, device) if inputs.causal else None

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return is_real[batch, key] & (key <= query + offset) if inputs.causal else is_real[batch, key]

    return create_block_mask(visible, len(is_real), None, inputs.query_length, inputs.key_length, device=device)


@lru_cache(maxsize=8)
def _causal_block_mask(query_length: int, key_length: int, device: str) -> BlockMask:
    with torch.inference_mode(False):  # autograd cannot use tensors created in inference mode
        offset = torch.tensor(key_length - query_length, device=device)

        def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return key <= query + offset

        return create_block_mask(visible, None, None, query_length, key_length, device=device)


@lru_cache(maxsize=2)
def _compiled(on_cpu: bool) -> Callable[..., Tensor]:
    return torch.compile(flex_attention, dynamic=False if on_cpu else None)


def _unsupported_reason(inputs: AttentionInputs) -> str | None:
    if inputs.query.numel() == 0:
        return "FlexAttention does not accept empty tensors"
    if inputs.query.dtype == torch.float64:
        return "FlexAttention computes in float32 at most"
    if inputs.query.device.type == "cpu" and inputs.needs_gradients:
        return "FlexAttention has no backward pass on the CPU"
    if inputs.dropout:
        return "FlexAttention has no dropout"
    if inputs.attn_mask is not None or inputs.positions is not None:
        return "attn_mask and positions are not supported with FlexAttention"
    return None


FLEX = Backend("flex", _attend, _unsupported_reason)
