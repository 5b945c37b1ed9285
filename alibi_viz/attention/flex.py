"""ALiBi with FlexAttention: the bias as a small function that torch compiles into its own kernel.

Blocks of keys that the causal mask hides are left out. The first call compiles for several seconds. On the CPU there is
only a forward pass, and each shape is compiled separately, because the C++ code that torch 2.13 generates for dynamic
shapes does not always compile; after eight shapes torch falls back to uncompiled code. It never ran on a GPU.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from alibi_viz.attention.inputs import AttentionInputs, Backend


def alibi_score_mod(slopes: Tensor, offset: Tensor | int, *, causal: bool) -> Callable[..., Tensor]:
    """FlexAttention's `score_mod` for slopes, float32 [heads]; `offset` is the position of the first query.

    >>> score_mod = alibi_score_mod(alibi_slopes(8), 0, causal=True)
    >>> score_mod(torch.tensor(0.0), *torch.tensor([0, 0, 7, 4]))  # batch 0, head 0, query 7, key 4
    tensor(-1.5000)
    """

    def score_mod(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        distance = query + offset - key
        return score - slopes[head] * (distance if causal else distance.abs())

    return score_mod


def _attend(inputs: AttentionInputs) -> Tensor:
    query, key, value, slopes = inputs[:4]
    # a tensor: for an int that changes between calls, torch 2.13 generates invalid C++ code
    offset = torch.tensor(inputs.key_length - inputs.query_length, device=query.device)
    options: dict[str, Any] = {"scale": inputs.scaling, "enable_gqa": inputs.group_size > 1}
    if slopes is not None:
        options["score_mod"] = alibi_score_mod(slopes.float(), offset, causal=inputs.causal)
    return _compiled(query.is_cpu)(query, key, value, block_mask=_block_mask(inputs, offset), **options)


def _block_mask(inputs: AttentionInputs, offset: Tensor) -> BlockMask | None:
    is_real = inputs.key_padding_mask
    if is_real is None and not inputs.causal:
        return None

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        past = key <= query + offset
        return past if is_real is None else is_real[batch, key] & past if inputs.causal else is_real[batch, key]

    batch, device = None if is_real is None else len(is_real), str(inputs.query.device)
    return create_block_mask(visible, batch, None, inputs.query_length, inputs.key_length, device=device)


@lru_cache(maxsize=2)
def _compiled(on_cpu: bool) -> Callable[..., Tensor]:
    return torch.compile(flex_attention, dynamic=False if on_cpu else None)


def _unsupported_reason(inputs: AttentionInputs) -> str | None:
    reasons = {
        "FlexAttention does not accept empty tensors": inputs.query.numel() == 0,
        "FlexAttention computes in float32 at most": inputs.query.dtype == torch.float64,
        "FlexAttention has no backward pass on the CPU": inputs.query.is_cpu and inputs.needs_gradients,
        "FlexAttention has no dropout": inputs.dropout > 0,
        "attn_mask is not supported with FlexAttention": inputs.attn_mask is not None,
        "positions are not supported with FlexAttention": inputs.positions is not None,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


FLEX = Backend("flex", _attend, _unsupported_reason)
