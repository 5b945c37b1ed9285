"""ALiBi on one screen: the slopes, the bias, attention and decoding, with nothing but torch.

Attention with Linear Biases (Press et al. 2021) subtracts `m * distance` from each attention logit,
with one slope m per head. Start here; the tests compare all other implementations with this one.
"""

import math

import torch
from torch import Tensor


def slopes(num_heads: int) -> list[float]:
    """2^(-8/H), 2^(-16/H), ..., 2^-8 for a power of two H; otherwise some values between those of a
    smaller one too."""
    power = 2 ** int(math.log2(num_heads))  # the largest power of two <= num_heads
    geometric = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    between = [2 ** (-8 * (head - 0.5) / power) for head in range(1, power + 1)]
    return [*geometric, *between[: num_heads - power]]


def bias(m: Tensor, queries: Tensor, keys: Tensor, *, causal: bool = True) -> Tensor:
    """-m |i - j| for the slope of each head and positions i of queries and j of keys; -inf where j
    > i if causal.

    m: [heads], queries: [query], keys: [key]; returns float64 [heads, query, key].
    """
    distance = queries[:, None] - keys
    penalty = -m.double()[:, None, None] * distance.abs()
    return penalty.masked_fill(distance < 0, -math.inf) if causal else penalty


def attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax attention: the output [batch, heads, query, head_dim] and the weights [batch, heads,
    query, key].

    query: [batch, heads, query, head_dim]; key and value: [batch, heads, key, head_dim]; bias:
        broadcasts to the
    weights. The content q . k is divided by sqrt(head_dim), the bias is not. A query that sees no
    key gets zeros.
    """
    logits = query @ key.mT / math.sqrt(query.shape[-1]) + bias
    blind = (logits == -math.inf).all(
        -1, keepdim=True
    )  # the softmax of such a row, and its gradient, would be NaN
    weights = logits.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    return weights.to(value.dtype) @ value, weights


def decode(queries: Tensor, keys: Tensor, values: Tensor, m: Tensor) -> Tensor:
    """The same output as causal attention, token by token, as a language model computes it when it
    writes.

    A new token sees the keys before it and its own. Its bias is the last row for so many keys, so
    keys that are stored in a cache never change. queries, keys, values: [batch, heads, length,
    head_dim].
    """
    outputs = []
    for token in range(queries.shape[2]):
        # in a model: the cache, to which the new key and value are appended
        past = torch.arange(token + 1, device=m.device)
        row = bias(m, past[-1:], past)
        outputs.append(
            attention(queries[:, :, token, None], keys[:, :, past], values[:, :, past], row)[0]
        )
    return torch.cat(outputs, dim=2)
