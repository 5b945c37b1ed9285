"""A call of attention: check the arguments, choose the fastest exact backend, compute.

`alibi_attention` checks what a user gives it. Layers, whose arguments fit, call `attend`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from alibi_viz.arguments import check_choice
from alibi_viz.attention.dense import EAGER, MASK, shares_blocks
from alibi_viz.attention.folded import FOLDED
from alibi_viz.attention.inputs import AttentionInputs, KeyBall
from alibi_viz.attention.skipping.spans import share_left_out
from alibi_viz.attention.skipping.windowed import WINDOWED, attend_within, found_spans

BACKENDS = {backend.name: backend for backend in (EAGER, MASK, WINDOWED, FOLDED)}
# With fewer queries, finding the spans costs more than they save, unless a key ball is given.
_DECODING_BELOW = 64
# If the spans leave out less, a call per head and tile costs more than they save. Measured on one
# thread with content of several sizes: up to 2,048 tokens, the two are equal at 0.15 to 0.25.
_LEAST_LEFT_OUT = 0.2
# Reasons that don't fit into the order below
_SKIP = "skipping keys of negligible weight saves more than a kernel call per head costs"
_ROUND = "'folded' would round the gradient of the slopes in half precision and with far positions"
_FOLD = (
    "with so many queries, going without a [query, key] tensor is fastest, or on a GPU most exact"
)


def alibi_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    slopes: Tensor | None,
    *,
    causal: bool = True,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    positions: Tensor | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
    tolerance: float | None = None,
    key_ball: KeyBall | Callable[[], KeyBall] | None = None,
) -> Tensor:
    """Compute attention with linear biases: [batch, heads, query, head_dim].

    Args:
        query: [batch, heads, query, head_dim].
        key, value: [batch, key_heads, key, head_dim], key >= query; the queries are the last
            positions. With fewer key heads than heads, neighboring heads share a key head
            (grouped-query attention).
        slopes: [heads], or None for no bias. They may require a gradient. (Forward mode and second
            derivatives, of any tensor, need "eager". So do slopes, positions and masks that
            `torch.func` maps or differentiates, for which "auto" selects it.)
        causal: mask the keys after each query. If False, the bias is the symmetric -m |i - j|.
        key_padding_mask: bool [batch, key], True for a real token. Padding must be finite: with
            NaN or inf in padded keys or values, most backends return NaN for real tokens, too.
        attn_mask: bool, broadcastable to [batch, heads, query, key], True where a query may attend;
            for packed documents, `document[:, None] == document`.
        positions: integers [key] or [batch, key], for sequences with gaps; 0, 1, 2, ... by default.
            Left padding needs none, because only differences matter. `causal` uses the order of the
            keys, not their positions.
        scale: factor of q . k; 1 / sqrt(head_dim) by default.
        dropout: probability of dropping an attention weight. Gradient checkpoints then need
            `use_reentrant=False`.
        backend: "auto" selects the fastest implementation that is exact for the call, see
            `choose_backend`. Or

            - "eager": every step written out; the reference
            - "mask": torch's fused attention with the bias as a float mask
            - "windowed": head by head, without the keys whose weight is negligible
            - "folded": plain causal attention; the bias is two more coordinates of query and key
        tolerance: the largest share of a query's weights that "windowed" may leave out, which
            changes an output by at most twice this share of the largest value. By default half a
            unit in the last place of the inputs.
        key_ball: a ball that contains all keys, or a function that returns it, such as
            `KeyValueCache.key_ball`. With it, few queries of a large cache read only the keys
            within their spans. Ignored if autocast rounds the keys.

    A query without any visible key returns zeros, never NaN. But with "auto", "mask" and
    "windowed", a NaN in a key or value may reach the outputs of all queries, also of those that
    don't see it, because torch's kernels multiply it by a weight of 0.

    Queries, keys and values may be mapped and differentiated by `torch.func`, with all backends but
    "windowed".

    The tolerance bounds the output of "windowed", not its gradients. In float32 with the default,
    output and gradients of query, key and value were within 5e-6 of the largest element of each
    for logits with a standard deviation of up to 1, even around a common 16,384. (There, the errors
    of "mask" were 1e-3.) Logits that differ more have larger errors with both.

    Raises TypeError and ValueError that name the tensor, its shape and the expected axes, or the
    backend.

    >>> import torch
    >>> import alibi_viz as av
    >>> q, k, v = torch.randn(3, 2, 8, 16, 32)
    >>> av.alibi_attention(q, k, v, av.alibi_slopes(8)).shape
    torch.Size([2, 8, 16, 32])
    """
    inputs = AttentionInputs.checked(
        query,
        key,
        value,
        slopes,
        causal=causal,
        key_padding_mask=key_padding_mask,
        attn_mask=attn_mask,
        positions=positions,
        scale=scale,
        dropout=dropout,
        tolerance=tolerance,
        key_ball=key_ball,
    )
    check_choice("backend", backend, ("auto", *BACKENDS))
    if backend == "auto":
        return attend(inputs)

    inputs = inputs.cast().saveable()
    reason = BACKENDS[backend].unsupported_reason(inputs)
    if backend != "eager" and inputs.transforms_bias:
        reason = "torch.func transforms the slopes, the positions or a mask: use 'eager'"
    if reason is not None:
        raise ValueError(f"backend {backend!r} does not support this call: {reason}")
    return BACKENDS[backend].attend(inputs)


def attend(inputs: AttentionInputs) -> Tensor:
    """`alibi_attention` without checks, by the fastest backend: [batch, heads, query, head_dim]."""
    inputs = inputs.cast().saveable()
    choice = _choose(inputs)
    if choice.spans is not None:
        return attend_within(inputs, choice.spans)
    return BACKENDS[choice.name].attend(inputs)


if torch.__version__ < "2.13":
    # Earlier compilers fail at the methods of `AttentionInputs`. There, attention stays uncompiled,
    # between the graphs of a compiled model.
    alibi_attention = torch.compiler.disable(alibi_attention)
    attend = torch.compiler.disable(attend)


class Choice(NamedTuple):
    """The backend that "auto" selects, and why."""

    name: str  # the backend
    reason: str  # why it is the fastest
    # For "windowed", how many steps back the queries of each head look
    spans: tuple[int, ...] | None = None
    # The share of the visible pairs of query and key that lie outside the spans
    left_out: float = 0.0


def choose_backend(query: Tensor, key: Tensor, slopes: Tensor | None, **options: Any) -> Choice:
    """Return the backend that "auto" selects for a call of `alibi_attention`, and the reason.

    `options` are keyword arguments of `alibi_attention` other than `backend`, such as `causal`.
    Raises as it does.

    >>> import torch
    >>> import alibi_viz as av
    >>> q = k = torch.zeros(1, 8, 4096, 32)
    >>> av.choose_backend(q[:, :, :64], k[:, :, :64], av.alibi_slopes(8))  # doctest: +ELLIPSIS
    Choice(name='mask', reason='on the CPU, blocks that share one bias are fastest', ...)
    >>> choice = av.choose_backend(q, k, av.alibi_slopes(8))
    >>> choice.name, choice.spans
    ('windowed', (37, 73, 146, 291, 581, 1161, 2322, 4096))
    >>> f"{choice.left_out:.0%}"
    '65%'
    """
    inputs = AttentionInputs.checked(query, key, key, slopes, **options)
    return _choose(inputs.cast().saveable())


def _choose(inputs: AttentionInputs) -> Choice:
    """The first backend of the order that supports the call."""
    for name, reason in _order(inputs):
        if BACKENDS[name].unsupported_reason(inputs) is not None:
            continue
        if name != "windowed":
            return Choice(name, reason)
        spans = found_spans(inputs)
        left_out = 0.0 if spans is None else share_left_out(inputs, spans)
        if left_out >= _LEAST_LEFT_OUT:
            return Choice(name, reason, spans, left_out)
    raise AssertionError("'mask', the last of the order, supports every call")


def _order(inputs: AttentionInputs) -> Iterator[tuple[str, str]]:
    """The backends to try, the fastest first, each with the reason.

    What is fastest was measured by `make bench ONLY=attention`.
    """
    if inputs.transforms_bias:
        yield "eager", "torch.func transforms the bias, which the kernels of the others cannot see"
    if not torch.compiler.is_compiling() and _may_skip(inputs):
        yield "windowed", _SKIP

    queries = inputs.query_length
    if queries == 1:
        yield "mask", "a single query needs only a single row of bias"
    has_fixed_slopes = inputs.slopes is not None and not inputs.slopes_need_gradients
    # Longer inputs without slopes are faster with torch's own causal attention.
    if shares_blocks(inputs) and (has_fixed_slopes or inputs.key_length <= 2048):
        yield "mask", "on the CPU, blocks that share one bias are fastest"

    folding_rounds = inputs.query.element_size() == 2 or inputs.positions is not None
    if inputs.slopes_need_gradients and folding_rounds:
        yield "mask", _ROUND
    if _may_fold(inputs):
        yield "folded", _FOLD

    unsupported = FOLDED.unsupported_reason(inputs)
    if unsupported is None:
        yield "mask", "with so few queries, a mask is faster than 'folded'"
    yield "mask", f"'folded' does not support this call: {unsupported}"


def _may_skip(inputs: AttentionInputs) -> bool:
    """Whether a call is so large that the keys it can skip may be worth finding."""
    batch, heads, queries, head_dim = inputs.query.shape
    keys = inputs.key_length
    products = batch * queries * keys * head_dim  # multiplications per head
    if queries < _DECODING_BELOW:
        return inputs.key_ball is not None and keys >= 4096 and inputs.key.numel() >= 2**23
    if not inputs.causal:
        return keys > 1024 and heads * queries * keys >= 2**23  # up to 1024, the mask is cached
    if inputs.needs_gradients:
        return keys >= 512 and products >= 2**27
    return keys >= 1024 and products >= 2**28


def _may_fold(inputs: AttentionInputs) -> bool:
    """Whether there are so many queries that a [query, key] tensor is slower than folding."""
    queries = inputs.query_length
    if inputs.slopes_need_gradients:
        return queries >= 192  # no fused kernel computes the gradient of a mask
    if torch.compiler.is_compiling():
        # A graph is exported for one length, or compiled for all.
        # torch 2.6 doesn't say which, and can't export attention either.
        is_exporting = getattr(torch.compiler, "is_exporting", bool)
        return not is_exporting() and queries >= 640
    return queries >= (640 if inputs.needs_gradients else 384)
