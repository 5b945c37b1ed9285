"""Where a trained model attends: how sharply, how far back, how much beyond its training length and to its start."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from alibi_viz.distance import right_aligned
from alibi_viz.lab.evaluation import MAX_BATCH_TOKENS, evaluating
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel, SelfAttention

__all__ = ["SINKS", "AttentionStats", "attention_stats", "weight_stats"]


SINKS = 4  # as in StreamingLLM (Xiao et al. 2023, arXiv 2309.17453)


@dataclass(frozen=True)
class AttentionStats:
    """Statistics of attention at one length, averaged over queries; each is float32 [layers, heads].

    The denominator of a row is the sum of exp(logit - largest logit), which is 1 / (largest weight). If all keys have
    equal content it is their number, and with ALiBi below 1 / (1 - e^-m) for any number of keys. We average its
    logarithm, because a few rows with a large denominator would dominate the mean of the denominators.
    """

    entropy: Tensor  # in bits; 2^entropy is the effective number of keys attended to
    distance: Tensor  # mean distance of the attended keys, in tokens back, weighted by attention
    beyond: Tensor  # share of the weight on keys at least the training length back
    denominator_bits: Tensor  # log2 of the softmax's denominator, with the row's largest logit subtracted
    sinks: Tensor  # share of the weight on the first `SINKS` tokens of the text


def attention_stats(
    model: LanguageModel,
    text: Text,
    length: int,
    *,
    trained: int,
    windows: int = 8,
    queries: int = 32,
    spacing: int | None = None,
) -> AttentionStats:
    """Measure the attention of the last `queries` positions in windows of `length` bytes of the validation text.

    Args:
        model, text: a byte-level model, and a text whose validation part it reads.
        length: of the windows, in bytes.
        trained: the training length.
        windows, queries: how many windows, and how many positions at the end of each.
        spacing: a window ends every `spacing` bytes; every `length` bytes by default. With the same spacing, windows of
            several lengths have the same queries.

    Raises ValueError when the validation text is shorter than the windows, the windows are longer than the spacing, or
    the model's positions are not defined at `length`.

    >>> stats = lab.attention_stats(lab.make_model(), lab.load_text(), 128, trained=32)
    >>> stats.beyond.shape, float(stats.beyond[0, 0]) < 0.01  # the steepest head, with slope 1/4, attends nearby
    (torch.Size([2, 4]), True)
    """
    spacing = length if spacing is None else spacing
    if windows * spacing > len(text.validation):
        raise ValueError(
            f"{windows} windows of {spacing} bytes need {windows * spacing:,}; "
            f"the validation part of {text.name} has {len(text.validation):,}"
        )
    if length > spacing:
        raise ValueError(f"spacing must be at least the length {length}, got {spacing}")
    tokens = text.validation[: windows * spacing].long().view(windows, spacing)[:, -length:]
    layers: list[Tensor] = []

    def measure(attention: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(attention, SelfAttention)
        query, key, _ = attention.heads(inputs[0])
        layers.append(weight_stats(attention.position.weights(query[:, :, -queries:], key, x=inputs[0]), trained))

    attentions = [module for module in model.modules() if isinstance(module, SelfAttention)]
    hooks = [attention.register_forward_pre_hook(measure) for attention in attentions]
    try:
        with evaluating(model) as device:
            batches = tokens.to(device).split(max(1, MAX_BATCH_TOKENS // length))
            for batch in batches:
                model(batch, last=queries)
    finally:
        for hook in hooks:
            hook.remove()
    shares = torch.tensor([len(batch) / windows for batch in batches], device=device)
    stats = torch.stack(layers, dim=1).unflatten(1, (len(batches), -1))  # [statistic, batch, layer, head]
    return AttentionStats(*(stats * shares[:, None, None]).sum(1))


def weight_stats(weights: Tensor, trained: int) -> Tensor:
    """[5, heads]: the statistics of `AttentionStats` in their order, for weights [batch, heads, query, key]."""
    queries, keys = right_aligned(*weights.shape[-2:], device=weights.device)
    distance = queries[:, None] - keys
    entropy = torch.special.entr(weights) / math.log(2)
    shares = (weights * distance, weights * (distance >= trained), weights * (keys < SINKS))
    entropy, mean_distance, beyond, sinks = torch.stack((entropy, *shares)).sum(-1).mean((1, 3))
    return torch.stack((entropy, mean_distance, beyond, -weights.amax(-1).log2().mean((0, 2)), sinks))
