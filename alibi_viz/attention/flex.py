"""ALiBi with FlexAttention: the bias as a small function that torch compiles into its own kernel.

Blocks of keys that the causal mask hides are left out. The first call compiles for several seconds.
On the CPU there is only a forward pass, and each shape is compiled separately, because the C++ code
that torch 2.13 generates for dynamic shapes does not always compile; after eight shapes torch falls
back to uncompiled code. On a GPU (H200, torch 2.11, bfloat16) it took 0.8 to 0.9 times as long as
"folded" at 4096 tokens, and 1.6 to 1.7 times at 16,384. It sums the gradients of slopes in any
order there, with errors of up to 4e-5 in float32.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from alibi_viz.attention.inputs import AttentionInputs, Backend


def alibi_score_mod(slopes: Tensor, offset: Tensor | int, *, causal: bool) -> Callable[..., Tensor]:
    """FlexAttention's `score_mod` for slopes, float32 [heads]; `offset` is the position of the
    first query.

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
    call = (
        inputs.query_length,
        inputs.key_length,
        inputs.causal,
        query.device,
        inputs.key_padding_mask,
    )
    can_share = inputs.key_padding_mask is None and not torch.compiler.is_compiling()
    offset, block_mask = (_shared_block_mask if can_share else _block_mask)(*call)
    options: dict[str, Any] = {"scale": inputs.scaling, "enable_gqa": inputs.group_size > 1}
    if slopes is not None:
        options["score_mod"] = alibi_score_mod(slopes.float(), offset, causal=inputs.causal)
    return _compiled(query.is_cpu)(query, key, value, block_mask=block_mask, **options)


def _block_mask(
    queries: int, keys: int, causal: bool, device: torch.device, is_real: Tensor | None
) -> tuple[Tensor, BlockMask | None]:
    """The position of the first query, and the blocks of keys that it may attend to; None if to
    all."""
    # a tensor: for an int that changes between calls, torch 2.13 generates invalid C++ code
    offset = torch.tensor(keys - queries, device=device)
    if is_real is None and not causal:
        return offset, None

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        past = key <= query + offset
        return (
            past
            if is_real is None
            else is_real[batch, key] & past
            if causal
            else is_real[batch, key]
        )

    batch = None if is_real is None else len(is_real)
    return offset, create_block_mask(visible, batch, None, queries, keys, device=str(device))


# Making one takes longer than a short attention on a GPU. Tensors of inference mode could not be
# used in training.
_shared_block_mask = lru_cache(maxsize=16)(torch.inference_mode(False)(_block_mask))


@lru_cache(maxsize=2)
def _compiled(on_cpu: bool) -> Callable[..., Tensor]:
    # beyond the limit nothing is compiled, which is 1000 times slower on a GPU
    return torch.compile(
        flex_attention, **({"dynamic": False} if on_cpu else {"recompile_limit": 64})
    )


def _unsupported_reason(inputs: AttentionInputs) -> str | None:
    reasons = {
        "FlexAttention does not accept empty tensors": inputs.query.numel() == 0,
        "FlexAttention computes in float32 at most": inputs.query.dtype == torch.float64,
        "FlexAttention has no backward pass on the CPU": inputs.query.is_cpu
        and inputs.needs_gradients,
        "it does not compile within torch.compile on the CPU": inputs.query.is_cpu
        and torch.compiler.is_compiling(),
        "FlexAttention has no dropout": inputs.dropout > 0,
        "attn_mask is not supported with FlexAttention": inputs.attn_mask is not None,
        "positions are not supported with FlexAttention": inputs.positions is not None,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


FLEX = Backend("flex", _attend, _unsupported_reason)
