"""`alibi_attention`, and the table by which it chooses the fastest exact implementation for a
call."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from alibi_viz.arguments import check_choice
from alibi_viz.attention.dense import EAGER, MASK, shares_blocks
from alibi_viz.attention.flex import FLEX
from alibi_viz.attention.folded import FOLDED
from alibi_viz.attention.inputs import AttentionInputs, KeyBall
from alibi_viz.attention.skipping.spans import attention_spans, share_left_out
from alibi_viz.attention.skipping.windowed import WINDOWED

BACKENDS = {backend.name: backend for backend in (EAGER, MASK, WINDOWED, FOLDED, FLEX)}
# With fewer queries, finding the spans costs more than they save, unless a ball around the keys is
# given
_FEW = 64


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
        causal: mask the keys after each query. If False, the bias is the symmetric form, -m |i -
            j|.
        key_padding_mask: bool [batch, key], True for a real token.
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
            - "folded": plain causal attention with the bias as two more coordinates of query and
                key
            - "flex": FlexAttention, compiled
        tolerance: the largest share of a query's weights that "windowed" may leave out, which
            changes an output by at most twice this share of the largest value. By default half a
            unit in the last place of the inputs.
        key_ball: a ball that contains all keys, or a function that returns it, such as
            `KeyValueCache.key_ball`. With it, few queries of a large cache read only the keys
            within their spans. Ignored if autocast rounds the keys.

    A query without any visible key returns zeros, never NaN.

    Raises TypeError and ValueError that name the tensor, its shape and the expected axes, or the
    backend.

    >>> q, k, v = torch.randn(3, 2, 8, 16, 32)
    >>> alibi_attention(q, k, v, alibi_slopes(8)).shape
    torch.Size([2, 8, 16, 32])
    """
    options = (causal, key_padding_mask, attn_mask, positions, scale, dropout, tolerance, key_ball)
    inputs = AttentionInputs.checked(query, key, value, slopes, *options)
    check_choice("backend", backend, ("auto", *BACKENDS))
    if backend == "auto":
        backend = _choose(inputs).name
    elif (reason := BACKENDS[backend].unsupported_reason(inputs)) is not None:
        raise ValueError(f"backend {backend!r} does not support this call: {reason}")
    return BACKENDS[backend].attend(inputs)


class Choice(NamedTuple):
    """The backend that "auto" selects, and why."""

    name: str  # the backend
    reason: str  # why it is the fastest
    spans: tuple[int, ...] | None = (
        None  # for "windowed", how many steps back the queries of each head look
    )
    left_out: float = (
        0.0  # the share of the visible pairs of query and key that lie outside the spans
    )


def choose_backend(query: Tensor, key: Tensor, slopes: Tensor | None, **options: Any) -> Choice:
    """Return the backend that "auto" selects for these arguments of `alibi_attention`, and the
    reason.

    `options` are keyword arguments of `alibi_attention` other than `backend`, such as `causal`.
    Raises as it does.

    >>> q = k = torch.zeros(1, 8, 4096, 32)
    >>> choose_backend(q[:, :, :64], k[:, :, :64], alibi_slopes(8))
    Choice(name='mask', reason='on the CPU, blocks that share one bias are fastest', spans=None, left_out=0.0)
    >>> choice = choose_backend(q, k, alibi_slopes(8))
    >>> choice.name, choice.spans
    ('windowed', (37, 73, 146, 291, 581, 1161, 2322, 4096))
    >>> f"{choice.left_out:.0%}"
    '65%'
    """
    inputs = AttentionInputs.checked(query, key, key, slopes, **options)
    choice = _choose(inputs)
    spans = tuple(attention_spans(inputs).tolist()) if choice.name == "windowed" else None
    return (
        choice
        if spans is None
        else choice._replace(spans=spans, left_out=share_left_out(inputs, spans))
    )


class _Call(NamedTuple):
    """What the choice depends on."""

    # "compiled", "exported", "decoding" (few queries), "encoder", "training" (autograd is on) or
    # "inference"
    kind: str
    queries: int
    keys: int
    # Batch * queries * keys * head_dim: the multiplications of one head, which pay for its kernel
    # call
    products: int
    elements: int  # heads * queries * keys: of a mask
    key_elements: int  # of the key tensor, if a ball around the keys is given; otherwise 0
    slopes: str  # "none", "fixed", "learned", "learned, rounded" by "folded", or "mapped" by vmap
    uses_blocks: bool  # whether "mask" goes block by block

    @classmethod
    def of(cls, inputs: AttentionInputs) -> "_Call":
        (batch, heads, queries, head_dim), keys = inputs.query.shape, inputs.key_length
        # "compiled" comes first, because comparing lengths would compile a graph for each side of
        # the comparison
        if torch.compiler.is_compiling():
            kind = (
                "exported" if torch.compiler.is_exporting() else "compiled"
            )  # for one length, or for all
        elif queries < _FEW:
            kind = "decoding"
        else:
            kind = (
                "encoder"
                if not inputs.causal
                else "training"
                if inputs.needs_gradients
                else "inference"
            )
        slopes = "none" if inputs.slopes is None else "fixed"
        if inputs.slopes_need_gradients:
            rounds = inputs.query.element_size() == 2 or inputs.positions is not None
            slopes = "learned, rounded" if rounds else "learned"
        if inputs.maps_bias and (inputs.on_gpu or inputs.slopes_need_gradients):
            slopes = "mapped"
        key_elements = 0 if inputs.key_ball is None else inputs.key.numel()
        sizes = queries, keys, batch * queries * keys * head_dim, heads * queries * keys
        return cls(kind, *sizes, key_elements, slopes, shares_blocks(inputs))


class Rule(NamedTuple):
    """A row of the table. The first whose condition holds, and whose backend supports the call, is
    chosen."""

    backend: str
    why: str
    measured: str  # where: the names of rows of `make bench`
    condition: Callable[[_Call], bool]


_SKIP = "skipping keys of negligible weight saves more than a kernel call per head costs"
_BLOCKS = "on the CPU, blocks that share one bias are fastest"
_ROW = "a single query needs only a single row of bias"
_ROUND = "'folded' would round the gradient of the slopes in half precision and with far positions"
_MAPPED = "torch's kernels fail with a mask that is mapped by vmap, or lose its gradient"
_FOLD = (
    "with so many queries, going without a [query, key] tensor is fastest, or on a GPU most exact"
)
RULES = (
    Rule("eager", _MAPPED, "not a matter of speed", lambda c: c.slopes == "mapped"),
    Rule(
        "windowed",
        _SKIP,
        "decoded",
        lambda c: c.kind == "decoding" and c.keys >= 4096 and c.key_elements >= 2**23,
    ),
    # up to 1024 keys, the mask is cached
    Rule(
        "windowed",
        _SKIP,
        "both directions",
        lambda c: c.kind == "encoder" and c.keys > 1024 and c.elements >= 2**23,
    ),
    Rule(
        "windowed",
        _SKIP,
        "backward",
        lambda c: c.kind == "training" and c.keys >= 512 and c.products >= 2**27,
    ),
    Rule(
        "windowed",
        _SKIP,
        "forward",
        lambda c: c.kind == "inference" and c.keys >= 1024 and c.products >= 2**28,
    ),
    Rule("mask", _ROW, "decoded", lambda c: c.queries == 1),
    Rule("mask", _BLOCKS, "forward, L=", lambda c: c.uses_blocks and c.slopes == "fixed"),
    # longer inputs without slopes are faster with torch's own causal attention
    Rule("mask", _BLOCKS, "auto, no bias", lambda c: c.uses_blocks and c.keys <= 2048),
    Rule("mask", _ROUND, "not a matter of speed", lambda c: c.slopes == "learned, rounded"),
    # no fused kernel computes the gradient of a mask
    Rule("folded", _FOLD, "learned slopes", lambda c: c.slopes == "learned" and c.queries >= 192),
    Rule("folded", _FOLD, "padding", lambda c: c.kind == "inference" and c.queries >= 384),
    # in training, too
    Rule(
        "folded",
        _FOLD,
        "padding",
        lambda c: c.kind != "exported" and c.slopes != "learned" and c.queries >= 640,
    ),
)


def _choose(inputs: AttentionInputs) -> Choice:
    """The fastest backend. Never FlexAttention, because its first call compiles for seconds."""
    call = _Call.of(inputs)
    for rule in RULES:
        if rule.condition(call) and BACKENDS[rule.backend].unsupported_reason(inputs) is None:
            return Choice(rule.backend, rule.why)
    unsupported = FOLDED.unsupported_reason(inputs)
    few = "with so few queries, a mask is faster than 'folded'"
    return Choice(
        "mask",
        few if unsupported is None else f"'folded' does not support this call: {unsupported}",
    )
