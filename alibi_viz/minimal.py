"""ALiBi on one screen: the slopes, the bias, attention and decoding, with nothing but torch.

Attention with Linear Biases (Press et al. 2021) subtracts `m * distance` from each attention logit,
with one slope m per head. Start here; the tests compare all other implementations with this one.
"""

import math

import torch
from torch import Tensor


def slopes(num_heads: int) -> list[float]:
    """2^(-8/H), 2^(-16/H), ..., 2^-8 if the number of heads H is a power of two.

    Otherwise those of the largest power of two below H, and some values between them.
    """
    power = 2 ** int(math.log2(num_heads))  # the largest power of two <= num_heads
    geometric = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    between = [2 ** (-8 * (head - 0.5) / power) for head in range(1, power + 1)]
    return [*geometric, *between[: num_heads - power]]


def bias(m: Tensor, queries: Tensor, keys: Tensor, *, causal: bool = True) -> Tensor:
    """-m |i - j| for the slope of each head and positions i of queries and j of keys.

    If causal, -inf where j > i. m: [heads], queries: [query], keys: [key]. Returns float64
    [heads, query, key].
    """
    distance = queries[:, None] - keys
    penalty = -m.double()[:, None, None] * distance.abs()
    if causal:
        penalty = penalty.masked_fill(distance < 0, -math.inf)
    return penalty


def attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax attention: the output and the weights.

    query: [batch, heads, query, head_dim]; key and value: [batch, heads, key, head_dim]; bias:
    broadcasts to the weights. The output has the shape of the query, the weights are [batch, heads,
    query, key].

    The content q . k is divided by sqrt(head_dim), the bias is not. A query that sees no key gets
    zeros.
    """
    logits = query @ key.mT / math.sqrt(query.shape[-1]) + bias
    # The softmax of a row without any key, and its gradient, would be NaN.
    blind = (logits == -math.inf).all(-1, keepdim=True)
    weights = logits.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    return weights.to(value.dtype) @ value, weights


def decode(queries: Tensor, keys: Tensor, values: Tensor, m: Tensor) -> Tensor:
    """The same output as causal attention, token by token, as a language model writes.

    A new token sees the keys before it and its own. Its bias is the last row for so many keys, so
    keys that are stored in a cache never change. queries, keys, values: [batch, heads, length,
    head_dim].
    """
    outputs = []
    for token in range(queries.shape[2]):
        query = queries[:, :, token, None]
        # In a model, `past` is a cache, to which the new key and value are appended.
        past = torch.arange(token + 1, device=m.device)
        row = bias(m, past[-1:], past)
        output, _ = attention(query, keys[:, :, past], values[:, :, past], row)
        outputs.append(output)
    return torch.cat(outputs, dim=2)
