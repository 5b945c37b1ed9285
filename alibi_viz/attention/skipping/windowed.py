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

from alibi_viz.arguments import inside_transform
from alibi_viz.attention.dense import MASK
from alibi_viz.attention.inputs import AttentionInputs, Backend
from alibi_viz.attention.skipping.spans import attention_spans
from alibi_viz.attention.skipping.tiles import Tile, blocks, tiles
from alibi_viz.bias import exact_dtype

_KERNEL = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
# The gradient of overlapping keys is computed for at most so many elements at a time. This changes
# speed and memory, not the result.
_LARGEST_GRADIENT = 2**22
# A kernel call takes as long as reading so many elements of the keys, measured on two threads.
_KERNEL_CALL = 2**18


class _Windowed(torch.autograd.Function):
    """Attention within the spans; the gradients leave out the same keys as the output.

    `heads` makes the heads of a call from its tensors: query, key, value and slopes.
    """

    @staticmethod
    def forward(ctx: Any, heads: Callable[..., Iterator["_Head"]], *tensors: Tensor) -> Tensor:
        query = tensors[0]
        batch, num_heads, length, head_dim = query.shape
        # With this layout, a model joins the heads without a copy.
        output = query.new_empty(batch, length, num_heads, head_dim).transpose(1, 2)
        log_sums = output.new_empty(batch, num_heads, length, dtype=exact_dtype(output.dtype))
        for head in heads(tensors):
            head.attend(output[:, head.index], log_sums[:, head.index])
        ctx.heads = heads
        ctx.save_for_backward(*tensors, output, log_sums)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        slopes_need_gradients = ctx.needs_input_grad[-1]
        gradients = _Gradients.apply(ctx.heads, slopes_need_gradients, gradient, *ctx.saved_tensors)
        return None, *gradients  # none for `heads`


class _Gradients(torch.autograd.Function):
    """The gradients, as a function whose own backward refuses second derivatives.

    After torch's `once_differentiable`, `grad` would take second derivatives for zero.
    """

    @staticmethod
    def forward(
        ctx: Any,
        heads: Callable[..., Iterator["_Head"]],
        for_slopes: bool,
        gradient: Tensor,
        *saved: Tensor,
    ) -> tuple[Tensor, ...]:
        *tensors, output, log_sums = saved
        if gradient.stride(-1) != 1:  # sum().backward() expands a single number
            gradient = gradient.contiguous()
        # of query, key, value and slopes
        totals = [torch.zeros_like(tensor, dtype=log_sums.dtype) for tensor in tensors]
        of_query, of_key, of_value, of_slopes = totals
        for head in heads(tensors):
            of_slopes[head.index] = head.add_gradients(
                of_query=of_query[:, head.index],
                of_key=of_key[:, head.key_index],
                of_value=of_value[:, head.key_index],
                of_output=gradient[:, head.index],
                output=output[:, head.index],
                log_sums=log_sums[:, head.index],
                for_slope=for_slopes,
            )
        return tuple(total.to(tensor.dtype) for total, tensor in zip(totals, tensors, strict=True))

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
        """Write the output [batch, query, head_dim] and the log sums [batch, query].

        A log sum is log(sum of exp(logits)) over the keys of a query.
        """
        # Half precision would round after each tile.
        merged = output if output.dtype == log_sums.dtype else log_sums.new_empty(output.shape)
        for tile in self.tiles():
            tensors, options, row_bias = self.kernel_arguments(tile)
            part, part_log_sums = _KERNEL(*tensors, **options)
            part_log_sums = part_log_sums + row_bias
            rows = tile.queries(merged)
            row_log_sums = tile.queries(log_sums)
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
        *,
        of_query: Tensor,
        of_key: Tensor,
        of_value: Tensor,
        of_output: Tensor,
        output: Tensor,
        log_sums: Tensor,
        for_slope: bool,
    ) -> Tensor:
        """Add to the gradients of query, key and value, given that of the output.

        Returns the gradient of the slope, 0 if not `for_slope`.
        """
        of_slope = log_sums.new_zeros(())
        for tile in self.small_tiles():
            tensors, options, row_bias = self.kernel_arguments(tile)
            tensors = [tile.queries(of_output), *tensors, tile.queries(output)]
            if for_slope:
                tensors = _with_silent_channels(*tensors)
            tile_log_sums = tile.queries(log_sums) - row_bias
            query_part, key_part, value_part = _BACKWARD(*tensors, tile_log_sums, 0.0, **options)

            if for_slope:
                row_steps, key_steps = self.steps(tile)
                of_rows = (query_part[..., -1] * row_steps).sum()
                of_keys = (key_part[..., -2] * key_steps).sum()
                of_slope -= of_rows + of_keys
                query_part = query_part[..., :-2]
                key_part = key_part[..., :-2]
                value_part = value_part[..., :-2]
            tile.queries(of_query).add_(query_part)
            _add_to_keys(of_key, tile, key_part)
            _add_to_keys(of_value, tile, value_part)
        return of_slope / self.scale

    def tiles(self) -> list[Tile]:
        return tiles(self.query.shape[1], self.key.shape[1], self.span, causal=self.causal)

    def small_tiles(self) -> Iterator[Tile]:
        """The same tiles in parts: the kernel's backward uses one thread per rectangle."""
        batch, _, head_dim = self.query.shape
        for whole in self.tiles():
            tile = whole.split_rows(torch.get_num_threads() // max(batch, 1))
            elements = batch * tile.width * head_dim
            limit = max(1, _LARGEST_GRADIENT // max(elements, 1))  # rectangles
            for start in range(0, tile.count, limit):
                yield tile.part(start, min(start + limit, tile.count))

    def kernel_arguments(self, tile: Tile) -> tuple[list[Tensor], dict[str, Any], Tensor | float]:
        """What the kernel takes for a tile, and what it can't add itself.

        Returns query, key and value; the options, with the bias of keys or pairs as a mask; and the
        bias of queries [count or 1, rows].
        """
        row_steps, key_steps = self.steps(tile)
        # With the kernel's own causal mask, NaN in a key does not reach earlier queries. The kernel
        # multiplies its -inf by the scale, so that must be positive.
        is_square = tile.width == tile.rows
        is_causal = self.causal and tile.side == "own" and is_square and self.scale > 0

        row_bias: Tensor | float = 0.0
        if tile.side == "own":
            distance = row_steps.mT + key_steps  # [rows, width]
            bias = -self.slope * distance.abs()
            if self.causal and not is_causal:
                bias = bias.masked_fill(distance < 0, -math.inf)
        else:
            bias = -self.slope * key_steps[None]
            row_bias = -self.slope * row_steps
        tensors = [tile.queries(self.query), tile.keys(self.key), tile.keys(self.value)]
        options = {"is_causal": is_causal, "attn_mask": bias[None, None], "scale": self.scale}
        return tensors, options, row_bias

    def steps(self, tile: Tile) -> tuple[Tensor, Tensor]:
        """Two tensors whose sum is the distance of query and key.

        Steps of the queries, [count or 1, rows], and of the keys, [width].
        """
        arange = partial(
            torch.arange, dtype=exact_dtype(self.query.dtype), device=self.query.device
        )
        # Rectangles along the diagonal have equal distances; those with the same keys don't.
        groups = tile.count if tile.key_step == 0 else 1
        rows = arange(groups * tile.rows).view(groups, tile.rows)
        first_distance = self.key.shape[1] - self.query.shape[1] + tile.query - tile.key
        keys = first_distance - arange(tile.width)
        if tile.side == "after":
            return -rows, -keys
        return rows, keys


def _heads(
    tensors: Sequence[Tensor], spans: tuple[int, ...], *, causal: bool, scale: float
) -> Iterator[_Head]:
    """The heads of a call, from its query, key, value and slopes."""
    query, key, value, slopes = tensors
    group_size = query.shape[1] // key.shape[1]
    for index, (slope, span) in enumerate(zip(slopes.tolist(), spans, strict=True)):
        key_index = index // group_size
        yield _Head(
            index=index,
            key_index=key_index,
            query=query[:, index],
            key=key[:, key_index],
            value=value[:, key_index],
            slope=slope,
            span=span,
            causal=causal,
            scale=scale,
        )


def _with_silent_channels(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, output: Tensor
) -> list[Tensor]:
    """Add a channel that is 1 in all queries and 0 in all keys, and one that is the reverse."""
    query = pad(pad(query, (0, 1), value=1.0), (0, 1))
    key = pad(pad(key, (0, 1)), (0, 1), value=1.0)
    gradient, value, output = (pad(tensor, (0, 2)) for tensor in (gradient, value, output))
    return [gradient, query, key, value, output]


def _add_to_keys(total: Tensor, tile: Tile, gradient: Tensor) -> None:
    """Add the gradient [batch, count, width, head_dim] of keys that may overlap."""
    if tile.key_step == 0:  # all rectangles have the same keys
        gradient = gradient.sum(1, keepdim=True)
    # Cut at the step, so that blocks that are added at once don't overlap.
    step = tile.key_step or tile.width
    for start in range(0, tile.width, step):
        part = gradient[:, :, start : start + step]
        _, count, size, _ = part.shape
        blocks(total, tile.key + start, size, step, count).add_(part)


def _with_contiguous_channels(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _attend(inputs: AttentionInputs) -> Tensor:
    assert inputs.slopes is not None
    query = _with_contiguous_channels(inputs.query)
    key = _with_contiguous_channels(inputs.key)
    value = _with_contiguous_channels(inputs.value)
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
    """Decoding: the output [batch, heads, 1, head_dim].

    Neighboring heads with similar spans share a kernel call.
    """
    assert inputs.slopes is not None
    dtype = exact_dtype(inputs.query.dtype)
    outputs = []
    for heads, width in _calls(inputs, spans):
        key_heads = slice(heads.start // inputs.group_size, -(-heads.stop // inputs.group_size))
        steps = torch.arange(width - 1, -1, -1, dtype=dtype, device=inputs.query.device)
        bias = -inputs.slopes[heads].to(steps.dtype)[:, None, None] * steps  # [heads, 1, width]
        output = inputs.fused_attention(
            inputs.query[:, heads],
            inputs.key[:, key_heads, -width:],
            inputs.value[:, key_heads, -width:],
            attn_mask=bias[None],
        )
        outputs.append(output)
    return torch.cat(outputs, dim=1)


def _calls(inputs: AttentionInputs, spans: tuple[int, ...]) -> list[tuple[slice, int]]:
    """The heads and the number of keys of each kernel call.

    A head joins the call of the heads before it where reading more keys costs less than a call.
    """
    keys_per_call = _KERNEL_CALL // max(1, inputs.key.shape[0] * inputs.key.shape[3])
    calls: list[tuple[slice, int]] = []
    for head, span in enumerate(spans):
        width = min(inputs.key_length, 1 + span)
        # Of grouped heads, only those with the same key head share a call.
        may_join = inputs.group_size == 1 or head % inputs.group_size > 0
        if calls and may_join:
            heads, call_width = calls[-1]
            count = head - heads.start
            joint_width = max(call_width, width)
            joint_cost = (count + 1) * joint_width
            separate_cost = count * call_width + width + keys_per_call
            if joint_cost <= separate_cost:
                calls[-1] = slice(heads.start, head + 1), joint_width
                continue
        calls.append((slice(head, head + 1), width))
    return calls


def _unsupported_reason(inputs: AttentionInputs) -> str | None:  # noqa: PLR0911 - one per reason
    if not inputs.query.is_cpu:
        return "it uses torch's kernel for the CPU"
    if torch.compiler.is_compiling():
        return "the spans depend on values, which a compiled graph cannot read"
    if inside_transform():
        return "it has no rules for the transforms of torch.func"
    if inputs.slopes is None:
        return "without slopes every key counts"
    if inputs.has_mask:
        return "a mask may hide the near keys that the spans rely on"
    if inputs.positions is not None:
        return "with explicit positions, the distance is not the number of steps"
    if inputs.dropout > 0:
        return "torch's kernel for the CPU has no dropout"
    if not inputs.slopes_need_gradients:
        return None
    if not inputs.causal:
        return "the gradient of the slopes needs a causal mask"
    if inputs.scaling == 0:
        return "the gradient of the slopes is divided by the scale, which must not be 0"
    if inputs.query.element_size() == 2:
        return "it would round the gradient of the slopes to half precision"
    return None


WINDOWED = Backend("windowed", _attend, _unsupported_reason)
