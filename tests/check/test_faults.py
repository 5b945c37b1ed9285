"""Faults that no exhibit of the gallery has, several faults at once, and bad functions."""

import math
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from alibi_viz import alibi_bias, alibi_slopes, check, gallery
from alibi_viz.check.probe import Observation
from tests.check.faulty import (
    Nothing,
    aligned_with_the_first_keys,
    attend,
    bias_of,
    capped,
    first_slice,
    ignores_padding,
    in_half_precision,
    inverts_padding,
    lower_triangle_without_a_mask,
    names,
    not_masked,
    padded,
    raises,
    reversed_while_decoding,
    rotated,
    shifted_mask,
    windowed,
    wrapped,
)

CASES: dict[str, list[tuple[Callable[..., check.Report], Callable[..., Any], dict[str, Any]]]] = {
    "halving slopes": [(check.bias, bias_of(lambda heads: alibi_slopes(heads, "halving")), {})],
    "imprecise slopes": [
        (check.slopes, lambda heads: alibi_slopes(heads).half().float(), {}),
        (check.bias, bias_of(lambda heads: alibi_slopes(heads).half().float()), {}),
    ],
    "heads in another order": [(check.bias, bias_of(lambda heads: alibi_slopes(heads).flip(0)), {})],
    "other slopes": [(check.bias, bias_of(lambda heads: 1 / torch.arange(1.0, heads + 1)), {})],
    "sign reversed in one branch": [(check.bias, reversed_while_decoding, {})],
    "logarithm of the distance": [
        (
            check.bias,
            lambda h, q, k: -alibi_slopes(h)[:, None, None] * alibi_bias(torch.ones(1), q, k).abs().log1p(),
            {},
        )
    ],
    "length cap": [(check.bias, capped, {}), (check.bias, wrapped, {})],
    "window": [(check.bias, windowed(64), {}), (check.bias, windowed(4), {})],
    "query can't see itself": [(check.attention, shifted_mask(-1), {})],
    "one key ahead": [(check.attention, shifted_mask(1), {"decoding": False})],
    "rounded to half precision": [(check.attention, in_half_precision, {})],
    "slopes of a head slice": [(check.slopes, first_slice, {"num_heads": [8, 12]})],
    "bias multiplied": [
        (check.slopes, lambda heads: 1.001 * alibi_slopes(heads), {}),
        (check.attention, lambda q, k, v: attend(q, k, v, factor=0.4), {}),
    ],
    "logits multiplied": [(check.attention, lambda q, k, v: attend(q, k, v, factor=0.5, content=0.5 / 8), {})],
    "content depends on the head": [
        (check.attention, lambda q, k, v: attend(q * torch.arange(1, q.shape[1] + 1)[:, None, None], k, v), {})
    ],
    "causal mask in the wrong corner": [(check.attention, aligned_with_the_first_keys, {})],
    "future not masked": [
        (check.attention, not_masked, {}),
        (check.attention, lower_triangle_without_a_mask, {}),
    ],
    "only earlier keys": [(check.attention, attend, {"causal": False})],
    "content not scaled": [(check.attention, lambda q, k, v: attend(q, k, v, content=1.0), {})],
    "content multiplied": [
        (check.attention, lambda q, k, v: attend(q, k, v, content=0.05), {}),
        (check.attention, lambda q, k, v: attend(-q, k, v), {}),
        (check.attention, lambda q, k, v: attend(5 * q if q.shape[2] < k.shape[2] else q, k, v), {}),
    ],
    "padding not masked": [
        (check.attention, ignores_padding, {"padding": True}),
        (check.attention, inverts_padding, {"padding": True}),
    ],
    "padding changes the bias": [(check.attention, padded, {"padding": True, "causal": False})],
    "raises an error": [(check.attention, raises, {}), (check.bias, raises, {}), (check.slopes, raises, {})],
    "does not finish": [(check.slopes, lambda heads: time.sleep(2), {"seconds": 0.05})],
    "returns NaN": [(check.bias, lambda h, q, k: torch.full((h, q, k), math.nan), {})],
    "missing case": [],  # see test_vectors.py
    "wrong layout": [(check.attention, attend, {"layout": "blhd"})],
    "wrong type": [(check.slopes, lambda heads: Nothing(), {}), (check.attention, lambda q, k, v: (q, k), {})],
    "wrong shape": [(check.slopes, lambda heads: [], {}), (check.attention, lambda q, k, v: v.flatten(2), {})],
    "not deterministic": [
        (check.bias, lambda h, q, k: alibi_bias(alibi_slopes(h), q, k) + torch.rand(k), {}),
        (check.attention, lambda q, k, v: attend(torch.rand_like(q), k, v), {}),
        (check.slopes, torch.rand, {}),
        (check.attention, lambda q, k, v: torch.dropout(attend(q, k, v), 0.1, True), {}),
    ],
    "not a weighted average": [(check.attention, lambda q, k, v: 2 * attend(q, k, v), {})],
    "unknown fault": [
        (check.bias, lambda h, q, k: alibi_bias(alibi_slopes(h), q, k) * (1 + 0.1 * (torch.arange(k) % 3)), {}),
        # visible with random inputs only
        (check.attention, lambda q, k, v: attend(q.roll(1, 0), k, v), {}),
        (check.attention, lambda q, k, v: attend(q, k.roll(1, 1) if q.shape[2] < k.shape[2] else k, v), {}),
        (check.attention, lambda q, k, v: attend(8 * q if k.shape[2] > 100 else q, k, v), {}),
        (check.attention, lambda q, k, v: attend(q, k, v.roll(1, 0) if k.shape[2] > 100 else v), {}),
    ],
}


EACH = [
    pytest.param(fault, *case, id=f"{fault}-{case[0].__name__}") for fault, cases in CASES.items() for case in cases
]


@pytest.mark.parametrize(("fault", "checker", "function", "options"), EACH)
def test_fault_is_the_only_one_named(
    fault: str, checker: Callable[..., check.Report], function: Callable[..., Any], options: dict[str, Any]
) -> None:
    assert names(checker(function, **options)) == {fault}


def test_every_fault_has_a_test() -> None:
    tested = {*CASES, *(exhibit.fault for exhibit in gallery.EXHIBITS), "content depends on position"}
    assert tested == set(check.FAULTS)


def test_content_that_depends_on_position_is_named_besides_the_missing_bias() -> None:
    assert names(check.attention(rotated)) == {"content depends on position", "no bias"}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda q, k, v: attend(q, k, v, factor=-2), {"sign reversed", "added twice"}),
        (lambda q, k, v: attend(q, k, v, factor=-1 / 8), {"sign reversed", "bias before scaling"}),
        (lambda q, k, v: attend(q, k, v, factor=2, content=1.0), {"added twice", "content not scaled"}),
        (lambda q, k, v: attend(q, k, v, factor=2, causal=False), {"added twice", "rewarded future"}),
        (lambda q, k, v: attend(q, k, v, factor=0, causal=False), {"no bias", "future not masked"}),
        (
            # (q . k + bias) / sqrt(d_model)
            lambda q, k, v: attend(q, k, v, factor=(64 * q.shape[1]) ** -0.5, content=(64 * q.shape[1]) ** -0.5),
            {"bias before scaling", "content too weak"},
        ),
    ],
)
def test_several_faults_are_told_apart(function: Callable[..., Tensor], expected: set[str]) -> None:
    assert names(check.attention(function)) == expected


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_faults_are_named_in_half_precision(dtype: torch.dtype) -> None:
    assert names(check.attention(lambda q, k, v: attend(q, k, v, factor=-1), dtype=dtype)) == {"sign reversed"}
    ahead = check.attention(lambda q, k, v: attend(q, k, v, causal=False), dtype=dtype)
    assert names(ahead) == {"rewarded future"}
    scaled = check.attention(lambda q, k, v: attend(q, k, v, factor=1 / 8), dtype=dtype, length=16)
    assert names(scaled) == {"bias before scaling"}


def test_geometric_slopes_with_the_wrong_corner() -> None:
    def bias(heads: int, queries: int, keys: int) -> Tensor:
        return alibi_bias(alibi_slopes(heads, "geometric"), keys, form="symmetric")[:, :queries]

    report = check.bias(bias, num_heads=[12])
    assert names(report) == {"geometric slopes", "wrong corner of the cache"}


def test_heads_in_another_order_with_a_factor() -> None:
    assert names(check.slopes(lambda heads: -2 * alibi_slopes(heads).flip(0), num_heads=[8, 12])) == {
        "heads in another order",
        "sign reversed",
        "added twice",
    }


def test_slopes_that_are_wrong_for_some_head_counts_only() -> None:
    report = check.slopes(lambda heads: alibi_slopes(heads, "geometric" if heads > 8 else "official"))
    assert names(report) == {"geometric slopes"}


def test_two_explanations_of_the_same_slopes_are_both_in_the_report() -> None:
    report = check.slopes(gallery.slopes.first_slope_is_one, num_heads=[8])  # twice the official slopes, with 8 heads
    assert names(report) in ({"first slope is 1"}, {"added twice"})
    assert "'added twice'" in str(report) or "'first slope is 1'" in str(report)


def test_half_precision_bias_with_a_reversed_sign_is_reversed_at_every_length() -> None:
    report = check.bias(lambda h, q, k: -alibi_bias(alibi_slopes(h), q, k).bfloat16())
    assert names(report) == {"sign reversed"}


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "symmetric"])
def test_difference_of_positions_in_half_precision_has_colliding_positions(causal: bool) -> None:
    def bias(heads: int, queries: int, keys: int) -> Tensor:
        key = torch.arange(keys).bfloat16()
        return -alibi_slopes(heads)[:, None, None] * (key[keys - queries :, None] - key).abs()

    assert names(check.bias(bias, causal=causal)) == {"colliding positions"}


def test_colliding_positions_in_float16_show_at_larger_lengths() -> None:
    def bias(heads: int, queries: int, keys: int) -> Tensor:
        return alibi_bias(alibi_slopes(heads), queries, keys, form="key", dtype=torch.float16)

    assert check.bias(bias).ok
    assert names(check.bias(bias, length=2500)) == {"colliding positions"}


def test_number_that_shows_the_fault_is_in_the_report() -> None:
    report = check.bias(gallery.biases.attention_gym_2024, num_heads=[8], length=16)
    assert "has slope -0.5, expected 0.5" in str(report)
    assert report.comparison is not None
    got, wanted = report.comparison.got, report.comparison.wanted
    assert got.shape == wanted.shape == (8, 16, 16)
    assert float((got - wanted).abs().max()) == pytest.approx(float((got - wanted)[report.comparison.place].abs()))


def test_report_in_a_notebook_has_the_text_and_pictures() -> None:
    report = check.bias(lambda *sizes: -alibi_bias(alibi_slopes(sizes[0]), *sizes[1:]))
    html = report._repr_html_()
    assert "<b>ALiBi check of" in html and "&lt;lambda&gt;: 1 fault</b>" in html
    assert "<b>sign reversed:</b>" in html
    assert html.count("<img") == 3
    assert "<img" not in check.slopes(alibi_slopes)._repr_html_()


def test_an_unknown_fault_is_diagnosed_without_comparing_every_row_with_every_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[int] = []
    agrees = Observation.agrees

    def count(observation: Observation, bias: Tensor, *rows: Any) -> bool:
        compared.append(bias.numel())
        return agrees(observation, bias, *rows)

    monkeypatch.setattr(Observation, "agrees", count)
    power = bias_of(alibi_slopes)
    report = check.bias(lambda h, q, k: -(power(h, q, k).abs() ** 1.3), num_heads=[32], length=256)
    assert names(report) == {"unknown fault"}
    assert sum(compared) < 8 * 32 * 256**2, "all rules times all rows would be 70 times"
