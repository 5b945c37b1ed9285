"""Attention weights of methods that are not a bias, from their formulas, as plain Python loops in float64."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

WeightsOf = Callable[[Tensor, list[Tensor]], list[float]]  # of one query and the keys that it sees, its own last


def reference_cope(query: Tensor, key: Tensor, vectors: Tensor, window: int | None = None) -> Tensor:
    """float64 [batch, heads, query, key]: softmax of q_i . (k_j + e[p_ij]) / sqrt(d) over the visible keys."""
    e, scale = vectors.detach().double(), 1 / math.sqrt(query.shape[-1])

    def weights_of(q: Tensor, keys: list[Tensor]) -> list[float]:
        gates = [1 / (1 + math.exp(-float(q @ k) * scale)) for k in keys]
        logits = []
        for j, k in enumerate(keys):
            p = min(sum(gates[j:]), len(e) - 1)
            low, high = math.floor(p), math.ceil(p)
            logits.append(float(q @ (k + (high - p if high > low else 1) * e[low] + (p - low) * e[high])) * scale)
        total = sum(math.exp(logit) for logit in logits)
        return [math.exp(logit) / total for logit in logits]

    return _each_query(query, key, window, weights_of)


def reference_stick_breaking(query: Tensor, key: Tensor, window: int | None = None) -> Tensor:
    """float64 [batch, heads, query, key]: the nearest key takes its share first, and the query's token what is left."""
    scale = 1 / math.sqrt(query.shape[-1])

    def weights_of(q: Tensor, keys: list[Tensor]) -> list[float]:
        weights, left = [0.0] * len(keys), 1.0
        for j in range(len(keys) - 2, -1, -1):
            share = 1 / (1 + math.exp(-float(q @ keys[j]) * scale))
            weights[j] = share * left
            left *= 1 - share
        weights[-1] = left
        return weights

    return _each_query(query, key, window, weights_of)


def _each_query(query: Tensor, key: Tensor, window: int | None, weights_of: WeightsOf) -> Tensor:
    batch, heads, rows, _ = query.shape
    columns, group = key.shape[2], heads // key.shape[1]
    weights = torch.zeros(batch, heads, rows, columns, dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for row in range(rows):
                i = columns - rows + row
                first = 0 if window is None else max(0, i - window + 1)
                keys = list(key[b, h // group, first : i + 1].double())
                weights[b, h, row, first : i + 1] = torch.tensor(
                    weights_of(query[b, h, row].double(), keys), dtype=torch.float64
                )
    return weights
