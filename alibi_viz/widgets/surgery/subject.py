"""Models to change and evaluate, of this lab and of the transformers library, with one interface."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from alibi_viz import lab
from alibi_viz.adapters import attention_layers, longest_context, pretrained_slopes
from alibi_viz.lab.interventions import has_sinks
from alibi_viz.lab.length_curve import encode, evaluated_bytes
from alibi_viz.lab.pretrained import pretrained_stats
from alibi_viz.lab.questions import SLIDING_WINDOWS, main_question
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Curves, Panel

__all__ = ["PRETRAINED_TARGETS", "Evaluation", "Pretrained", "Subject", "TrainedHere"]

PRETRAINED_TARGETS = 2048  # bytes predicted: few enough for a result while the user moves a control
STATS_LENGTH = 8  # times L: the length of the windows in which attention is measured
STATS_QUERIES = 128  # of a pretrained model, whose attention is measured in one window


@dataclass(frozen=True)
class Evaluation:
    """The losses and the attention of a model on longer windows.

    Attributes:
        losses: {length: bits per byte}, by default for windows of L to 16 L.
        targets: how many bytes were predicted at each length.
        window: the length of the windows in which attention was measured: 8 L, or the longest that is defined.
        distance: the mean distance, in tokens, of the keys that each head attends to: float32 [layers, heads].
        beyond: the share of attention on keys at least L back, the mean over all heads.
    """

    losses: dict[int, float]
    targets: int
    window: int
    distance: NDArray[np.float32]
    beyond: float


class Subject(Protocol):
    """A trained model to change, and a text to test it on."""

    length: int  # of its training windows
    unit: str  # what lengths are counted in: "bytes" or "tokens"
    name: str  # of its position method or its family
    text_name: str
    num_heads: int
    has_bias: bool  # whether there is a bias to multiply or drop
    is_rotary: bool  # whether there is a rotary rule to change
    has_sinks: bool  # whether a window may keep the first tokens

    def change(self, factors: Sequence[float], window: int | None, sinks: int, rule: str) -> nn.Module:
        """A changed copy of the model, which shares its weights."""

    def evaluate(self, model: nn.Module | None = None) -> Evaluation:
        """Evaluate the model, or a changed copy. Raises ValueError if the text is too short or the losses are NaN."""

    def panel(self, curves: Mapping[str, Curves], lengths: Sequence[int]) -> Panel:
        """The panel of the losses."""


class TrainedHere:
    """A model of this lab, which reads bytes. It is tested on windows of L to 16 L unless `lengths` are given."""

    def __init__(self, model: LanguageModel, length: int, text: lab.Text, lengths: Sequence[int] | None = None) -> None:
        self.model, self.length, self.text = model, length, text
        self.lengths = list(lengths or lab.evaluation_lengths(length))
        self.unit, self.name, self.text_name = "bytes", model.config.position, text.name
        self.num_heads = model.config.num_heads
        self.has_bias = model.transformer.position.has_bias
        self.is_rotary = model.config.position == "rotary"
        self.has_sinks = has_sinks(model)

    def change(self, factors: Sequence[float], window: int | None, sinks: int, rule: str) -> nn.Module:
        model = self.model
        if self.is_rotary and rule != "plain":
            model = lab.change_rotary_rule(model, rule, self.length)
        if self.has_bias:
            model = lab.multiply_slopes(model, factors)
        return model if window is None else lab.impose_window(model, window, sinks if self.has_sinks else 0)

    def evaluate(self, model: nn.Module | None = None) -> Evaluation:
        model = self.model if model is None else model
        assert isinstance(model, LanguageModel)
        longest = max(self.lengths)
        targets = max(lab.TARGETS, longest)
        losses = lab.loss_by_length(model, self.text, self.lengths, targets=targets)
        if lab.diverged(model, losses):
            raise ValueError("the model gives NaN instead of losses: its training has diverged")
        predicted = min(targets, len(self.text.validation) - 1) // longest * longest  # whole windows only
        limit = model.transformer.position.max_length
        window = STATS_LENGTH * self.length if limit is None else min(STATS_LENGTH * self.length, limit)
        stats = lab.attention_stats(model, self.text, window, trained=self.length, windows=4)
        return Evaluation(losses, predicted, window, stats.distance.numpy(), float(stats.beyond.mean()))

    def panel(self, curves: Mapping[str, Curves], lengths: Sequence[int]) -> Panel:
        return main_question("text").layout(curves, self.length, lengths, {})


class Pretrained:
    """A BLOOM, MPT or Falcon model of the transformers library. Raises ValueError for another one.

    `text` is that of `lab.length_curve`. The model is tested on windows of L to 16 L unless `lengths` are given.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        length: int,
        text: str | bytes | Path | None,
        lengths: Sequence[int] | None = None,
    ) -> None:
        self.model, self.tokenizer, self.length, self.text = model, tokenizer, length, text
        self.lengths = list(lengths or lab.evaluation_lengths(length))
        self.name, layers = attention_layers(model)
        self.unit, self.text_name = "tokens", evaluated_bytes(text)[0].name
        self.num_heads = len(pretrained_slopes(self.name, layers[0]))
        self.has_bias, self.is_rotary, self.has_sinks = True, False, True

    def change(self, factors: Sequence[float], window: int | None, sinks: int, rule: str) -> nn.Module:
        return lab.change_attention(self.model, factors, window=window, sinks=0 if window is None else sinks)

    def evaluate(self, model: nn.Module | None = None) -> Evaluation:
        model = self.model if model is None else model
        limit = longest_context(model)
        stride = max(1, min(self.lengths) // 2)
        table = lab.length_curve(
            model,
            self.tokenizer,
            self.text,
            self.lengths,
            targets=PRETRAINED_TARGETS,
            stride=stride,
            trained=self.length,
        )
        losses: dict[int, float] = dict(zip(table["x"].tolist(), table["value"].tolist(), strict=True))
        if all(map(math.isnan, losses.values())):
            raise ValueError(f"the model has {limit} positions; lengths must be no longer, got {[*losses]}")
        defined = [length for length, bits in losses.items() if not math.isnan(bits)]
        window = min(STATS_LENGTH * self.length, max(defined))
        ids = encode(model, self.tokenizer, evaluated_bytes(self.text)[1])[None, -window:]
        device = next(model.parameters()).device
        stats = pretrained_stats(model, ids.to(device), trained=self.length, queries=STATS_QUERIES)
        beyond = float(torch.nanmean(stats.beyond))
        return Evaluation(losses, int(table["count"].iloc[0]), window, stats.distance.numpy(), beyond)

    def panel(self, curves: Mapping[str, Curves], lengths: Sequence[int]) -> Panel:
        return SLIDING_WINDOWS.layout(curves, self.length, lengths, {})
