"""Where a trained model looks: how sharply, how far back, and how much of it beyond what training ever showed."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from alibi_viz.distance import causal_mask
from alibi_viz.lab.evaluation import evaluating
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions import Position
from alibi_viz.models.self_attention import SelfAttention

__all__ = ["Reach", "attention_reach", "attention_weights"]


@dataclass(frozen=True)
class Reach:
    """What attention does at one length, float32 [layers, heads] each, averaged over queries.

    Attributes:
        entropy: bits; 2^entropy is the number of keys that an even look over so many would take.
        distance: tokens back, the mean under the weights.
        beyond: share of the weight on keys further back than the training length.
    """

    entropy: Tensor
    distance: Tensor
    beyond: Tensor


def attention_weights(position: Position, query: Tensor, key: Tensor, x: Tensor | None = None) -> Tensor:
    """Causal attention weights of any position method: float32 [batch, heads, query, key].

    `query` and `key` are [batch, heads, length, head_dim] before the method transforms them, the queries being the last
    positions of the keys; `x` is what the layer reads, [batch, key, d_model].
    """
    query, key = position.transform(query, key)
    logits = (query @ key.transpose(-2, -1)).float() / math.sqrt(query.shape[-1])
    bias = position.bias(query.shape[-2], key.shape[-2], x)
    if bias is not None:
        logits = logits + bias
    hidden = ~causal_mask(query.shape[-2], key.shape[-2], device=query.device)
    return logits.masked_fill(hidden, -math.inf).softmax(-1)


def attention_reach(
    model: LanguageModel, text: Text, length: int, *, trained: int, windows: int = 8, queries: int = 32
) -> Reach:
    """Entropy, mean distance and mass beyond the `trained` length, of the last `queries` of windows of `length` bytes.

    Raises ValueError when the validation text is shorter than the windows, or the positions are not defined there.

    >>> reach = lab.attention_reach(lab.make_model(), lab.load_text(), 128, trained=32)
    >>> reach.beyond.shape, float(reach.beyond[0, 0]) < 0.01  # the steepest head, of slope 1/4, sees no further
    (torch.Size([2, 4]), True)
    """
    if windows * length > len(text.validation):
        raise ValueError(
            f"{windows} windows of {length} bytes need {windows * length:,}; "
            f"the validation part of {text.name} has {len(text.validation):,}"
        )
    seen: list[Tensor] = []

    def look(attention: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(attention, SelfAttention)
        query, key, _ = attention.heads(inputs[0])
        weights = attention_weights(attention.position, query[:, :, -queries:], key, inputs[0])
        seen.append(_measure(weights, trained))

    attentions = [module for module in model.modules() if isinstance(module, SelfAttention)]
    hooks = [attention.register_forward_pre_hook(look) for attention in attentions]
    try:
        with evaluating(model) as device:
            model(text.validation[: windows * length].long().view(windows, length).to(device))
    finally:
        for hook in hooks:
            hook.remove()
    return Reach(*torch.stack(seen, dim=1))


def _measure(weights: Tensor, trained: int) -> Tensor:
    """[3, heads]: entropy in bits, mean distance, mass beyond, for weights [batch, heads, query, key]."""
    rows, columns = weights.shape[-2:]
    device = weights.device
    distance = torch.arange(columns - rows, columns, device=device)[:, None] - torch.arange(columns, device=device)
    entropy = torch.special.entr(weights).sum(-1) / math.log(2)
    mean = (weights * distance).sum(-1)
    beyond = (weights * (distance >= trained)).sum(-1)
    return torch.stack((entropy, mean, beyond)).mean((1, 3))
