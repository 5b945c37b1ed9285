"""Attention that skips keys of negligible weight, exact to rounding.

Each head computes only the keys within its attention span (`spans`), tile by tile (`tiles`), with
torch's fused kernel. Next to the output of a tile, the kernel returns l = log(sum of exp(logits)),
which tells how to merge two tiles:

    output = (exp(l1) output1 + exp(l2) output2) / (exp(l1) + exp(l2))

Within a tile, the distance of query i and key j is a_i + b_j, so the bias is separable: -m a_i - m
b_j. The kernel adds -m b_j as a mask of a single row. -m a_i multiplies all weights of the query by
the same factor, so it changes only l.

A large l has few digits left for the shares of the tiles. So what all keys have in common, which
changes no weight, is subtracted first (`_centered`). With a common logit of 1024, the error of the
query's gradient falls from 5% of the largest element to 1e-6 (600 tokens, logits that differ by
0.03).

In the backward pass, the kernel's own backward gets the merged output and l; then the gradients of
the tiles add up. The gradient of the slope comes from two *silent channels*. With g_ij for the
gradient of logit ij,

    dL/dm = -sum_ij g_ij (a_i + b_j) = -sum_i a_i (sum_j g_ij) - sum_j b_j (sum_i g_ij)

The kernel returns dL/dq_i = scale * sum_j g_ij k_j. A channel that is 1 in all keys and 0 in all
queries leaves the logits as they are, and its gradient in q_i is scale * sum_j g_ij, the first sum.
The reverse channel gives the second.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from alibi_viz.arguments import is_transformed
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
# About so many keys tell what all have in common. More would hardly change the result.
_SAMPLED_KEYS = 64


class _Settings(NamedTuple):
    """What a call has beside its tensors."""

    spans: tuple[int, ...]  # one per head, in steps
    causal: bool
    scale: float


class _Windowed(torch.autograd.Function):
    """Attention within the spans; the gradients leave out the same keys as the output.

    Returns the output and its log sums, which only the gradients need.
    """

    @staticmethod
    def forward(settings: _Settings, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        query, key, value, slopes = tensors
        batch, num_heads, length, head_dim = query.shape
        # With this layout, a model joins the heads without a copy.
        output = query.new_empty(batch, length, num_heads, head_dim).transpose(1, 2)
        log_sums = output.new_empty(batch, num_heads, length, dtype=exact_dtype(output.dtype))
        for head in _heads(settings, query, key, value, slopes):
            head.attend(output, log_sums)
        return output, log_sums

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.settings, *tensors = inputs
        attended, log_sums = output
        ctx.mark_non_differentiable(log_sums)
        ctx.save_for_backward(*tensors, attended, log_sums)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        slopes_need_gradients = ctx.needs_input_grad[-1]
        gradients = _Gradients.apply(
            ctx.settings, slopes_need_gradients, gradient, *ctx.saved_tensors
        )
        return None, *gradients  # none for the settings


class _Gradients(torch.autograd.Function):
    """The gradients, as a function whose own backward refuses second derivatives.

    After torch's `once_differentiable`, `grad` would take second derivatives for zero.
    """

    @staticmethod
    def forward(
        settings: _Settings, slopes_need_gradients: bool, of_output: Tensor, *saved: Tensor
    ) -> tuple[Tensor, ...]:
        query, key, value, slopes, output, log_sums = saved
        if of_output.stride(-1) != 1:  # sum().backward() expands a single number
            of_output = of_output.contiguous()
        # Half precision would round after each tile.
        dtype = log_sums.dtype
        totals = _InputGradients(
            query=torch.zeros_like(query, dtype=dtype),
            key=torch.zeros_like(key, dtype=dtype),
            value=torch.zeros_like(value, dtype=dtype),
        )
        of_slopes = torch.zeros_like(slopes, dtype=dtype)
        for head in _heads(settings, query, key, value, slopes):
            of_slopes[head.index] = head.add_gradients(
                totals, of_output, output, log_sums, slope_needs_gradient=slopes_need_gradients
            )
        return (
            totals.query.to(query.dtype),
            totals.key.to(key.dtype),
            totals.value.to(value.dtype),
            of_slopes.to(slopes.dtype),
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> None:
        raise RuntimeError("backend 'windowed' has no second derivatives: use 'eager'")


class _InputGradients(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor


@dataclass(frozen=True)
class _KernelCall:
    """One call of torch's kernel, which computes all rectangles of a tile."""

    query: Tensor  # [batch, count, rows, head_dim]
    key: Tensor  # [batch, count, width, head_dim]
    value: Tensor  # [batch, count, width, head_dim]
    # The kernel adds the mask, [1, 1, 1 or rows, width], to the logits. It doesn't know the bias of
    # the rows, [count or 1, rows], which changes the log sums only.
    mask: Tensor
    row_bias: Tensor | float
    is_causal: bool
    scale: float

    def attend(self) -> tuple[Tensor, Tensor]:
        """The output [batch, count, rows, head_dim] and its log sums [batch, count, rows]."""
        output, log_sums = _KERNEL(
            self.query,
            self.key,
            self.value,
            is_causal=self.is_causal,
            attn_mask=self.mask,
            scale=self.scale,
        )
        return output, log_sums + self.row_bias

    def gradients(self, of_output: Tensor, output: Tensor, log_sums: Tensor) -> _InputGradients:
        """The gradients of query, key and value.

        The output and its log sums are those of all keys, not only those of this tile.
        """
        no_dropout = 0.0
        gradients = _BACKWARD(
            of_output,
            self.query,
            self.key,
            self.value,
            output,
            log_sums - self.row_bias,
            no_dropout,
            is_causal=self.is_causal,
            attn_mask=self.mask,
            scale=self.scale,
        )
        return _InputGradients(*gradients)

    def with_silent_channels(self) -> "_KernelCall":
        """Add a channel that is 1 in all queries and 0 in all keys, and one that is the reverse."""
        one_then_zero = pad(pad(self.query, (0, 1), value=1.0), (0, 1))
        zero_then_one = pad(pad(self.key, (0, 1)), (0, 1), value=1.0)
        return replace(
            self, query=one_then_zero, key=zero_then_one, value=_with_empty_channels(self.value)
        )


@dataclass(frozen=True)
class _Head:
    """One head of a call. Its tensors are [batch, length, head_dim]."""

    index: int
    key_index: int
    query: Tensor
    key: Tensor
    value: Tensor
    slope: float
    span: int
    causal: bool
    scale: float

    def attend(self, all_outputs: Tensor, all_log_sums: Tensor) -> None:
        """Write this head's output and log sums into those of all heads.

        A log sum is log(sum of exp(logits)) over the keys of a query. The outputs are [batch,
        heads, query, head_dim], the log sums [batch, heads, query].
        """
        output = all_outputs[:, self.index]
        log_sums = all_log_sums[:, self.index]
        # Half precision would round after each tile.
        merged = output if output.dtype == log_sums.dtype else log_sums.new_empty(output.shape)
        for tile in self.tiles():
            part, part_log_sums = self.kernel_call(tile).attend()
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
        totals: _InputGradients,
        of_all_outputs: Tensor,
        all_outputs: Tensor,
        all_log_sums: Tensor,
        *,
        slope_needs_gradient: bool,
    ) -> Tensor:
        """Add this head's gradients to those of all heads, given that of the output.

        Returns the gradient of the slope, 0 unless `slope_needs_gradient`.
        """
        of_output = of_all_outputs[:, self.index]
        output = all_outputs[:, self.index]
        log_sums = all_log_sums[:, self.index]
        of_slope = log_sums.new_zeros(())
        for tile in self.small_tiles():
            call = self.kernel_call(tile)
            tile_of_output = tile.queries(of_output)
            tile_output = tile.queries(output)
            if slope_needs_gradient:
                call = call.with_silent_channels()
                tile_of_output = _with_empty_channels(tile_of_output)
                tile_output = _with_empty_channels(tile_output)
            part = call.gradients(tile_of_output, tile_output, tile.queries(log_sums))

            if slope_needs_gradient:
                of_slope -= self.distance_sum(tile, part)
                part = _InputGradients(*(gradient[..., :-2] for gradient in part))
            tile.queries(totals.query[:, self.index]).add_(part.query)
            _add_to_keys(totals.key[:, self.key_index], tile, part.key)
            _add_to_keys(totals.value[:, self.key_index], tile, part.value)
        return of_slope / self.scale

    def distance_sum(self, tile: Tile, part: _InputGradients) -> Tensor:
        """Sum of scale * g_ij * distance over the pairs of a tile, from its two silent channels.

        g_ij is the gradient of the logit of query i and key j.
        """
        row_steps, key_steps = self.steps(tile)
        row_sums = part.query[..., -1]  # scale * (sum of g_ij over the keys)
        key_sums = part.key[..., -2]  # scale * (sum of g_ij over the queries)
        return (row_sums * row_steps).sum() + (key_sums * key_steps).sum()

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

    def kernel_call(self, tile: Tile) -> _KernelCall:
        """The call that computes a tile, with its part of the bias."""
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
        return _KernelCall(
            query=tile.queries(self.query),
            key=tile.keys(self.key),
            value=tile.keys(self.value),
            mask=bias[None, None],
            row_bias=row_bias,
            is_causal=is_causal,
            scale=self.scale,
        )

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
    settings: _Settings, query: Tensor, key: Tensor, value: Tensor, slopes: Tensor
) -> Iterator[_Head]:
    """The heads of a call, whose tensors are [batch, heads, length, head_dim]."""
    group_size = query.shape[1] // key.shape[1]
    slopes_of_heads = slopes.tolist()
    for key_index in range(key.shape[1]):
        # The backward pass centers the same keys again: a copy of all heads would take memory.
        centered_key = _centered(key[:, key_index])
        first = key_index * group_size
        for index in range(first, first + group_size):
            yield _Head(
                index=index,
                key_index=key_index,
                query=query[:, index],
                key=centered_key,
                value=value[:, key_index],
                slope=slopes_of_heads[index],
                span=settings.spans[index],
                causal=settings.causal,
                scale=settings.scale,
            )


def _centered(key: Tensor) -> Tensor:
    """The keys of a head, [batch, key, head_dim], minus a vector that they have in common.

    The weights stay the same: all logits of a query change by one number, q . center. But that
    number may be large, as with a bias in the layer that makes the keys. In the log sums it would
    take the place of the digits that tell the shares of two tiles. For the same reason, gradients
    need no correction: those of all logits of a query add up to 0.
    """
    step = max(1, key.shape[1] // _SAMPLED_KEYS)
    sample = key[:, ::step]
    if not sample.numel():
        return key
    # A few huge keys, such as that of the first token, would move the mean, but not the median.
    center = sample.median(dim=1, keepdim=True).values
    centered = key - center
    if key.element_size() > 2:
        return centered

    # Half precision would round most differences to fewer digits than the kernel's sums have.
    # Between half and twice the center they are exact (Sterbenz's lemma).
    is_exact = centered.abs().amax(dim=1, keepdim=True) < center.abs() / 2
    return torch.where(is_exact, centered, key)


def _with_empty_channels(tensor: Tensor) -> Tensor:
    """Two channels of zeros more, where query and key have the silent channels."""
    return pad(tensor, (0, 2))


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


def found_spans(inputs: AttentionInputs) -> tuple[int, ...] | None:
    """The attention spans of this call; None with NaN or inf, which tiles would spread."""
    if inputs.key_length:
        ball = inputs.ball()
        if not bool(ball.radius.isfinite().all()):
            return None
        inputs = inputs._replace(key_ball=ball)
    if not _is_decoding(inputs):
        # Centered keys have both signs: with them, an infinite query has logits of NaN, also where
        # in full attention all are -inf.
        sum_of_queries = inputs.query.sum(dtype=exact_dtype(inputs.query.dtype))
        if not bool(sum_of_queries.isfinite()):
            return None
    return tuple(attention_spans(inputs).tolist())


def _is_decoding(inputs: AttentionInputs) -> bool:
    return inputs.query_length == 1 and not inputs.needs_gradients


def attend_within(inputs: AttentionInputs, spans: tuple[int, ...]) -> Tensor:
    """Attention to the keys within the spans: [batch, heads, query, head_dim]."""
    assert inputs.slopes is not None
    inputs = inputs._replace(
        query=_with_contiguous_channels(inputs.query),
        key=_with_contiguous_channels(inputs.key),
        value=_with_contiguous_channels(inputs.value),
    )
    if _is_decoding(inputs):
        return _attend_one_query(inputs, spans)
    settings = _Settings(spans=spans, causal=inputs.causal, scale=inputs.scaling)
    output, _ = _Windowed.apply(settings, inputs.query, inputs.key, inputs.value, inputs.slopes)
    return output


def _attend(inputs: AttentionInputs) -> Tensor:
    spans = found_spans(inputs)
    return MASK.attend(inputs) if spans is None else attend_within(inputs, spans)


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
    if any(is_transformed(tensor) for tensor in (inputs.query, inputs.key, inputs.value)):
        return "it reads values, which the transforms of torch.func may hide"
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
