"""Which way through attention is the fastest that is exact for a call, and why.

eager    softmax(QK + B) V written out; the reference, and the only one that makes every step visible
mask     torch's fused attention with the bias as a float mask, in half precision rounded: far keys count less exactly
strip    the same, some queries at a time, with one strip of bias for all of them (see `strip`)
folded   two more coordinates of q and k, no [query, key] tensor (see `folded`)
flex     FlexAttention, compiled (see `flex`)
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz.attention.folded import out_of_range
from alibi_viz.attention.inputs import Inputs
from alibi_viz.bias import alibi_bias
from alibi_viz.bias_cache import AlibiBias

__all__ = ["BACKENDS", "FOLD_FROM", "Choice", "choose", "mask_attention", "obstacle"]

BACKENDS = ("auto", "eager", "mask", "strip", "folded", "flex")
FOLD_FROM = 768  # length from which folding is faster than a remembered mask, measured on CPU (benchmarks/attention.py)
STRIP_UP_TO = 2048  # length to which a strip is the fastest of all, measured likewise


class Choice(NamedTuple):
    """What `auto` takes: the name of a backend and the reason in words."""

    name: str
    reason: str


def choose(inputs: Inputs) -> Choice:
    """The backend that `auto` takes. FlexAttention is never taken unasked: its first call compiles for seconds."""
    if inputs.query_length == 1:
        return Choice("mask", "for a single query the bias is a single row")
    if _strip_pays(inputs) and obstacle("strip", inputs) is None:
        if inputs.key_length <= STRIP_UP_TO:
            return Choice(
                "strip", f"on the CPU, up to {STRIP_UP_TO} tokens, one strip of bias for all queries is fastest"
            )
        if (against := obstacle("folded", inputs)) is not None:
            return Choice("strip", f"folding does not fit: {against}")
    return _fold_or_mask(inputs)


def _fold_or_mask(inputs: Inputs) -> Choice:
    against = obstacle("folded", inputs)
    if against is not None:
        return Choice("mask", f"folding does not fit: {against}")
    half = inputs.query.dtype in (torch.float16, torch.bfloat16)
    if half and inputs.needs_gradients and inputs.slopes is not None and inputs.slopes.requires_grad:
        return Choice("mask", "folding would round the gradient of the slopes to half precision")
    if inputs.query_length < FOLD_FROM:
        return Choice("mask", f"below {FOLD_FROM} tokens a mask is faster than folding")
    return Choice("folded", f"causal attention from {FOLD_FROM} tokens on needs no [query, key] tensor")


def obstacle(backend: str, inputs: Inputs) -> str | None:
    """Why a backend cannot compute these inputs; None when it can."""
    if backend == "strip":
        return _strip_obstacle(inputs)
    if backend == "folded":
        return _folded_obstacle(inputs)
    if backend == "flex":
        return _flex_obstacle(inputs)
    return None


def mask_attention(inputs: Inputs) -> Tensor:
    """torch's fused attention with the bias, and the hiding, as one float mask."""
    output = scaled_dot_product_attention(
        inputs.query,
        inputs.key,
        inputs.value,
        attn_mask=_mask(inputs),
        dropout_p=inputs.dropout,
        scale=inputs.scaling,
        enable_gqa=inputs.group > 1,
    )
    if inputs.hides:  # a row without keys: the kernels disagree on what it is, so say it
        output = output.masked_fill(~inputs.visible().any(-1, keepdim=True), 0.0)
    return output


def _mask(inputs: Inputs) -> Tensor:
    slopes, keys, dtype = inputs.slopes, inputs.key_length, inputs.query.dtype
    if slopes is None or not _can_be_remembered(slopes, inputs):
        return inputs.bias().masked_fill(~inputs.visible(), float("-inf"))
    values = tuple(slopes.tolist())
    if inputs.query_length == 1:
        width = 1 << (keys - 1).bit_length()  # the next power of two: one row for many lengths
        mask = _remembered_row(values, width, dtype).narrow(3, width - keys, keys)
    else:
        mask = _remembered(values, inputs.causal)(inputs.query_length, keys, dtype=dtype).unsqueeze(0)
    return mask.masked_fill(~inputs.visible(), float("-inf")) if inputs.hides else mask


def _can_be_remembered(slopes: Tensor, inputs: Inputs) -> bool:
    """A small mask, of slopes whose values can be looked at without holding up a GPU or breaking a graph."""
    if inputs.positions is not None or torch.compiler.is_compiling():
        return False
    small = inputs.key_length < FOLD_FROM or inputs.query_length == 1
    return small and slopes.dtype == torch.float32 and slopes.device.type == "cpu" and not slopes.requires_grad


@lru_cache(maxsize=8)
def _remembered_row(slopes: tuple[float, ...], width: int, dtype: torch.dtype) -> Tensor:
    """[1, heads, 1, width], m (j - last): a single query is at the last key and sees all, so nothing is hidden.

    A decoded token takes so little time that the way to its row counts.
    """
    with torch.inference_mode(False), torch.device("cpu"):  # what is kept must serve a later call that trains
        return alibi_bias(torch.tensor(slopes, dtype=torch.float32), 1, width, dtype=dtype)[None]


@lru_cache(maxsize=8)
def _remembered(slopes: tuple[float, ...], causal: bool) -> AlibiBias:
    """One mask a set of slopes, shared by all layers; below 768 tokens it is at most 4 MiB a head."""
    form = "relative" if causal else "symmetric"
    with torch.device("cpu"):  # whatever the default device is now
        return AlibiBias(len(slopes), slopes=torch.tensor(slopes, dtype=torch.float32), form=form, causal=causal)


def _strip_obstacle(inputs: Inputs) -> str | None:
    if not inputs.causal:
        return "without a causal mask every query sees every key, and nothing is left out by taking a few at a time"
    if inputs.hides:
        return "a mask of your own differs from query to query, so that no strip serves them all"
    if inputs.positions is not None:
        return "with positions of your own the distance is no longer the same along a diagonal"
    return None


def _strip_pays(inputs: Inputs) -> bool:
    """Not on a GPU, whose fastest kernel takes no mask; nor compiled, where each length would be a graph of its own."""
    learned = inputs.slopes is not None and inputs.slopes.requires_grad  # no fast kernel gives a mask its gradient
    return inputs.query.device.type == "cpu" and not learned and not torch.compiler.is_compiling()


def _folded_obstacle(inputs: Inputs) -> str | None:
    if not inputs.causal:
        return "without a causal mask the bias is -m |i - j|, which is no dot product of a few coordinates"
    if inputs.attn_mask is not None:
        return "an attn_mask needs a [query, key] tensor anyway"
    if inputs.query_length != inputs.key_length:
        return "torch's is_causal aligns the first query with the first key, so their numbers must agree"
    return out_of_range(inputs)


def _flex_obstacle(inputs: Inputs) -> str | None:
    if inputs.query.numel() == 0:
        return "FlexAttention takes no empty tensors"
    if inputs.query.dtype == torch.float64:
        return "FlexAttention computes in float32 at most"
    if inputs.query.device.type == "cpu" and inputs.needs_gradients:
        return "FlexAttention has no backward pass on the CPU"
    if inputs.dropout:
        return "FlexAttention has no dropout"
    if inputs.attn_mask is not None or inputs.positions is not None:
        return "attn_mask and positions are not passed on to FlexAttention"
    return None
