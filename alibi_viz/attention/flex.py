"""ALiBi with FlexAttention: the bias as a small function that torch compiles into its own kernel.

Blocks of keys beyond each head's attention span (`spans`) are left out, as by the backend "windowed". The first call
compiles for several seconds. On the CPU there is only a forward pass, and each shape is compiled separately, because
the C++ code that torch 2.13 generates for dynamic shapes does not always compile; after eight shapes torch falls back
to uncompiled code. None of this was tested or timed on a GPU.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from alibi_viz.attention.inputs import AttentionInputs, Backend
from alibi_viz.attention.spans import attention_spans

BLOCK = 128  # queries, and keys, of a block; the default of FlexAttention


def alibi_score_mod(
    slopes: Tensor, *, offset: Tensor | int = 0, symmetric: bool = False
) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
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
    query, key, value, slopes = inputs[:4]
    # a tensor: for an int that changes between calls, torch 2.13 generates invalid C++ code
    offset = torch.tensor(inputs.key_length - inputs.query_length, device=query.device)
    options: dict[str, Any] = {"scale": inputs.scaling, "enable_gqa": inputs.group_size > 1}
    if slopes is not None:
        options["score_mod"] = alibi_score_mod(slopes.float(), offset=offset, symmetric=not inputs.causal)
    return _compiled(query.is_cpu)(query, key, value, block_mask=_block_mask(inputs, offset), **options)


def _block_mask(inputs: AttentionInputs, offset: Tensor) -> BlockMask | None:
    is_real, query_length, key_length = inputs.key_padding_mask, inputs.query_length, inputs.key_length
    if is_real is not None:  # it may hide the near keys that the spans rely on

        def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return is_real[batch, key] & (key <= query + offset) if inputs.causal else is_real[batch, key]

        device = str(inputs.query.device)
        return create_block_mask(visible, len(is_real), None, query_length, key_length, device=device)
    # Finding the spans reads all keys, too much for a few queries; and a compiled graph cannot read the slopes
    is_worthwhile = query_length >= BLOCK or inputs.key_ball is not None
    if inputs.slopes is not None and is_worthwhile and not torch.compiler.is_compiling():
        spans = attention_spans(inputs)
    elif inputs.causal:
        spans = torch.full((1,), key_length, device=inputs.query.device)
    else:
        return None
    return span_block_mask(spans, query_length, key_length, causal=inputs.causal, gradients=inputs.needs_gradients)


def span_block_mask(
    spans: Tensor, query_length: int, key_length: int, *, causal: bool = True, gradients: bool = True
) -> BlockMask:
    """Make FlexAttention's block mask that leaves out blocks of keys beyond each head's span.

    Keys beyond the span that share a block with nearer ones stay visible. Time and memory are proportional to the
    number of blocks, and no value is read.

    Args:
        spans: integers [heads], how many steps away the queries of each head look; or [1] for all heads.
        query_length, key_length: the queries are the last of the keys.
        causal: mask the keys after each query. If False, the span is on both sides.
        gradients: prepare the backward pass as well.

    >>> mask = span_block_mask(torch.tensor([100, 1024]), 1024, 1024)
    >>> mask.to_dense().sum((0, 2, 3))  # blocks of each head, of 8 * 8
    tensor([15, 36])
    """
    before = torch.tensor(key_length - query_length, dtype=torch.int32, device=spans.device)
    order = torch.arange(-(-key_length // BLOCK), dtype=torch.int32, device=spans.device)
    first = (order[: -(-query_length // BLOCK)] * BLOCK + before)[:, None]  # position of the first query of each block
    last = (first + BLOCK - 1).clamp(max=key_length - 1)
    distance = torch.maximum(first - (order + 1) * BLOCK + 1, order * BLOCK - last)  # of the nearest query and key
    within = distance <= spans.clamp(max=key_length)[:, None, None]  # [heads, query_blocks, key_blocks]
    if causal:
        within = within & (order * BLOCK <= last)
    needs_mask = within & ((order + 1) * BLOCK - 1 > first) & causal

    def indices(chosen: Tensor) -> tuple[Tensor, Tensor]:  # how many are chosen, and all blocks, the chosen ones first
        return chosen.sum(-1).int()[None], chosen.int().argsort(dim=-1, descending=True, stable=True).int()[None]

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return key <= query + before

    return BlockMask.from_kv_blocks(
        *indices(needs_mask),
        *indices(within & ~needs_mask),
        BLOCK_SIZE=BLOCK,
        mask_mod=visible if causal else None,
        seq_lengths=(query_length, key_length),
        compute_q_blocks=gradients,
    )


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
