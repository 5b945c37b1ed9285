"""Interventions do what they say, share every weight, and leave the original model unchanged."""

import math

import numpy as np
import pytest
import torch

from alibi_viz import lab
from alibi_viz.lab.interventions import (
    VARIANTS,
    change_rotary_rule,
    drop_bias,
    evaluation_variants,
    impose_window,
    interpolate_slopes,
    multiply_slopes,
)
from alibi_viz.models import POSITIONS
from tests.reference import reference_attention

TOKENS = torch.arange(40)[None] % 256


def logits(model):
    with torch.inference_mode():
        return model.eval()(TOKENS)


def test_multiplied_slopes_equal_a_model_with_those_slopes():
    model, steep = lab.make_model("alibi"), lab.make_model("alibi", slope_scale=2.0)
    torch.testing.assert_close(logits(multiply_slopes(model, 2)), logits(steep))
    torch.testing.assert_close(logits(multiply_slopes(model, [2.0] * 8)), logits(steep))
    torch.testing.assert_close(logits(multiply_slopes(multiply_slopes(model, 4), 0.5)), logits(steep))


@pytest.mark.parametrize("factors", [np.float32(2), torch.tensor(2.0), np.full(8, 2)], ids=str)
def test_factors_can_be_numbers_of_numpy_and_torch(factors):
    model = lab.make_model("alibi")
    assert torch.equal(logits(multiply_slopes(model, factors)), logits(multiply_slopes(model, 2)))


def test_alibi_without_its_bias_equals_no_positions():
    torch.testing.assert_close(logits(drop_bias(lab.make_model("alibi"))), logits(lab.make_model("none")))


def test_dropping_the_bias_of_one_head_leaves_the_others():
    model = lab.make_model("alibi")
    before, after = model.transformer.position.bias(5, 5), drop_bias(model, 2).transformer.position.bias(5, 5)
    visible = before.isfinite()
    assert torch.equal(before.isfinite(), after.isfinite())
    assert bool((after[2][visible[2]] == 0).all())
    others = [0, 1, *range(3, 8)]
    assert torch.equal(before[others], after[others])


@pytest.mark.parametrize("position", [name for name, method in POSITIONS.items() if method.is_additive])
def test_a_window_masks_keys_further_back(position):
    torch.manual_seed(0)
    model = lab.make_model(position, max_length=40, num_heads=4)
    windowed, original = impose_window(model, 5).transformer.position, model.transformer.position
    query, key, value = torch.randn(3, 2, 4, 8, 16)
    x = torch.randn(2, 8, 64)
    bias = original.bias(8, 8, x)
    bias = torch.zeros(2, 4, 8, 8) if bias is None else bias.detach().expand(2, 4, 8, 8)
    distance = torch.arange(8)[:, None] - torch.arange(8)
    bias = bias.masked_fill(distance >= 5, -math.inf)
    transformed = original.transform(query, key)
    expected = [reference_attention(*(t[b : b + 1] for t in (*transformed, value)), bias[b])[0] for b in range(2)]
    output = windowed.attend(query, key, value, causal=True, x=x)
    torch.testing.assert_close(output.double(), torch.cat(expected), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(logits(impose_window(model, 40)), logits(model), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("position", ["alibi", "forget", "kerple-log", "t5"])
def test_weights_are_shared_and_the_original_is_unchanged(position):
    model = lab.make_model(position, max_length=40)
    before = logits(model).clone()
    modified = impose_window(multiply_slopes(model, 3.0), 4)
    shared = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for parameter in modified.parameters()} == shared
    assert not torch.allclose(logits(modified), before)
    assert torch.equal(logits(model), before)


def test_the_forget_gate_is_dropped_in_every_layer():
    model = lab.make_model("forget")
    modified = drop_bias(model)
    gates = [block.attention.position.original for block in modified.transformer.blocks]
    assert len({id(gate) for gate in gates}) == len(gates) == 2
    torch.testing.assert_close(logits(modified), logits(lab.make_model("none")))


@pytest.mark.parametrize("position", [name for name, method in POSITIONS.items() if method.supports_cache])
def test_modified_models_decode_with_a_cache(position):
    model = impose_window(lab.make_model(position, max_length=40), 4)
    pair = [model.generate(TOKENS[:, :5], 6, temperature=0, use_cache=use_cache) for use_cache in (True, False)]
    assert torch.equal(*pair)


def test_rotary_rule_has_no_effect_within_the_training_length():
    model = lab.make_model("rotary", max_length=40)
    assert torch.equal(logits(change_rotary_rule(model, "pi")), logits(model))
    shorter = change_rotary_rule(model, "pi", trained_length=20)
    assert not torch.allclose(logits(shorter), logits(model))
    assert torch.equal(logits(change_rotary_rule(shorter, "plain")), logits(model))


@pytest.mark.parametrize(
    ("intervene", "message"),
    [
        (lambda: multiply_slopes(lab.make_model("rotary"), 2), "position method 'rotary' has no bias"),
        (lambda: drop_bias(lab.make_model("cope")), "position method 'cope' has no bias"),
        (lambda: drop_bias(lab.make_model("stick-breaking")), "position method 'stick-breaking' has no bias"),
        (lambda: multiply_slopes(lab.make_model("alibi"), [1.0, 2.0]), "one for each of 8 heads"),
        (lambda: multiply_slopes(lab.make_model("alibi"), -1.0), "a number of at least 0"),
        (lambda: multiply_slopes(lab.make_model("alibi"), math.nan), "a number of at least 0"),
        (lambda: drop_bias(lab.make_model("alibi"), 8), "head must be between 0 and 7, got 8"),
        (lambda: impose_window(lab.make_model("alibi"), 0), "window must be an integer of at least 1, got 0"),
        (lambda: change_rotary_rule(lab.make_model("alibi"), "pi"), "only rotary positions have a rule"),
        (lambda: change_rotary_rule(lab.make_model("rotary"), "linear"), "must be one of plain, pi, ntk, yarn"),
        (lambda: interpolate_slopes(lab.make_model("rotary")), "only ALiBi has slopes to interpolate, got .* 'rotary'"),
        (lambda: interpolate_slopes(lab.make_model("alibi"), 0), "trained_length must be an integer of at least 1"),
    ],
)
def test_an_intervention_that_does_not_apply_raises(intervene, message):
    with pytest.raises(ValueError, match=message):
        intervene()


def test_interpolated_slopes_equal_slopes_multiplied_by_the_ratio_of_lengths():
    model = lab.make_model("alibi", max_length=10)
    torch.testing.assert_close(logits(interpolate_slopes(model)), logits(multiply_slopes(model, 10 / 40)))
    for length in (40, 80):  # no effect up to the training length
        torch.testing.assert_close(logits(interpolate_slopes(model, length)), logits(model))
    largest = interpolate_slopes(model).transformer.position.bias(40, 40).nan_to_num(neginf=0).amin((1, 2))
    torch.testing.assert_close(largest, -model.transformer.position.slopes * 39 * 10 / 40)


def test_variants_are_those_that_change_the_method():
    names = {position: [*evaluation_variants(lab.make_model(position), 8)] for position in POSITIONS}
    assert names["rotary"] == ["window", "pi", "ntk", "yarn"]
    assert names["alibi"] == ["window", "window and sinks", "slopes interpolated"]
    assert names["sinusoidal"] == names["randomized"] == []
    assert all(names[position] == ["window", "window and sinks"] for position in ("none", "t5", "fire"))
    assert all(names[position] == ["window"] for position in ("forget", "xpos", "stick-breaking", "cope"))
    assert {name for variants in names.values() for name in variants} == {*VARIANTS}


def test_the_variant_with_sinks_sees_a_window_of_the_training_length_and_four_tokens():
    variant = evaluation_variants(lab.make_model("alibi"), 8)["window and sinks"]
    visible = variant.transformer.position.bias(20, 20).isfinite()[0].tril()
    for query in range(20):
        expected = {*range(max(0, query - 7), query + 1), *range(min(4, query + 1))}
        assert {key for key in range(20) if visible[query, key]} == expected


def test_rule_and_window_give_the_same_model_in_either_order():
    rotary = lab.make_model("rotary", max_length=8)
    window_first = change_rotary_rule(impose_window(rotary, 4), "pi")
    rule_first = impose_window(change_rotary_rule(rotary, "pi"), 4)
    assert torch.equal(logits(window_first), logits(rule_first))
    assert not torch.equal(logits(window_first), logits(impose_window(rotary, 4)))


@pytest.mark.parametrize("method", ["alibi", "none", "t5", "kerple-log"])
def test_sinks_stay_visible_at_the_distance_that_the_tokens_between_them_and_the_window_leave(method):
    model, window, sinks, length = lab.make_model(method), 5, 2, 20
    position = model.transformer.position
    original = position.bias(length, length)
    original = torch.zeros(1, length, length) if original is None else original
    bias = impose_window(model, window, sinks).transformer.position.bias(length, length)
    for query in range(length):
        for key in range(query + 1):
            if query - key < window:
                expected = original[:, query, key]
            elif key < sinks:  # sinks and window are neighbors: the oldest key of the window has distance window - 1
                expected = original[:, query, max(key, query - (window + sinks - 1 - key))]
            else:
                expected = torch.full_like(original[:, 0, 0], -math.inf)
            torch.testing.assert_close(bias[:, query, key], expected)


def test_sinks_beyond_the_text_change_nothing_and_compose_with_other_changes():
    model = lab.make_model("alibi")
    torch.testing.assert_close(logits(impose_window(model, 40, sinks=4)), logits(model))
    steep = multiply_slopes(impose_window(model, 6, sinks=2), 2)
    torch.testing.assert_close(logits(steep), logits(impose_window(multiply_slopes(model, 2), 6, sinks=2)))
    torch.testing.assert_close(logits(impose_window(steep, 9, sinks=2)), logits(steep))
    torch.testing.assert_close(logits(impose_window(steep, 6)), logits(impose_window(multiply_slopes(model, 2), 6)))
    half = impose_window(model, 6, sinks=2).transformer.position
    torch.testing.assert_close(half.bias(3, 20), half.bias(20, 20)[:, -3:])


@pytest.mark.parametrize("method", ["rotary", "sinusoidal", "learned", "xpos", "cope", "stick-breaking"])
def test_sinks_raise_for_methods_whose_distances_are_not_in_a_bias(method):
    message = f"sinks must be 0 for position method '{method}', whose distances are not all in a bias, got 1"
    with pytest.raises(ValueError, match=message):
        impose_window(lab.make_model(method), 4, sinks=1)
    with pytest.raises(ValueError, match="sinks must be at least 0, got -1"):
        impose_window(lab.make_model(), 4, sinks=-1)
    with pytest.raises(ValueError, match="the model has a window of 4 with 0 sinks already, which cannot be combined"):
        impose_window(impose_window(lab.make_model(), 4), 2, sinks=1)
