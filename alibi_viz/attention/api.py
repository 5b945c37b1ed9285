"""The public doors: `alibi_attention`, and `choose_backend`, which tells how it computes a call."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from alibi_viz.attention.choose import BACKENDS, Choice, choose
from alibi_viz.attention.inputs import AttentionInputs, KeyBall
from alibi_viz.attention.spans import attention_spans, share_left_out


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
            - "windowed": head by head, without the keys whose weight is negligible
            - "folded": plain causal attention with the bias as two more coordinates of query and key
            - "flex": FlexAttention, compiled
        tolerance: the largest share of a query's weights that "windowed" and "flex" may leave out. The default is half
            a unit in the last place of the inputs' dtype, so the output is that of all keys to rounding; an output
            changes by at most twice this share of the largest value.
        key_ball: a ball that contains all keys, or a function that returns it, such as `KeyValueCache.key_ball`. With
            it, a single query reads only the keys within its spans; without it, it would have to read all keys to find
            the spans. Ignored if autocast rounds the keys.

    A query without any visible key returns zeros, never NaN.

    Raises TypeError and ValueError that name the tensor, its shape and the expected axes, and ValueError if the
    requested backend does not support the call.

    >>> q, k, v = torch.randn(3, 2, 8, 16, 32)
    >>> alibi_attention(q, k, v, alibi_slopes(8)).shape
    torch.Size([2, 8, 16, 32])
    """
    options = (causal, key_padding_mask, attn_mask, positions, scale, dropout, tolerance, key_ball)
    inputs = AttentionInputs.checked(query, key, value, slopes, *options)
    if backend == "auto":
        return BACKENDS[choose(inputs).name].attend(inputs)
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of auto, {', '.join(BACKENDS)}, got {backend!r}")
    selected = BACKENDS[backend]
    if (reason := selected.unsupported_reason(inputs)) is not None:
        raise ValueError(f"backend {backend!r} does not support this call: {reason}")
    return selected.attend(inputs)


def choose_backend(query: Tensor, key: Tensor, slopes: Tensor | None, **options: Any) -> Choice:
    """Return the backend that "auto" selects for these arguments of `alibi_attention`, and the reason.

    `options` are other keyword arguments of `alibi_attention`: `causal`, `positions` and so on. Raises as it does.

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
    choice = choose(inputs)
    if choice.name != "windowed":
        return choice
    spans = tuple(attention_spans(inputs).tolist())
    return choice._replace(spans=spans, left_out=share_left_out(inputs, spans))
