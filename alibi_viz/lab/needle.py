"""What a head needs to find a needle: how much higher than all other keys it must score, and how much it does."""

from collections.abc import Iterable
from itertools import product

import pandas as pd
import torch
from torch import Tensor

from alibi_viz.arguments import check_instance, check_positive_integers, check_seed, positive_integers
from alibi_viz.attention import attention_trace
from alibi_viz.lab.attention_stats import measure_layers
from alibi_viz.lab.tasks import TASKS, examples_at_once
from alibi_viz.models import LanguageModel, SelfAttention
from alibi_viz.models.positions.relative import Alibi, Decay

NEEDLE = TASKS["needle"]


def has_slopes(model: LanguageModel) -> bool:
    """Whether the bias is -m (i - j) with one slope m per head, fixed or learned: ALiBi and decay.

    >>> from alibi_viz.lab.needle import has_slopes
    >>> [has_slopes(lab.make_model(name)) for name in ("alibi", "decay", "forget", "none")]
    [True, True, False, False]
    """
    return isinstance(model.transformer.position, Alibi | Decay)


def needle_margins(model: LanguageModel, distances: Iterable[int], *, samples: int = 64, seed: int = 0) -> pd.DataFrame:
    """Compare how far each head scores the needle above other keys with how far it must, to give it half of the weight.

    The query is the last token of an example of the task "needle", and the needle is d tokens back. With content logits
    c_j and slope m, its weight exceeds 1/2 if

        c_needle - log(sum_j p_j e^c_j)  >  m d + log(S),    S = sum_j e^(-m d_j),    p_j = e^(-m d_j) / S

    where j runs over all other keys, d_j tokens back. The left side is the margin found: how much higher the needle
    scores than the others, in a mean weighted by the bias. The right side is the margin needed, which doesn't depend on
    the content. S is about 1/m, so it is about m d + log(1/m). Found minus needed is the log odds of the needle's
    weight w, log(w / (1 - w)).

    Args:
        model: a model with slopes, see `has_slopes`, trained on `TASKS["needle"]`.
        distances: of the needle, in tokens.
        samples: how many examples of each distance to average over.
        seed: of the examples, as in `accuracy`.

    Returns one row per layer and head (counted from 1) and distance: the head's slope, the margins found and needed in
    nats, and the weight of the needle, means over the examples. Raises ValueError for a model without slopes or changed
    by `lab.modify`, for no distances, and for a number below 1.

    >>> model = lab.make_model("alibi", num_heads=4, vocabulary=lab.TASKS["needle"].vocabulary)
    >>> from alibi_viz.lab.needle import needle_margins
    >>> table = needle_margins(model, [63])
    >>> table[table["layer"] == 1][["head", "slope", "needed"]].round(3)
       head  slope  needed
    0     1  0.250  17.259
    1     2  0.062   6.721
    2     3  0.016   4.683
    3     4  0.004   4.271
    """
    check_instance("model", model, LanguageModel)
    position = model.transformer.position
    if not isinstance(position, Alibi | Decay):
        raise ValueError(
            f"model must have fixed or learned slopes, unchanged, got position method {model.config.position!r} "
            f"({type(position).__name__})"
        )
    check_positive_integers(samples=samples)
    check_seed(seed)
    distances = positive_integers("distances", distances)
    slopes = position.slopes.detach().float().cpu()
    columns = ["layer", "head", "distance", "slope", "found", "needed", "weight"]
    rows = []
    for distance in distances:
        found, needed, weight = _measure(model, slopes, distance, samples, seed)
        for layer, head in product(range(len(found)), range(len(slopes))):
            numbers = slopes[head], found[layer, head], needed[head], weight[layer, head]
            rows.append((layer + 1, head + 1, distance, *map(float, numbers)))
    return pd.DataFrame(rows, columns=columns)


def _measure(
    model: LanguageModel, slopes: Tensor, distance: int, samples: int, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Margins found [layers, heads], margins needed [heads] and weights [layers, heads] at one distance."""
    length = NEEDLE.min_length(distance)
    inputs, _ = NEEDLE.make(samples, distance, length, torch.Generator().manual_seed(seed))
    bias = -slopes[:, None] * torch.arange(length - 1, -1, -1)  # [heads, key]
    needle = length - 1 - distance
    others = torch.arange(length) != needle
    log_sum = bias[:, others].logsumexp(-1)  # log S

    def content(attention: SelfAttention, x: Tensor) -> Tensor:
        query, key, _ = attention.heads(x)
        return attention_trace(query[:, :, -1:], key, None).content[:, :, 0].float().cpu()  # [batch, head, key]

    layers = measure_layers(model, inputs, examples_at_once(model, length), content, last=1)
    logits = torch.stack([torch.cat(batches) for batches in layers])  # [layer, sample, head, key]
    mean_of_others = (logits[..., others] + bias[:, others]).logsumexp(-1) - log_sum
    found = logits[..., needle] - mean_of_others
    needed = log_sum - bias[:, needle]
    return found.mean(1), needed, (found - needed).sigmoid().mean(1)
