"""Choose the fastest exact implementation of ALiBi attention for a call: one table, read from top to bottom."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from alibi_viz.attention.dense import EAGER, MASK, MAX_CACHED_KEYS, shares_blocks
from alibi_viz.attention.flex import FLEX
from alibi_viz.attention.folded import FOLDED
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.attention.windowed import WINDOWED

BACKENDS = {backend.name: backend for backend in (EAGER, MASK, WINDOWED, FOLDED, FLEX)}
_FEW = 64  # with fewer queries, finding the spans costs more than they save, unless a ball around the keys is given


class Choice(NamedTuple):
    """The backend that "auto" selects, and why.

    Attributes:
        name: the backend.
        reason: why it is the fastest.
        spans: for "windowed", how many steps back the queries of each head look; otherwise None.
        left_out: the share of the visible pairs of query and key that lie outside the spans, 0 to 1.
    """

    name: str
    reason: str
    spans: tuple[int, ...] | None = None
    left_out: float = 0.0


class _Call(NamedTuple):
    """What the choice depends on."""

    kind: str  # "compiled", "decoding" (few queries), "encoder", "training" (autograd is on) or "inference"
    queries: int
    keys: int
    products: int  # batch * queries * keys * head_dim: the multiplications of one head, which pay for its kernel call
    elements: int  # heads * queries * keys: of a mask
    is_uncached: bool  # whether a mask for so many keys is built in each call
    key_elements: int  # of the key tensor, if a ball around the keys is given; otherwise 0
    slopes: str  # "none", "fixed", "learned" or "learned, half": in half precision
    uses_blocks: bool  # whether "mask" goes block by block

    @classmethod
    def of(cls, inputs: AttentionInputs) -> "_Call":
        batch, heads, queries, head_dim = inputs.query.shape
        keys = inputs.key_length
        # "compiled" comes first, because comparing lengths would compile a graph for each side of the comparison
        if torch.compiler.is_compiling():
            kind = "compiled"
        elif queries < _FEW:
            kind = "decoding"
        else:
            kind = "encoder" if not inputs.causal else "training" if inputs.needs_gradients else "inference"
        slopes = "none" if inputs.slopes is None else "fixed"
        if inputs.slopes_need_gradients:
            slopes = "learned, half" if inputs.query.element_size() == 2 else "learned"
        key_elements = 0 if inputs.key_ball is None else inputs.key.numel()
        sizes = queries, keys, batch * queries * keys * head_dim, heads * queries * keys
        return cls(kind, *sizes, keys > MAX_CACHED_KEYS, key_elements, slopes, shares_blocks(inputs))


class Rule(NamedTuple):
    """A row of the table. The first whose condition holds, and whose backend supports the call, is chosen."""

    backend: str
    why: str
    measured: str  # where: the names of rows of `make bench`
    condition: Callable[[_Call], bool]


_SKIP = "skipping keys of negligible weight saves more than a kernel call per head costs"
_BLOCKS = "on the CPU, blocks that share one bias are fastest"
_ROW = "a single query needs only a single row of bias"
_ROUND = "'folded' would round the gradient of the slopes to half precision"
_FOLD = "with so many queries, attention without a [query, key] tensor of biases is fastest"
RULES = (
    Rule("windowed", _SKIP, "decoded", lambda c: c.kind == "decoding" and c.keys >= 4096 and c.key_elements >= 2**23),
    Rule("windowed", _SKIP, "both directions", lambda c: c.kind == "encoder" and c.is_uncached and c.elements >= 2**23),
    Rule("windowed", _SKIP, "backward", lambda c: c.kind == "training" and c.keys >= 512 and c.products >= 2**27),
    Rule("windowed", _SKIP, "forward", lambda c: c.kind == "inference" and c.keys >= 1024 and c.products >= 2**28),
    Rule("mask", _ROW, "decoded", lambda c: c.queries == 1),
    Rule("mask", _BLOCKS, "forward, L=", lambda c: c.uses_blocks and c.slopes == "fixed"),
    # longer inputs without slopes are faster with torch's own causal attention
    Rule("mask", _BLOCKS, "auto, no bias", lambda c: c.uses_blocks and c.keys <= 2048),
    Rule("mask", _ROUND, "not a matter of speed", lambda c: c.slopes == "learned, half"),
    # no fused kernel computes the gradient of a mask
    Rule("folded", _FOLD, "learned slopes", lambda c: c.slopes == "learned" and c.queries >= 192),
    Rule("folded", _FOLD, "padding", lambda c: c.kind == "inference" and c.queries >= 384),
    Rule("folded", _FOLD, "padding, also with gradients", lambda c: c.slopes != "learned" and c.queries >= 640),
)


def choose(inputs: AttentionInputs) -> Choice:
    """Return the fastest backend. Never FlexAttention, because its first call compiles for seconds."""
    call = _Call.of(inputs)
    for rule in RULES:
        if rule.condition(call) and BACKENDS[rule.backend].unsupported_reason(inputs) is None:
            return Choice(rule.backend, rule.why)
    unsupported = FOLDED.unsupported_reason(inputs)
    if unsupported is None:
        return Choice("mask", "with so few queries, a mask is faster than 'folded'")
    return Choice("mask", f"'folded' does not support this call: {unsupported}")
