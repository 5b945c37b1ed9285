"""Check a model of the transformers library: is ALiBi on, and is it right?"""

import inspect
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from alibi_viz.arguments import (
    check_instance,
    check_integer,
    check_positive,
    check_positive_integers,
)
from alibi_viz.check.call import CannotCheck, Unusable, on_the_cpu
from alibi_viz.check.checks import examine
from alibi_viz.check.detect import Sample, Sweep
from alibi_viz.check.expected import Expected
from alibi_viz.check.explain import explain_bias
from alibi_viz.check.fault_table import rounded_to
from alibi_viz.check.gallery import EXHIBITS, Exhibit
from alibi_viz.check.plan import CONTIGUOUS, SHORT, Call, Probe, attention_calls
from alibi_viz.check.probe import AttentionReader, precision_of
from alibi_viz.check.report import Report
from alibi_viz.check.words import alternatives
from alibi_viz.models.pretrained import evaluation_mode, hooked, longest_context
from alibi_viz.slopes import alibi_slopes

_HEADS = ("num_attention_heads", "n_heads", "n_head")  # names of the field of a configuration


@dataclass(frozen=True)
class _Projections:
    """Names of the projection to queries, keys and values, and of the output projection.

    The first returns them per head or per kind: its last axis is (heads, 3, head_dim), with the 3
    on axis 3 of [batch, length, ...], or (3, heads, head_dim), with the 3 on axis 2.
    """

    inputs: str
    output: str
    axis: int


_PROJECTIONS = [
    _Projections("query_key_value", "dense", axis=3),  # BLOOM, Falcon, GPT-NeoX
    _Projections("Wqkv", "out_proj", axis=2),  # MPT
]


def model(model: nn.Module, layer: int = 0, *, length: int = 300, seconds: float = 60.0) -> Report:
    """Check the attention of every layer, as the model runs it.

    That is with its own mask, cache, dtype and implementation.

    The queries, keys and values of each layer are replaced by chosen ones, and the input of its
    output projection is read. So the weights don't matter, and a tiny model with random weights
    shows what a large one does. One layer is examined. The others get the same, so they must return
    the same, and the first that doesn't is examined, too.

    Args:
        model: a BLOOM, MPT, Falcon or GPT-NeoX model of transformers, with or without its head,
            whose heads have keys of their own. What the weights of its family were trained with is
            a note of the report, not a fault: Falcon divides its bias by sqrt(head_dim), and Falcon
            and BLOOM-176B round it to bfloat16.
        layer: index of the layer that is examined, from 0.
        length: the longest length to try, beside 16; no longer than the model allows.
        seconds: time limit of a call.

    Raises TypeError if `model` is not a module or `layer` not an integer, and ValueError if it has
    no such layer, shares keys between heads, is quantized, allows fewer than 16 tokens, or doesn't
    call its output projection.
    """
    check_instance("model", model, nn.Module)
    config: Any = getattr(model, "config", None)
    heads = _num_heads(config)
    layers = _find_layers(model, heads)
    check_integer("layer", layer, 0, len(layers) - 1)
    check_positive("seconds", seconds)
    check_positive_integers(length=length)
    if not heads:
        raise ValueError(
            f"the model's config must have one of {', '.join(_HEADS)}, got {type(config).__name__}"
        )
    for attention in layers:
        _check_projection(attention)
    longest = longest_context(model) or max(length, SHORT)
    if longest < SHORT:
        raise ValueError(f"the model must allow {SHORT} tokens, got {longest}")
    length = min(length, longest)

    report, different = _examine_layer(model, layers, layer, length, seconds)
    if not different:
        return report
    of_different, _ = _examine_layer(model, layers, different[0], length, seconds)
    listed = alternatives([str(n) for n in different], "and")
    note = f"With the same queries, keys and values, layer {listed} computed something else."
    findings = list(report.findings)
    for finding in of_different.findings:
        findings.append(replace(finding, evidence=f"in layer {different[0]}: {finding.evidence}"))
    return replace(
        report,
        findings=findings,
        notes=[*report.notes, note],
        comparison=report.comparison or of_different.comparison,
    )


def _examine_layer(
    model: nn.Module, layers: Sequence["_Layer"], layer: int, length: int, seconds: float
) -> tuple[Report, list[int]]:
    """The report on one layer, and the layers that return something else for the same input."""
    attention = replace(layers[layer], others=layers)
    config: Any = model.config
    parameter = next(model.parameters())
    family = str(getattr(config, "model_type", ""))
    options = getattr(config, "attn_config", None)  # of MPT
    scale = getattr(options, "softmax_scale", None)
    # The sum of q . k and the bias is rounded, too: the longer the text, the more logits differ.
    is_rounded = parameter.dtype != torch.float32
    reader = AttentionReader(
        attention,
        layout="bhld",
        dtype=parameter.dtype,
        convert=lambda tensor: tensor.to(parameter.device),
        seconds=seconds,
    )
    calls = attention_calls(
        [attention.heads],
        [attention.head_dim],
        decoding=True,
        length=SHORT if is_rounded else length,
        sides=["left"],
        memory=[CONTIGUOUS],
    )
    of_paper = Expected(lambda num_heads: alibi_slopes(num_heads).double(), scale=scale)
    with on_the_cpu():
        sweep = Sweep(partial(Sample.of, reader), calls)
        expected = _as_trained(family, of_paper, attention.head_dim)
        wrong = sweep.go_on(expected)
        report = examine(f"{type(model).__name__}, layer {layer}", reader, sweep, wrong, expected)
        trained = [] if wrong else _differences(family, sweep, of_paper, expected)
        if is_rounded and not wrong:
            trained += _rounded_far_away(family, reader, attention, length, expected)

    sizes = f"{family}, {attention.heads} heads of size {attention.head_dim}"
    if is_rounded:
        sizes += f", judged by {SHORT} tokens, as longer texts are rounded more"
    tolerance = precision_of(parameter.dtype).absolute
    different = [n for n, largest in attention.differences.items() if not largest <= tolerance]
    is_everywhere = len(layers) > 1 and not different
    where = f"all {len(layers)} layers" if is_everywhere else f"layer {layer}"
    notes = [f"{_state(report, where)} ({sizes})."]
    notes += [_note_on_training(family, exhibit) for exhibit in trained]
    notes += [*report.notes, *_notes_on_options(options)]
    return replace(report, notes=notes), different


def _as_trained(family: str, of_paper: Expected, head_dim: int) -> Expected:
    """What the weights of a family were trained with."""
    if family != "falcon":
        return of_paper
    scaled = replace(of_paper, slopes=lambda heads: of_paper.slopes(heads) * head_dim**-0.5)
    return rounded_to(torch.bfloat16, scaled)


def _differences(
    family: str, sweep: Sweep, of_paper: Expected, expected: Expected
) -> list[Exhibit]:
    """The differences from the paper that show in the answers of a model, which are as trained."""
    trained = {exhibit.fault: exhibit for exhibit in EXHIBITS if family in exhibit.trained}
    differences = []
    if not all(answer.is_right(of_paper) for answer in sweep.answers.values()):
        differences.append("bias before scaling")
    exact = replace(expected, distance=of_paper.distance, ahead=of_paper.ahead)
    if not all(answer.is_right(exact) for answer in sweep.answers.values()):
        differences.append("colliding positions")
    return [trained[fault] for fault in differences]


def _rounded_far_away(
    family: str, reader: AttentionReader, attention: "_Layer", length: int, expected: Expected
) -> list[Exhibit]:
    """Whether positions far away collide, as they did in training."""
    call = Call(Probe(attention.heads, 1, length), attention.head_dim, batch=1)
    try:
        bias = explain_bias(reader.observe(call), expected)
    except Unusable:
        return []
    found = [] if bias is None else [finding.name for finding in bias.findings]
    return [exhibit for exhibit in EXHIBITS if family in exhibit.trained and exhibit.fault in found]


def _num_heads(config: Any) -> int:
    """The number of heads in a configuration, 0 if it doesn't say."""
    for name in _HEADS:
        if hasattr(config, name):
            return int(getattr(config, name))
    return 0


def _check_projection(attention: "_Layer") -> None:
    """Raise ValueError unless the projection has plain weights, and keys for each head."""
    weight = attention.inputs.weight
    if not isinstance(weight, Tensor):
        kind = type(attention.inputs)
        raise ValueError(f"the projections must have plain weights, not quantized ones, got {kind}")
    expected = 3 * attention.heads * attention.head_dim
    if len(weight) != expected:
        raise ValueError(
            f"the projection must return {expected} numbers, as keys aren't shared by heads, got "
            f"{len(weight)}"
        )


def _note_on_training(family: str, exhibit: Exhibit) -> str:
    """A note on a difference from the paper that the weights were trained with."""
    right_for = "right for these weights"
    if family == "bloom":
        right_for = "right for BLOOM-176B; smaller ones had float16"
    source = f"{exhibit.system}, {exhibit.source}"
    return f"Differs from the paper; {right_for}: {exhibit.effect} ({source})"


# Options of MPT's configuration that transformers ignores, by the value that changes nothing
_IGNORED_OPTIONS: dict[str, object] = {
    "alibi": True,
    "alibi_bias_max": 8,
    "prefix_lm": False,
    "qk_ln": False,
}


def _notes_on_options(options: Any) -> list[str]:
    """Notes on the options of MPT: those that transformers ignores, and the scale."""
    notes = []
    for name, usual in _IGNORED_OPTIONS.items():
        value = getattr(options, name, usual)
        if value != usual:
            notes.append(
                f"The config asks for {name}={value}, which transformers ignores: it computes as "
                f"with {name}={usual}"
            )
    scale = getattr(options, "softmax_scale", None)
    if scale is not None:
        notes.append(f"q . k is multiplied by {scale:g}, the config's softmax_scale, as it should")
    return notes


def _state(report: Report, where: str) -> str:
    """Whether ALiBi is on in some layers, in words."""
    names = {finding.name for finding in report.findings}
    if "no bias" in names:
        return f"ALiBi is off in {where}"
    if names & {"raises an error", "does not finish"} and report.comparison is None:
        return f"Calls of {where} failed"
    if report.ok:
        return f"ALiBi is on in {where}, with the official slopes"
    return f"ALiBi is on in {where}"


@dataclass(frozen=True)
class _Layer:
    """The attention of one layer as a function of q, k, v [batch, heads, length, head_dim].

    All layers get the same, so all must return the same: `differences` has the largest difference
    of each other layer so far.
    """

    model: Any
    inputs: Any  # the projection to queries, keys and values
    output: Any
    axis: int  # of these three, in [batch, length, heads, head_dim]
    heads: int
    others: Sequence["_Layer"] = ()  # all layers
    differences: dict[int, float] = field(default_factory=dict)

    @property
    def head_dim(self) -> int:
        return int(self.output.weight.shape[1]) // self.heads  # [out, in]

    @torch.no_grad()
    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        cached_length = key.shape[2] - query.shape[2]
        cache = {}
        with evaluation_mode(self.model):
            if cached_length:
                # The first keys go into the cache; their queries don't matter.
                no_query = torch.zeros_like(query[:, :, :1]).expand(-1, -1, cached_length, -1)
                first_key = key[:, :, :cached_length]
                first_value = value[:, :, :cached_length]
                output, _ = self._run((no_query, first_key, first_value))
                cache = {self._cache_name: getattr(output, self._cache_name)}
            last_key = key[:, :, cached_length:]
            last_value = value[:, :, cached_length:]
            _, attended = self._run((query, last_key, last_value), mask, **cache)
        return attended.unflatten(-1, (query.shape[1], -1)).transpose(1, 2)

    @property
    def _cache_name(self) -> str:
        """The name of the cache among the arguments of the model; transformers 5.24 renamed it."""
        parameters = inspect.signature(self.model.forward).parameters
        return "cache" if "cache" in parameters else "past_key_values"

    def _run(
        self, inputs: tuple[Tensor, ...], mask: Tensor | None = None, **cache: Any
    ) -> tuple[Any, Tensor]:
        """Run the model with these queries, keys and values.

        Returns its output, and the input of the output projection.
        """
        captured: dict[nn.Module, Tensor] = {}
        parts = [tensor.transpose(1, 2) for tensor in inputs]  # [batch, length, heads, head_dim]
        projected = torch.stack(parts, dim=self.axis).flatten(2)
        batch, length = parts[0].shape[:2]
        any_tokens = torch.zeros(batch, length, dtype=torch.long, device=projected.device)
        attention_mask = None if mask is None else mask.long()

        def replace_projection(*_: Any) -> Tensor:
            return projected

        def capture(module: nn.Module, arguments: Any, _named: Any) -> None:
            captured[module] = arguments[0]

        with ExitStack() as stack:
            for layer in self.others or [self]:
                stack.enter_context(layer.inputs.register_forward_hook(replace_projection))
                stack.enter_context(hooked([layer.output], capture))
            output = self.model(
                input_ids=any_tokens, attention_mask=attention_mask, use_cache=True, **cache
            )
        if self.output not in captured:
            # BLOOM does so with `slow_but_exact` and `pretraining_tp` above 1.
            raise CannotCheck(
                "model must call the output projection of its attention, whose input is read, got "
                f"one that uses its weight alone: {type(self.output).__name__}"
            )
        attended = captured[self.output]
        for number, other in enumerate(self.others):
            difference = (captured.get(other.output, attended) - attended).abs().nan_to_num(0.0)
            largest = max(float(difference.max()), self.differences.get(number, 0.0))
            self.differences[number] = largest
        return output, attended


def _find_layers(model: nn.Module, heads: int) -> list[_Layer]:
    """The attention of every layer. Raises ValueError if there is none that we know."""
    base = getattr(model, "base_model", model)  # without the head, whose logits would be large
    layers = []
    for module in model.modules():
        for names in _PROJECTIONS:
            inputs = getattr(module, names.inputs, None)
            output = getattr(module, names.output, None)
            if isinstance(inputs, nn.Module) and isinstance(output, nn.Module):
                layers.append(_Layer(base, inputs, output, names.axis, heads))
    if not layers:
        known = "; ".join(f"{names.inputs}, {names.output}" for names in _PROJECTIONS)
        raise ValueError(
            f"{type(model).__name__} has no attention layer with one of these projections: {known}"
        )
    return layers
