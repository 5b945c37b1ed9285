"""Check a model of the transformers library: is ALiBi on, and is it right?"""

import inspect
from contextlib import ExitStack
from dataclasses import replace
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
from alibi_viz.models.pretrained import (
    Family,
    base_model,
    evaluation_mode,
    family_name,
    family_of,
    hooked,
    longest_context,
)
from alibi_viz.slopes import alibi_slopes


def model(model: nn.Module, layer: int = 0, *, length: int = 300, seconds: float = 60.0) -> Report:
    """Check the attention of every layer, as the model runs it.

    That is with its own mask, cache, dtype and implementation.

    The queries, keys and values of each layer are replaced by chosen ones, and the input of its
    output projection is read. So the weights don't matter, and a tiny model with random weights
    shows what a large one does. One layer is examined. The others get the same, so they must return
    the same, and the first that doesn't is examined, too.

    Args:
        model: a BLOOM, MPT or Falcon model of transformers, with or without its head, whose heads
            have keys of their own. What the weights of its family were trained with is a note of
            the report, not a fault: Falcon divides its bias by sqrt(head_dim), and Falcon and
            BLOOM-176B round it to bfloat16.
        layer: index of the layer that is examined, from 0.
        length: the longest length to try, beside 16; no longer than the model allows.
        seconds: time limit of a call.

    Raises TypeError if `model` is not a module or `layer` not an integer, and ValueError for
    another family, for a Falcon model without ALiBi, and if the model has no such layer, shares
    keys between heads, is quantized, allows fewer than 16 tokens, or doesn't call its output
    projection.
    """
    check_instance("model", model, nn.Module)
    family = family_of(model)
    attentions = family.layers(model)
    check_integer("layer", layer, 0, len(attentions) - 1)
    check_positive("seconds", seconds)
    check_positive_integers(length=length)
    for attention in attentions:
        _check_projection(getattr(attention, family.projection), attention.hidden_size)
    longest = longest_context(model) or max(length, SHORT)
    if longest < SHORT:
        raise ValueError(f"the model must allow {SHORT} tokens, got {longest}")
    length = min(length, longest)

    report, different = _examine_layer(model, layer, length, seconds)
    if not different:
        return report
    of_different, _ = _examine_layer(model, different[0], length, seconds)
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


def _check_projection(projection: Any, width: int) -> None:
    """Raise ValueError unless a projection has plain weights, and keys for each head."""
    weight = projection.weight
    if not isinstance(weight, Tensor):
        kind = type(projection)
        raise ValueError(f"the projections must have plain weights, not quantized ones, got {kind}")
    if len(weight) != 3 * width:
        raise ValueError(
            "keys that heads share, as with `multi_query`, can't be checked yet: queries, keys and "
            f"values must be {3 * width} numbers, got {len(weight)}"
        )


def _examine_layer(
    model: nn.Module, layer: int, length: int, seconds: float
) -> tuple[Report, list[int]]:
    """The report on one layer, and the layers that return something else for the same input."""
    attention = _Attention(model, layer)
    config: Any = model.config
    parameter = next(model.parameters())
    family = family_name(model)
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
        subject = f"{type(model).__name__}, layer {layer}"
        wrong = sweep.go_on(expected)
        report, is_right = examine(subject, reader, sweep, wrong, expected)
        trained = _differences(family, sweep, of_paper, expected) if is_right else []
        if is_rounded and is_right:
            exact = replace(expected, distance=of_paper.distance, ahead=of_paper.ahead)
            trained += _rounded_far_away(family, reader, attention, length, exact)

    sizes = f"{family}, {attention.heads} heads of size {attention.head_dim}"
    if is_rounded:
        sizes += f", judged by {SHORT} tokens, as longer texts are rounded more"
    tolerance = precision_of(parameter.dtype).absolute
    different = [n for n, largest in enumerate(attention.differences) if not largest <= tolerance]
    is_everywhere = len(attention.differences) > 1 and not different
    where = f"all {len(attention.differences)} layers" if is_everywhere else f"layer {layer}"
    notes = [f"{_state(report, where)} ({sizes})."]
    notes += [_note_on_training(family, exhibit) for exhibit in trained]
    notes += [*report.notes, *_notes_on_options(options)]
    return replace(report, notes=notes, tried=f"{report.tried}; no gradients"), different


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
    family: str, reader: AttentionReader, attention: "_Attention", length: int, expected: Expected
) -> list[Exhibit]:
    """Whether positions far away collide, as they did in training."""
    call = Call(Probe(attention.heads, 1, length), attention.head_dim, batch=1)
    try:
        bias = explain_bias(reader.observe(call), expected)
    except Unusable:
        return []
    found = [] if bias is None else [finding.name for finding in bias.findings]
    return [exhibit for exhibit in EXHIBITS if family in exhibit.trained and exhibit.fault in found]


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


class _Attention:
    """The attention of one layer as a function of q, k, v [batch, heads, length, head_dim].

    All layers get the same, so all must return the same: `differences` has the largest difference
    of each layer so far.
    """

    def __init__(self, model: nn.Module, layer: int) -> None:
        self.family: Family = family_of(model)
        self.model = base_model(model)  # without the head, whose logits would be large
        self.layers = self.family.layers(model)
        self.layer = layer
        self.differences = [0.0] * len(self.layers)
        self.heads = int(getattr(self.layers[layer], self.family.heads))
        self.head_dim = self.layers[layer].hidden_size // self.heads

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

        Returns its output, and the input of the output projection of the layer.
        """
        captured: dict[nn.Module, Tensor] = {}
        parts = [tensor.transpose(1, 2) for tensor in inputs]  # [batch, length, heads, head_dim]
        projected = self.family.join(*parts)
        batch, length = parts[0].shape[:2]
        any_tokens = torch.zeros(batch, length, dtype=torch.long, device=projected.device)
        attention_mask = None if mask is None else mask.long()

        def replace_projection(*_: Any) -> Tensor:
            return projected

        def capture(module: nn.Module, arguments: Any, _named: Any) -> None:
            captured[module] = arguments[0]

        outputs = [getattr(layer, self.family.output) for layer in self.layers]
        with ExitStack() as stack:
            for layer in self.layers:
                projection = getattr(layer, self.family.projection)
                stack.enter_context(projection.register_forward_hook(replace_projection))
            stack.enter_context(hooked(outputs, capture))
            output = self.model(
                input_ids=any_tokens, attention_mask=attention_mask, use_cache=True, **cache
            )
        own = outputs[self.layer]
        if own not in captured:
            # BLOOM does so with `slow_but_exact` and `pretraining_tp` above 1.
            raise CannotCheck(
                "model must call the output projection of its attention, whose input is read, got "
                f"one that uses its weight alone: {type(own).__name__}"
            )
        attended = captured[own]
        for number, module in enumerate(outputs):
            difference = (captured.get(module, attended) - attended).abs().nan_to_num(0.0)
            self.differences[number] = max(float(difference.max()), self.differences[number])
        return output, attended
