"""Measure where a trained model attends: how sharply, how far back, how much beyond L."""

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from alibi_viz.arguments import check_instance, check_positive_integers
from alibi_viz.attention import attention_trace
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.attention.skipping.spans import attention_spans, share_left_out
from alibi_viz.bias import right_aligned
from alibi_viz.data.text import Text, check_long_enough
from alibi_viz.measure.attention_sources import AttentionSource, as_source
from alibi_viz.measure.losses import MAX_BATCH_TOKENS, evaluating
from alibi_viz.models import LanguageModel, SelfAttention
from alibi_viz.models.positions.biases import is_plain_alibi
from alibi_viz.models.pretrained import base_model, family_of, hooked

NAME_CONTEXT = 256  # letters that a model reads before a name
LONGEST = 4096  # tokens that `window_table` reads
# Weights of `window_table` that are computed at a time, to bound the memory. Results don't depend
# on it.
TRACED_WEIGHTS = 2**23


@dataclass(frozen=True)
class AttentionStats:
    """Statistics of attention at one length, averaged over queries.

    Each is float32 [layers, heads].

    The denominator of a row is the sum of exp(logit - largest logit), which is 1 / (largest
    weight). If all keys have equal content, it is their number without a bias, and less than 1 / (1
    - e^-m) with ALiBi, however many they are. We average its logarithm, because a few rows with a
    large denominator would dominate the mean of the denominators.
    """

    distance: Tensor  # mean distance of the attended keys, in tokens back, weighted by attention
    beyond: Tensor  # share of the weight on keys at least the training length back
    # log2 of the softmax's denominator, with the row's largest logit subtracted
    denominator_bits: Tensor


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
    """Measure the attention of the last positions in sequences of validation text.

    Args:
        model: a byte-level model.
        text: a text, whose validation part the model reads.
        length: of the sequences, in bytes.
        trained: the training length, in bytes.
        windows: how many sequences.
        queries: how many positions at the end of each sequence.
        spacing: a sequence ends every `spacing` bytes, by default every `length`. With the same
            spacing, sequences of different lengths have the same queries.

    Raises ValueError if a number is not an integer of at least 1, the validation text is too short
    for the sequences, or these are longer than the spacing or than the model's positions.

    >>> from alibi_viz import lab
    >>> from alibi_viz.measure.attention_statistics import attention_stats
    >>> stats = attention_stats(lab.make_model("alibi"), lab.load_text(), 64, trained=32)
    >>> stats.distance.shape  # layers, heads
    torch.Size([2, 4])
    """
    check_instance("model", model, LanguageModel)
    check_instance("text", text, Text)
    if spacing is None:
        spacing = length
    check_positive_integers(
        length=length, trained=trained, windows=windows, queries=queries, spacing=spacing
    )
    check_long_enough(text, windows * spacing, f"for {windows} sequences of {spacing:,} bytes")
    if length > spacing:
        raise ValueError(f"spacing must be at least the length {length}, got {spacing}")

    tokens = text.validation[: windows * spacing].long().view(windows, spacing)[:, -length:]
    stats: list[Tensor] = []  # of each layer in turn, for each batch

    def measure(attention: SelfAttention, args: Any, _: Any) -> None:
        x = args[0]
        query, key, _ = attention.heads(x)
        weights = attention.position.weights(
            query[:, :, -queries:], key, causal=attention.causal, x=x
        )
        stats.append(weight_stats(weights, trained))

    layers = [module for module in model.modules() if isinstance(module, SelfAttention)]
    with hooked(layers, measure), evaluating(model) as device:
        for batch in tokens.to(device).split(max(1, MAX_BATCH_TOKENS // length)):
            model(batch, last=queries)

    # [layers, 3, heads]
    means = [torch.cat(stats[layer :: len(layers)]).mean(0) for layer in range(len(layers))]
    return AttentionStats(*torch.stack(means).unbind(1))


def pretrained_stats(
    model: nn.Module, input_ids: Tensor, *, trained: int, queries: int = 32
) -> AttentionStats:
    """`attention_stats` of a BLOOM, MPT or Falcon model of transformers, changed or not.

    Args:
        model: the model, with or without its head.
        input_ids: the sequences, int64 [batch, length].
        trained: the training length, in tokens.
        queries: how many positions at the end of each sequence.

    Raises ValueError for a model of another family.
    """
    family = family_of(model)
    stats: list[Tensor] = []

    def measure(attention: nn.Module, args: Any, inputs: dict[str, Any]) -> None:
        query, key, _ = family.project(attention, args[0])
        query = query.float()[:, :, -queries:]
        key = key.float()
        bias, visible = family.read(attention, inputs)

        content = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        logits = content + bias[:, :, -queries:]
        logits = logits.masked_fill(~visible[:, :, -queries:], -math.inf)
        stats.append(weight_stats(logits.softmax(-1), trained))

    with hooked(family.layers(model), measure), evaluating(model):
        base_model(model)(input_ids, use_cache=False)
    return AttentionStats(*torch.stack(stats).cpu().mean(1).unbind(1))


def weight_stats(weights: Tensor, trained: int) -> Tensor:
    """The fields of `AttentionStats` in order, float32 [batch, 3, heads].

    They are means over the queries of weights [batch, heads, query, key].
    """
    query_length, key_length = weights.shape[-2:]
    queries, keys = right_aligned(query_length, key_length, device=weights.device)
    distance = (queries[:, None] - keys).abs()

    mean_distance = (weights * distance).sum(-1)
    beyond = (weights * (distance >= trained)).sum(-1)
    denominator_bits = -weights.amax(-1).log2()
    return torch.stack((mean_distance, beyond, denominator_bits), dim=1).mean(-1)


def name_leads(model: LanguageModel, text: Text, names: pd.DataFrame) -> pd.DataFrame:
    """How well each head of a model with ALiBi hears a name, just before the text tells it again.

    The query is the letter before the name, with 256 letters of context. The lead of the name is
    the content, q . k / sqrt(d), of the best letter of its earlier mention, minus the mean over all
    keys.

    Args:
        model: a byte-level model with ALiBi.
        text: a text, whose validation part the model reads.
        names: rows of `text.facts` that were last told within 256 letters.

    Returns one row per "layer" and "head", counted from 1, with means over the names: the "lead",
    and the "share" of the weight that all letters of the earlier mention get. Raises ValueError for
    a model with other positions.

    >>> from alibi_viz import lab
    >>> text = lab.load_text()
    >>> names = text.facts.query("start >= 256 and 80 <= distance <= 120").head(2)
    >>> name_leads(lab.make_model("alibi"), text, names).columns.to_list()
    ['layer', 'head', 'lead', 'share']
    """
    position = model.transformer.position
    if not is_plain_alibi(position):
        raise ValueError(f"model must have position 'alibi', got {model.config.method!r}")

    slopes: Any = position.slopes
    context = torch.arange(-NAME_CONTEXT, 0)
    starts = torch.tensor(names["start"].to_list())
    tokens = text.validation[starts[:, None] + context].long()
    # Which keys are letters of the earlier mention: [name, 1, key]
    back = torch.tensor((names["start"] - names["told"]).to_list())[:, None]
    letters = torch.tensor((names["stop"] - names["start"]).to_list())[:, None]
    since_told = context + back
    is_name = ((since_told >= 0) & (since_told < letters))[:, None]

    tables: list[pd.DataFrame] = []

    def measure(attention: SelfAttention, args: Any, _: Any) -> None:
        query, key, _ = attention.heads(args[0])
        trace = attention_trace(query[:, :, -1:], key, slopes)
        content = trace.content[:, :, 0]  # [name, head, key]
        best = content.masked_fill(~is_name, -math.inf).amax(-1)
        lead = best - content.mean(-1)
        share = (trace.weights[:, :, 0] * is_name).sum(-1)
        columns = {
            "layer": len(tables) + 1,
            "head": range(1, query.shape[1] + 1),
            "lead": lead.mean(0).tolist(),
            "share": share.mean(0).tolist(),
        }
        tables.append(pd.DataFrame(columns))

    layers = [module for module in model.modules() if isinstance(module, SelfAttention)]
    with hooked(layers, measure), evaluating(model):
        model(tokens, last=1)
    return pd.concat(tables, ignore_index=True)


def window_table(source: AttentionSource | LanguageModel, text: str) -> pd.DataFrame:
    """The span of each head: how many steps back it looks in a text.

    Attention is causal and in float32. Beyond a head's span, all keys together have at most 2^-24
    of the weight of every query, which float32 loses.

    Args:
        source: a `LanguageModel` with ALiBi, a `lab.PretrainedModel`, or another source of
            `AttentionExplorer`.
        text: at most 4,096 of its tokens are read, which take about a second per layer of 8 heads.

    Returns one row per layer (or other "content" of the source) and "head", counted from 1, with
    its "slope"; "bound", the span that `alibi_attention` finds without computing the weights;
    "needed", the smallest span, read from the weights; and "left_out", the share of the pairs of
    query and key beyond the bound. Raises TypeError for another source, and ValueError for an empty
    text and a model without ALiBi.

    >>> from alibi_viz import lab
    >>> from alibi_viz.measure.attention_sources import Words
    >>> table = lab.window_table(Words(), "word " * 1000)
    >>> table.iloc[::4].round(3)
              content  head  slope  bound  needed  left_out
    0  random vectors     1  0.500     37      33     0.925
    4  random vectors     5  0.031    581     532     0.175
    """
    check_instance("text", text, str)
    source = as_source(source)
    num_heads = source.num_heads
    inputs = source.run(text, LONGEST)
    tables = []
    for content in source.contents:
        reading = source.reading(inputs, content)
        query = reading.query.float()
        key = reading.key.float()
        attention = AttentionInputs.checked(query, key, key, reading.slopes)
        length = len(reading.tokens)
        bounds = attention_spans(attention).clamp(max=length - 1).tolist()

        needed = [0] * num_heads
        queries_at_once = max(1, TRACED_WEIGHTS // (num_heads * length))
        for start in range(0, length, queries_at_once):
            end = start + queries_at_once
            trace = attention_trace(query[:, :, start:end], key[:, :, :end], attention.slopes)
            needed = [max(spans) for spans in zip(needed, trace.spans(), strict=True)]

        columns = {
            "content": content,
            "head": range(1, num_heads + 1),
            "slope": reading.slopes.tolist(),
            "bound": bounds,
            "needed": needed,
            "left_out": [share_left_out(attention, (bound,)) for bound in bounds],
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)
