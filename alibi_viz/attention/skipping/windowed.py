"""Attention that skips keys of negligible weight, exact to rounding.

Each head computes only the keys within its attention span (`spans`), tile by tile (`tiles`), with
torch's fused kernel. Next to the output of a tile, the kernel returns l = log(sum of exp(logits)),
which tells how to merge two tiles:

    output = (exp(l1) output1 + exp(l2) output2) / (exp(l1) + exp(l2))

Within a tile, the distance of query i and key j is a_i + b_j, so the bias is separable: -m a_i - m
b_j. The kernel adds -m b_j as a mask of a single row. -m a_i multiplies all weights of the query by
the same factor, so it changes only l.

In the backward pass, the kernel's own backward gets the merged output and l; then the gradients of
the tiles add up. The gradient of the slope comes from two *silent channels*. With g_ij for the
gradient of logit ij,

    dL/dm = -sum_ij g_ij (a_i + b_j) = -sum_i a_i (sum_j g_ij) - sum_j b_j (sum_i g_ij)

The kernel returns dL/dq_i = scale * sum_j g_ij k_j. A channel that is 1 in all keys and 0 in all
queries leaves the logits as they are, and its gradient in q_i is scale * sum_j g_ij, the first sum.
The reverse channel gives the second.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from alibi_viz.attention.dense import MASK
from alibi_viz.attention.inputs import AttentionInputs, Backend
from alibi_viz.attention.skipping.spans import attention_spans
from alibi_viz.attention.skipping.tiles import Tile, blocks, tiles
from alibi_viz.bias import exact_dtype

_KERNEL = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
_LARGEST_GRADIENT = (
    2**22
)  # elements of the gradient of overlapping keys that are computed at a time; speed only
_KERNEL_CALL = (
    2**18
)  # elements of the keys that are read in the time of a call, measured on two threads; speed only


class _Windowed(torch.autograd.Function):
    """The gradients leave out the same keys as the output."""

    @staticmethod
    def forward(ctx: Any, heads: Callable[..., Iterator["_Head"]], *tensors: Tensor) -> Tensor:
        batch, num_heads, length, head_dim = tensors[0].shape
        output = (
            tensors[0].new_empty(batch, length, num_heads, head_dim).transpose(1, 2)
        )  # heads join without a copy
        log_sums = output.new_empty(batch, num_heads, length, dtype=exact_dtype(output.dtype))
        for head in heads(tensors):
            head.attend(output[:, head.index], log_sums[:, head.index])
        ctx.heads = heads
        ctx.save_for_backward(*tensors, output, log_sums)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, *_Gradients.apply(
            ctx.heads, ctx.needs_input_grad[-1], gradient, *ctx.saved_tensors
        )


class _Gradients(torch.autograd.Function):
    """The gradients, with inputs: after torch's `once_differentiable`, `grad` takes second
    derivatives for zero."""

    @staticmethod
    def forward(
        ctx: Any, heads: Any, for_slope: bool, gradient: Tensor, *saved: Tensor
    ) -> tuple[Tensor, ...]:
        *tensors, output, log_sums = saved
        gradient = (
            gradient if gradient.stride(-1) == 1 else gradient.contiguous()
        )  # sum().backward() expands a number
        gradients = [torch.zeros_like(tensor, dtype=log_sums.dtype) for tensor in tensors]
        for_query, for_key, for_value, for_slopes = gradients
        for head in heads(tensors):
            of_head = (
                for_query[:, head.index],
                for_key[:, head.key_index],
                for_value[:, head.key_index],
            )
            rows = (tensor[:, head.index] for tensor in (gradient, output, log_sums))
            for_slopes[head.index] = head.add_gradients(of_head, *rows, for_slope=for_slope)
        return tuple(each.to(tensor.dtype) for each, tensor in zip(gradients, tensors, strict=True))

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> None:
        raise RuntimeError("backend 'windowed' has no second derivatives: use 'eager'")


@dataclass(frozen=True)
class _Head:
    """One head of a call. The tensors are [batch, length, head_dim]."""

    index: int
    key_index: int
    query: Tensor
    key: Tensor
    value: Tensor
    slope: float
    span: int
    causal: bool
    scale: float

    def attend(self, output: Tensor, log_sums: Tensor) -> None:
        """Write the output [batch, query, head_dim], and log(sum of exp(logits)) of each query,
        [batch, query]."""
        merged = output if output.dtype == log_sums.dtype else log_sums.new_empty(output.shape)
        for tile in self.tiles():
            tensors, options, row_bias = self.kernel_arguments(tile)
            part, part_log_sums = _KERNEL(*tensors, **options)
            part_log_sums = part_log_sums + row_bias
            rows, row_log_sums = tile.queries(merged), tile.queries(log_sums)
            if tile.side == "own":  # the first tiles of all queries
                rows.copy_(part)
                row_log_sums.copy_(part_log_sums)
            else:
                share = torch.sigmoid(part_log_sums - row_log_sums)[..., None]
                rows.lerp_(part.to(rows.dtype), share)
                torch.logaddexp(row_log_sums, part_log_sums, out=row_log_sums)
        if merged is not output:
            output.copy_(merged)

    def add_gradients(
        self,
        gradients: Sequence[Tensor],
        of_output: Tensor,
        output: Tensor,
        log_sums: Tensor,
        *,
        for_slope: bool,
    ) -> Tensor:
        """Add to the gradients of query, key and value, and return that of the slope (0 if not
        `for_slope`)."""
        total = log_sums.new_zeros(())
        for tile in self.small_tiles():
            tensors, options, row_bias = self.kernel_arguments(tile)
            tensors = [tile.queries(of_output), *tensors, tile.queries(output)]
            if for_slope:
                tensors = _with_silent_channels(*tensors)
            for_query, for_key, for_value = _BACKWARD(
                *tensors, tile.queries(log_sums) - row_bias, 0.0, **options
            )
            if for_slope:
                row_steps, key_steps = self.steps(tile)
                total -= (for_query[..., -1] * row_steps).sum() + (
                    for_key[..., -2] * key_steps
                ).sum()
                for_query, for_key, for_value = (
                    t[..., :-2] for t in (for_query, for_key, for_value)
                )
            tile.queries(gradients[0]).add_(for_query)
            _add_to_keys(gradients[1], tile, for_key)
            _add_to_keys(gradients[2], tile, for_value)
        return total / self.scale

    def tiles(self) -> list[Tile]:
        return tiles(self.query.shape[1], self.key.shape[1], self.span, causal=self.causal)

    def small_tiles(self) -> Iterator[Tile]:
        """The same tiles, in parts for all threads, because the kernel's backward uses one thread
        for a rectangle."""
        batch, _, head_dim = self.query.shape
        for whole in self.tiles():
            tile = whole.split_rows(torch.get_num_threads() // max(batch, 1))
            limit = max(1, _LARGEST_GRADIENT // max(batch * tile.width * head_dim, 1))
            for start in range(0, tile.count, limit):
                yield tile.part(start, min(start + limit, tile.count))

    def kernel_arguments(self, tile: Tile) -> tuple[list[Tensor], dict[str, Any], Tensor | float]:
        """Query, key and value; the options, with the bias of keys or pairs; the bias of queries
        [count or 1, rows]."""
        row_steps, key_steps = self.steps(tile)
        # With the kernel's own causal mask, NaN in a key does not reach earlier queries; its -inf
        # is times the scale.
        is_causal = (
            self.causal and tile.side == "own" and tile.width == tile.rows and self.scale > 0
        )
        row_bias: Tensor | float = 0.0
        if tile.side == "own":
            distance = row_steps.mT + key_steps  # [rows, width]
            bias = -self.slope * distance.abs()
            bias = (
                bias.masked_fill(distance < 0, -math.inf) if self.causal and not is_causal else bias
            )
        else:
            bias, row_bias = -self.slope * key_steps[None], -self.slope * row_steps
        tensors = [tile.queries(self.query), tile.keys(self.key), tile.keys(self.value)]
        return (
            tensors,
            {"is_causal": is_causal, "attn_mask": bias[None, None], "scale": self.scale},
            row_bias,
        )

    def steps(self, tile: Tile) -> tuple[Tensor, Tensor]:
        """Two numbers whose sum is the distance: of the queries [count or 1, rows] and of the keys
        [width]."""
        consecutive = tile.count if tile.key_step == 0 else 1
        arange = partial(
            torch.arange, dtype=exact_dtype(self.query.dtype), device=self.query.device
        )
        rows = arange(consecutive * tile.rows).view(consecutive, tile.rows)
        first_distance = self.key.shape[1] - self.query.shape[1] + tile.query - tile.key
        keys = first_distance - arange(tile.width)
        return (-rows, -keys) if tile.side == "after" else (rows, keys)


def _heads(
    tensors: Sequence[Tensor], spans: tuple[int, ...], *, causal: bool, scale: float
) -> Iterator[_Head]:
    """The heads of a call, from its query, key, value and slopes."""
    query, key, value, slopes = tensors
    group_size = query.shape[1] // key.shape[1]
    for index, (slope, span) in enumerate(zip(slopes.tolist(), spans, strict=True)):
        of_key = index // group_size
        yield _Head(
            index,
            of_key,
            query[:, index],
            key[:, of_key],
            value[:, of_key],
            slope,
            span,
            causal,
            scale,
        )


def _with_silent_channels(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, output: Tensor
) -> list[Tensor]:
    """Add a channel that is 1 in all queries and 0 in all keys, and one that is the reverse."""
    query, key = (
        pad(pad(query, (0, 1), value=1.0), (0, 1)),
        pad(pad(key, (0, 1)), (0, 1), value=1.0),
    )
    gradient, value, output = (pad(tensor, (0, 2)) for tensor in (gradient, value, output))
    return [gradient, query, key, value, output]


def _add_to_keys(total: Tensor, tile: Tile, gradient: Tensor) -> None:
    """Add the gradient [batch, count, width, head_dim] of keys that may overlap."""
    if tile.key_step == 0:
        gradient = gradient.sum(1, keepdim=True)
    step = tile.key_step or tile.width
    for start in range(0, tile.width, step):
        part = gradient[:, :, start : start + step]
        blocks(total, tile.key + start, part.shape[2], step, part.shape[1]).add_(part)


def _attend(inputs: AttentionInputs) -> Tensor:
    assert inputs.slopes is not None
    query, key, value = (t if t.stride(-1) == 1 else t.contiguous() for t in inputs[:3])
    if inputs.key_length:
        ball = inputs.ball()
        if not bool(ball.radius.isfinite().all()):  # NaN or inf, which tiles would spread
            return MASK.attend(inputs)
        inputs = inputs._replace(key_ball=ball)
    spans = tuple(attention_spans(inputs).tolist())
    if inputs.query_length == 1 and not inputs.needs_gradients:
        return _attend_one_query(inputs._replace(query=query, key=key, value=value), spans)
    heads = partial(_heads, spans=spans, causal=inputs.causal, scale=inputs.scaling)
    return _Windowed.apply(heads, query, key, value, inputs.slopes)


def _attend_one_query(inputs: AttentionInputs, spans: tuple[int, ...]) -> Tensor:
    """Decoding: the output [batch, heads, 1, head_dim]. Neighboring heads with similar spans share
    a kernel call."""
    assert inputs.slopes is not None
    outputs = []
    for heads, width in _calls(inputs, spans):
        key_heads = slice(heads.start // inputs.group_size, -(-heads.stop // inputs.group_size))
        steps = torch.arange(
            width - 1, -1, -1, dtype=exact_dtype(inputs.query.dtype), device=inputs.query.device
        )
        bias = -inputs.slopes[heads].to(steps.dtype)[:, None, None] * steps  # [heads, 1, width]
        key, value = inputs.key[:, key_heads, -width:], inputs.value[:, key_heads, -width:]
        outputs.append(
            inputs.fused_attention(inputs.query[:, heads], key, value, attn_mask=bias[None])
        )
    return torch.cat(outputs, dim=1)


def _calls(inputs: AttentionInputs, spans: tuple[int, ...]) -> list[tuple[slice, int]]:
    """The heads and the number of keys of each call: heads share one where reading more keys costs
    less than a call."""
    cost = _KERNEL_CALL // max(
        1, inputs.key.shape[0] * inputs.key.shape[3]
    )  # of a call, in keys of a head
    calls: list[tuple[slice, int]] = []
    for head, span in enumerate(spans):
        width = min(inputs.key_length, 1 + span)
        if calls and (
            inputs.group_size == 1 or head % inputs.group_size
        ):  # grouped heads, only with their key head
            heads, shared = calls[-1]
            count, wider = head - heads.start, max(shared, width)
            if (count + 1) * wider <= count * shared + width + cost:
                calls[-1] = slice(heads.start, head + 1), wider
                continue
        calls.append((slice(head, head + 1), width))
    return calls


def _unsupported_reason(inputs: AttentionInputs) -> str | None:
    learned = inputs.slopes_need_gradients
    reasons = {
        "it uses torch's kernel for the CPU": not inputs.query.is_cpu,
        "the spans depend on values, which a compiled graph cannot "
        "read": torch.compiler.is_compiling(),
        "it has no rules for the transforms of "
        "torch.func": torch._C._are_functorch_transforms_active(),
        "without slopes every key counts": inputs.slopes is None,
        "a mask may hide the near keys that the spans rely on": inputs.has_mask,
        "with explicit positions, the distance is not the number of steps": inputs.positions
        is not None,
        "torch's kernel for the CPU has no dropout": inputs.dropout > 0,
        "the gradient of the slopes needs a causal mask": learned and not inputs.causal,
        "the gradient of the slopes is divided by the scale, which must not be 0": learned
        and inputs.scaling == 0,
        "it would round the gradient of the slopes to half precision": learned
        and inputs.query.element_size() == 2,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


WINDOWED = Backend("windowed", _attend, _unsupported_reason)
