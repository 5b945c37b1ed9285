"""BLOOM, MPT and Falcon compute what a plain reference computes, as loaded and changed by
`lab.modify`."""

import math
from itertools import product
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from alibi_viz import AlibiBias, alibi_bias, alibi_slopes, lab
from alibi_viz.measure.attention_statistics import pretrained_stats
from alibi_viz.models.pretrained import attention_inputs, family_of
from tests.pretrained_models import FAMILIES, small_model
from tests.rows import each_case

LENGTH = 24
TOKENS = torch.randint(0, 256, (2, LENGTH), generator=torch.Generator().manual_seed(0))

NO_CHANGE = {}
EVERYTHING = {"slopes": [0.5, 1.0, 2.0, 0.0], "window": 6, "sinks": 2}
CHANGES = {
    "as loaded": NO_CHANGE,
    "no bias": {"slopes": 0},
    "only itself": {"window": 1},
    "window and sinks": {"window": 5, "sinks": 3},
    "everything": EVERYTHING,
}

every_family = pytest.mark.parametrize("name", FAMILIES)
as_loaded_and_changed = each_case(
    "change",
    {"as loaded": NO_CHANGE, "changed": EVERYTHING},
)


def padding_masks():
    """Which tokens are real, 1 or 0, [batch, length]."""
    full = torch.ones(2, LENGTH, dtype=torch.long)

    padded = full.clone()
    padded[0, :6] = 0
    padded[1, :22] = 0  # leaves fewer tokens than sinks

    gaps = full.clone()
    gaps[0, 3:7] = 0
    gaps[1, 10] = 0
    gaps[1, 15:18] = 0
    return {"full": full, "padded": padded, "gaps": gaps}


MASKS = padding_masks()


# The reference


class Change(NamedTuple):
    """What `lab.modify` changes, with other defaults: those of an unchanged model."""

    slopes: float | list[float] = 1.0
    window: int = LENGTH
    sinks: int = 0

    def factor(self, head):
        if isinstance(self.slopes, list):
            return self.slopes[head]
        return self.slopes

    def distance(self, query, key):
        """The distance of a pair of real tokens in the bias; None if it isn't visible."""
        distance = query - key
        if distance < self.window:
            return distance
        if key >= self.sinks:
            return None
        # A sink stands right before the window: tokens between the two don't count.
        sinks_after_it = self.sinks - 1 - key
        return min(distance, self.window + sinks_after_it)


def reference_weights(query, key, slopes, mask, change):
    """Weights [batch, heads, query, key] in float64, logit by logit; zeros for padding."""
    batch, heads, length, head_dim = query.shape
    content = query.double() @ key.double().mT / math.sqrt(head_dim)
    weights = torch.zeros(batch, heads, length, length, dtype=torch.float64)
    for b in range(batch):
        real = mask[b].nonzero().flatten().tolist()  # the places of real tokens
        for head in range(heads):
            slope = slopes[head].item() * change.factor(head)
            for i, query_place in enumerate(real):
                logits = {}
                for j, key_place in enumerate(real[: i + 1]):
                    distance = change.distance(i, j)
                    if distance is not None:
                        logit = content[b, head, query_place, key_place].item()
                        logits[key_place] = logit - slope * distance
                total = sum(math.exp(logit) for logit in logits.values())
                for key_place, logit in logits.items():
                    weights[b, head, query_place, key_place] = math.exp(logit) / total
    return weights


def own_slopes(name, model, layer):
    """The slopes of a layer for the usual scale of q . k."""
    slopes = family_of(model).slopes(layer)
    if name == "falcon eager":
        return 2 * slopes  # it adds its bias twice
    return slopes


class Seen(NamedTuple):
    """What an attention module received and computed."""

    layer: Any
    hidden: Tensor  # its input, [batch, length, width]
    mixed: Tensor  # the weighted values that it sends to its output projection, of the same shape


@torch.no_grad()
def seen_by_layers(model, mask):
    family = family_of(model)
    layers = family.layers(model)
    hidden = []
    mixed = []

    def keep_hidden(_module, inputs):
        hidden.append(inputs[0])

    def keep_mixed(_module, inputs):
        mixed.append(inputs[0])

    for layer in layers:
        layer.register_forward_pre_hook(keep_hidden)
        getattr(layer, family.output).register_forward_pre_hook(keep_mixed)
    model(TOKENS, attention_mask=mask)
    return [Seen(*row) for row in zip(layers, hidden, mixed, strict=True)]


# Attention


def has_a_reference(name, change, mask_name):
    """Not MPT's bias, one for the whole batch, which counts gaps and can't move sinks by row."""
    if name != "mpt" or mask_name == "full":
        return True
    return mask_name == "padded" and "sinks" not in change


def cases():
    """Every change of every family without padding, and with it some."""
    rows = {}
    for name, change_name, mask_name in product(FAMILIES, CHANGES, MASKS):
        change = CHANGES[change_name]
        is_tried = mask_name == "full" or change_name in ("as loaded", "window and sinks")
        if is_tried and has_a_reference(name, change, mask_name):
            rows[f"{name}, {change_name}, {mask_name}"] = (name, change, MASKS[mask_name])
    return rows


@torch.no_grad()
def assert_equals_reference(name, model, change, mask):
    for layer, hidden, mixed in seen_by_layers(model, mask):
        query, key, value = family_of(model).project(layer, hidden)
        slopes = own_slopes(name, model, layer)
        weights = reference_weights(query, key, slopes, mask, Change(**change))
        expected = (weights.float() @ value).transpose(1, 2).flatten(2)
        is_real = mask.bool()
        torch.testing.assert_close(mixed[is_real], expected[is_real], atol=2e-5, rtol=1e-4)


@each_case(("name", "change", "mask"), cases())
def test_attention_equals_a_reference(name, change, mask):
    model = lab.modify(small_model(name), **change)
    assert_equals_reference(name, model, change, mask)


@as_loaded_and_changed
@pytest.mark.parametrize(("setting", "value"), [("clip_qkv", 0.5), ("softmax_scale", 0.1)])
def test_attention_with_a_setting_of_some_mpt_models_equals_a_reference(setting, value, change):
    model = lab.modify(small_model("mpt"), **change)
    for layer in family_of(model).layers(model):
        setattr(layer, setting, value)
    assert_equals_reference("mpt", model, change, MASKS["full"])


@every_family
@torch.no_grad()
def test_slopes_are_those_of_the_bias_that_a_layer_receives(name):
    """The slopes of 12 heads are no powers of two, so Falcon's are rounded."""
    model = small_model(name, heads=12)
    family = family_of(model)
    layer = family.layers(model)[0]
    received = []

    def keep(_module, _args, inputs):
        received.append(inputs)

    layer.register_forward_pre_hook(keep, with_kwargs=True)
    model(TOKENS, attention_mask=MASKS["full"])
    bias, _ = family.read(layer, received[0])
    last_row = bias[0, :, -1]  # [heads, key]
    step = last_row[:, 1] - last_row[:, 0]
    torch.testing.assert_close(step, own_slopes(name, model, layer))


@torch.no_grad()
def test_multi_query_attention_has_the_same_key_for_each_head():
    model = small_model("falcon multi-query")
    family = family_of(model)
    _, key, _ = family.project(family.layers(model)[0], torch.ones(1, 3, 64))
    assert torch.equal(key, key[:, :1].expand(1, 4, 3, 16))


@every_family
@torch.no_grad()
def test_query_key_and_value_have_all_heads(name):
    model = small_model(name)
    family = family_of(model)
    query, key, value = family.project(family.layers(model)[0], torch.ones(1, 3, 64))
    assert query.shape == (1, 4, 3, 16)
    assert key.shape == (1, 4, 3, 16)
    assert value.shape == (1, 4, 3, 16)


@as_loaded_and_changed
@every_family
def test_fused_attention_gives_every_layer_the_same_input(name, change):
    model = lab.modify(small_model(name), **change)
    fused = attention_inputs(model, TOKENS)
    expected = [seen.hidden for seen in seen_by_layers(model, MASKS["full"])]
    torch.testing.assert_close(fused, expected, atol=2e-5, rtol=1e-4)


LAST_QUERIES = 5


def distance_of_last_queries():
    """From each query to each key, int64 [query, key]."""
    positions = torch.arange(LENGTH)
    return positions[-LAST_QUERIES:, None] - positions


def weights_of_last_queries(name, model):
    """Of a model changed in everything: for each layer [batch, heads, query, key]."""
    change = Change(**EVERYTHING)
    of_layers = []
    for layer, hidden, _ in seen_by_layers(model, MASKS["full"]):
        query, key, _ = family_of(model).project(layer, hidden)
        slopes = own_slopes(name, model, layer)
        weights = reference_weights(query, key, slopes, MASKS["full"], change)
        of_layers.append(weights[:, :, -LAST_QUERIES:])
    return of_layers


@every_family
@torch.no_grad()
def test_mean_distance_is_that_of_the_reference(name):
    model = lab.modify(small_model(name), **EVERYTHING)
    stats = pretrained_stats(model, TOKENS, trained=8, queries=LAST_QUERIES)
    of_layers = weights_of_last_queries(name, model)
    distance = distance_of_last_queries()
    expected = torch.stack([(weights * distance).sum(-1).mean((0, 2)) for weights in of_layers])
    torch.testing.assert_close(stats.distance.double(), expected, atol=1e-5, rtol=1e-4)


@every_family
@torch.no_grad()
def test_weight_beyond_the_training_length_is_that_of_the_reference(name):
    trained = 5  # the window of 6 shows one key beyond it, and the sinks are further
    model = lab.modify(small_model(name), **EVERYTHING)
    stats = pretrained_stats(model, TOKENS, trained=trained, queries=LAST_QUERIES)
    of_layers = weights_of_last_queries(name, model)
    is_beyond = distance_of_last_queries() >= trained
    expected = torch.stack([(weights * is_beyond).sum(-1).mean((0, 2)) for weights in of_layers])
    torch.testing.assert_close(stats.beyond.double(), expected, atol=1e-5, rtol=1e-4)


# Decoding

TWICE = [{"window": 4}, {"window": 2, "sinks": 1}]


def generated_logits(model, mask, *, use_cache):
    """Of eight new tokens."""
    generated = model.generate(
        TOKENS,
        attention_mask=mask,
        pad_token_id=0,
        use_cache=use_cache,
        max_new_tokens=8,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    return torch.stack(generated.logits)


@each_case(
    "changes",
    {
        "as loaded": [],
        "changed": [EVERYTHING],
        "changed twice": TWICE,
    },
)
@every_family
def test_generating_with_a_cache_gives_the_same_logits(name, changes):
    model = small_model(name)
    for change in changes:
        model = lab.modify(model, **change)
    # A changed MPT model refuses sequences of different lengths.
    mask = MASKS["full"] if name == "mpt" and changes else MASKS["padded"]
    with_cache = generated_logits(model, mask, use_cache=True)
    without_cache = generated_logits(model, mask, use_cache=False)
    torch.testing.assert_close(with_cache, without_cache, atol=1e-4, rtol=1e-4)


# What stays as it is


def changed_in_bfloat16(name):
    return lab.modify(small_model(name).to(torch.bfloat16), 0.5, window=4, sinks=1)


@every_family
@torch.no_grad()
def test_logits_in_half_precision_are_finite(name):
    logits = changed_in_bfloat16(name)(TOKENS).logits
    assert bool(logits.isfinite().all())


@every_family
def test_gradients_in_half_precision_are_finite(name):
    model = changed_in_bfloat16(name)
    model(TOKENS).logits.float().sum().backward()
    gradients = {
        parameter_name: parameter.grad
        for parameter_name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    assert gradients
    for parameter_name, gradient in gradients.items():
        assert bool(gradient.isfinite().all()), parameter_name


def look_at_the_statistics(model):
    pretrained_stats(model, TOKENS, trained=8)


def look_at_the_inputs(model):
    attention_inputs(model, TOKENS)


each_look = pytest.mark.parametrize("look", [look_at_the_statistics, look_at_the_inputs])


@each_look
def test_looking_into_a_model_keeps_the_mode_of_each_module(look):
    model = small_model("bloom").train()
    model.transformer.h[0].eval()
    modes = {name: module.training for name, module in model.named_modules()}
    look(model)
    assert {name: module.training for name, module in model.named_modules()} == modes


@each_look
def test_looking_into_a_model_leaves_no_hook_behind(look):
    model = small_model("bloom")
    look(model)
    hooked = [name for name, module in model.named_modules() if module._forward_pre_hooks]
    assert hooked == []


def gpt2():
    return small_model("gpt2")


def linear_layer():
    return torch.nn.Linear(1, 1)


def falcon_with_rotary_positions():
    model = small_model("falcon sdpa")
    model.config.alibi = False
    return model


@each_case(
    ("make", "message"),
    {
        "another family": (gpt2, "model must be one of bloom, falcon, mpt, got 'gpt2'"),
        "no model": (linear_layer, "model must be one of bloom, falcon, mpt, got 'Linear'"),
        "falcon without ALiBi": (
            falcon_with_rotary_positions,
            "this falcon model was configured without ALiBi",
        ),
    },
)
@pytest.mark.parametrize("use", [family_of, lab.modify, look_at_the_statistics])
def test_other_models_are_refused_with_the_reason(make, message, use):
    model = make()
    with pytest.raises(ValueError, match=message):
        use(model)


# Models of others


class WithAlibiBias(PreTrainedModel):
    """A model of somebody else, which has our module."""

    config_class = PreTrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.bias = AlibiBias(2)
        self.linear = torch.nn.Linear(1, 1)
        self.post_init()


def test_slopes_have_values_in_a_model_that_transformers_loads(tmp_path):
    """`from_pretrained` builds a model on the meta device, where tensors have no values, and then
    reads its parameters from the file. Slopes are not in the file, so our module computes them."""
    WithAlibiBias(PreTrainedConfig()).save_pretrained(tmp_path)
    loaded = WithAlibiBias.from_pretrained(tmp_path)
    assert torch.equal(loaded.bias(4), alibi_bias(alibi_slopes(2), 4))
