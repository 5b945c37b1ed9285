"""Changed models compute what they say, share every weight, and leave the original alone."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
import torch

from alibi_viz import lab, laws
from alibi_viz.measure.attention_statistics import attention_stats
from alibi_viz.models import POSITIONS, Position
from alibi_viz.models.positions.rotary import RectifiedRotary
from alibi_viz.models.pretrained import family_of, hooked
from alibi_viz.models.self_attention import attend
from alibi_viz.surgery.modify import VARIANTS, changes_of, evaluation_variants
from tests.pretrained_models import small_model
from tests.reference import reference_attention
from tests.rows import each_case

LENGTH = 40
TOKENS = torch.arange(LENGTH)[None]
PRETRAINED = ("bloom", "mpt", "falcon sdpa", "falcon eager")
WITH_ALIBI = ("alibi", *PRETRAINED)


class RectifiedRotary10(RectifiedRotary):
    """ReRoPE as a method of its own, as if trained on 10 tokens."""

    def __init__(self, head_dim):
        super().__init__(head_dim, trained_length=10)


every_position = pytest.mark.parametrize("position", list(POSITIONS))
# A bias, turned queries and keys, added vectors, and a bias that reads the input
each_kind = pytest.mark.parametrize("position", ["kerple-log", "rotary", "learned", "forget"])
ours_and_two_pretrained = pytest.mark.parametrize("name", ["alibi", "bloom", "mpt"])


def new_model(name):
    """A model with four heads, ours or a pretrained one. Ours are as if trained on 10 tokens."""
    if name in POSITIONS:
        return lab.make_model(name, max_length=10, num_heads=4, d_model=64).eval()
    return small_model(name)


@cache
def model_of(name):
    """The same, for all tests that leave it as it is."""
    return new_model(name)


@torch.inference_mode()
def logits(model):
    output = model.eval()(TOKENS)
    return getattr(output, "logits", output)


def bias_of(model, queries, keys):
    """The bias of our model, [heads, query, key]; zeros if it has none."""
    bias = model.transformer.position.bias(queries, keys)
    if bias is None:
        return torch.zeros(1, queries, keys)
    return bias


# The copy and the original


@ours_and_two_pretrained
def test_the_original_is_unchanged(name):
    model = model_of(name)
    before = logits(model)
    changed = lab.modify(model, 3.0, window=4, sinks=1)
    assert not torch.allclose(logits(changed), before)
    assert torch.equal(logits(model), before)


@ours_and_two_pretrained
def test_a_copy_without_a_change_computes_the_same(name):
    model = model_of(name)
    torch.testing.assert_close(logits(lab.modify(model)), logits(model))


@ours_and_two_pretrained
def test_a_change_without_an_effect_computes_the_same(name):
    model = model_of(name)
    unchanged = lab.modify(model, 1.0, window=LENGTH, sinks=2)
    torch.testing.assert_close(logits(unchanged), logits(model), atol=1e-5, rtol=1e-5)


@ours_and_two_pretrained
def test_every_weight_is_shared(name):
    model = model_of(name)
    changed = lab.modify(model, 3.0, window=4, sinks=1)
    assert {id(weight) for weight in changed.parameters()} == {
        id(weight) for weight in model.parameters()
    }


@ours_and_two_pretrained
def test_the_copy_has_a_training_mode_of_its_own(name):
    model = new_model(name)
    changed = lab.modify(model, 3.0, window=4, sinks=1)
    changed.eval()
    model.train()
    assert all(module.training for module in model.modules())
    assert not any(module.training for module in changed.modules())


@pytest.mark.parametrize("name", ["alibi", pytest.param("bloom", marks=pytest.mark.weekly)])
def test_the_copy_of_a_compiled_model_is_changed(name):
    compiled = torch.compile(model_of(name), backend="eager")
    logits(compiled)
    expected = logits(lab.modify(model_of(name), 0.0))
    torch.testing.assert_close(logits(lab.modify(compiled, 0.0)), expected)


# Slopes


@each_case(
    "factors",
    {
        "a number": 2,
        "a list": [2.0] * 4,
        "a number of numpy": np.float32(2),
        "an array": np.full(4, 2),
        "a tensor": torch.tensor(2.0),
    },
)
def test_multiplied_slopes_equal_a_model_with_those_slopes(factors):
    steep = lab.make_model("alibi", slope_scale=2.0, max_length=10, num_heads=4, d_model=64)
    torch.testing.assert_close(logits(lab.modify(model_of("alibi"), factors)), logits(steep))


def test_each_head_has_a_factor_of_its_own():
    original = bias_of(model_of("alibi"), 9, 9)
    changed = bias_of(lab.modify(model_of("alibi"), [0, 1, 2, 0.5]), 9, 9)
    assert torch.equal(changed[0], torch.zeros(9, 9))
    assert torch.equal(changed[1], original[1])
    assert torch.equal(changed[2], 2 * original[2])
    assert torch.equal(changed[3], original[3] / 2)


@pytest.mark.parametrize("name", ["alibi", "forget"])
def test_factor_0_drops_the_bias_of_every_layer(name):
    torch.testing.assert_close(logits(lab.modify(model_of(name), 0)), logits(model_of("none")))


def test_a_factor_of_0_shows_no_key_that_the_law_hides():
    """0 times -inf would be NaN."""
    windowed = lab.make_model(laws.window, num_heads=4, d_model=64)
    bias = bias_of(lab.modify(windowed, 0), 1, 10)
    first_head = bias[0, 0]  # which sees the last 8 tokens
    assert first_head.tolist() == [-math.inf] * 2 + [0] * 8


@pytest.mark.parametrize("name", WITH_ALIBI)
def test_interpolated_slopes_are_multiplied_by_the_ratio_of_lengths(name):
    model = model_of(name)
    interpolated = lab.modify(model, "interpolate", trained_length=10)
    torch.testing.assert_close(logits(interpolated), logits(lab.modify(model, 10 / LENGTH)))


@pytest.mark.parametrize("name", ["alibi", "bloom"])
def test_slopes_are_not_interpolated_up_to_the_training_length(name):
    model = model_of(name)
    interpolated = lab.modify(model, "interpolate", trained_length=LENGTH)
    torch.testing.assert_close(logits(interpolated), logits(model))


@pytest.mark.parametrize("name", PRETRAINED)
@torch.no_grad()
def test_interpolation_counts_no_padding(name):
    model = lab.modify(model_of(name), "interpolate", trained_length=8)
    six_tokens = TOKENS[:, :6]
    padding = torch.zeros(1, 18, dtype=torch.long)
    padded = torch.cat((padding, six_tokens), dim=1)
    is_real = torch.cat((padding, torch.ones_like(six_tokens)), dim=1)
    output = model(padded, attention_mask=is_real).logits[:, 18:]
    torch.testing.assert_close(output, model(six_tokens).logits, atol=1e-5, rtol=1e-4)


# Windows and sinks


@every_position
def test_a_window_masks_keys_further_back(position):
    torch.manual_seed(0)
    model = lab.make_model(position, max_length=LENGTH, num_heads=4)
    original = model.transformer.position
    windowed = lab.modify(model, window=5).transformer.position
    query, key, value = torch.randn(3, 2, 4, 8, 16)
    x = torch.randn(2, 8, 64)
    output = attend(windowed, query, key, value, x=x)

    bias = original.bias(8, 8, x)
    if bias is None:
        bias = torch.zeros(8, 8)
    steps_back = torch.arange(8)[:, None] - torch.arange(8)
    expected_bias = bias.detach().expand(2, 4, 8, 8).masked_fill(steps_back >= 5, -math.inf)
    turned_query, turned_key = original.rotate(query, key)
    for text in range(2):
        one = slice(text, text + 1)
        expected, _ = reference_attention(
            turned_query[one], turned_key[one], value[one], expected_bias[text]
        )
        torch.testing.assert_close(output[one].double(), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("method", ["alibi", "none", "t5", "kerple-log", "fire"])
def test_sinks_have_the_bias_of_the_tokens_right_before_the_window(method):
    window = 5
    length = 20
    model = lab.make_model(method)
    original = bias_of(model, length, length)
    changed = bias_of(lab.modify(model, window=window, sinks=2), length, length)
    for query in range(length):
        first_of_window = max(0, query - window + 1)
        stands_at = {key: key for key in range(first_of_window, query + 1)}
        if first_of_window >= 2:
            stands_at[0] = first_of_window - 2
            stands_at[1] = first_of_window - 1
        elif first_of_window == 1:
            stands_at[0] = 0
        for key in range(query + 1):
            if key in stands_at:
                expected = original[:, query, stands_at[key]]
                torch.testing.assert_close(changed[:, query, key], expected)
            else:
                assert bool((changed[:, query, key] == -math.inf).all())


def test_mpt_with_sinks_refuses_sequences_of_different_lengths():
    is_real = torch.ones(2, 20, dtype=torch.long)
    is_real[0, :6] = 0
    changed = lab.modify(model_of("mpt"), window=4, sinks=2)
    with torch.no_grad(), pytest.raises(ValueError, match="sequences of equal length in a batch"):
        changed(TOKENS[:, :20].expand(2, -1), attention_mask=is_real)


# Rotary rules

every_rule = pytest.mark.parametrize("rule", ["pi", "ntk", "yarn", "rerope"])


@every_rule
def test_rules_change_nothing_up_to_the_training_length(rule):
    model = lab.make_model("rotary", max_length=LENGTH)
    changed = lab.modify(model, rotary=rule)
    torch.testing.assert_close(logits(changed), logits(model), atol=1e-5, rtol=1e-5)


def test_angles_stop_at_the_training_length_in_every_layer():
    model = lab.make_model(RectifiedRotary10, num_heads=4, d_model=64)
    changed = lab.modify(model_of("rotary"), rotary="rerope", trained_length=10)
    torch.testing.assert_close(logits(changed), logits(model), atol=1e-5, rtol=1e-5)


def test_a_window_keeps_the_angles_stopped():
    """A window of 20 sees keys on both sides of a distance of 10."""
    stopped = lab.modify(model_of("rotary"), rotary="rerope", trained_length=10)
    windowed = lab.modify(stopped, window=20).transformer.position
    query, key, value = torch.randn(3, 1, 4, LENGTH, 16)
    attended = attend(windowed, query, key, value)

    distance = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    stopped_logits = RectifiedRotary(16, trained_length=10).logits(query, key)
    expected_weights = stopped_logits.masked_fill(distance >= 20, -math.inf).softmax(-1)
    torch.testing.assert_close(attended, expected_weights @ value, atol=1e-5, rtol=1e-4)


@every_rule
def test_rules_change_inputs_beyond_the_training_length(rule):
    model = model_of("rotary")
    changed = lab.modify(model, rotary=rule, trained_length=20)
    assert not torch.allclose(logits(changed), logits(model))


@every_rule
def test_a_window_and_a_rule_act_together(rule):
    ruled = lab.modify(model_of("rotary"), rotary=rule, trained_length=20)
    both = lab.modify(model_of("rotary"), window=4, rotary=rule, trained_length=20)
    assert not torch.allclose(logits(both), logits(ruled))
    # The first four tokens are within one window.
    torch.testing.assert_close(logits(both)[:, :4], logits(ruled)[:, :4], atol=1e-5, rtol=1e-5)


# The line beyond the training length

FAR_SLOPES = [0.0, 0.5, 1.0, 2.0]


def slopes_in_effect(name):
    """The slopes by which the bias of a model with ALiBi falls, float32 [heads]."""
    model = model_of(name)
    if name == "alibi":
        slopes = model.transformer.position.slopes
        return slopes
    family = family_of(model)
    slopes = family.slopes(family.layers(model)[0])
    # transformers adds Falcon's bias twice there.
    return 2 * slopes if name == "falcon eager" else slopes


@pytest.mark.parametrize("position", ["alibi", "kerple-log", "t5", "fire", "forget"])
def test_far_line_continues_the_bias_from_the_last_distance_of_training(position):
    length = 20
    farthest = 9  # in sequences of 10 tokens
    model = model_of(position)
    x = torch.randn(1, length, 64)
    original = model.transformer.position.bias(length, length, x).detach()
    changed = lab.modify(model, far_slope=FAR_SLOPES).transformer.position
    bias = changed.bias(length, length, x).detach()

    for i in range(length):
        for j in range(i + 1):
            distance = i - j
            if distance <= farthest:
                expected = original[..., i, j]
            else:
                fall = torch.tensor(FAR_SLOPES) * (distance - farthest)
                expected = original[..., i, i - farthest] - fall
            torch.testing.assert_close(bias[..., i, j], expected)


@pytest.mark.parametrize("position", ["none", "rotary"])
def test_far_line_of_a_method_without_a_bias_starts_at_zero(position):
    braked = lab.modify(model_of(position), far_slope=0.5)
    bias = bias_of(braked, 1, 13)[:, 0]
    expected = [-1.5, -1.0, -0.5] + [0.0] * 10
    assert bias.tolist() == [expected] * 4


def test_far_line_falls_on_both_sides_for_encoders():
    bias = bias_of(lab.modify(model_of("alibi"), far_slope=FAR_SLOPES), 13, 13)
    slopes = model_of("alibi").transformer.position.slopes
    three_beyond = -9 * slopes - 3 * torch.tensor(FAR_SLOPES)
    torch.testing.assert_close(bias[:, 0, 12], three_beyond)
    torch.testing.assert_close(bias[:, 12, 0], three_beyond)


@pytest.mark.parametrize("name", WITH_ALIBI)
def test_a_far_line_as_steep_as_alibi_changes_nothing(name):
    model = model_of(name)
    changed = lab.modify(model, far_slope=slopes_in_effect(name), trained_length=10)
    torch.testing.assert_close(logits(changed), logits(model), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["alibi", "rotary", "none", "bloom", "mpt"])
def test_a_very_steep_far_line_is_a_window_of_the_training_length(name):
    braked = lab.modify(model_of(name), far_slope=1e4, trained_length=10)
    windowed = lab.modify(model_of(name), window=10)
    torch.testing.assert_close(logits(braked), logits(windowed), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", PRETRAINED)
def test_every_layer_of_a_pretrained_model_receives_the_far_line(name):
    changed = lab.modify(model_of(name), far_slope=0, trained_length=10)
    family = family_of(changed)
    biases = []

    def keep(attention, _args, inputs):
        bias, _ = family.read(attention, inputs)
        biases.append(bias)

    with hooked(family.layers(changed), keep):
        logits(changed)

    steps_back = torch.arange(LENGTH - 1, -1, -1)
    expected = -slopes_in_effect(name)[:, None] * steps_back.clamp(max=9)
    assert len(biases) == len(family.layers(changed))
    for bias in biases:
        of_last_query = bias[0, :, -1]
        relative = of_last_query - of_last_query[:, -1:]  # MPT counts from elsewhere
        torch.testing.assert_close(relative, expected, atol=1e-4, rtol=1e-2)


@pytest.mark.parametrize("name", PRETRAINED)
@torch.no_grad()
def test_the_far_line_counts_no_padding(name):
    model = lab.modify(model_of(name), far_slope=0, trained_length=4)
    twelve_tokens = TOKENS[:, :12]
    padding = torch.zeros(1, 18, dtype=torch.long)
    padded = torch.cat((padding, twelve_tokens), dim=1)
    is_real = torch.cat((padding, torch.ones_like(twelve_tokens)), dim=1)
    output = model(padded, attention_mask=is_real).logits[:, 18:]
    torch.testing.assert_close(output, model(twelve_tokens).logits, atol=1e-5, rtol=1e-4)


def test_a_far_line_shows_no_key_that_the_law_hides():
    windowed = lab.make_model(laws.window, max_length=4, num_heads=4, d_model=64)
    bias = bias_of(lab.modify(windowed, far_slope=0), 1, 10)
    first_head = bias[0, 0]  # which sees the last 8 tokens
    assert first_head.tolist() == [-math.inf] * 2 + [0] * 8


def test_multiplied_slopes_end_where_the_far_line_begins():
    changed = lab.modify(model_of("alibi"), 2.0, far_slope=1.0)
    slopes = model_of("alibi").transformer.position.slopes
    bias = bias_of(changed, 1, 14)[:, 0]
    torch.testing.assert_close(bias[:, 4], -2 * slopes * 9)  # at distance 9
    torch.testing.assert_close(bias[:, 0], -2 * slopes * 9 - 4)  # at distance 13


def test_sinks_have_the_bias_of_tokens_on_the_far_line():
    flat = lab.modify(model_of("alibi"), window=15, sinks=2, far_slope=0)
    slopes = model_of("alibi").transformer.position.slopes
    bias = bias_of(flat, 1, 30)[:, 0]
    torch.testing.assert_close(bias[:, :2], (-9 * slopes)[:, None].expand(4, 2))


def test_stopped_angles_and_a_far_line_act_together():
    changed = lab.modify(model_of("rotary"), rotary="rerope", far_slope=0.5)
    query, key, value = torch.randn(3, 1, 4, LENGTH, 16)
    attended = attend(changed.transformer.position, query, key, value)

    distance = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    far_line = -0.5 * (distance - 9).clamp(min=0)
    stopped_logits = RectifiedRotary(16, trained_length=10).logits(query, key)
    expected = (stopped_logits + far_line).softmax(-1) @ value
    torch.testing.assert_close(attended, expected, atol=1e-5, rtol=1e-4)


# The share of far keys


def weights_of(model, query, key):
    """The attention weights of our model, float32 [batch, heads, query, key]."""
    x = torch.randn(len(query), key.shape[-2], 64, generator=torch.Generator().manual_seed(1))
    return model.transformer.position.weights(query, key, x=x).detach()


def far_keys(length, trained_length=10):
    """Which keys are at least the training length back, bool [query, key]."""
    return torch.arange(length)[:, None] - torch.arange(length) >= trained_length


def share_of(weights, keys):
    """What these keys get together, [batch, heads, query]."""
    return (weights * keys).sum(-1)


def within(weights, keys):
    """The weights of these keys relative to each other; NaN for a query without any."""
    return weights * keys / share_of(weights, keys)[..., None]


def random_heads(length=LENGTH):
    """A query and a key, [batch, heads, length, channel]."""
    return torch.randn(2, 1, 4, length, 16, generator=torch.Generator().manual_seed(0))


@every_position
def test_far_keys_get_at_most_their_share(position):
    limited = lab.modify(model_of(position), far_share=0.2, trained_length=4)
    weights = weights_of(limited, *random_heads(length=10))
    assert share_of(weights, far_keys(10, trained_length=4)).max() <= 0.2 + 1e-6
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4, 10))


def test_the_share_is_limited_in_every_layer_of_a_model():
    limited = lab.modify(lab.make_model("none"), far_share=0.2, trained_length=64)
    stats = attention_stats(limited, lab.load_text(), 256, trained=64)
    # Without positions, far keys are most of the keys of every query.
    torch.testing.assert_close(stats.beyond, torch.full((2, 4), 0.2))


@each_case(
    ("position", "change"),
    {
        "rotary": ("rotary", {}),
        "xPos": ("xpos", {}),
        "a bias": ("kerple-log", {}),
        "a bias that reads the input": ("forget", {}),
        "stopped angles": ("rotary", {"rotary": "rerope"}),
        "a far line": ("rotary", {"far_slope": 0.1}),
        "stopped angles and a far line": ("rotary", {"rotary": "rerope", "far_slope": 0.1}),
    },
)
def test_a_limited_share_keeps_the_ratios_of_near_and_of_far_keys(position, change):
    query, key = random_heads()
    before = weights_of(lab.modify(model_of(position), **change), query, key)
    weights = weights_of(lab.modify(model_of(position), **change, far_share=0.1), query, key)

    is_far = far_keys(LENGTH)
    expected_share = share_of(before, is_far).clamp(max=0.1)
    torch.testing.assert_close(share_of(weights, is_far), expected_share)
    for keys in (is_far, ~is_far):
        torch.testing.assert_close(within(weights, keys), within(before, keys), equal_nan=True)


@every_position
def test_a_far_share_of_0_is_a_window_of_the_training_length(position):
    model = lab.make_model(position, max_length=LENGTH, num_heads=4, d_model=64)
    limited = lab.modify(model, far_share=0, trained_length=10)
    windowed = lab.modify(model, window=10)
    torch.testing.assert_close(logits(limited), logits(windowed), atol=1e-5, rtol=1e-4)


@each_kind
def test_weights_are_the_same_with_a_far_share_of_1_and_within_the_training_length(position):
    query, key = random_heads()
    expected = weights_of(model_of(position), query, key)
    free = lab.modify(model_of(position), far_share=1)
    assert torch.equal(weights_of(free, query, key), expected)

    limited = weights_of(lab.modify(model_of(position), far_share=0), query, key)
    assert torch.equal(limited[:, :, :10], expected[:, :, :10])


def test_the_share_is_limited_on_both_sides_for_encoders():
    limited = lab.modify(model_of("none"), far_share=0.1).transformer.position
    query, key = random_heads()
    weights = limited.weights(query, key, causal=False)
    is_far = far_keys(LENGTH) | far_keys(LENGTH).T
    assert share_of(weights, is_far).max() <= 0.1 + 1e-6


def test_the_smaller_of_two_far_shares_counts():
    model = model_of("rotary")
    small = lab.modify(model, far_share=0.1)
    for first, second in ((0.1, 0.5), (0.5, 0.1)):
        twice = lab.modify(lab.modify(model, far_share=first), far_share=second)
        torch.testing.assert_close(logits(twice), logits(small), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("position", ["rotary", "kerple-log", "forget"])
def test_far_keys_get_the_share_that_they_have_in_another_copy(position):
    query, key = random_heads()
    model = model_of(position)
    split = lab.modify(model, far_slope=0.1)
    other = lab.modify(model, far_slope=0.5)
    before = weights_of(split, query, key)
    copied = weights_of(lab.modify(split, far_share=other), query, key)

    is_far = far_keys(LENGTH)
    expected_share = share_of(weights_of(other, query, key), is_far)
    torch.testing.assert_close(share_of(copied, is_far), expected_share)
    for keys in (is_far, ~is_far):
        torch.testing.assert_close(within(copied, keys), within(before, keys), equal_nan=True)


def test_a_copied_share_counts_the_limit_of_the_copy_and_hides_what_is_hidden():
    query, key = random_heads()
    model = model_of("rotary")
    limited = lab.modify(model, far_share=0.1)
    copied = weights_of(lab.modify(model, far_share=limited), query, key)
    torch.testing.assert_close(copied, weights_of(limited, query, key))

    window = lab.modify(model, window=10)
    assert (
        share_of(
            weights_of(lab.modify(model, far_share=window), query, key), far_keys(LENGTH)
        ).max()
        == 0
    )
    hidden = lab.modify(window, far_share=model)
    torch.testing.assert_close(weights_of(hidden, query, key), weights_of(window, query, key))


def test_a_share_is_copied_within_every_layer_of_a_model():
    model = lab.make_model(
        "forget", num_layers=2, max_length=10
    )  # a position method for each layer
    unchanged = lab.modify(model, far_share=lab.modify(model, slopes=1))
    torch.testing.assert_close(logits(unchanged), logits(model), atol=1e-5, rtol=1e-4)


def test_a_share_of_another_model_is_refused():
    with pytest.raises(ValueError, match="far_share must be a copy of the model, whose settings"):
        lab.modify(lab.make_model("rotary"), far_share=lab.make_model("alibi"))


# Several changes

CHANGES = [
    {},
    {"slopes": [0, 0.5, 1, 2]},
    {"window": 9, "sinks": 3},
    {"window": 20},
]
INTERPOLATE = {"slopes": "interpolate", "trained_length": 10}
ROTARY_CHANGES = [
    {"window": 9},
    {"rotary": "yarn"},
    {"rotary": "rerope"},
    {"far_slope": [0, 0.5, 1, 2]},
    {"far_share": 0.1},
]


def pairs_of_changes(name):
    """Two changes of different things, in either order."""
    changes = ROTARY_CHANGES if name == "rotary" else [*CHANGES, INTERPOLATE]
    for first, second in itertools.permutations(changes, 2):
        if first.keys().isdisjoint(second.keys()):
            yield first, second


@pytest.mark.parametrize("name", ["alibi", "rotary", "bloom", "mpt"])
def test_two_changes_in_either_order_are_both_at_once(name):
    model = model_of(name)
    for first, second in pairs_of_changes(name):
        one_after_the_other = lab.modify(lab.modify(model, **first), **second)
        at_once = lab.modify(model, **first, **second)
        are_equal = torch.allclose(logits(one_after_the_other), logits(at_once), atol=1e-5)
        assert are_equal, f"{first} and then {second}"


def test_slopes_halved_twice_are_a_quarter():
    halved_twice = lab.modify(lab.modify(model_of("bloom"), 0.5), 0.5)
    quarter = lab.modify(model_of("bloom"), 0.25)
    torch.testing.assert_close(logits(halved_twice), logits(quarter))


@pytest.mark.parametrize("name", ["alibi", "bloom", "mpt"])
def test_a_narrower_window_replaces_a_wider_one(name):
    wide = lab.modify(model_of(name), window=9, sinks=2)
    narrowed = lab.modify(wide, window=4, sinks=2)
    narrow = lab.modify(model_of(name), window=4, sinks=2)
    torch.testing.assert_close(logits(narrowed), logits(narrow))


def test_a_later_rotary_rule_replaces_stopped_angles():
    stopped = lab.modify(model_of("rotary"), rotary="rerope")
    replaced = lab.modify(stopped, rotary="yarn")
    yarn = lab.modify(model_of("rotary"), rotary="yarn")
    assert torch.equal(logits(replaced), logits(yarn))


def test_a_later_factor_of_0_drops_the_far_line_of_a_method_without_a_bias():
    braked = lab.modify(model_of("rotary"), far_slope=1.0)
    dropped = lab.modify(braked, 0)
    torch.testing.assert_close(logits(dropped), logits(model_of("rotary")), atol=1e-5, rtol=1e-5)


def test_a_wider_window_does_not_show_what_a_narrower_one_hides():
    narrow = lab.modify(model_of("alibi"), window=4, sinks=1)
    widened = lab.modify(narrow, window=9, sinks=1)
    is_visible = bias_of(widened, 1, 20)[0, 0].isfinite()
    assert is_visible.nonzero().flatten().tolist() == [0, 16, 17, 18, 19]


class Peculiar(Position):
    """Differs from other methods in all that a method says of itself."""

    longest = 50
    reads_input = True
    is_causal_only = True
    supports_cache = False
    is_random = True

    def embed(self, tokens, start=0):
        return tokens + start


@pytest.mark.parametrize("method", [Peculiar, "alibi", "rotary"])
def test_a_changed_method_says_of_itself_what_the_original_says(method):
    model = lab.make_model(method)
    original = model.transformer.position
    changed = lab.modify(model, window=9).transformer.position
    for attribute in (
        "longest",
        "reads_input",
        "is_causal_only",
        "supports_cache",
        "is_random",
    ):
        assert getattr(changed, attribute) == getattr(original, attribute), attribute
    for hook in ("embed", "rotate", "bias", "logits"):
        assert changed.uses(hook) == original.uses(hook), hook


# Variants for evaluation


def variants_of(position):
    return list(evaluation_variants(model_of(position), 8))


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (
            "alibi",
            ["window", "far share", "window and sinks", "slopes interpolated", "flat beyond L"],
        ),
        ("sinusoidal", []),
        ("rotary", ["window", "far share", "pi", "ntk", "yarn"]),
        ("learned", []),
        ("none", ["window", "far share", "window and sinks"]),
        ("t5", ["window", "far share", "window and sinks"]),
        ("kerple-log", ["window", "far share", "window and sinks"]),
        ("fire", ["window", "far share", "window and sinks"]),
        ("decay", ["window", "far share", "window and sinks"]),
        ("forget", ["window", "far share"]),
        ("xpos", ["window", "far share"]),
    ],
)
def test_variants_are_those_that_change_the_method(position, expected):
    assert variants_of(position) == expected


def test_every_variant_has_its_name_in_the_table():
    names = set()
    for position in POSITIONS:
        names.update(variants_of(position))
    assert names == set(VARIANTS)


def test_rotary_heads_of_two_channels_have_no_ntk():
    model = lab.make_model("rotary", d_model=16, num_heads=8)
    assert list(evaluation_variants(model, 8)) == ["window", "far share", "pi", "yarn"]


def test_the_variant_with_sinks_sees_the_first_four_tokens_and_the_last_eight():
    variant = evaluation_variants(model_of("alibi"), 8)["window and sinks"]
    is_visible = bias_of(variant, 1, 20)[0, 0].isfinite()
    expected = [0, 1, 2, 3, 12, 13, 14, 15, 16, 17, 18, 19]
    assert is_visible.nonzero().flatten().tolist() == expected


@pytest.mark.parametrize(
    ("position", "variant", "changes"),
    [
        ("rotary", "far share", ["far share 0.05 beyond a distance of 7"]),
        ("alibi", "flat beyond L", ["far slope 0 beyond a distance of 7"]),
    ],
)
def test_variants_change_what_their_names_say(position, variant, changes):
    changed = evaluation_variants(model_of(position), 8)[variant]
    assert [str(change) for change in changes_of(changed)] == changes


# Decoding


@each_case(
    ("position", "change"),
    {
        "interpolated slopes": ("alibi", {"slopes": "interpolate"}),
        "a rotary rule": ("rotary", {"rotary": "yarn"}),
    },
)
def test_a_change_by_length_supports_no_cache(position, change):
    model = lab.modify(model_of(position), **change)
    assert model.generate(TOKENS, 1).shape == (1, LENGTH + 1)
    with pytest.raises(
        ValueError, match=r"supports no cache, .* or generate\(\.\.\., use_cache=False\)"
    ):
        model.generate(TOKENS, 1, use_cache=True)


@pytest.mark.parametrize("rule", ["plain", "rerope"])
def test_a_rotary_rule_that_scales_nothing_supports_a_cache(rule):
    model = lab.modify(model_of("rotary"), rotary=rule, trained_length=10)
    with_cache = model.generate(TOKENS, 6, temperature=0, use_cache=True)
    without_cache = model.generate(TOKENS, 6, temperature=0, use_cache=False)
    assert torch.equal(with_cache, without_cache)


@each_kind
@pytest.mark.parametrize("change", [{"window": 4, "far_slope": 1.0}, {"far_share": 0.1}], ids=str)
def test_a_changed_model_decodes_with_a_cache(position, change):
    model = lab.make_model(position, max_length=LENGTH)
    model = lab.modify(model, **change, trained_length=3)
    with_cache = model.generate(TOKENS[:, :5], 6, temperature=0, use_cache=True)
    without_cache = model.generate(TOKENS[:, :5], 6, temperature=0, use_cache=False)
    assert torch.equal(with_cache, without_cache)


@pytest.mark.parametrize("position", ["alibi", "learned"])
def test_a_changed_model_is_defined_where_the_method_is(position):
    model = lab.modify(lab.make_model(position, max_length=LENGTH), window=4)
    assert model.is_defined_at(LENGTH)
    assert model.is_defined_at(LENGTH + 1) == (position != "learned")


# Words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, []),
        ({"slopes": 0}, ["bias dropped"]),
        ({"slopes": [1, 0, 1, 1]}, ["slopes times 1, 0, 1, 1"]),
        ({"slopes": 1.5, "window": 1, "sinks": 1}, ["slopes times 1.5, window of 1, sinks of 1"]),
        ({"slopes": "interpolate", "trained_length": 16}, ["slopes interpolated beyond 16"]),
        (
            {"far_slope": 0.5, "trained_length": 16},
            ["far slope 0.5 beyond a distance of 15"],
        ),
        (
            {"far_slope": [0, 1, 1, 1], "trained_length": 16},
            ["far slope 0, 1, 1, 1 beyond a distance of 15"],
        ),
    ],
    ids=str,
)
def test_a_change_is_described(change, words):
    changed = lab.modify(model_of("bloom"), **change)
    assert [str(change) for change in changes_of(changed)] == words


def test_changes_are_described_in_their_order():
    limited = lab.modify(model_of("rotary"), far_share=0.05)
    thrice = lab.modify(lab.modify(limited, window=9), rotary="pi")
    assert [str(change) for change in changes_of(thrice)] == [
        "far share 0.05 beyond a distance of 9",
        "window of 9",
        "rotary rule pi",
    ]


each_mistake = each_case(
    "value",
    {
        "negative": -1.0,
        "too few": [1.0, 2.0],
        "infinite": math.inf,
        "a word": "half",
    },
)


@each_mistake
def test_factors_that_do_not_fit_are_refused(value):
    with pytest.raises(
        ValueError, match=r"slopes must be .* a number of at least 0, or one for each of 4 heads"
    ):
        lab.modify(model_of("alibi"), value)


@each_mistake
def test_far_slopes_that_do_not_fit_are_refused(value):
    with pytest.raises(
        ValueError, match=r"far_slope must be a number of at least 0, or one for each of 4 heads"
    ):
        lab.modify(model_of("bloom"), far_slope=value, trained_length=10)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("alibi", {"window": 0}, "window must be an integer of at least 1, got 0"),
        ("alibi", {"window": 4, "sinks": -1}, "sinks must be at least 0, got -1"),
        ("bloom", {"sinks": 4}, "sinks must be 0 without a window, .*, got 4"),
        ("alibi", {"far_share": 1.5}, "far_share must be a number from 0 to 1, got 1.5"),
        ("alibi", {"far_share": -0.1}, "far_share must be a number from 0 to 1, got -0.1"),
        ("alibi", {"far_share": math.nan}, "far_share must be a number from 0 to 1, got nan"),
        ("alibi", {"far_share": True}, "far_share must be a number, got True"),
        ("rotary", {"rotary": "linear"}, "must be one of plain, .*, yarn, rerope, got 'linear'"),
        (
            "alibi",
            {"slopes": "interpolate", "trained_length": 0},
            "trained_length must be an integer of at least 1, got 0",
        ),
        (
            "bloom",
            {"slopes": "interpolate"},
            "trained_length must be given",
        ),
        (
            "bloom",
            {"far_slope": 0},
            "trained_length must be given",
        ),
    ],
    ids=str,
)
def test_a_number_out_of_range_is_named(name, change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        lab.modify(model_of(name), **change)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("rotary", {"window": 4, "sinks": 1}, "sinks must be 0 where distances .* 'rotary'"),
        ("forget", {"window": 4, "sinks": 1}, "sinks must be 0 where distances .* 'forget'"),
        ("none", {"slopes": 2}, "slopes must be None without a bias to multiply, got .* 'none'"),
        ("kerple-log", {"slopes": "interpolate"}, "is for ALiBi only, got .* 'kerple-log'"),
        ("alibi", {"rotary": "pi"}, "only rotary positions have a rule to change, got .* 'alibi'"),
        ("bloom", {"rotary": "pi"}, "rotary must be None for a model with ALiBi, got 'pi'"),
        ("mpt", {"far_share": 0.1}, "far_share must be None for a pretrained model, got 0.1"),
    ],
    ids=str,
)
def test_a_change_that_does_not_apply_is_refused(name, change, message):
    with pytest.raises(ValueError, match=message):
        lab.modify(model_of(name), **change)


def test_true_is_no_factor():
    with pytest.raises(TypeError, match=r"slopes must be .*, got True"):
        lab.modify(model_of("alibi"), True)
