"""`alibi_attention`, and the table by which it chooses the fastest exact implementation.

A call takes three steps: check the arguments (`AttentionInputs.checked`), find the first row of
`RULES` that holds, and run its `Backend`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from alibi_viz.arguments import check_choice, check_options
from alibi_viz.attention.dense import EAGER, MASK, shares_blocks
from alibi_viz.attention.flex import FLEX
from alibi_viz.attention.folded import FOLDED
from alibi_viz.attention.inputs import AttentionInputs, KeyBall
from alibi_viz.attention.skipping.spans import attention_spans, share_left_out
from alibi_viz.attention.skipping.windowed import WINDOWED

BACKENDS = {backend.name: backend for backend in (EAGER, MASK, WINDOWED, FOLDED, FLEX)}
# With fewer queries, finding the spans costs more than they save, unless a key ball is given.
_DECODING_BELOW = 64
# The keyword arguments of `alibi_attention` on which the choice of a backend depends
_OPTIONS = (
    "causal",
    "key_padding_mask",
    "attn_mask",
    "positions",
    "scale",
    "dropout",
    "tolerance",
    "key_ball",
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
            derivatives, of any tensor, need "eager".)
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
            - "flex": FlexAttention, compiled
        tolerance: the largest share of a query's weights that "windowed" may leave out, which
            changes an output by at most twice this share of the largest value. By default half a
            unit in the last place of the inputs.
        key_ball: a ball that contains all keys, or a function that returns it, such as
            `KeyValueCache.key_ball`. With it, few queries of a large cache read only the keys
            within their spans. Ignored if autocast rounds the keys.

    A query without any visible key returns zeros, never NaN.

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
        name = _choose(inputs).name
        return BACKENDS[name].attend(inputs)

    reason = BACKENDS[backend].unsupported_reason(inputs)
    if reason is not None:
        raise ValueError(f"backend {backend!r} does not support this call: {reason}")
    return BACKENDS[backend].attend(inputs)


if torch.__version__ < "2.13":
    # Earlier compilers fail at the methods of `AttentionInputs`. There, attention stays uncompiled,
    # between the graphs of a compiled model.
    alibi_attention = torch.compiler.disable(alibi_attention)


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
    check_options(options, _OPTIONS)
    inputs = AttentionInputs.checked(query, key, key, slopes, **options)
    choice = _choose(inputs)
    if choice.name != "windowed":
        return choice
    spans = tuple(attention_spans(inputs).tolist())
    return choice._replace(spans=spans, left_out=share_left_out(inputs, spans))


class AttentionCall(NamedTuple):
    """What the choice depends on."""

    kind: str  # see `_kind`
    queries: int
    keys: int
    products: int  # batch * queries * keys * head_dim: multiplications of a head, per kernel call
    mask_elements: int  # heads * queries * keys
    key_elements: int  # of the key tensor, if a ball around the keys is given; otherwise 0
    slopes: str  # see `_kind_of_slopes`
    shares_blocks: bool  # whether "mask" goes block by block

    @classmethod
    def of(cls, inputs: AttentionInputs) -> "AttentionCall":
        batch, heads, queries, head_dim = inputs.query.shape
        keys = inputs.key_length
        return cls(
            kind=_kind(inputs),
            queries=queries,
            keys=keys,
            products=batch * queries * keys * head_dim,
            mask_elements=heads * queries * keys,
            key_elements=0 if inputs.key_ball is None else inputs.key.numel(),
            slopes=_kind_of_slopes(inputs),
            shares_blocks=shares_blocks(inputs),
        )


def _kind(inputs: AttentionInputs) -> str:
    # Compiled code comes first: below, comparing lengths would compile a graph for each result.
    if torch.compiler.is_compiling():
        # A graph is exported for one length, or compiled for all.
        # torch 2.6 doesn't say, and can't export attention either.
        is_exporting = getattr(torch.compiler, "is_exporting", bool)
        return "exported" if is_exporting() else "compiled"
    if inputs.query_length < _DECODING_BELOW:
        return "decoding"
    if not inputs.causal:
        return "encoder"
    return "training" if inputs.needs_gradients else "inference"


def _kind_of_slopes(inputs: AttentionInputs) -> str:
    learned = inputs.slopes_need_gradients
    if inputs.maps_bias and (inputs.on_gpu or learned):
        return "mapped"  # by vmap
    if learned:
        folding_rounds = inputs.query.element_size() == 2 or inputs.positions is not None
        return "learned, rounded" if folding_rounds else "learned"
    return "none" if inputs.slopes is None else "fixed"


class BackendRule(NamedTuple):
    """A row of the table: a backend, why it is chosen, and for which calls."""

    backend: str
    why: str
    measured: str  # the names of the rows of `make bench` that show it
    condition: Callable[[AttentionCall], bool]


_SKIP = "skipping keys of negligible weight saves more than a kernel call per head costs"
_BLOCKS = "on the CPU, blocks that share one bias are fastest"
_ROW = "a single query needs only a single row of bias"
_ROUND = "'folded' would round the gradient of the slopes in half precision and with far positions"
_MAPPED = "torch's kernels fail with a mask that is mapped by vmap, or lose its gradient"
_FOLD = (
    "with so many queries, going without a [query, key] tensor is fastest, or on a GPU most exact"
)
# The first row is chosen whose condition holds and whose backend supports the call.
RULES = (
    BackendRule(
        "eager",
        _MAPPED,
        measured="not a matter of speed",
        condition=lambda call: call.slopes == "mapped",
    ),
    BackendRule(
        "windowed",
        _SKIP,
        measured="decoded",
        condition=lambda call: (
            call.kind == "decoding" and call.keys >= 4096 and call.key_elements >= 2**23
        ),
    ),
    BackendRule(
        "windowed",
        _SKIP,
        measured="both directions",
        # Up to 1024 keys, the mask is cached.
        condition=lambda call: (
            call.kind == "encoder" and call.keys > 1024 and call.mask_elements >= 2**23
        ),
    ),
    BackendRule(
        "windowed",
        _SKIP,
        measured="backward",
        condition=lambda call: (
            call.kind == "training" and call.keys >= 512 and call.products >= 2**27
        ),
    ),
    BackendRule(
        "windowed",
        _SKIP,
        measured="forward",
        condition=lambda call: (
            call.kind == "inference" and call.keys >= 1024 and call.products >= 2**28
        ),
    ),
    BackendRule(
        "mask",
        _ROW,
        measured="decoded",
        condition=lambda call: call.queries == 1,
    ),
    BackendRule(
        "mask",
        _BLOCKS,
        measured="forward, L=",
        condition=lambda call: call.shares_blocks and call.slopes == "fixed",
    ),
    BackendRule(
        "mask",
        _BLOCKS,
        measured="auto, no bias",
        # Longer inputs without slopes are faster with torch's own causal attention.
        condition=lambda call: call.shares_blocks and call.keys <= 2048,
    ),
    BackendRule(
        "mask",
        _ROUND,
        measured="not a matter of speed",
        condition=lambda call: call.slopes == "learned, rounded",
    ),
    BackendRule(
        "folded",
        _FOLD,
        measured="learned slopes",
        # No fused kernel computes the gradient of a mask.
        condition=lambda call: call.slopes == "learned" and call.queries >= 192,
    ),
    BackendRule(
        "folded",
        _FOLD,
        measured="padding",
        condition=lambda call: call.kind == "inference" and call.queries >= 384,
    ),
    BackendRule(
        "folded",
        _FOLD,
        measured="padding",
        # From here on in training, too.
        condition=lambda call: (
            call.kind != "exported" and call.slopes != "learned" and call.queries >= 640
        ),
    ),
)


def _choose(inputs: AttentionInputs) -> Choice:
    """The fastest backend. Never FlexAttention, because its first call compiles for seconds."""
    call = AttentionCall.of(inputs)
    for rule in RULES:
        if rule.condition(call) and BACKENDS[rule.backend].unsupported_reason(inputs) is None:
            return Choice(rule.backend, rule.why)

    unsupported = FOLDED.unsupported_reason(inputs)
    if unsupported is None:
        return Choice("mask", "with so few queries, a mask is faster than 'folded'")
    return Choice("mask", f"'folded' does not support this call: {unsupported}")
