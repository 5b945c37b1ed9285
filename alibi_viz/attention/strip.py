"""ALiBi by one strip of bias that serves every query.

-m (i - j) depends on the distance alone: the bias of one query is that of the next, moved by one key. So the rows of
the last 192 queries hold the rows of any 192 neighbours. Taken 192 at a time, queries that end at position e see the
e keys up to there, and their bias is the lower right corner of the strip, [heads, 192, e].

That needs no [query, key] tensor, and it leaves work out. torch's causal kernel computes keys in blocks of 512 and
hides in the last block what lies ahead; here at most 191 keys a query are computed in vain. On the CPU that saves about
as much time as reading the bias costs, and up to 512 tokens more: ALiBi is then faster than `is_causal` without a bias.
"""

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz.attention.inputs import Inputs
from alibi_viz.bias import alibi_bias
from alibi_viz.distance import causal_mask

__all__ = ["ROWS", "make_strip", "strip_attention"]

ROWS = 192  # queries at a time: below that torch's kernel works in smaller blocks, which many threads dislike
FEW, SHORT = 64, 512  # so many at a time are faster up to so many keys; measured on the CPU, as everything here
_MOST_REMEMBERED = 2**22  # numbers in a strip that is kept: 16 MiB


def make_strip(slopes: Tensor, key_length: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """The bias of the last queries, -inf where a key lies ahead: [1, heads, min(ROWS, key), key].

    >>> make_strip(torch.tensor([0.5]), 3)
    tensor([[[[ 0.0000,    -inf,    -inf],
              [-0.5000,  0.0000,    -inf],
              [-1.0000, -0.5000,  0.0000]]]])
    """
    rows = min(ROWS, key_length)
    ahead = ~causal_mask(rows, key_length, device=slopes.device)
    return alibi_bias(slopes, rows, key_length, dtype=dtype).masked_fill(ahead, float("-inf"))[None]


def strip_attention(inputs: Inputs) -> Tensor:
    """Causal attention, a few queries at a time: [batch, heads, query, head_dim]."""
    strip = _strip(inputs)
    height, width = strip.shape[-2:]
    at_once = FEW if inputs.key_length <= SHORT else ROWS
    outputs = []
    end = inputs.key_length - inputs.query_length
    for query in inputs.query.split(at_once, dim=2):
        end += query.shape[2]
        whole = end == inputs.key_length  # a slice that leaves nothing out would cost a copy on the way back
        output = scaled_dot_product_attention(
            query,
            inputs.key if whole else inputs.key[:, :, :end],
            inputs.value if whole else inputs.value[:, :, :end],
            attn_mask=strip[:, :, height - query.shape[2] :, width - end :],  # four axes, or torch takes its slow way
            dropout_p=inputs.dropout,
            scale=inputs.scaling,
            enable_gqa=inputs.group > 1,
        )
        outputs.append(output.transpose(1, 2))  # the kernel's own layout; a model joins the heads without a copy
    joined = torch.cat(outputs, dim=1) if len(outputs) > 1 else outputs[0]
    return joined.transpose(1, 2)


def _strip(inputs: Inputs) -> Tensor:
    """At least as wide as there are keys; float32 also for half precision, which torch's CPU kernel takes."""
    slopes, query = inputs.slopes, inputs.query
    on_cpu = query.device.type == "cpu"
    dtype = torch.float32 if on_cpu and query.dtype != torch.float64 else query.dtype
    if slopes is None:
        slopes = torch.zeros(1, device=query.device)
    width = 1 << max(inputs.key_length - 1, 0).bit_length()  # the next power of two: one strip for many lengths
    looked_at = on_cpu and not slopes.requires_grad and not torch.compiler.is_compiling()
    if looked_at and len(slopes) * ROWS * width <= _MOST_REMEMBERED:
        return _remembered(tuple(slopes.tolist()), width, dtype)
    return make_strip(slopes, inputs.key_length, dtype=dtype)


@lru_cache(maxsize=8)
def _remembered(slopes: tuple[float, ...], width: int, dtype: torch.dtype) -> Tensor:
    """One strip for all layers that share their slopes."""
    with torch.inference_mode(False), torch.device("cpu"):  # what is kept must serve a later call that trains
        return make_strip(torch.tensor(slopes, dtype=torch.float64), width, dtype=dtype)
