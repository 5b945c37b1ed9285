"""BLOOM, MPT and Falcon compute what a plain reference computes, as loaded and changed by
`lab.modify`."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from alibi_viz import lab
from alibi_viz.measure.attention_statistics import pretrained_stats
from alibi_viz.models.pretrained import attention_inputs, family_of
from tests.pretrained_models import FAMILIES, small_model

LENGTH = 24
IDS = torch.randint(0, 256, (2, LENGTH), generator=torch.Generator().manual_seed(0))
MASKS = {name: torch.ones(2, LENGTH, dtype=torch.long) for name in ("full", "padded", "gaps")}
MASKS["padded"][0, :6] = MASKS["padded"][1, :22] = 0  # leaves fewer tokens than sinks
MASKS["gaps"][0, 3:7] = MASKS["gaps"][1, 10] = MASKS["gaps"][1, 15:18] = 0
EVERYTHING = {"slopes": [0.5, 1.0, 2.0, 0.0], "window": 6, "sinks": 2}
CHANGES: list[dict[str, Any]] = [
    {},
    {"slopes": 1.5},
    {"slopes": 0},
    {"window": 1},
    {"window": 5, "sinks": 3},
]
CASES = [
    (family, change, mask)
    for family in FAMILIES
    for change in [*CHANGES, EVERYTHING]
    for mask in MASKS
    if not (
        family == "mpt" and ((mask == "padded" and "sinks" in change) or mask == "gaps")
    )  # MPT counts gaps
]


def reference_weights(
    query: Tensor,
    key: Tensor,
    per_head: Tensor,
    mask: Tensor,
    slopes: Any = 1.0,
    window: int = 10_000,
    sinks: int = 0,
) -> Tensor:
    """Weights [batch, heads, query, key] in float64; each logit is written out, zeros for
    padding."""
    batch, heads, length, head_dim = query.shape
    weights = torch.zeros(batch, heads, length, length, dtype=torch.float64)
    content = (
        query.detach().double() @ key.detach().double().transpose(-2, -1) / math.sqrt(head_dim)
    )
    for b in range(batch):
        real = [j for j in range(length) if mask[b, j]]
        for h in range(heads):
            slope = float(per_head[h]) * (slopes[h] if isinstance(slopes, list) else slopes)
            for at, i in enumerate(real):
                logits = {}
                for back, j in enumerate(real[: at + 1]):
                    distance = at - back
                    if distance >= window and back >= sinks:
                        continue
                    if (
                        distance >= window
                    ):  # a sink: tokens between the sinks and the window don't count
                        distance = min(distance, window + sinks - 1 - back)
                    logits[j] = float(content[b, h, i, j]) - slope * distance
                total = sum(math.exp(logit) for logit in logits.values())
                for j, logit in logits.items():
                    weights[b, h, i, j] = math.exp(logit) / total
    return weights


def received_and_mixed(model: Any, mask: Tensor) -> list[tuple[Any, Tensor, Tensor]]:
    """Each attention module, its input, and the weighted values that it sends to its output
    projection."""
    family, received, mixed = family_of(model), [], []
    layers = family.layers(model)
    for layer in layers:
        layer.register_forward_pre_hook(lambda _m, inputs: received.append(inputs[0]))
        getattr(layer, family.output).register_forward_pre_hook(
            lambda _m, inputs: mixed.append(inputs[0])
        )
    with torch.no_grad():
        model(IDS, attention_mask=mask)
    return list(zip(layers, received, mixed, strict=True))


@pytest.mark.parametrize(("name", "change", "mask_name"), CASES, ids=str)
def test_attention_equals_a_reference(name: str, change: dict[str, Any], mask_name: str) -> None:
    mask, changed = MASKS[mask_name], lab.modify(small_model(name), **change)
    family = family_of(changed)
    for layer in family.layers(changed) if name == "mpt" else ():
        layer.clip_qkv, layer.softmax_scale = 0.5, 0.1  # as some models have it
    for layer, received, mixed in received_and_mixed(changed, mask):
        query, key, value = family.project(layer, received)
        slopes = family.slopes(layer) * (
            2 if name == "falcon eager" else 1
        )  # which adds the bias twice
        expected = (
            (reference_weights(query, key, slopes, mask, **change).float() @ value)
            .transpose(1, 2)
            .flatten(2)
        )
        torch.testing.assert_close(mixed[mask.bool()], expected[mask.bool()], atol=2e-5, rtol=1e-4)


TWICE = [{"window": 4}, {"window": 2, "sinks": 1}]


@pytest.mark.parametrize(
    "changes", [[], [EVERYTHING], TWICE], ids=["as loaded", "changed", "twice"]
)
@pytest.mark.parametrize("name", FAMILIES)
def test_generating_with_a_cache_gives_the_same_logits(
    name: str, changes: list[dict[str, Any]]
) -> None:
    model, mask = small_model(name), MASKS["full" if name == "mpt" and changes else "padded"]
    for change in changes:
        model = lab.modify(model, **change)
    options = {
        "max_new_tokens": 8,
        "do_sample": False,
        "output_logits": True,
        "return_dict_in_generate": True,
    }
    logits = [
        torch.stack(
            model.generate(
                IDS, attention_mask=mask, pad_token_id=0, use_cache=use_cache, **options
            ).logits
        )
        for use_cache in (True, False)
    ]
    torch.testing.assert_close(*logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("change", [{}, EVERYTHING], ids=["as loaded", "changed"])
@pytest.mark.parametrize("name", FAMILIES)
def test_fused_attention_gives_every_layer_the_same_input(
    name: str, change: dict[str, Any]
) -> None:
    model = lab.modify(small_model(name), **change)
    inputs = attention_inputs(model, IDS)
    expected = [received for _, received, _ in received_and_mixed(model, MASKS["full"])]
    torch.testing.assert_close(inputs, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_stats_equal_those_of_the_reference(name: str) -> None:
    changed = lab.modify(small_model(name), **EVERYTHING)
    stats, family = pretrained_stats(changed, IDS, trained=8, queries=5), family_of(changed)
    assert stats.distance.shape == (2, 4)
    distance = torch.arange(LENGTH - 5, LENGTH)[:, None] - torch.arange(LENGTH)
    for number, (layer, received, _) in enumerate(received_and_mixed(changed, MASKS["full"])):
        query, key, _ = family.project(layer, received)
        slopes = family.slopes(layer) * (2 if name == "falcon eager" else 1)
        weights = reference_weights(query, key, slopes, MASKS["full"], **EVERYTHING)[:, :, -5:]
        for got, counted in ((stats.distance, distance), (stats.beyond, distance >= 8)):
            expected = (weights * counted).sum(-1).mean((0, 2))
            torch.testing.assert_close(got[number].double(), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_half_precision_and_gradients_stay_finite(name: str) -> None:
    changed = lab.modify(small_model(name).to(torch.bfloat16), 0.5, window=4, sinks=1)
    logits = changed(IDS).logits
    logits.float().sum().backward()
    assert bool(logits.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in changed.parameters() if p.grad is not None)


def test_looking_into_a_model_keeps_the_training_mode_of_every_module() -> None:
    model = small_model("bloom").train()
    model.transformer.h[0].eval()
    modes = [module.training for module in model.modules()]
    pretrained_stats(model, IDS, trained=8)
    attention_inputs(model, IDS)
    assert [module.training for module in model.modules()] == modes
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_other_models_are_refused_with_the_reason() -> None:
    rotary = small_model("falcon sdpa")
    rotary.config.alibi = False
    for model, message in [
        (small_model("gpt2"), "model must be one of bloom, falcon, mpt, got 'gpt2'"),
        (torch.nn.Linear(1, 1), "model must be one of bloom, falcon, mpt, got 'Linear'"),
        (rotary, "this falcon model was configured without ALiBi"),
    ]:
        for use in (family_of, lab.modify, lambda model: pretrained_stats(model, IDS, trained=8)):
            with pytest.raises(ValueError, match=message):
                use(model)
