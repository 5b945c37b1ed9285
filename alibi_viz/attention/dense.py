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

import torch
from torch import Tensor
from torch.nn.functional import dropout, pad

from alibi_viz.arguments import check_number
from alibi_viz.attention.inputs import AttentionInputs, Backend, autocast_dtype
from alibi_viz.bias import alibi_bias, exact_dtype, mask_future
from alibi_viz.cached_bias import AlibiBias, shared_bias

# These were measured on the CPU; they change speed and memory, not the result.
_MAX_CACHED_KEYS = 1024  # a cached mask then takes at most 4 MiB per head
_ROWS = 192  # queries per block: with fewer, torch's kernel is slow on many threads
_SHORT_KEYS = 512  # up to so many keys, smaller blocks are faster
_SMALL_ROWS = 64  # queries per smaller block
# heads * keys; the cached bias of the last queries then takes at most 32 MiB in float32
_LARGEST_CACHED = 2**14


@dataclass(frozen=True)
class AttentionTrace:
    """The steps of attention, each [batch, heads, query, key] in the dtype of the query."""

    content: Tensor  # q . k / sqrt(head_dim) for every pair, masked or not
    bias: Tensor  # of ALiBi
    logits: Tensor  # content + bias, -inf where a key is masked
    # softmax of the logits over the keys; zeros for a query without any visible key
    weights: Tensor

    def __repr__(self) -> str:
        """The shapes, because the numbers fill screens."""
        steps = ("content", "bias", "logits", "weights")
        shapes = [f"{step}={list(getattr(self, step).shape)}" for step in steps]
        return f"AttentionTrace({', '.join(shapes)})"

    def spans(self, tolerance: float | None = None) -> tuple[int, ...]:
        """How many steps back each head sees, for every query up to a share of its weight.

        tolerance: the largest share beyond, at least 0 and below 1; by default that of
            `alibi_attention`, whose backend "windowed" uses wider spans.

        >>> import torch
        >>> import alibi_viz as av
        >>> q = k = torch.zeros(1, 8, 500, 4)
        >>> av.attention_trace(q, k, av.alibi_slopes(8)).spans()
        (33, 66, 133, 266, 490, 499, 499, 499)
        """
        if tolerance is not None:
            expected = "at least 0 and below 1, or None"
            check_number("tolerance", tolerance, expected, lambda number: 0 <= number < 1)
        if not self.weights.numel():
            return (0,) * self.weights.shape[1]
        if tolerance is None:
            tolerance = torch.finfo(self.weights.dtype).eps / 2
        query_length, key_length = self.weights.shape[-2:]
        row = torch.arange(query_length, device=self.weights.device)
        position = row + key_length - query_length
        # The element k is the weight of the first k keys: [batch, heads, query, key + 1].
        cumulative = pad(self.weights.double().cumsum(-1), (1, 0))

        def is_wide_enough(cumulative: Tensor, span: int) -> bool:
            """Whether a head, [batch, query, key + 1], has at most the tolerance beyond the
            span."""
            first = (position - span).clamp(min=0)
            end = (position + span + 1).clamp(max=key_length)
            before = cumulative[:, row, first]
            beyond = before + cumulative[..., -1] - cumulative[:, row, end]
            return bool((beyond <= tolerance).all())  # never with NaN

        # The smallest span that is wide enough, by bisection.
        return tuple(
            bisect_left(range(key_length), True, key=partial(is_wide_enough, head))
            for head in cumulative.unbind(1)
        )


def attention_trace(
    query: Tensor,
    key: Tensor,
    slopes: Tensor | None,
    *,
    causal: bool = True,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    positions: Tensor | None = None,
    scale: float | None = None,
) -> AttentionTrace:
    """Compute every step of attention from content to weights, for inspection.

    The arguments are those of `alibi_attention`. Raises as it does.

    >>> import torch
    >>> import alibi_viz as av
    >>> q = k = torch.zeros(1, 1, 3, 4)  # equal content, so the weights come from the bias alone
    >>> av.attention_trace(q, k, torch.tensor([1.0])).weights[0, 0]
    tensor([[1.0000, 0.0000, 0.0000],
            [0.2689, 0.7311, 0.0000],
            [0.0900, 0.2447, 0.6652]])
    """
    inputs = AttentionInputs.checked(
        query,
        key,
        key,
        slopes,
        causal=causal,
        key_padding_mask=key_padding_mask,
        attn_mask=attn_mask,
        positions=positions,
        scale=scale,
    )
    return _trace(inputs.cast().saveable())


def _trace(inputs: AttentionInputs) -> AttentionTrace:
    key = inputs.key.repeat_interleave(inputs.group_size, dim=1)  # [batch, heads, key, head_dim]
    exact = exact_dtype(key.dtype)
    # Autocast would compute the content in half precision, which may overflow.
    is_autocast = autocast_dtype(key) is not None
    full_precision = (
        torch.autocast(key.device.type, enabled=False) if is_autocast else nullcontext()
    )
    with full_precision:
        content = (inputs.query.to(exact) * inputs.scaling) @ key.to(exact).transpose(-2, -1)
    bias = inputs.bias(exact).expand_as(content)
    # Not rounded to the dtype of the query yet: a row may see far keys only, whose bias is large.
    logits = (content + bias).masked_fill(~inputs.visible(), float("-inf"))

    # The softmax of a fully masked row would be NaN; its weights are zeros.
    is_masked = (logits == float("-inf")).all(-1, keepdim=True)
    weights = logits.masked_fill(is_masked, 0.0).softmax(-1).masked_fill(is_masked, 0.0)
    return AttentionTrace(
        content=content.to(key.dtype),
        bias=bias.to(key.dtype),
        logits=logits.to(key.dtype),
        weights=weights.to(key.dtype),
    )


def _attend_eagerly(inputs: AttentionInputs) -> Tensor:
    weights = dropout(_trace(inputs).weights, inputs.dropout)
    return weights @ inputs.value.repeat_interleave(inputs.group_size, dim=1)


def shares_blocks(inputs: AttentionInputs) -> bool:
    """Whether "mask" goes block by block: blocks share their bias, and that is faster.

    It is slower on a GPU, whose fastest kernel accepts no mask, and for learned slopes, because no
    fast kernel computes the gradient of a mask. Under torch.compile each length would need its own
    graph.
    """
    if not inputs.causal or inputs.has_mask or inputs.positions is not None:
        return False  # the bias depends on more than the distance
    if inputs.slopes_need_gradients or torch.compiler.is_compiling():
        return False
    return inputs.query.is_cpu and inputs.query_length > 1


def _attend_with_mask(inputs: AttentionInputs) -> Tensor:
    if shares_blocks(inputs):
        return _attend_blocks(inputs)
    if not inputs.query.numel():  # torch's kernel would not connect it to learned slopes
        return _attend_eagerly(inputs)

    query = inputs.query
    slopes = inputs.slopes
    if slopes is not None and inputs.slopes_need_gradients and not inputs.inputs_need_gradients:
        # Where only a mask has a gradient, torch fails on a GPU (PyTorch's issue 148476).
        query = query + 0 * slopes.sum()
    output = inputs.fused_attention(query, inputs.key, inputs.value, attn_mask=_float_mask(inputs))

    if inputs.has_mask:  # fully masked rows: some kernels return NaN, others 0
        output = output.masked_fill(~inputs.visible().any(-1, keepdim=True), 0.0)
    return output


def _float_mask(inputs: AttentionInputs) -> Tensor | None:
    """The bias, -inf where a key is masked; None if there is neither.

    Broadcastable to [batch, heads, query, key].
    """
    if inputs.slopes is None and not inputs.causal and not inputs.has_mask:
        return None

    exact = exact_dtype(inputs.query.dtype)
    # Only CPU kernels take a float32 mask with half-precision tensors.
    dtype = inputs.query.dtype if inputs.on_gpu else exact
    loses_digits = dtype.itemsize == 2 and inputs.has_mask  # of rows that see far keys only
    cached = None if loses_digits else _cached_bias(inputs)
    if cached is not None:
        bias = cached(inputs.query_length, inputs.key_length, dtype=dtype)[None]
        if not inputs.has_mask:  # the cached bias of causal attention already hides later keys
            return bias
        return bias.masked_fill(~inputs.visible(), float("-inf"))

    bias = inputs.bias(exact).masked_fill(~inputs.visible(), float("-inf"))
    if loses_digits:
        # Subtracting the largest of a row changes no weight, and leaves small numbers near it. In a
        # fully masked row, -inf minus -inf would be NaN.
        lowest_number = torch.finfo(exact).min
        bias = bias - bias.amax(-1, keepdim=True).clamp(min=lowest_number)
    return bias.to(dtype)


def _cached_bias(inputs: AttentionInputs) -> AlibiBias | None:
    """The cached bias for these slopes, if there is one and it is not too large."""
    if inputs.slopes is None or inputs.positions is not None:
        return None
    # When compiling, nothing is cached, and comparing lengths would give each side of the
    # comparison its own graph.
    if torch.compiler.is_compiling():
        return None
    if inputs.key_length > _MAX_CACHED_KEYS and inputs.query_length > 1:
        return None
    return shared_bias(inputs.slopes, causal=inputs.causal)


def _attend_blocks(inputs: AttentionInputs) -> Tensor:
    """Causal attention, a block of consecutive queries at a time."""
    query = inputs.query
    slopes = inputs.slopes
    if slopes is None:
        slopes = torch.zeros(1, dtype=torch.float32, device=query.device)
    shared_rows = _last_rows(slopes, inputs.key_length, exact_dtype(query.dtype))
    has_all_queries = inputs.query_length == shared_rows.shape[2]
    if has_all_queries and inputs.query_length <= _SMALL_ROWS:
        # A single block; slicing would take a noticeable time.
        return inputs.fused_attention(query, inputs.key, inputs.value, attn_mask=shared_rows)

    rows = _SMALL_ROWS if inputs.key_length <= _SHORT_KEYS else _ROWS
    height, width = shared_rows.shape[-2:]
    end = inputs.key_length - inputs.query_length  # keys before the first query
    outputs = []
    for block in query.split(rows, dim=2):
        end += block.shape[2]  # keys that the last query of this block sees
        key = inputs.key
        value = inputs.value
        if end < inputs.key_length:  # a full slice would still cost a copy in the backward pass
            key = key[:, :, :end]
            value = value[:, :, :end]
        # The lower right corner. With 3 axes instead of 4, torch takes a slow path.
        bias = shared_rows[:, :, height - block.shape[2] :, width - end :]
        output = inputs.fused_attention(block, key, value, attn_mask=bias)
        # The kernel's own layout, so that a model joins the heads without a copy.
        outputs.append(output.transpose(1, 2))

    joined = outputs[0]
    if len(outputs) > 1:  # joining a single one would copy it
        joined = torch.cat(outputs, dim=1)
    return joined.transpose(1, 2)


def _last_rows(slopes: Tensor, key_length: int, dtype: torch.dtype) -> Tensor:
    """The bias of the last queries, -inf where the key comes after: [1, heads, rows, key].

    There are 192 rows, or as many as keys.
    """
    rows = min(_ROWS, key_length)
    if len(slopes) * key_length <= _LARGEST_CACHED:
        bias = shared_bias(slopes, causal=True)
        if bias is not None:
            return bias(rows, key_length, dtype=dtype)[None]
    return mask_future(alibi_bias(slopes, rows, key_length, dtype=dtype))[None]


EAGER = Backend("eager", _attend_eagerly)
MASK = Backend("mask", _attend_with_mask)
