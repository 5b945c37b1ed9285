"""Attention that computes every pair of query and key: step by step, or by torch's fused kernel.

"eager" is the reference and shows every step:

    logits[i, j] = q_i . k_j / sqrt(head_dim) + bias[i, j]

"mask" passes the bias to torch's fused attention as a float mask, rounded on a GPU in half
precision. On the CPU, causal attention goes block by block: the bias depends only on the distance i
- j, so every block of 192 consecutive queries needs the same values, shifted along the keys. We
take the rows of the last queries, [heads, 192, key], and the block that ends at query e uses their
lower right corner. This avoids a [query, key] tensor and most work on masked keys, a third of a
training step with 16 sequences of 512 or 1024 tokens.
"""

from bisect import bisect_left
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout, pad

from alibi_viz.attention.inputs import AttentionInputs, Backend, autocast_dtype
from alibi_viz.bias import alibi_bias, exact_dtype, mask_future, shared_bias
from alibi_viz.memory import check_memory

_MAX_CACHED_KEYS = 1024  # a cached mask then takes at most 4 MiB per head; speed only
# Queries per block, measured on the CPU: with fewer, torch's kernel uses smaller blocks, which is
# slow on many threads.
_ROWS = 192  # speed only
_SMALL_BLOCK, _SHORT_KEYS = 64, 512  # up to 512 keys, blocks of 64 queries are faster; speed only
_LARGEST_CACHED = (
    2**14
)  # heads * keys; the bias of the last queries takes at most 32 MiB in float32; speed only


@dataclass(frozen=True)
class AttentionTrace:
    """The steps of attention, each [batch, heads, query, key] in the dtype of the query."""

    content: Tensor  # q . k / sqrt(head_dim) for every pair, masked or not
    bias: Tensor  # of ALiBi
    logits: Tensor  # content + bias, -inf where a key is masked
    weights: (
        Tensor  # softmax of the logits over the keys; zeros for a query without any visible key
    )

    def spans(self, tolerance: float | None = None) -> tuple[int, ...]:
        """How many steps back each head sees: further away, every query has at most `tolerance` of
        its weight.

        The default tolerance is that of `alibi_attention`, whose backend "windowed" uses wider
        spans.

        >>> q = k = torch.zeros(1, 8, 500, 4)
        >>> attention_trace(q, k, alibi_slopes(8)).spans()
        (33, 66, 133, 266, 490, 499, 499, 499)
        """
        if not self.weights.numel():
            return (0,) * self.weights.shape[1]
        most = torch.finfo(self.weights.dtype).eps / 2 if tolerance is None else tolerance
        query_length, key_length = self.weights.shape[-2:]
        row = torch.arange(query_length, device=self.weights.device)
        position = row + key_length - query_length
        sums = pad(
            self.weights.double().cumsum(-1), (1, 0)
        )  # [..., k] is the weight of the first k keys

        def fits(sums: Tensor, span: int) -> bool:
            """Whether a head, sums [batch, query, key + 1], has no more than `most` beyond the
            span."""
            first, end = (position - span).clamp(min=0), (position + span + 1).clamp(max=key_length)
            return bool(
                (sums[:, row, first] + sums[..., -1] - sums[:, row, end] <= most).all()
            )  # never with NaN

        return tuple(
            bisect_left(range(key_length), True, key=partial(fits, of_head))
            for of_head in sums.unbind(1)
        )


def attention_trace(
    query: Tensor, key: Tensor, slopes: Tensor | None, **options: Any
) -> AttentionTrace:
    """Compute every step of attention from content to weights, for inspection.

    The arguments are those of `alibi_attention`, also as `options`: `causal`, `key_padding_mask`,
    `attn_mask`, `positions` and `scale`. Raises as it does, and MemoryError beyond a quarter of the
    free memory.

    >>> q = k = torch.zeros(1, 1, 3, 4)  # equal content, so the weights come from the bias alone
    >>> attention_trace(q, k, torch.tensor([1.0])).weights[0, 0]
    tensor([[1.0000, 0.0000, 0.0000],
            [0.2689, 0.7311, 0.0000],
            [0.0900, 0.2447, 0.6652]])
    """
    inputs = AttentionInputs.checked(query, key, key, slopes, **options)
    cell = (
        6 * query.shape[0] * query.shape[1] * max(query.element_size(), 4)
    )  # bytes: four results, two in between
    check_memory(
        "key_length",
        key.shape[2],
        lambda keys: cell * keys * min(query.shape[2], keys),
        query.device,
    )
    return _trace(inputs)


def _trace(inputs: AttentionInputs) -> AttentionTrace:
    key = inputs.key.repeat_interleave(inputs.group_size, dim=1)  # [batch, heads, key, head_dim]
    exact = exact_dtype(key.dtype)
    casts = autocast_dtype(key) is not None  # to half precision, which may overflow
    with torch.autocast(key.device.type, enabled=False) if casts else nullcontext():
        content = (inputs.query.to(exact) * inputs.scaling) @ key.to(exact).transpose(-2, -1)
    bias = inputs.bias(exact).expand_as(content)
    logits = (content + bias).masked_fill(
        ~inputs.visible(), float("-inf")
    )  # not rounded: a row may see far keys only
    is_masked = (logits == float("-inf")).all(
        -1, keepdim=True
    )  # a fully masked row: zeros instead of NaN
    weights = logits.masked_fill(is_masked, 0.0).softmax(-1).masked_fill(is_masked, 0.0)
    return AttentionTrace(*(each.to(key.dtype) for each in (content, bias, logits, weights)))


def _attend_eagerly(inputs: AttentionInputs) -> Tensor:
    return dropout(_trace(inputs).weights, inputs.dropout) @ inputs.value.repeat_interleave(
        inputs.group_size, dim=1
    )


def shares_blocks(inputs: AttentionInputs) -> bool:
    """Whether "mask" goes block by block: blocks share their bias, and that is faster than a mask
    for all queries.

    It is slower on a GPU, whose fastest kernel accepts no mask, and for learned slopes, because no
    fast kernel computes the gradient of a mask. Under torch.compile each length would need its own
    graph.
    """
    varies = (
        not inputs.causal
        or inputs.has_mask
        or inputs.positions is not None
        or inputs.slopes_need_gradients
    )
    return (
        not varies
        and not torch.compiler.is_compiling()
        and inputs.query.is_cpu
        and inputs.query_length > 1
    )


def _attend(inputs: AttentionInputs) -> Tensor:
    if shares_blocks(inputs):
        return _attend_blocks(inputs)
    if not inputs.query.numel():  # torch's kernel would not connect it to learned slopes
        return _attend_eagerly(inputs)
    query, key, value, slopes = inputs[:4]
    if (
        slopes is not None
        and inputs.slopes_need_gradients
        and not any(each.requires_grad for each in inputs[:3])
    ):
        query = (
            query + 0 * slopes.sum()
        )  # where only a mask has a gradient, it fails on a GPU (PyTorch's issue 148476)
    output = inputs.fused_attention(query, key, value, attn_mask=_float_mask(inputs))
    if inputs.has_mask:  # fully masked rows: some kernels return NaN, others 0
        output = output.masked_fill(~inputs.visible().any(-1, keepdim=True), 0.0)
    return output


def _float_mask(inputs: AttentionInputs) -> Tensor | None:
    """The bias, -inf where a key is masked: broadcastable to [batch, heads, query, key]. None if
    there is neither."""
    if inputs.slopes is None and not inputs.causal and not inputs.has_mask:
        return None
    # only CPU kernels take a float32 mask with half-precision tensors
    dtype = inputs.query.dtype if inputs.on_gpu else exact_dtype(inputs.query.dtype)
    # When compiling, nothing is cached, and comparing lengths would give each side of the
    # comparison its own graph.
    rounds = inputs.has_mask and dtype.itemsize == 2
    is_known = inputs.slopes is not None and inputs.positions is None and not rounds
    can_cache = is_known and not torch.compiler.is_compiling()
    cache = None
    if can_cache and (inputs.key_length <= _MAX_CACHED_KEYS or inputs.query_length == 1):
        cache = shared_bias(inputs.slopes, causal=inputs.causal)  # type: ignore[arg-type]  # slopes are not None
    if cache is None:
        mask = inputs.bias(exact_dtype(dtype)).masked_fill(~inputs.visible(), float("-inf"))
        if rounds and inputs.key_length:  # a row may see far keys only, whose bias is large
            mask = mask - mask.amax(-1, keepdim=True).clamp(min=torch.finfo(mask.dtype).min)
        return mask.to(dtype)
    mask = cache(inputs.query_length, inputs.key_length, dtype=dtype)[None]
    return mask.masked_fill(~inputs.visible(), float("-inf")) if inputs.has_mask else mask


def _attend_blocks(inputs: AttentionInputs) -> Tensor:
    query, key, value = inputs[:3]
    slopes = torch.zeros(1, device=query.device) if inputs.slopes is None else inputs.slopes
    shared = _last_rows(slopes, inputs.key_length, exact_dtype(query.dtype))
    height, width = shared.shape[-2:]
    end = inputs.key_length - inputs.query_length
    if (
        inputs.query_length == height <= _SMALL_BLOCK
    ):  # a single block: slicing would take a noticeable time
        return inputs.fused_attention(query, key, value, attn_mask=shared)
    outputs = []
    for block in query.split(_SMALL_BLOCK if inputs.key_length <= _SHORT_KEYS else _ROWS, dim=2):
        end += block.shape[2]
        # a full slice would still cost a copy in the backward pass
        pair = (key[:, :, :end], value[:, :, :end]) if end < inputs.key_length else (key, value)
        bias = shared[
            :, :, height - block.shape[2] :, width - end :
        ]  # 4 axes: with 3, torch takes a slow path
        # the kernel's own layout, so a model joins the heads without a copy
        outputs.append(inputs.fused_attention(block, *pair, attn_mask=bias).transpose(1, 2))
    return (torch.cat(outputs, dim=1) if len(outputs) > 1 else outputs[0]).transpose(1, 2)


def _last_rows(slopes: Tensor, key_length: int, dtype: torch.dtype) -> Tensor:
    """The bias of the last queries, -inf where the key comes after the query: [1, heads, min(192,
    key), key]."""
    rows = min(_ROWS, key_length)
    cache = (
        shared_bias(slopes, causal=True) if len(slopes) * key_length <= _LARGEST_CACHED else None
    )
    if cache is not None:
        return cache(rows, key_length, dtype=dtype)[None]
    return mask_future(alibi_bias(slopes, rows, key_length, dtype=dtype))[None]


EAGER = Backend("eager", _attend_eagerly)
MASK = Backend("mask", _attend)
