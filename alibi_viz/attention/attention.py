"""Content plus bias gives logits, softmax gives weights, weights give the output.

    logits[i, j] = q_i . k_j / sqrt(head_dim) + bias[i, j]

The bias is *not* divided by sqrt(head_dim). `attention_trace` computes these four matrices one by one, to be looked
at; `alibi_attention` computes the output only, and faster.
"""

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import dropout as drop

from alibi_viz.attention.backends import BACKENDS, Choice, choose, mask_attention, obstacle
from alibi_viz.attention.flex import flex
from alibi_viz.attention.folded import folded_attention
from alibi_viz.attention.inputs import Inputs
from alibi_viz.attention.strip import strip_attention

__all__ = ["BACKENDS", "AttentionTrace", "alibi_attention", "attention_trace", "choose_backend"]


@dataclass(frozen=True)
class AttentionTrace:
    """The steps of attention, each [batch, heads, query, key] in the dtype of the query.

    Attributes:
        content: q . k / sqrt(head_dim), for every pair, masked or not.
        bias: what ALiBi adds.
        logits: content + bias, -inf where a key is hidden.
        weights: softmax of the logits over the keys; a row that sees no key at all is zeros.
    """

    content: Tensor
    bias: Tensor
    logits: Tensor
    weights: Tensor


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
    """Every step from content to weights, to be looked at.

    Args:
        query: [batch, heads, query, head_dim].
        key: [batch, key_heads, key, head_dim], key >= query; the queries are the last positions. Fewer key heads than
            heads are shared by groups of neighbouring heads (grouped-query attention).
        slopes: [heads], or None for no bias.
        causal: hide the keys after each query. Without it the bias is the symmetric form, -m |i - j|.
        key_padding_mask: bool [batch, key], True for a real token.
        attn_mask: bool, broadcast to [batch, heads, query, key], True where a query may look; packed documents.
        positions: integers [key] or [batch, key], 0, 1, 2, ... by default; for texts with holes. Padding on the left
            needs none: only differences count. `causal` goes by the order of the keys, not by these.
        scale: multiplies q . k; 1 / sqrt(head_dim) by default.

    Raises TypeError and ValueError that name the tensor, its shape and the expected axes.

    >>> q = k = torch.zeros(1, 1, 3, 4)  # equal content: the weights show the bias alone
    >>> attention_trace(q, k, torch.tensor([1.0])).weights[0, 0]
    tensor([[1.0000, 0.0000, 0.0000],
            [0.2689, 0.7311, 0.0000],
            [0.0900, 0.2447, 0.6652]])
    """
    return _trace(Inputs(query, key, key, slopes, causal, key_padding_mask, attn_mask, positions, scale).check())


def _trace(inputs: Inputs) -> AttentionTrace:
    key = inputs.key.repeat_interleave(inputs.group, dim=1)  # [batch, heads, key, head_dim]
    content = (inputs.query * inputs.scaling) @ key.transpose(-2, -1)
    bias = inputs.bias().expand_as(content)
    logits = (content + bias).masked_fill(~inputs.visible(), float("-inf"))
    return AttentionTrace(content, bias, logits, _softmax(logits))


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
) -> Tensor:
    """Attention with linear biases: [batch, heads, query, head_dim].

    Args:
        query: [batch, heads, query, head_dim].
        key, value: [batch, key_heads, key, head_dim], key >= query; the queries are the last positions.
        slopes: [heads], or None for no bias. Gradients flow back to them (in reverse mode).
        causal, key_padding_mask, attn_mask, positions, scale: as in `attention_trace`.
        dropout: probability with which a weight is dropped.
        backend: "auto" takes the fastest that is exact for the call, and `choose_backend` tells which and why;
            "eager", "mask", "strip", "folded" and "flex" are described in `backends`.

    A query that sees no key gives zeros, never NaN.
    Raises TypeError and ValueError that name the tensor, its shape and the expected axes, and ValueError when a
    backend that was asked for cannot compute the call.

    >>> q, k, v = torch.randn(3, 2, 8, 16, 32)
    >>> alibi_attention(q, k, v, alibi_slopes(8)).shape
    torch.Size([2, 8, 16, 32])
    """
    inputs = Inputs(query, key, value, slopes, causal, key_padding_mask, attn_mask, positions, scale, dropout).check()
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    if backend == "auto":
        backend = choose(inputs).name
    elif (against := obstacle(backend, inputs)) is not None:
        raise ValueError(f"backend {backend!r} cannot compute this: {against}")
    if backend in _FAST:
        return _FAST[backend](inputs)
    weights = drop(_trace(inputs).weights, dropout)
    return weights @ value.repeat_interleave(inputs.group, dim=1)


_FAST = {"mask": mask_attention, "strip": strip_attention, "folded": folded_attention, "flex": flex}


def choose_backend(
    query: Tensor,
    key: Tensor,
    slopes: Tensor | None,
    *,
    causal: bool = True,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    positions: Tensor | None = None,
) -> Choice:
    """Which backend "auto" takes for these arguments of `alibi_attention`, and why.

    >>> q = k = torch.zeros(1, 8, 1024, 32)
    >>> choose_backend(q, k, alibi_slopes(8))
    Choice(name='strip', reason='on the CPU, up to 2048 tokens, one strip of bias for all queries is fastest')
    >>> choose_backend(q[:, :, :1], k, alibi_slopes(8)).name
    'mask'
    """
    return choose(Inputs(query, key, key, slopes, causal, key_padding_mask, attn_mask, positions).check())


def _softmax(logits: Tensor) -> Tensor:
    """Softmax over the keys, zeros for a row of -inf only (a plain softmax gives NaN there)."""
    empty = (logits == float("-inf")).all(-1, keepdim=True)
    return logits.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
