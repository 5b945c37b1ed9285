"""Changed BLOOM, MPT and Falcon models compute what a plain reference computes, and leave the original alone."""

import math
import os
from typing import Any

import pytest
import torch
from torch import Tensor

from alibi_viz import alibi_slopes, lab
from alibi_viz.adapters import attention_layers, fused_projection, pretrained_heads
from alibi_viz.lab.pretrained import describe_change, pretrained_stats

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers")

from transformers import GPT2Config, GPT2LMHeadModel

from tests.pretrained_models import FAMILIES, small_model

LENGTH = 24
IDS = torch.randint(0, 256, (2, LENGTH), generator=torch.Generator().manual_seed(0))
PADDED = torch.ones(2, LENGTH, dtype=torch.long)
PADDED[0, :6] = 0
CHANGES: list[dict[str, Any]] = [
    {"factors": 0.25},
    {"factors": 4.0},
    {"factors": 0.0},
    {"factors": [1.0, 0.0, 1.0, 1.0]},
    {"window": 5},
    {"window": 5, "sinks": 3},
    {"factors": [0.5, 1.0, 2.0, 0.0], "window": 4, "sinks": 2},
]


def reference_weights(
    query: Tensor, key: Tensor, slopes: Tensor, mask: Tensor, factors: Any = 1.0, window: int = 10_000, sinks: int = 0
) -> Tensor:
    """Weights [batch, heads, query, key] in float64; each logit is written out, zeros for padding."""
    batch, heads, length, head_dim = query.shape
    weights = torch.zeros(batch, heads, length, length, dtype=torch.float64)
    for b in range(batch):
        real = [j for j in range(length) if mask[b, j]]
        for h in range(heads):
            slope = float(slopes[h]) * (factors[h] if isinstance(factors, list) else factors)
            for at, i in enumerate(real):
                logits = {}
                for back, j in enumerate(real[: at + 1]):
                    distance = at - back
                    if distance >= window and back >= sinks:
                        continue
                    if distance >= window:  # a sink: tokens between the sinks and the window don't count
                        distance = min(distance, window + sinks - 1 - back)
                    content = float(query[b, h, i].double() @ key[b, h, j].double()) / math.sqrt(head_dim)
                    logits[j] = content - slope * distance
                total = sum(math.exp(logit) for logit in logits.values())
                for j, logit in logits.items():
                    weights[b, h, i, j] = math.exp(logit) / total
    return weights


def layer_inputs_and_outputs(model: Any, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The fused projection's output and the output projection's input, for each layer."""
    fused, mixed = [], []
    layers = attention_layers(model)[1]
    for layer in layers:
        fused_projection(layer).register_forward_hook(lambda _m, _i, output: fused.append(output))
        output = layer.out_proj if hasattr(layer, "out_proj") else layer.dense
        output.register_forward_pre_hook(lambda _m, inputs: mixed.append(inputs[0]))
    with torch.no_grad():
        model(IDS, attention_mask=mask)
    return list(zip(fused, mixed, strict=True))


def values(family: str, layer: Any, fused: Tensor) -> Tensor:
    """[batch, heads or 1, length, head_dim]"""
    if family == "bloom":
        return fused.unflatten(-1, (4, 3, -1))[..., 2, :].transpose(1, 2)
    if family == "mpt":
        return fused.unflatten(-1, (3, 4, -1))[:, :, 2].transpose(1, 2)
    return layer._split_heads(fused)[2].transpose(1, 2)


CASES = [
    (family, change, padded)
    for family in FAMILIES
    for change in CHANGES
    for padded in (False, True)
    if not (family == "mpt" and padded and "sinks" in change)  # which raises, see below
]


@pytest.mark.parametrize(("family", "change", "padded"), CASES, ids=str)
def test_changed_attention_equals_a_reference(family: str, change: dict[str, Any], padded: bool) -> None:
    mask = PADDED if padded else torch.ones_like(PADDED)
    changed = lab.change_attention(small_model(family), **change)
    for number, (fused, mixed) in enumerate(layer_inputs_and_outputs(changed, mask)):
        query, key, slopes = pretrained_heads(changed, IDS, number, mask)
        if family == "falcon eager":
            slopes = 2 * slopes
        weights = reference_weights(query, key, slopes, mask, **change)
        layer = attention_layers(changed)[1][number]
        expected = (weights.float() @ values(family, layer, fused)).transpose(1, 2).flatten(2)
        is_real = mask.bool()
        torch.testing.assert_close(mixed[is_real], expected[is_real], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("change", [{"factors": 0.5, "window": 6}, {"window": 4, "sinks": 2}], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_generating_with_a_cache_gives_the_same_logits(family: str, change: dict[str, Any]) -> None:
    model = lab.change_attention(small_model(family), **change)
    mask = torch.ones_like(PADDED) if family == "mpt" and "sinks" in change else PADDED
    options = {"max_new_tokens": 8, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    logits = [
        torch.stack(model.generate(IDS, attention_mask=mask, pad_token_id=0, use_cache=use_cache, **options).logits)
        for use_cache in (True, False)
    ]
    torch.testing.assert_close(*logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_original_is_unchanged_and_every_weight_is_shared(family: str) -> None:
    model = small_model(family)
    with torch.no_grad():
        before = model(IDS).logits
        changed = lab.change_attention(model, 3.0, window=4)
        assert not torch.allclose(changed(IDS).logits, before)
        assert torch.equal(model(IDS).logits, before)
        assert torch.equal(lab.change_attention(model)(IDS).logits, before), "no change"
        assert torch.equal(lab.change_attention(model, window=LENGTH, sinks=2)(IDS).logits, before)
    assert {id(weight) for weight in changed.parameters()} == {id(weight) for weight in model.parameters()}
    assert changed.lm_head.weight is changed.get_input_embeddings().weight, "tied weights stay tied"


def test_half_precision_and_gradients_work() -> None:
    for family in FAMILIES:
        changed = lab.change_attention(small_model(family).to(torch.bfloat16), 0.5, window=4, sinks=1)
        logits = changed(IDS).logits
        logits.float().sum().backward()
        assert bool(logits.isfinite().all())
        assert all(bool(p.grad.isfinite().all()) for p in changed.parameters() if p.grad is not None)


@pytest.mark.parametrize("family", FAMILIES)
def test_stats_equal_those_of_the_reference(family: str) -> None:
    change = {"factors": [0.5, 1.0, 2.0, 0.0], "window": 6, "sinks": 2}
    changed = lab.change_attention(small_model(family), **change)
    stats = pretrained_stats(changed, IDS, trained=8, queries=5)
    assert stats.distance.shape == (2, 4)
    for number in range(2):
        query, key, slopes = pretrained_heads(changed, IDS, number)
        slopes = 2 * slopes if family == "falcon eager" else slopes
        weights = reference_weights(query, key, slopes, torch.ones_like(PADDED), **change)[:, :, -5:]
        distance = torch.arange(LENGTH - 5, LENGTH)[:, None] - torch.arange(LENGTH)
        expected = (weights * distance).sum(-1).mean((0, 2))
        torch.testing.assert_close(stats.distance[number].double(), expected, atol=1e-4, rtol=1e-4)
        beyond = (weights * (distance >= 8)).sum(-1).mean((0, 2))
        torch.testing.assert_close(stats.beyond[number].double(), beyond, atol=1e-5, rtol=1e-4)


def test_a_change_is_described() -> None:
    model = small_model("bloom")
    assert describe_change(model) == describe_change(lab.change_attention(model)) == ""
    assert describe_change(lab.change_attention(model, 0.5)) == "slopes times 0.5"
    assert describe_change(lab.change_attention(model, 0)) == "bias dropped"
    assert describe_change(lab.change_attention(model, [1, 0, 1, 1])) == "slopes times 1, 0, 1, 1"
    both = lab.change_attention(model, 2, window=8, sinks=4)
    assert describe_change(both) == "slopes times 2, window of 8, sinks of 4"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_changed_model_can_be_changed_again(family: str) -> None:
    model = small_model(family)
    steps = [{"factors": [1.0, 0.5, 2.0, 1.0]}, {"window": 9, "sinks": 2}, {"factors": 0.5, "window": 5, "sinks": 2}]
    once = lab.change_attention(model, [0.5, 0.25, 1.0, 0.5], window=5, sinks=2)
    changed = model
    for step in steps:
        changed = lab.change_attention(changed, **step)
    wider = lab.change_attention(changed, window=20, sinks=3)
    with torch.no_grad():
        assert torch.equal(changed(IDS).logits, once(IDS).logits)
        assert torch.equal(wider(IDS).logits, once(IDS).logits)
        assert not torch.equal(lab.change_attention(changed, 2)(IDS).logits, once(IDS).logits)
        assert torch.equal(changed(IDS).logits, once(IDS).logits), "changing a copy leaves it alone"
    assert describe_change(wider) == "slopes times 0.5, 0.25, 1, 0.5, window of 5, sinks of 2"
    no_sinks = lab.change_attention(changed, window=4)
    assert describe_change(no_sinks) == "slopes times 0.5, 0.25, 1, 0.5, window of 4"


def test_slopes_of_a_number_of_heads_that_is_not_a_power_of_two() -> None:
    model = small_model("bloom", heads=6)
    steeper = lab.change_attention(model, (alibi_slopes(6) * 2 / alibi_slopes(6)).tolist())
    with torch.no_grad():
        assert torch.equal(steeper(IDS).logits, lab.change_attention(model, 2)(IDS).logits)


def test_invalid_models_and_arguments_raise_with_their_name() -> None:
    model = small_model("bloom")
    for factors in (-1.0, math.nan, [1.0, 2.0], [], "half", None):
        with pytest.raises(ValueError, match="factors must be a number of at least 0, or one for each of 4 heads, got"):
            lab.change_attention(model, factors)
    with pytest.raises(ValueError, match="window must be an integer of at least 1, got 0"):
        lab.change_attention(model, window=0)
    with pytest.raises(ValueError, match="sinks must be 0 without a window, because every token is visible, got 4"):
        lab.change_attention(model, sinks=4)
    with pytest.raises(ValueError, match="sinks must be at least 0, got -1"):
        lab.change_attention(model, window=4, sinks=-1)
    with pytest.raises(ValueError, match=r"has a window of 8 with 2 sinks already, .* one of 4 with 3: change the"):
        lab.change_attention(lab.change_attention(model, window=8, sinks=2), window=4, sinks=3)
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_embd=16, n_layer=1, n_head=2))
    with pytest.raises(ValueError, match="model must be one of bloom, falcon, mpt, got 'gpt2'"):
        lab.change_attention(gpt2, 2)
    without = small_model("falcon sdpa")
    without.config.alibi = False
    with pytest.raises(ValueError, match="configured without ALiBi"):
        lab.change_attention(without, 2)
    mpt = lab.change_attention(small_model("mpt"), window=4, sinks=2)
    with torch.no_grad(), pytest.raises(ValueError, match="sequences of equal length in a batch"):
        mpt(IDS, attention_mask=PADDED)
