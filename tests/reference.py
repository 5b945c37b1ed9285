"""Reference implementations for tests: the formulas as plain Python loops in float64."""

import math

import torch
from torch import Tensor


def reference_bias(slopes: Tensor, queries: list[int], keys: list[int], form: str) -> Tensor:
    """float64 [heads, query, key] for positions of queries and keys, from the definition of each form."""
    heads = len(slopes)
    out = torch.zeros(heads, len(queries), len(keys), dtype=torch.float64)
    for h, m in enumerate(slopes.double().tolist()):
        for row, i in enumerate(queries):
            for column, j in enumerate(keys):
                if form == "relative":
                    value = -m * (i - j)
                elif form == "key":
                    value = m * j
                elif form == "end":
                    value = m * (j - max(keys))
                elif form == "symmetric":
                    value = -m * abs(i - j)
                elif form == "split":
                    attends_back = h < math.ceil(heads / 2)
                    is_masked = j > i if attends_back else j < i
                    value = -math.inf if is_masked else -m * abs(i - j)
                else:
                    raise AssertionError(form)
                out[h, row, column] = value
    return out


def reference_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, *, causal: bool = True, is_real: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Output [batch, heads, query, head_dim] and weights [batch, heads, query, key], float64.

    The queries are the last positions of the keys. `bias` is [heads, query, key] and `is_real` a padding mask
    [batch, key]. A query without visible keys gets zeros.
    """
    batch, heads, rows, dim = query.shape
    columns, group = key.shape[2], heads // key.shape[1]
    q, k, v = query.double(), key.double(), value.double()
    weights = torch.zeros(batch, heads, rows, columns, dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for i in range(rows):
                logits: dict[int, float] = {}  # of each visible key
                for j in range(columns):
                    is_future = j > i + columns - rows
                    is_padding = is_real is not None and not bool(is_real[b, j])
                    if (causal and is_future) or is_padding or bias[h, i, j] == -math.inf:
                        continue
                    dot = sum(x * y for x, y in zip(q[b, h, i].tolist(), k[b, h // group, j].tolist(), strict=True))
                    logits[j] = dot / math.sqrt(dim) + bias[h, i, j].item()
                largest = max(logits.values(), default=0.0)
                total = sum(math.exp(logit - largest) for logit in logits.values())
                for j, logit in logits.items():
                    weights[b, h, i, j] = math.exp(logit - largest) / total
    return weights @ v.repeat_interleave(group, dim=1), weights
