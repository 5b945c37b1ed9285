"""ALiBi with FlexAttention: the bias is a small function that torch compiles into a kernel.

Blocks of keys that the causal mask hides are left out, and in long calls also those beyond the
attention span of a head (see `skipping.spans`). The first call compiles for several seconds.
On the CPU there is only a forward pass, and each shape is compiled separately, because the C++ code
that torch 2.13 generates for dynamic shapes does not always compile; after eight shapes torch falls
back to uncompiled code. On a GPU (H200, torch 2.11, bfloat16) it took 0.8 to 0.9 times as long as
"folded" at 4096 tokens, and 1.6 to 1.7 times at 16,384, when it did not yet leave out keys beyond
the spans. What that saves there has not been measured. It sums the gradients of slopes in any order
there, with errors of up to 4e-5 in float32.
"""

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from alibi_viz.attention.inputs import AttentionInputs, Backend
from alibi_viz.attention.skipping.spans import attention_spans

BLOCK = 128  # queries and keys in a block, the default of FlexAttention
# In shorter calls, finding the spans may take longer than they save.
_SPANS_FROM = 4096  # queries


def alibi_score_mod(slopes: Tensor, offset: Tensor | int, *, causal: bool) -> Callable[..., Tensor]:
    """FlexAttention's `score_mod` for slopes, float32 [heads].

    `offset` is the position of the first query.

    >>> import torch
    >>> import alibi_viz as av
    >>> from alibi_viz.attention.flex import alibi_score_mod
    >>> score_mod = alibi_score_mod(av.alibi_slopes(8), 0, causal=True)
    >>> batch, head, query, key = torch.tensor([0, 0, 7, 4])
    >>> score_mod(torch.tensor(0.0), batch, head, query, key)
    tensor(-1.5000)
    """

    def score_mod(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        distance = query + offset - key
        if not causal:
            distance = distance.abs()
        return score - slopes[head] * distance

    return score_mod


def _attend(inputs: AttentionInputs) -> Tensor:
    is_real = inputs.key_padding_mask
    is_compiling = torch.compiler.is_compiling()
    make_block_mask: Callable[..., tuple[Tensor, BlockMask | None]] = _shared_block_mask
    if is_real is not None or is_compiling:
        make_block_mask = _block_mask
    offset, block_mask = make_block_mask(
        inputs.query_length, inputs.key_length, inputs.causal, inputs.query.device, is_real
    )
    has_fixed_bias = inputs.slopes is not None and not inputs.slopes_need_gradients
    is_plain = has_fixed_bias and is_real is None and not is_compiling
    if is_plain and inputs.query_length >= _SPANS_FROM:
        block_mask = block_mask_within(
            attention_spans(inputs),
            queries=inputs.query_length,
            keys=inputs.key_length,
            causal=inputs.causal,
        )
    options: dict[str, Any] = {"scale": inputs.scaling, "enable_gqa": inputs.group_size > 1}
    if inputs.slopes is not None:
        slopes = inputs.slopes.float()
        options["score_mod"] = alibi_score_mod(slopes, offset, causal=inputs.causal)
    attend = _compiled(inputs.query.is_cpu)
    return attend(inputs.query, inputs.key, inputs.value, block_mask=block_mask, **options)


def _block_mask(
    queries: int, keys: int, causal: bool, device: torch.device, is_real: Tensor | None
) -> tuple[Tensor, BlockMask | None]:
    """The position of the first query, and the blocks of keys it may attend to; None if to all."""
    # A tensor: for an int that changes between calls, torch 2.13 generates invalid C++ code.
    offset = torch.tensor(keys - queries, device=device)
    if is_real is None and not causal:
        return offset, None

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        is_past = key <= query + offset
        if is_real is None:
            return is_past
        if not causal:
            return is_real[batch, key]
        return is_real[batch, key] & is_past

    batch = None if is_real is None else len(is_real)
    block_mask = create_block_mask(visible, batch, None, queries, keys, device=str(device))
    return offset, block_mask


# Making one takes longer than a short attention on a GPU. Tensors of inference mode could not be
# used in training.
_shared_block_mask = lru_cache(maxsize=16)(torch.inference_mode(False)(_block_mask))


def block_mask_within(spans: Tensor, *, queries: int, keys: int, causal: bool) -> BlockMask:
    """The blocks of keys within the span of each head: [1, heads, query blocks, key blocks].

    `spans` are int64 [heads], as from `attention_spans`. Every block that has a visible key within
    the span of one of its queries is in the mask, with all of its visible keys. It is made from the
    numbers of the blocks, without a tensor [query, key].

    >>> import torch
    >>> from alibi_viz.attention.flex import block_mask_within
    >>> mask = block_mask_within(torch.tensor([100, 512]), queries=512, keys=512, causal=True)
    >>> mask.to_dense()[0, :, -1].tolist()  # of the last 128 queries
    [[0, 0, 1, 1], [1, 1, 1, 1]]
    """
    device = spans.device
    before = keys - queries  # keys before the first query
    key_blocks = -(-keys // BLOCK)
    query_blocks = -(-queries // BLOCK)
    # The positions of the first and last query of each block, [query blocks]
    first_query = before + BLOCK * torch.arange(query_blocks, device=device)
    last_query = (first_query + BLOCK - 1).clamp(max=keys - 1)

    # The first and last block with a key within the span, [heads, query blocks]
    span = spans[:, None]
    first = (first_query - span).clamp(min=0) // BLOCK
    last_key = last_query.expand_as(first)
    if not causal:
        last_key = (last_query + span).clamp(max=keys - 1)
    last = last_key // BLOCK

    # Blocks that end before the first query are visible to all queries, and need no mask.
    partly_visible = last + 1
    if causal:
        partly_visible = ((first_query + 1) // BLOCK).maximum(first)
    # Each row lists the blocks from `start` on. Of those beyond the counts, any number will do.
    numbers = torch.arange(key_blocks, device=device)

    def listed(start: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
        counts = (end - start).clamp(min=0)
        indices = (start[..., None] + numbers).clamp(max=key_blocks - 1)
        return counts[None].int(), indices[None].int()

    def is_past(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return key <= query + before

    counts, indices = listed(partly_visible, last + 1)
    full_counts, full_indices = listed(first, partly_visible)
    return BlockMask.from_kv_blocks(
        counts,
        indices,
        full_counts,
        full_indices,
        BLOCK_SIZE=BLOCK,
        mask_mod=is_past if causal else None,
        seq_lengths=(queries, keys),
    )


@lru_cache(maxsize=2)
def _compiled(on_cpu: bool) -> Callable[..., Tensor]:
    if on_cpu:
        return torch.compile(flex_attention, dynamic=False)
    # Beyond the limit nothing is compiled, which is 1000 times slower on a GPU.
    options: dict[str, Any] = {}
    if "recompile_limit" in inspect.signature(torch.compile).parameters:  # newer than torch 2.8
        options["recompile_limit"] = 64
    return torch.compile(flex_attention, **options)


def _unsupported_reason(inputs: AttentionInputs) -> str | None:  # noqa: PLR0911 - one per reason
    if inputs.query.numel() == 0:
        return "FlexAttention does not accept empty tensors"
    if inputs.query.dtype == torch.float64:
        return "FlexAttention computes in float32 at most"
    if inputs.query.is_cpu and inputs.needs_gradients:
        return "FlexAttention has no backward pass on the CPU"
    if inputs.query.is_cpu and torch.compiler.is_compiling():
        return "it does not compile within torch.compile on the CPU"
    if inputs.dropout > 0:
        return "FlexAttention has no dropout"
    if inputs.attn_mask is not None:
        return "attn_mask is not supported with FlexAttention"
    if inputs.positions is not None:
        return "positions are not supported with FlexAttention"
    return None


FLEX = Backend("flex", _attend, _unsupported_reason)
