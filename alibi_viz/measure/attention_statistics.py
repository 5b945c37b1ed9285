"""Where a trained model attends: how sharply, how far back, how much beyond its training length and
to its start."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from alibi_viz.arguments import check_instance, check_positive_integers
from alibi_viz.attention import attention_trace
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.attention.skipping.spans import attention_spans, share_left_out
from alibi_viz.bias import right_aligned
from alibi_viz.data.text import Text
from alibi_viz.measure.attention_sources import AttentionSource, Reading, as_source, readings
from alibi_viz.measure.losses import MAX_BATCH_TOKENS, evaluating, needed_memory
from alibi_viz.memory import check_memory
from alibi_viz.models import LanguageModel, SelfAttention
from alibi_viz.models.pretrained import base_model, family_of, hooked

_TRACED = 2**23  # weights of `window_table` computed at a time, to bound the memory; speed only


@dataclass(frozen=True)
class AttentionStats:
    """Statistics of attention at one length, averaged over queries; each is float32 [layers,
    heads].

    The denominator of a row is the sum of exp(logit - largest logit), which is 1 / (largest
    weight). If all keys have equal content, it is their number without a bias, and less than 1 / (1
    - e^-m) with ALiBi, however many they are. We average its logarithm, because a few rows with a
    large denominator would dominate the mean of the denominators.
    """

    distance: Tensor  # mean distance of the attended keys, in tokens back, weighted by attention
    beyond: Tensor  # share of the weight on keys at least the training length back
    denominator_bits: (
        Tensor  # log2 of the softmax's denominator, with the row's largest logit subtracted
    )


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
    """Measure the attention of the last `queries` positions in sequences of `length` bytes of
    validation text.

    Args:
        model, text: a byte-level model, and a text whose validation part it reads.
        length, trained: of the sequences and in training, in bytes.
        windows, queries: how many sequences, and how many positions at the end of each.
        spacing: a sequence ends every `spacing` bytes, by default every `length`. An equal one
            gives equal queries.

    Raises ValueError if a number is not an integer of at least 1, the validation text is too short
    for the sequences, these are longer than the spacing or than the model's positions, and
    MemoryError if they need too much memory.
    """
    check_instance("model", model, LanguageModel)
    check_instance("text", text, Text)
    spacing = length if spacing is None else spacing
    check_positive_integers(
        length=length, trained=trained, windows=windows, queries=queries, spacing=spacing
    )
    if windows * spacing > len(text.validation):
        has = f"the validation part of {text.name} has {len(text.validation):,}"
        raise ValueError(
            f"{windows} sequences of {spacing} bytes need {windows * spacing:,}; {has}"
        )
    if length > spacing:
        raise ValueError(f"spacing must be at least the length {length}, got {spacing}")
    check_memory("length", length, partial(needed_memory, model))
    tokens = text.validation[: windows * spacing].long().view(windows, spacing)[:, -length:]
    stats: list[Tensor] = []

    def measure(attention: SelfAttention, args: Any, _: Any) -> None:
        query, key, _ = attention.heads(args[0])
        weights = attention.position.weights(
            query[:, :, -queries:], key, causal=attention.causal, x=args[0]
        )
        stats.append(weight_stats(weights, trained))

    layers = [module for module in model.modules() if isinstance(module, SelfAttention)]
    with hooked(layers, measure), evaluating(model) as device:
        for batch in tokens.to(device).split(max(1, MAX_BATCH_TOKENS // length)):
            model(batch, last=queries)
    means = [torch.cat(stats[layer :: len(layers)]).mean(0) for layer in range(len(layers))]
    return AttentionStats(*torch.stack(means).unbind(1))


def pretrained_stats(
    model: nn.Module, input_ids: Tensor, *, trained: int, queries: int = 32
) -> AttentionStats:
    """`attention_stats` of a BLOOM, MPT or Falcon model, changed or not, in the sequences
    `input_ids`, [batch, length].

    `trained` is the training length in tokens. Raises ValueError for a model of another family.
    """
    family = family_of(model)
    stats: list[Tensor] = []

    def measure(attention: nn.Module, args: Any, inputs: dict[str, Any]) -> None:
        query, key, _ = (each.float() for each in family.project(attention, args[0]))
        bias, visible = family.read(attention, inputs)
        logits = (
            query[:, :, -queries:] @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
            + bias[:, :, -queries:]
        )
        stats.append(
            weight_stats(
                logits.masked_fill(~visible[:, :, -queries:], -math.inf).softmax(-1), trained
            )
        )

    with hooked(family.layers(model), measure), evaluating(model):
        base_model(model)(input_ids, use_cache=False)
    return AttentionStats(*torch.stack(stats).cpu().mean(1).unbind(1))


def weight_stats(weights: Tensor, trained: int) -> Tensor:
    """[batch, 3, heads]: the fields of `AttentionStats`, in order, for weights [batch, heads,
    query, key]."""
    queries, keys = right_aligned(*weights.shape[-2:], device=weights.device)
    distance = (queries[:, None] - keys).abs()
    mean, beyond = ((weights * each).sum(-1) for each in (distance, distance >= trained))
    return torch.stack((mean, beyond, -weights.amax(-1).log2()), dim=1).mean(-1)


def window_table(
    source: AttentionSource | LanguageModel, text: str, *, num_heads: int = 8, longest: int = 4096
) -> pd.DataFrame:
    """The span of each head, which is how many steps back it looks in a text, with causal attention
    in float32.

    Beyond a head's span, all keys together have at most 2^-24 of the weight of every query, which
    float32 loses.

    Args:
        source: a `LanguageModel` with ALiBi, a `lab.PretrainedModel`, or another source of
            `AttentionExplorer`.
        text: at most `longest` of its tokens are read; 4,096 take about a second per layer of 8
            heads.
        num_heads: for a source that can have any number of heads.

    Returns one row per layer (or other "content" of the source) and "head", counted from 1, with
    its "slope"; "bound", the span that `alibi_attention` finds without computing the weights;
    "needed", the smallest span, read from the weights; and "left_out", the share of the pairs of
    query and key beyond the bound. Raises TypeError for another source, and ValueError for an empty
    text, a model without ALiBi, and numbers below 1.

    >>> from alibi_viz.measure.attention_sources import Words
    >>> table = lab.window_table(Words(), "word " * 1000, num_heads=2)
    >>> table[table.content == "equal"].round(3)
      content  head  slope  bound  needed  left_out
    2   equal     1  0.062    291     266     0.501
    3   equal     2  0.004    999     999     0.000
    """
    check_positive_integers(num_heads=num_heads, longest=longest)
    check_instance("text", text, str)
    source = as_source(source)
    every = readings(source, text, source.num_heads or num_heads, longest)
    tables = {
        content: head_spans(reading)
        for content, reading in zip(source.contents, every, strict=True)
    }
    return pd.concat(tables, names=["content"]).reset_index("content").reset_index(drop=True)


def head_spans(reading: Reading) -> pd.DataFrame:
    """The columns of `window_table` except "content", for what one layer has read."""
    query, key = reading.query.float(), reading.key.float()
    heads, length = query.shape[1:3]
    inputs = AttentionInputs.checked(query, key, key, reading.slopes)
    bound = attention_spans(inputs).clamp(max=length - 1).tolist()
    step = max(1, _TRACED // (heads * length))  # queries traced at a time
    parts = (slice(start, start + step) for start in range(0, length, step))
    spans = [
        attention_trace(query[:, :, part], key[:, :, : part.stop], inputs.slopes).spans()
        for part in parts
    ]
    needed = [max(of_head) for of_head in zip(*spans, strict=True)]
    table = pd.DataFrame(
        {"head": range(1, heads + 1), "slope": reading.slopes.tolist(), "bound": bound}
    )
    return table.assign(needed=needed, left_out=[share_left_out(inputs, (span,)) for span in bound])
