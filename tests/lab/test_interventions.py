"""Floor 3: a changed model is what it says, shares every weight, and leaves the original alone."""

import math

import pytest
import torch

from alibi_viz import lab
from alibi_viz.lab.interventions import change_rotary_rule, drop_bias, impose_window, multiply_slopes
from alibi_viz.models import POSITIONS
from tests.literal import literal_attention

TOKENS = torch.arange(40)[None] % 256


def logits(model):
    with torch.inference_mode():
        return model.eval()(TOKENS)


def test_slopes_multiplied_are_the_slopes_of_another_model():
    model, steep = lab.make_model("alibi"), lab.make_model("alibi", slope_scale=2.0)
    torch.testing.assert_close(logits(multiply_slopes(model, 2)), logits(steep))
    torch.testing.assert_close(logits(multiply_slopes(model, [2.0] * 4)), logits(steep))
    torch.testing.assert_close(logits(multiply_slopes(multiply_slopes(model, 4), 0.5)), logits(steep))


def test_without_its_bias_alibi_is_no_position_at_all():
    torch.testing.assert_close(logits(drop_bias(lab.make_model("alibi"))), logits(lab.make_model("none")))


def test_dropping_one_heads_bias_changes_that_head_only():
    model = lab.make_model("alibi")
    before, after = model.transformer.position.bias(5, 5), drop_bias(model, 2).transformer.position.bias(5, 5)
    visible = before.isfinite()
    assert torch.equal(before.isfinite(), after.isfinite())
    assert bool((after[2][visible[2]] == 0).all())
    others = [0, 1, 3]
    assert torch.equal(before[others], after[others])


@pytest.mark.parametrize("position", POSITIONS)
def test_a_window_hides_what_is_further_back(position):
    torch.manual_seed(0)
    model = lab.make_model(position, max_length=40)
    cut = impose_window(model, 5).transformer.position
    whole = model.transformer.position
    query, key, value = torch.randn(3, 2, 4, 8, 16)
    x = torch.randn(2, 8, 64)
    bias = whole.bias(8, 8, x)
    bias = torch.zeros(2, 4, 8, 8) if bias is None else bias.detach().expand(2, 4, 8, 8)
    distance = torch.arange(8)[:, None] - torch.arange(8)
    bias = bias.masked_fill(distance >= 5, -math.inf)
    turned = whole.transform(query, key)
    expected = [literal_attention(*(t[b : b + 1] for t in (*turned, value)), bias[b])[0] for b in range(2)]
    found = cut.attend(query, key, value, causal=True, x=x)
    torch.testing.assert_close(found.double(), torch.cat(expected), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(logits(impose_window(model, 40)), logits(model), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("position", ["alibi", "forget", "kerple-log", "t5"])
def test_no_weight_is_copied_and_the_original_stays(position):
    model = lab.make_model(position, max_length=40)
    before = logits(model).clone()
    changed = impose_window(multiply_slopes(model, 3.0), 4)
    shared = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for parameter in changed.parameters()} == shared
    assert not torch.allclose(logits(changed), before)
    assert torch.equal(logits(model), before)


def test_a_forget_gate_is_multiplied_in_every_layer():
    model = lab.make_model("forget")
    changed = drop_bias(model)
    gates = [block.attention.position.original for block in changed.transformer.blocks]
    assert len({id(gate) for gate in gates}) == len(gates) == 2
    torch.testing.assert_close(logits(changed), logits(lab.make_model("none")))


def test_rotarys_rule_acts_beyond_the_training_length_only():
    model = lab.make_model("rotary", max_length=40)
    assert torch.equal(logits(change_rotary_rule(model, "pi")), logits(model))
    shorter = change_rotary_rule(model, "pi", trained_length=20)
    assert not torch.allclose(logits(shorter), logits(model))
    assert torch.equal(logits(change_rotary_rule(shorter, "plain")), logits(model))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda: multiply_slopes(lab.make_model("rotary"), 2), "position method 'rotary' adds no bias"),
        (lambda: multiply_slopes(lab.make_model("alibi"), [1.0, 2.0]), "one for each of the 4 heads"),
        (lambda: multiply_slopes(lab.make_model("alibi"), -1.0), "a number from 0 up"),
        (lambda: multiply_slopes(lab.make_model("alibi"), math.nan), "a number from 0 up"),
        (lambda: drop_bias(lab.make_model("alibi"), 4), "head must be between 0 and 3, got 4"),
        (lambda: impose_window(lab.make_model("alibi"), 0), "window must be a whole number from 1 up, got 0"),
        (lambda: change_rotary_rule(lab.make_model("alibi"), "pi"), "only rotary positions have a rule"),
        (lambda: change_rotary_rule(lab.make_model("rotary"), "yarn"), "must be one of plain, pi, ntk"),
    ],
)
def test_what_cannot_be_done_is_said(change, says):
    with pytest.raises(ValueError, match=says):
        change()


def test_a_rule_may_follow_a_window():
    rotary = lab.make_model("rotary", max_length=8)
    one = lab.change_rotary_rule(lab.impose_window(rotary, 4), "pi")
    other = lab.impose_window(lab.change_rotary_rule(rotary, "pi"), 4)
    with torch.inference_mode():
        assert torch.equal(one(TOKENS), other(TOKENS))
        assert not torch.equal(one(TOKENS), lab.impose_window(rotary, 4)(TOKENS))
