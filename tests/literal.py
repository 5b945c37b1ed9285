"""Reference implementations for tests: the formulas as plain Python loops in float64."""

import math

import torch
from torch import Tensor


def literal_bias(slopes: Tensor, queries: list[int], keys: list[int], form: str) -> Tensor:
    """float64 [heads, query, key], straight from the definition of each form."""
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
                    looks_back = h < math.ceil(heads / 2)
                    hidden = j > i if looks_back else j < i
                    value = -math.inf if hidden else -m * abs(i - j)
                else:
                    raise AssertionError(form)
                out[h, row, column] = value
    return out


def literal_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor,
    *,
    causal: bool = True,
    real: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Output and weights, float64. `bias` is [heads, query, key]; the queries are the last keys.

    A row without visible keys is zeros.
    """
    batch, heads, rows, dim = query.shape
    columns, group = key.shape[2], heads // key.shape[1]
    scale = 1 / math.sqrt(dim) if scale is None else scale
    q, k, v = query.double(), key.double(), value.double()
    weights = torch.zeros(batch, heads, rows, columns, dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for i in range(rows):
                logits: dict[int, float] = {}
                for j in range(columns):
                    if causal and j > i + columns - rows:
                        continue
                    if real is not None and not bool(real[b, j]):
                        continue
                    dot = sum(x * y for x, y in zip(q[b, h, i].tolist(), k[b, h // group, j].tolist(), strict=True))
                    logits[j] = dot * scale + bias[h, i, j].item()
                logits = {j: logit for j, logit in logits.items() if logit > -math.inf}
                if not logits:
                    continue
                top = max(logits.values())
                total = sum(math.exp(logit - top) for logit in logits.values())
                for j, logit in logits.items():
                    weights[b, h, i, j] = math.exp(logit - top) / total
    return weights @ v.repeat_interleave(group, dim=1), weights
