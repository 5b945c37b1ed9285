"""Check a model of the transformers library: is ALiBi on, and is it right?"""

import inspect
import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from alibi_viz.arguments import (
    check_instance,
    check_integer,
    check_positive,
    check_positive_integers,
)
from alibi_viz.check.checks import examine_attention
from alibi_viz.check.gallery import EXHIBITS
from alibi_viz.check.probe import SHORT, AttentionReader, probes
from alibi_viz.check.report import Report
from alibi_viz.check.rules import Expectation
from alibi_viz.models.pretrained import evaluation_mode, hooked, longest_context
from alibi_viz.slopes import alibi_slopes

# Names of the projection to queries, keys and values, and of the output projection. The first holds
# them per head or per kind: its last axis is (heads, 3, head_dim) or (3, heads, head_dim). The
# number is where the 3 goes.
_PROJECTIONS = [
    ("query_key_value", "dense", 3),  # BLOOM, Falcon, GPT-NeoX
    ("Wqkv", "out_proj", 2),  # MPT
]
_HEADS = ("num_attention_heads", "n_heads", "n_head")


def model(model: nn.Module, layer: int = 0, *, length: int = 300, seconds: float = 60.0) -> Report:
    """Check the attention of one layer, as the model runs it: with its own mask, cache, dtype and
    implementation.

    Its queries, keys and values are replaced by chosen ones, and the input of its output projection
    is read. So the weights don't matter, and a tiny model with random weights shows what a large
    one does.

    Args:
        model: a BLOOM, MPT, Falcon or GPT-NeoX model of transformers, with or without its head,
            whose heads have keys of their own. What the weights of its family were trained with is
            a note of the report, not a fault: Falcon divides its bias by sqrt(head_dim), and Falcon
            and BLOOM-176B round it to bfloat16.
        layer: index of the layer, from 0.
        length: the longest length to try, beside 16; no longer than the model allows.
        seconds: time limit of a call.

    Raises TypeError if `model` is not a module or `layer` not an integer, and ValueError if it has
    no such layer, shares keys between heads, is quantized, or allows fewer than 16 tokens;
    MemoryError for too long a `length`.
    """
    check_instance("model", model, nn.Module)
    config: Any = getattr(model, "config", None)
    heads = next((int(getattr(config, name)) for name in _HEADS if hasattr(config, name)), 0)
    layers = _find_layers(model, heads)
    check_integer("layer", layer, 0, len(layers) - 1)
    check_positive("seconds", seconds)
    check_positive_integers(length=length)
    if not heads:
        raise ValueError(
            f"the model's config must have one of {', '.join(_HEADS)}, got {type(config).__name__}"
        )
    attention, parameter = layers[layer], next(model.parameters())
    if not isinstance(weight := attention.inputs.weight, Tensor):
        raise ValueError(
            "the projections must have plain weights, not quantized ones, got "
            f"{type(attention.inputs)}"
        )
    if (width := len(weight)) != (expected := 3 * heads * attention.head_dim):
        raise ValueError(
            f"the projection must return {expected} numbers, as keys aren't shared by heads, got "
            f"{width}"
        )
    subject, family = (
        f"{type(model).__name__}, layer {layer}",
        str(getattr(config, "model_type", "")),
    )
    trained = {exhibit.fault: exhibit for exhibit in EXHIBITS if family in exhibit.trained}
    half = (
        bool(trained) and parameter.dtype != torch.float32
    )  # the sum of q . k and the bias is rounded too

    def examine(length: int, divisor: float, read_dtype: torch.dtype) -> Report:
        """Compare with the official slopes, divided by `divisor`."""
        sizes = "bhld", attention.head_dim, parameter.dtype
        reader = AttentionReader(
            attention, *sizes, lambda tensor: tensor.to(parameter.device), seconds, read_dtype
        )
        expected = Expectation(lambda num_heads: alibi_slopes(num_heads).double() / divisor)
        return examine_attention(
            reader, subject, probes([heads], True, length), expected, padding=True
        )

    if (longest := longest_context(model) or max(length, SHORT)) < SHORT:
        raise ValueError(f"the model must allow {SHORT} tokens, got {longest}")
    whose = (
        "right for BLOOM-176B; smaller ones had float16"
        if family == "bloom"
        else "right for these weights"
    )
    with torch.device("cpu"):
        report = examine(min(length, longest), 1.0, torch.bfloat16 if half else torch.float32)
        found = {finding.name: finding for finding in report.findings}
        if (
            half
        ):  # rounded logits differ more, the longer the text: what follows looks at a short one
            found.pop("unknown fault", None)
        notes = [
            f"Differs from the paper; {whose}: {exhibit.effect} ({exhibit.system}, "
            f"{exhibit.source})"
            for name, exhibit in trained.items()
            if name in found
        ]
        # These differences can hide faults, so compare also with what the weights were trained with
        if trained:
            divisor = math.sqrt(attention.head_dim) if "bias before scaling" in trained else 1.0
            found |= {
                finding.name: finding
                for finding in examine(SHORT, divisor, torch.bfloat16).findings
            }
    if (bias_max := getattr(getattr(config, "attn_config", None), "alibi_bias_max", 8)) != 8:
        notes.append(
            f"The config asks for a flattest slope of 2^-{bias_max}; transformers has 2^-8 all "
            "the same"
        )
    findings = [finding for name, finding in found.items() if name not in trained]
    report = Report(subject, findings, comparison=report.comparison if findings else None)
    seen = f", judged by {SHORT} tokens, as longer texts are rounded more" * half
    of = f"({family}, {heads} heads of size {attention.head_dim}{seen})"
    return replace(report, notes=[f"{_state(report)} {of}.", *notes])


def _state(report: Report) -> str:
    names = {finding.name for finding in report.findings}
    if "no bias" in names:
        return "ALiBi is off: the layer adds no bias"
    failed = names & {"raises an error", "does not finish"} and report.comparison is None
    return (
        "Calls of the layer failed"
        if failed
        else "ALiBi is on" + ", with the official slopes" * report.ok
    )


@dataclass(frozen=True)
class _Layer:
    """The attention of one layer as a function of q, k, v [batch, heads, length, head_dim]."""

    model: Any
    inputs: Any  # the projection to queries, keys and values
    output: Any
    axis: int  # of these three, in [batch, length, heads, head_dim]
    heads: int

    @property
    def head_dim(self) -> int:
        return int(self.output.weight.shape[1]) // self.heads  # [out, in]

    @torch.no_grad()
    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        before, cache = key.shape[2] - query.shape[2], {}
        with evaluation_mode(self.model):
            # The first keys go into the cache, which has had two names; their queries don't matter
            if before:
                first = torch.zeros_like(query[:, :, :1]).expand(-1, -1, before, -1)
                name = (
                    "cache"
                    if "cache" in inspect.signature(self.model.forward).parameters
                    else "past_key_values"
                )
                cache = {
                    name: getattr(
                        self._run((first, key[:, :, :before], value[:, :, :before]))[0], name
                    )
                }
            _, output = self._run((query, key[:, :, before:], value[:, :, before:]), mask, **cache)
        return output.unflatten(-1, (query.shape[1], -1)).transpose(1, 2)

    def _run(
        self, inputs: tuple[Tensor, ...], mask: Tensor | None = None, **cache: Any
    ) -> tuple[Any, Tensor]:
        """Run the model with these queries, keys and values; its output, and the input of the
        output projection."""
        captured: list[Tensor] = []
        parts = [tensor.transpose(1, 2) for tensor in inputs]  # [batch, length, heads, head_dim]
        projected = torch.stack(parts, dim=self.axis).flatten(2)
        ids = torch.zeros(parts[0].shape[:2], dtype=torch.long, device=parts[0].device)
        real = None if mask is None else mask.long()
        with (
            self.inputs.register_forward_hook(lambda *_: projected),
            hooked([self.output], lambda _module, arguments, _: captured.append(arguments[0])),
        ):
            output = self.model(input_ids=ids, attention_mask=real, use_cache=True, **cache)
        return output, captured[0]


def _find_layers(model: nn.Module, heads: int) -> list[_Layer]:
    base = getattr(model, "base_model", model)  # without the head, whose logits would be large
    layers = []
    for module in model.modules():
        for inputs, output, axis in _PROJECTIONS:
            first, last = getattr(module, inputs, None), getattr(module, output, None)
            if isinstance(first, nn.Module) and isinstance(last, nn.Module):
                layers.append(_Layer(base, first, last, axis, heads))
    if not layers:
        known = "; ".join(f"{inputs}, {output}" for inputs, output, _ in _PROJECTIONS)
        raise ValueError(
            f"{type(model).__name__} has no attention layer with one of these projections: {known}"
        )
    return layers
