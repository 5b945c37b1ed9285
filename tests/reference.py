"""The oracle of the tests: `alibi_viz.minimal` in float64, with the masks and the other forms of
the bias."""

import math

import torch
from torch import Tensor

from alibi_viz import minimal

FORMULAS = {
    "relative": lambda m, i, j, last: -m * (i - j),
    "key": lambda m, i, j, last: m * j,
    "end": lambda m, i, j, last: m * (j - last),
    "symmetric": lambda m, i, j, last: -m * abs(i - j),
}


def reference_bias(slopes: Tensor, queries: list[int], keys: list[int], form: str) -> Tensor:
    """float64 [heads, query, key] for positions of queries and keys, pair by pair from the
    definition of each form."""

    def bias(head: int, m: float, i: int, j: int) -> float:
        if form != "split":
            return float(FORMULAS[form](m, i, j, max(keys)))
        is_masked = j > i if head < math.ceil(len(slopes) / 2) else j < i
        return -math.inf if is_masked else -m * abs(i - j)

    table = [
        [[bias(head, m, i, j) for j in keys] for i in queries]
        for head, m in enumerate(slopes.double().tolist())
    ]
    return torch.tensor(table, dtype=torch.float64).reshape(len(slopes), len(queries), len(keys))


def reference_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor,
    *,
    causal: bool = True,
    is_real: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Output [batch, heads, query, head_dim] and weights [batch, heads, query, key] of
    `minimal.attention`, float64.

    The queries are the last positions of the keys. `bias` broadcasts to the weights, and `is_real`
    is a padding mask [batch, key]. Neighboring heads may share a key head.
    """
    rows, columns, group = query.shape[2], key.shape[2], query.shape[1] // key.shape[1]
    query, key, value, bias = (tensor.double() for tensor in (query, key, value, bias))
    if causal:
        bias = bias.masked_fill(
            torch.arange(columns) > torch.arange(columns - rows, columns)[:, None], -math.inf
        )
    if is_real is not None:
        bias = (bias[None] if bias.ndim == 3 else bias).masked_fill(
            ~is_real[:, None, None], -math.inf
        )
    if scale is not None:
        query = query * scale * math.sqrt(query.shape[-1])
    return minimal.attention(
        query, *(t.repeat_interleave(group, dim=1) for t in (key, value)), bias
    )
