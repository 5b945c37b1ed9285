"""Where a trained model attends: how sharply, how far back, and how much beyond its training length."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from alibi_viz.distance import right_aligned
from alibi_viz.lab.evaluation import evaluating
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel, SelfAttention

__all__ = ["AttentionStats", "attention_stats", "weight_stats"]


@dataclass(frozen=True)
class AttentionStats:
    """Statistics of attention at one length, averaged over queries; each is float32 [layers, heads]."""

    entropy: Tensor  # in bits; 2^entropy is the effective number of keys attended to
    distance: Tensor  # mean distance of the attended keys, in tokens back, weighted by attention
    beyond: Tensor  # share of the weight on keys further back than the training length


def attention_stats(
    model: LanguageModel, text: Text, length: int, *, trained: int, windows: int = 8, queries: int = 32
) -> AttentionStats:
    """Measure the attention of the last `queries` positions in windows of `length` bytes of the validation text.

    `trained` is the training length. Raises ValueError when the validation text is shorter than the windows, or the
    model's positions are not defined at `length`.

    >>> stats = lab.attention_stats(lab.make_model(), lab.load_text(), 128, trained=32)
    >>> stats.beyond.shape, float(stats.beyond[0, 0]) < 0.01  # the steepest head, with slope 1/4, attends nearby
    (torch.Size([2, 4]), True)
    """
    if windows * length > len(text.validation):
        raise ValueError(
            f"{windows} windows of {length} bytes need {windows * length:,}; "
            f"the validation part of {text.name} has {len(text.validation):,}"
        )
    layers: list[Tensor] = []

    def measure(attention: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(attention, SelfAttention)
        query, key, _ = attention.heads(inputs[0])
        layers.append(weight_stats(attention.position.weights(query[:, :, -queries:], key, x=inputs[0]), trained))

    attentions = [module for module in model.modules() if isinstance(module, SelfAttention)]
    hooks = [attention.register_forward_pre_hook(measure) for attention in attentions]
    try:
        with evaluating(model) as device:
            model(text.validation[: windows * length].long().view(windows, length).to(device))
    finally:
        for hook in hooks:
            hook.remove()
    return AttentionStats(*torch.stack(layers, dim=1))


def weight_stats(weights: Tensor, trained: int) -> Tensor:
    """[3, heads]: entropy in bits, mean distance and share beyond `trained`, for weights [batch, heads, query, key]."""
    queries, keys = right_aligned(*weights.shape[-2:], device=weights.device)
    distance = queries[:, None] - keys
    entropy = torch.special.entr(weights) / math.log(2)
    return torch.stack((entropy, weights * distance, weights * (distance >= trained))).sum(-1).mean((1, 3))
