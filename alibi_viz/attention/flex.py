"""ALiBi with FlexAttention: the bias as a small function that torch compiles into its own kernel.

Blocks of keys beyond each head's window (`windows`) are left out, as by the backend "windowed".

The first call compiles for several seconds. On the CPU, FlexAttention has only a forward pass; on a GPU it has both,
but this file has never been run on a GPU: nothing here is tested or timed there.

On the CPU each shape is compiled separately, because the C++ code that torch 2.13 generates for dynamic shapes does not
always compile; after eight shapes torch falls back to uncompiled code.
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from alibi_viz.attention.inputs import AttentionInputs, Backend
from alibi_viz.attention.windows import window_tensor

__all__ = ["BLOCK", "FLEX", "alibi_score_mod", "window_block_mask"]

BLOCK = 128  # queries, and keys, of a block; the default of FlexAttention

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
    is_real, query_length, key_length = inputs.key_padding_mask, inputs.query_length, inputs.key_length
    if is_real is not None:  # it may hide the near keys that the windows rely on

        def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return is_real[batch, key] & (key <= query + offset) if inputs.causal else is_real[batch, key]

        device = str(inputs.query.device)
        return create_block_mask(visible, len(is_real), None, query_length, key_length, device=device)
    # Finding the windows reads all keys, too much for a few queries; and a compiled graph cannot read the slopes
    is_worthwhile = query_length >= BLOCK or inputs.key_statistics is not None
    if inputs.slopes is not None and is_worthwhile and not torch.compiler.is_compiling():
        windows = window_tensor(inputs)
    elif inputs.causal:
        windows = torch.full((1,), key_length, device=inputs.query.device)
    else:
        return None
    return window_block_mask(
        windows, query_length, key_length, causal=inputs.causal, needs_gradients=inputs.needs_gradients
    )


def window_block_mask(
    windows: Tensor, query_length: int, key_length: int, *, causal: bool = True, needs_gradients: bool = True
) -> BlockMask:
    """Make FlexAttention's block mask that leaves out blocks of keys beyond each head's window.

    Time and memory are proportional to the number of blocks of 128 x 128 queries and keys, and no value is read, so a
    GPU is not waited for. Keys beyond the window that share a block with nearer ones stay visible.

    Args:
        windows: integers [heads], how many steps away the queries of each head look; or [1] for all heads.
        query_length, key_length: the queries are the last of the keys.
        causal: mask the keys after each query. If False, the window is on both sides.
        needs_gradients: prepare the backward pass as well.

    >>> mask = window_block_mask(torch.tensor([100, 1024]), 1024, 1024)
    >>> mask.to_dense().sum((0, 2, 3))  # blocks of each head, of 8 * 8
    tensor([15, 36])
    """
    device = windows.device
    before = torch.tensor(key_length - query_length, dtype=torch.int32, device=device)
    query_blocks, key_blocks = -(-query_length // BLOCK), -(-key_length // BLOCK)
    order = torch.arange(max(query_blocks, key_blocks), dtype=torch.int32, device=device)
    first = order[:query_blocks] * BLOCK + before  # position of the first query of each block
    last = (first + BLOCK - 1).clamp(max=key_length - 1)
    window = windows.clamp(max=key_length)[:, None].int()  # [heads, 1]
    start = (first - window).clamp(min=0) // BLOCK  # [heads, query_blocks]
    # Blocks that end before `masked` contain no key after a query, so they need no mask.
    masked = start.maximum((first + 1) // BLOCK) if causal else (last + window).clamp(max=key_length - 1) // BLOCK + 1
    end = (last // BLOCK + 1).expand_as(masked) if causal else masked

    def blocks(begin: Tensor, stop: Tensor) -> tuple[Tensor, Tensor]:
        """The number of blocks of each block of queries, and a permutation of all blocks that starts with them."""
        return (stop - begin)[None], ((begin[..., None] + order[:key_blocks]) % key_blocks)[None]

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return key <= query + before

    return BlockMask.from_kv_blocks(
        *blocks(masked, end),
        *blocks(start, masked),
        BLOCK_SIZE=BLOCK,
        mask_mod=visible if causal else None,
        seq_lengths=(query_length, key_length),
        compute_q_blocks=needs_gradients,
    )


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
