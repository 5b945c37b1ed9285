"""Changed models compute what they say, share every weight, and leave the original alone."""

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from alibi_viz import lab
from alibi_viz.models import POSITIONS, Position
from alibi_viz.surgery.modify import VARIANTS, changes_of, evaluation_variants
from tests.pretrained_models import small_model
from tests.reference import reference_attention

TOKENS = torch.arange(40)[None] % 256
NAMES = ("alibi", "kerple-log", "bloom", "mpt", "falcon sdpa", "falcon eager")


@cache
def model_of(name: str) -> Any:
    if name in POSITIONS:
        return lab.make_model(name, max_length=10, num_heads=4, d_model=64).eval()
    return small_model(name)


def logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        output = model.eval()(TOKENS)
    return getattr(output, "logits", output)


@pytest.mark.parametrize("name", NAMES)
def test_the_original_is_unchanged_and_every_weight_is_shared(name: str) -> None:
    model = model_of(name)
    before, changed = logits(model), lab.modify(model, 3.0, window=4, sinks=1)
    assert not torch.allclose(logits(changed), before) and torch.equal(logits(model), before)
    torch.testing.assert_close(logits(lab.modify(model)), before)
    torch.testing.assert_close(
        logits(lab.modify(model, 1.0, window=40, sinks=2)), before, atol=1e-5, rtol=1e-5
    )
    assert {id(weight) for weight in changed.parameters()} == {
        id(weight) for weight in model.parameters()
    }
    changed.eval(), model.train()
    assert [{part.training for part in each.modules()} for each in (model, changed)] == [
        {True},
        {False},
    ]


@pytest.mark.parametrize("name", ["alibi", "bloom", "mpt", "falcon sdpa"])
def test_interpolated_slopes_equal_slopes_multiplied_by_the_ratio_of_lengths(name: str) -> None:
    model = model_of(name)
    interpolated = lab.modify(model, "interpolate", trained_length=10)
    torch.testing.assert_close(logits(interpolated), logits(lab.modify(model, 10 / 40)))
    torch.testing.assert_close(
        logits(lab.modify(model, "interpolate", trained_length=40)), logits(model)
    )


@pytest.mark.parametrize("name", ["alibi", "bloom"])
def test_the_copy_of_a_compiled_model_is_changed(name: str) -> None:
    logits(compiled := torch.compile(model_of(name), backend="eager"))
    torch.testing.assert_close(
        logits(lab.modify(compiled, 0.0)), logits(lab.modify(model_of(name), 0.0))
    )


def test_multiplied_slopes_equal_a_model_with_those_slopes() -> None:
    model, steep = lab.make_model("alibi"), lab.make_model("alibi", slope_scale=2.0)
    for factors in (2, [2.0] * 8, np.float32(2), torch.tensor(2.0), np.full(8, 2)):
        torch.testing.assert_close(logits(lab.modify(model, factors)), logits(steep))
    assert torch.equal(
        lab.modify(model, 2).transformer.position.bias(9, 9),
        2 * model.transformer.position.bias(9, 9),
    )
    no_positions = logits(lab.make_model("none"))
    torch.testing.assert_close(logits(lab.modify(model, 0)), no_positions)
    torch.testing.assert_close(
        logits(lab.modify(lab.make_model("forget"), 0)), no_positions
    )  # in every layer


@pytest.mark.parametrize("position", list(POSITIONS))
def test_a_window_masks_keys_further_back(position: str) -> None:
    torch.manual_seed(0)
    model = lab.make_model(position, max_length=40, num_heads=4)
    windowed, original = (
        lab.modify(model, window=5).transformer.position,
        model.transformer.position,
    )
    query, key, value = torch.randn(3, 2, 4, 8, 16)
    x = torch.randn(2, 8, 64)
    bias = original.bias(8, 8, x)
    bias = torch.zeros(2, 4, 8, 8) if bias is None else bias.detach().expand(2, 4, 8, 8)
    bias = bias.masked_fill(torch.arange(8)[:, None] - torch.arange(8) >= 5, -math.inf)
    transformed = original.transform(query, key)
    expected = [
        reference_attention(*(t[b : b + 1] for t in (*transformed, value)), bias[b])[0]
        for b in range(2)
    ]
    output = windowed.attend(query, key, value, causal=True, x=x)
    torch.testing.assert_close(output.double(), torch.cat(expected), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("method", ["alibi", "none", "t5", "kerple-log", "fire"])
def test_sinks_have_the_bias_of_the_tokens_right_before_the_window(method: str) -> None:
    model, window, sinks, length = lab.make_model(method), 5, 2, 20
    original = model.transformer.position.bias(length, length)
    original = torch.zeros(1, length, length) if original is None else original
    bias = lab.modify(model, window=window, sinks=sinks).transformer.position.bias(length, length)
    for query in range(length):
        for key in range(query + 1):
            if query - key < window:
                expected = original[:, query, key]
            elif key < sinks:
                expected = original[:, query, max(key, query - (window + sinks - 1 - key))]
            else:
                expected = torch.full_like(original[:, 0, 0], -math.inf)
            torch.testing.assert_close(bias[:, query, key], expected)


def test_rotary_rules_change_inputs_beyond_the_training_length_only() -> None:
    model = lab.make_model("rotary", max_length=40)
    for rule in ("pi", "ntk", "yarn"):
        assert torch.equal(logits(lab.modify(model, rotary=rule)), logits(model))
        shorter = lab.modify(model, rotary=rule, trained_length=20)
        assert not torch.allclose(logits(shorter), logits(model))
        windowed = lab.modify(model, window=4, rotary=rule, trained_length=20)
        assert not torch.allclose(logits(windowed), logits(shorter))
        assert torch.equal(logits(windowed)[:, :4], logits(shorter)[:, :4])


def test_variants_are_those_that_change_the_method() -> None:
    names = {
        position: [*evaluation_variants(lab.make_model(position), 8)] for position in POSITIONS
    }
    assert names["rotary"] == ["window", "pi", "ntk", "yarn"]
    assert names["alibi"] == ["window", "window and sinks", "slopes interpolated"]
    assert names["sinusoidal"] == names["learned"] == []
    assert all(
        names[position] == ["window", "window and sinks"] for position in ("none", "t5", "fire")
    )
    assert all(names[position] == ["window"] for position in ("forget", "xpos"))
    assert {name for variants in names.values() for name in variants} == {*VARIANTS}
    assert [*evaluation_variants(lab.make_model("rotary", d_model=16), 8)] == [
        "window",
        "pi",
        "yarn",
    ], "2 channels"
    visible = (
        evaluation_variants(model_of("alibi"), 8)["window and sinks"]
        .transformer.position.bias(20, 20)
        .isfinite()
    )
    for query in range(20):
        expected = {*range(max(0, query - 7), query + 1), *range(min(4, query + 1))}
        assert {key for key in range(query + 1) if visible[0, query, key]} == expected


def test_a_change_is_described() -> None:
    model = small_model("bloom")
    for change, words in [
        ({}, []),
        ({"slopes": 0.5}, ["slopes times 0.5"]),
        ({"slopes": 0}, ["bias dropped"]),
        ({"slopes": [1, 0, 1, 1]}, ["slopes times 1, 0, 1, 1"]),
        ({"slopes": 1.5, "window": 1, "sinks": 1}, ["slopes times 1.5, window of 1, sinks of 1"]),
        ({"slopes": "interpolate", "trained_length": 16}, ["slopes interpolated beyond 16"]),
    ]:
        assert [str(each) for each in changes_of(lab.modify(model, **change))] == words
    twice = lab.modify(lab.modify(lab.make_model("rotary"), window=9), rotary="pi")
    assert [str(change) for change in changes_of(twice)] == ["window of 9", "rotary rule pi"]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        *(
            (
                name,
                {"slopes": slopes},
                ("slopes must be .* a number of at least 0, or one for each of 4 heads, got"),
            )
            for name in ("alibi", "bloom")
            for slopes in (-1.0, [1.0, 2.0], [[1.0] * 4], "half")
        ),
        ("alibi", {"window": 0}, "window must be an integer of at least 1, got 0"),
        ("alibi", {"window": 4, "sinks": -1}, "sinks must be at least 0, got -1"),
        ("bloom", {"sinks": 4}, "sinks must be 0 without a window, .*, got 4"),
        *(
            (name, {"window": 4, "sinks": 1}, f"sinks must be 0 where distances .* '{name}'")
            for name in ("rotary", "sinusoidal", "xpos")
        ),
        (
            "alibi",
            {"rotary": "pi"},
            ("only rotary positions have a rule to change, got position method 'alibi'"),
        ),
        ("bloom", {"rotary": "pi"}, "rotary must be None for a model with ALiBi, got 'pi'"),
        ("rotary", {"rotary": "linear"}, "must be one of plain, pi, ntk, yarn, got 'linear'"),
        (
            "kerple-log",
            {"slopes": "interpolate"},
            ("is for ALiBi only, got position method 'kerple-log'"),
        ),
        (
            "alibi",
            {"slopes": "interpolate", "trained_length": 0},
            ("trained_length must be an integer of at least 1"),
        ),
        (
            "alibi",
            {"window": 4, "trained_length": 0},
            ("trained_length must be an integer of at least 1, got 0"),
        ),
        (
            "bloom",
            {"slopes": "interpolate"},
            ("trained_length must be an integer of at least 1, got None"),
        ),
    ],
    ids=str,
)
def test_a_change_that_does_not_apply_is_refused(
    name: str, change: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        lab.modify(model_of(name), **change)


def test_a_method_with_an_attention_of_its_own_cannot_be_modified() -> None:
    class Own(Position):
        def attend(self, query: Tensor, key: Tensor, value: Tensor, **_: Any) -> Tensor:
            return 0 * value

    model = lab.make_model(Own)
    with pytest.raises(
        ValueError, match="`attend` of their own can't be modified, got position method 'Own'"
    ):
        lab.modify(model, window=4)
    assert evaluation_variants(model, 8) == {}


CHANGES: list[dict[str, Any]] = [
    {},
    {"slopes": [0, 0.5, 1, 2]},
    {"window": 9, "sinks": 3},
    {"window": 20},
]


@pytest.mark.parametrize("name", (*NAMES, "rotary"))
def test_two_changes_in_either_order_are_both_at_once(name: str) -> None:
    changes = CHANGES
    if name == "rotary":
        changes = [{"window": 9}, {"rotary": "yarn", "trained_length": 10}]
    elif name != "kerple-log":
        changes = [*CHANGES, {"slopes": "interpolate", "trained_length": 10}]
    for first, second in itertools.permutations(changes, 2):
        if not first.keys() & second.keys() - {"trained_length"}:
            twice = lab.modify(lab.modify(model_of(name), **first), **second)
            torch.testing.assert_close(
                logits(twice), logits(lab.modify(model_of(name), **first, **second))
            )


def test_the_same_change_twice_acts_twice() -> None:
    halved = lab.modify(lab.modify(model_of("bloom"), 0.5), 0.5)
    torch.testing.assert_close(logits(halved), logits(lab.modify(model_of("bloom"), 0.25)))
    for name in ("alibi", "bloom", "mpt", "falcon sdpa"):
        narrowed = lab.modify(lab.modify(model_of(name), window=9, sinks=2), window=4, sinks=2)
        torch.testing.assert_close(
            logits(narrowed), logits(lab.modify(model_of(name), window=4, sinks=2))
        )
    widened = lab.modify(lab.modify(model_of("alibi"), window=4, sinks=1), window=9, sinks=1)
    assert widened.transformer.position.bias(1, 20)[
        0, 0
    ].isfinite().nonzero().flatten().tolist() == [0, 16, 17, 18, 19]


@pytest.mark.parametrize("name", ["bloom", "mpt", "falcon sdpa"])
def test_interpolation_counts_no_padding(name: str) -> None:
    model, mask = (
        lab.modify(model_of(name), "interpolate", trained_length=8),
        torch.arange(24)[None] >= 18,
    )
    with torch.no_grad():
        padded = model(TOKENS[:, :6].repeat(1, 4), attention_mask=mask.long()).logits[:, 18:]
        torch.testing.assert_close(padded, model(TOKENS[:, :6]).logits, atol=1e-5, rtol=1e-4)


def test_mpt_with_sinks_refuses_sequences_of_different_lengths() -> None:
    mask = torch.ones(2, 20, dtype=torch.long)
    mask[0, :6] = 0
    changed = lab.modify(small_model("mpt"), window=4, sinks=2)
    with torch.no_grad(), pytest.raises(ValueError, match="sequences of equal length in a batch"):
        changed(TOKENS[:, :20].expand(2, -1), attention_mask=mask)


@pytest.mark.parametrize(
    ("position", "change"), [("alibi", {"slopes": "interpolate"}), ("rotary", {"rotary": "yarn"})]
)
def test_changes_by_length_support_no_cache(position: str, change: dict[str, Any]) -> None:
    model = lab.modify(model_of(position), **change)
    with pytest.raises(
        ValueError, match=r"supports no cache, .* or generate\(\.\.\., use_cache=False\)"
    ):
        model.generate(TOKENS, 1, use_cache=True)
    assert model.generate(TOKENS, 1).shape == (1, 41)
    assert lab.modify(model_of("rotary"), rotary="plain").generate(
        TOKENS, 1, use_cache=True
    ).shape == (1, 41)


@pytest.mark.parametrize("position", POSITIONS)
def test_changed_models_decode_with_a_cache_and_are_defined_where_the_method_is(
    position: str,
) -> None:
    model = lab.modify(lab.make_model(position, max_length=40), window=4)
    assert (model.is_defined_at(40), model.is_defined_at(41)) == (True, position != "learned")
    pair = [
        model.generate(TOKENS[:, :5], 6, temperature=0, use_cache=use_cache)
        for use_cache in (True, False)
    ]
    assert torch.equal(*pair)
