"""Choose the fastest exact implementation of ALiBi attention for a call, and run it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from alibi_viz.attention.eager import EAGER
from alibi_viz.attention.flex import FLEX
from alibi_viz.attention.folded import FOLDED
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.attention.key_statistics import KeyStatistics
from alibi_viz.attention.mask import MASK, MAX_CACHED_KEYS
from alibi_viz.attention.strip import STRIP
from alibi_viz.attention.windowed import WINDOWED
from alibi_viz.attention.windows import key_windows, share_left_out

__all__ = ["BACKENDS", "Choice", "alibi_attention", "choose_backend"]

_BACKENDS = {backend.name: backend for backend in (EAGER, MASK, STRIP, WINDOWED, FOLDED, FLEX)}
BACKENDS = ("auto", *_BACKENDS)

# Measured on the CPU (benchmarks/attention.py):
MAX_STRIP_KEYS = 2048  # without slopes, torch's own causal attention is faster beyond
# With fewer queries, a mask is faster than "folded": in a forward pass, under autograd or torch.compile, and where
# slopes get gradients, which no fused kernel computes from a mask.
FOLDED_FORWARD, FOLDED_RECORDED, FOLDED_LEARNED = 384, 640, 192
MIN_WINDOWED_QUERIES = 64  # with fewer, finding the windows costs more than they save, unless statistics are given
# (fewest keys, least work) from which "windowed", which calls the kernel for each head, saves more than its calls cost.
# Work is batch * query * key * head_dim. DECODING is for fewer than MIN_WINDOWED_QUERIES queries; there, work is the
# number of elements of the key tensor. ENCODER is for attention in both directions; there, work is the number of
# elements of the mask that is built otherwise, because longer ones are not cached.
FORWARD, TRAINING, DECODING, ENCODER = (1024, 2**28), (512, 2**27), (4096, 2**23), (MAX_CACHED_KEYS + 1, 2**23)


class Choice(NamedTuple):
    """The backend that "auto" selects, and why.

    Attributes:
        name: the backend.
        reason: why it is the fastest.
        windows: for "windowed", how many steps back the queries of each head look; otherwise None.
        left_out: the share of the visible pairs of query and key that lie outside the windows, 0 to 1.
    """

    name: str
    reason: str
    windows: tuple[int, ...] | None = None
    left_out: float = 0.0


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
    key_statistics: KeyStatistics | Callable[[], KeyStatistics] | None = None,
) -> Tensor:
    """Compute attention with linear biases: [batch, heads, query, head_dim].

    Args:
        query: [batch, heads, query, head_dim].
        key, value: [batch, key_heads, key, head_dim], key >= query; the queries are the last positions. With fewer key
            heads than heads, neighboring heads share a key head (grouped-query attention).
        slopes: [heads], or None for no bias. They may require a gradient (in reverse mode; in
            forward mode only with backend "eager").
        causal: mask the keys after each query. If False, the bias is the symmetric form, -m |i - j|.
        key_padding_mask: bool [batch, key], True for a real token.
        attn_mask: bool, broadcastable to [batch, heads, query, key], True where a query may attend; for packed
            documents, for example.
        positions: integers [key] or [batch, key], for sequences with gaps; 0, 1, 2, ... by default. Left padding needs
            none, because only differences matter. `causal` uses the order of the keys, not their positions.
        scale: factor of q . k; 1 / sqrt(head_dim) by default.
        dropout: probability of dropping an attention weight.
        backend: "auto" selects the fastest implementation that is exact for the call; `choose_backend` returns which
            one and why. The others select one by name:

            - "eager": every step written out; the reference
            - "mask": torch's fused attention with the bias as a float mask
            - "strip": the same in blocks of queries, which share one block of bias
            - "windowed": head by head, without the keys whose weight is negligible
            - "folded": plain causal attention with the bias as two more coordinates of query and key
            - "flex": FlexAttention, compiled
        tolerance: the largest share of a query's weights that "windowed" and "flex" may leave out. The default is half
            a unit in the last place of the inputs' dtype, so the output is that of all keys to rounding; an output
            changes by at most twice this share of the largest value.
        key_statistics: those of `key` and `value`, or a function that returns them, such as `KeyValueCache.statistics`.
            With them, a single query reads only the keys within its windows; without them, it would have to read all
            keys to find the windows. They are ignored if autocast rounds the keys.

    A query without any visible key returns zeros, never NaN.

    Raises TypeError and ValueError that name the tensor, its shape and the expected axes, and ValueError if the
    requested backend does not support the call.

    >>> q, k, v = torch.randn(3, 2, 8, 16, 32)
    >>> alibi_attention(q, k, v, alibi_slopes(8)).shape
    torch.Size([2, 8, 16, 32])
    """
    inputs = AttentionInputs(
        query,
        key,
        value,
        slopes,
        causal,
        key_padding_mask,
        attn_mask,
        positions,
        scale,
        dropout,
        tolerance,
        key_statistics,
    )
    inputs = inputs.check().autocast()
    if backend == "auto":
        return _BACKENDS[_choose(inputs).name].attend(inputs)
    if backend not in _BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    selected = _BACKENDS[backend]
    if (reason := selected.unsupported_reason(inputs)) is not None:
        raise ValueError(f"backend {backend!r} does not support this call: {reason}")
    return selected.attend(inputs)


def choose_backend(query: Tensor, key: Tensor, slopes: Tensor | None, **options: Any) -> Choice:
    """Return the backend that "auto" selects for these arguments of `alibi_attention`, and the reason.

    `options` are other keyword arguments of `alibi_attention`: `causal`, `positions` and so on. Raises as it does.

    >>> q = k = torch.zeros(1, 8, 4096, 32)
    >>> choose_backend(q[:, :, :64], k[:, :, :64], alibi_slopes(8))
    Choice(name='strip', reason='on the CPU, blocks that share one bias are fastest', windows=None, left_out=0.0)
    >>> choice = choose_backend(q, k, alibi_slopes(8))
    >>> choice.name, choice.windows
    ('windowed', (37, 73, 146, 291, 581, 1161, 2322, 4096))
    >>> f"{choice.left_out:.0%}"
    '65%'
    """
    inputs = AttentionInputs(query, key, key, slopes, **options).check().autocast()
    choice = _choose(inputs)
    if choice.name != "windowed":
        return choice
    windows = key_windows(inputs)
    return choice._replace(windows=windows, left_out=share_left_out(inputs, windows))


def _choose(inputs: AttentionInputs) -> Choice:
    """Return the fastest backend. Never FlexAttention, because its first call compiles for seconds."""
    learned = inputs.slopes_need_gradients
    if not torch.compiler.is_compiling():  # also because comparing lengths would compile each of them
        fewest = _fewest_windowed_keys(inputs)
        if fewest is not None and inputs.key_length >= fewest and WINDOWED.unsupported_reason(inputs) is None:
            return Choice("windowed", f"with {fewest} keys or more, skipping those of negligible weight is fastest")
    if inputs.query_length == 1:
        return Choice("mask", "a single query needs only a single row of bias")
    # The strip is never the fastest on a GPU, whose fastest kernel accepts no mask; with learned slopes, because no
    # fast kernel computes the gradient of a mask; or under torch.compile, where each length would need its own graph.
    strip_is_fast = inputs.query.is_cpu and not learned and not torch.compiler.is_compiling()
    strip_is_fast = strip_is_fast and STRIP.unsupported_reason(inputs) is None
    if strip_is_fast and (inputs.slopes is not None or inputs.key_length <= MAX_STRIP_KEYS):
        return Choice("strip", "on the CPU, blocks that share one bias are fastest")
    if (unsupported := FOLDED.unsupported_reason(inputs)) is not None:
        return Choice("strip" if strip_is_fast else "mask", f"'folded' does not support this call: {unsupported}")
    is_recorded = inputs.needs_gradients or torch.compiler.is_compiling()
    fewest = FOLDED_LEARNED if learned else FOLDED_RECORDED if is_recorded else FOLDED_FORWARD
    if learned and inputs.query.dtype in (torch.float16, torch.bfloat16):
        reason = "'folded' would round the gradient of the slopes to half precision"
    elif inputs.query_length < fewest:
        reason = f"with fewer than {fewest} queries, a mask is faster than 'folded'"
    else:
        queries = f"with {fewest} queries or more"
        return Choice("folded", f"{queries}, attention without a [query, key] tensor of biases is fastest")
    return Choice("mask", reason)


def _fewest_windowed_keys(inputs: AttentionInputs) -> int | None:
    """The number of keys from which "windowed" is the fastest backend; None if it never is."""
    batch, heads, query_length, head_dim = inputs.query.shape
    if query_length < MIN_WINDOWED_QUERIES:
        (fewest, least), work = DECODING, inputs.key.numel() if inputs.key_statistics is not None else 0
    elif not inputs.causal:
        (fewest, least), work = ENCODER, heads * query_length * inputs.key_length
    else:
        fewest, least = TRAINING if inputs.needs_gradients else FORWARD
        work = batch * query_length * inputs.key_length * head_dim
    return fewest if work >= least else None
