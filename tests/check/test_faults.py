"""Faults that no exhibit of the gallery has, in every combination, at far positions and in half
precision."""

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes, check, gallery
from alibi_viz.check.probe import Observation
from alibi_viz.figures.matrices import comparison_html
from tests.check import faulty
from tests.check.faulty import PARTS, attend, bias_of, names, raises, with_faults

# Faults that others can hide: beyond a window no key shows a cap, and a rounding is small.
HIDDEN = {"length cap", "imprecise slopes"}
RIGHT = bias_of(alibi_slopes)
SHORT = {"length": 16}
without_first = lambda heads: alibi_slopes(heads) * (torch.arange(heads) > 0)  # noqa: E731  # one head has no bias
HEAD_DIMS = (8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 256)  # of models in use
# {fault: [(check, function, options)]}
CASES: dict[str, list[tuple[Callable[..., check.Report], Callable[..., Any], dict[str, Any]]]] = {
    "other slopes": [
        (check.bias, bias_of(lambda heads: 1 / torch.arange(1.0, heads + 1)), {}),
        (check.slopes, lambda heads: [0.125] * heads, {"num_heads": 12}),
        (
            check.bias,
            lambda h, *sizes: alibi_bias(alibi_slopes(h) + 0.001, *sizes),
            {"num_heads": 8, "length": 16},
        ),
    ],
    "sign reversed in one branch": [
        (check.bias, lambda h, q, k: RIGHT(h, q, k) * (1 if q == k else -1), {})
    ],
    "length cap": [
        (
            check.bias,
            lambda h, q, k: RIGHT(h, 1, 128).repeat(1, 1, 3)[..., :k],
            {},
        ),  # an index that wraps around
        *((check.bias, bias_of(alibi_slopes, cap), {"length": cap + 2}) for cap in (1, 255)),
    ],
    "first slope is 1": [
        (check.slopes, lambda heads: 2 * alibi_slopes(heads), {"num_heads": 8}),
        (
            check.slopes,
            lambda heads: [2.0**-head for head in (*range(8), *range(heads - 8))],
            {"num_heads": [8, 12]},
        ),
    ],
    "slopes of a head slice": [
        (check.slopes, lambda n: alibi_slopes(n)[: n // 2].repeat(2), {"num_heads": [8, 12]})
    ],
    "no bias": [
        # not "while decoding", although the long calls have few queries
        (
            check.attention,
            lambda q, k, v: attend(q, k, v, float(k.shape[2] < 600)),
            {"length": 700},
        ),
        (check.bias, lambda h, q, k: RIGHT(h, q, k) * (q < k), SHORT),
        (check.bias, lambda *_: 0.0, SHORT),
    ],
    "added twice": [(check.bias, lambda h, q, k: RIGHT(h, q, k) * (1 + (q < k)), SHORT)],
    "bias before scaling": [
        (check.bias, lambda h, q, k: RIGHT(h, q, k) / (64 * h) ** 0.5, {}),  # d_model
        *((check.bias, bias_of(lambda h, n=n: alibi_slopes(h) / n**0.5), SHORT) for n in HEAD_DIMS),
    ],
    "geometric slopes": [
        (check.slopes, lambda h: alibi_slopes(h, "geometric" if h > 8 else "official"), {})
    ],
    "colliding positions": [
        *(
            (check.bias, partial(faulty.colliding, n, torch.bfloat16), {"num_heads": 12})
            for n in range(6)
        ),
        *(
            (check.bias, partial(faulty.colliding, n, torch.float16), {"length": 2500})
            for n in range(6)
        ),
        (check.bias, partial(faulty.colliding, 0, torch.bfloat16), {"causal": False}),
        (
            check.bias,
            lambda *n: faulty.colliding(0, torch.bfloat16, *n) if n[1] == 1 else RIGHT(*n),
            {},
        ),
        (
            check.bias,
            partial(faulty.colliding, 5, torch.bfloat16, of=without_first),
            {"slopes": without_first},
        ),
    ],
    "bias multiplied": [
        (check.slopes, lambda heads: 1.001 * alibi_slopes(heads), {}),
        *(
            (check.bias, lambda *n, each=each: each * RIGHT(*n), {})
            for each in (1 + 2**-14, 1 + 2**-10, 1 / 2)
        ),
        (check.bias, lambda h, q, k: RIGHT(h, q, k) / 160, {"num_heads": [8], "length": 16}),
        (check.attention, lambda q, k, v: attend(q, k, v, 1 / k.shape[2]), {}),
        (check.bias, lambda h, q, k: RIGHT(h, q, k) / k, {}),  # for 16 keys, by sqrt(256)
    ],
    "future not masked": [
        (check.attention, faulty.lower_triangle_without_a_mask, {}),
        (check.attention, lambda q, k, v: attend(q, k, v, hidden=-100), {}),
    ],
    "one key ahead": [(check.attention, lambda q, k, v: attend(q, k, v, first=2), {})],
    "only earlier keys": [(check.attention, attend, {"causal": False})],
    "one direction only": [
        (check.bias, lambda *sizes: RIGHT(*sizes).clamp(max=0), {"causal": False})
    ],
    "negative slopes": [(check.slopes, lambda heads: -alibi_slopes(heads), {})],
    "wrong keys": [(check.attention, lambda q, k, v: attend(q, k[:, :1], v[:, :1]), {})],
    "padding not masked": [
        (check.attention, lambda q, k, v, mask=None: attend(q, k, v), {"padding": True})
    ],
    "padding changes the bias": [
        (check.attention, faulty.padded, {"padding": True, "causal": False})
    ],
    "raises an error": [
        *((checker, raises, {}) for checker in (check.attention, check.bias, check.slopes)),
        (check.attention, attend, {"dtype": torch.bfloat16, "convert": Tensor.numpy}),
        (check.bias, lambda h, q, k: raises() if q == 1 and k > 100 else RIGHT(h, q, k), {}),
    ],
    "returns NaN": [(check.bias, lambda h, q, k: torch.full((h, q, k), math.nan), {})],
    "wrong type": [
        (check.slopes, lambda heads: object(), {}),
        (check.attention, lambda q, k, v: (q, k), {}),
    ],
    "wrong shape": [
        *(
            (check.slopes, lambda heads: [], {}),
            (check.attention, lambda q, k, v: v.flatten(2), {}),
        ),
        (check.bias, lambda h, q, k: alibi_bias(alibi_slopes(2 * h), q, k), {}),
    ],
    "not a weighted average": [
        (check.attention, lambda q, k, v: 2 * attend(q, k, v) - v.mean(2)[:, :, None], SHORT),
        (
            check.attention,
            lambda q, k, v: attend(q, k, v) * torch.linspace(1, 0.5, q.shape[2])[:, None],
            SHORT,
        ),
        (
            check.attention,
            lambda q, k, v: attend(q, k, v) * torch.linspace(1, 1.5, q.shape[2])[:, None],
            SHORT,
        ),
    ],
    "unknown fault": [
        (check.bias, lambda h, q, k: RIGHT(h, q, k) * (1 + 0.1 * (torch.arange(k) % 3)), {}),
        (check.attention, faulty.in_half_precision, {}),
        # visible with random inputs only
        (check.attention, lambda q, k, v: attend(q.roll(1, 0), k, v), {}),
        (
            check.attention,
            lambda q, k, v: attend(q, k.roll(1, 1) if q.shape[2] < k.shape[2] else k, v),
            {},
        ),
        (check.attention, lambda q, k, v: attend(8 * q if k.shape[2] > 100 else q, k, v), {}),
        (
            check.attention,
            lambda q, k, v: attend(q, k, v.roll(1, 0) if k.shape[2] > 100 else v),
            {},
        ),
    ],
}
for fault in (fault for rules in PARTS.values() for fault in rules if fault):
    CASES.setdefault(fault, []).append((check.attention, with_faults(fault), {"length": 64}))


@pytest.mark.parametrize(
    ("fault", "checker", "function", "options"),
    [
        pytest.param(fault, *case, id=f"{fault}-{case[0].__name__}")
        for fault, cases in CASES.items()
        for case in cases
    ],
)
def test_fault_is_the_only_one_named(
    fault: str,
    checker: Callable[..., check.Report],
    function: Callable[..., Any],
    options: dict[str, Any],
) -> None:
    assert names(checker(function, **options)) == {fault}


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.tuples(*(st.sampled_from([*rules]) for rules in PARTS.values())))
def test_faults_that_come_together_are_all_named_and_no_other(faults: tuple[str, ...]) -> None:
    expected = {*faults} - {""}
    if (
        "causal mask in the wrong corner" in expected
    ):  # where both take the first rows, the weights are the same
        expected -= {"wrong corner of the cache"}
    found = names(check.attention(with_faults(*faults), length=64))
    assert expected - HIDDEN <= found <= expected and bool(found) == bool(expected)


def test_every_fault_has_a_test() -> None:
    elsewhere = {"content depends on position", "missing case", "does not finish", "wrong layout"}
    assert {*CASES, *elsewhere, *(exhibit.fault for exhibit in gallery.EXHIBITS)} == set(
        check.FAULTS
    )


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (faulty.rotated, {"content depends on position", "no bias"}),
        (lambda q, k, v: attend(q, k, v, factor=2, hidden=0), {"added twice", "rewarded future"}),
        (lambda q, k, v: attend(q, k, v, factor=0, hidden=0), {"no bias", "future not masked"}),
        (lambda q, k, v: v[:, :, -q.shape[2] :], {"no bias", "window"}),
    ],
)
def test_faults_with_one_cause_are_told_apart(
    function: Callable[..., Tensor], expected: set[str]
) -> None:
    assert names(check.attention(function)) == expected


def test_a_result_in_half_precision_is_told_from_a_wrong_one() -> None:
    functions = (faulty.in_half_precision, faulty.rotated)
    evidence = [check.attention(f, num_heads=[4]).findings[0].evidence for f in functions]
    assert ["right within the rounding of bfloat16" in each for each in evidence] == [True, False]
    rounded = lambda *sizes: alibi_bias(alibi_slopes(sizes[0]), *sizes[1:]).bfloat16().float()  # noqa: E731
    for heads in ([8], [12, 8]):
        (found,) = check.bias(rounded, heads).findings
        assert (
            found.name == "unknown fault"
            and "right within the rounding of bfloat16" in found.evidence
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_faults_are_named_in_half_precision(dtype: torch.dtype) -> None:
    def found(length: int = 300, **options: Any) -> set[str]:
        return names(
            check.attention(lambda *qkv: attend(*qkv, **options), dtype=dtype, length=length)
        )

    def rough(heads: int) -> Tensor:
        return alibi_slopes(heads).to(dtype).float()

    assert found(factor=-1) == {"sign reversed"} and found(hidden=0) == {"rewarded future"}
    assert names(check.attention(lambda q, k, v: attend(0.9 * q, k, v), dtype=dtype)) == {
        "content multiplied"
    }
    assert found(factor=1 / 8, length=16) == {"bias before scaling"}
    assert names(check.bias(lambda h, q, k: -RIGHT(h, q, k).to(dtype))) == {"sign reversed"}
    for units, faults in ((0.5, set()), (4, {"bias multiplied"})):  # in the last place

        def slopes(heads, u=units):
            return alibi_slopes(heads).double() * (1 + u * torch.finfo(dtype).eps)

        assert (
            names(check.bias(lambda h, q, k, s=slopes: alibi_bias(s(h), q, k, dtype=dtype), [8]))
            == faults
        )
    assert names(check.bias(bias_of(rough), num_heads=[12])) == {"imprecise slopes"}
    assert check.bias(bias_of(rough), num_heads=[8]).ok, "powers of two have no rounding"
    together = {"imprecise slopes", "negative slopes", "added twice"}
    assert names(check.slopes(lambda heads: -2 * rough(heads))) == together
    assert names(check.slopes(lambda heads: 0.5 ** torch.arange(heads))) == {
        "halving slopes",
        "first slope is 1",
    }
    mixed = check.attention(
        lambda q, k, v: attend(q.roll(1, 0), k, v), num_heads=[4], dtype=dtype, length=16
    )
    assert f"perhaps logits are rounded to {dtype}" in str(mixed)


def test_lists_that_differ_in_their_last_element_only_are_wrong() -> None:
    def last_row(heads: int, queries: int, keys: int, change: float) -> Tensor:
        bias = alibi_bias(alibi_slopes(heads), queries, keys)
        bias[-1, -1, 0] += change if keys == 300 else 0.0
        return bias

    last = check.slopes(
        lambda heads: alibi_slopes(heads) * (1 + 0.01 * (torch.arange(heads) == 127))
    )
    assert "head 128 of 128" in str(last)
    off = alibi_slopes(12) * (1 + 1.44e-4 * (torch.arange(12) == 3))  # weights show it
    assert names(
        check.attention(lambda q, k, v: alibi_attention(q, k, v, off), num_heads=[12])
    ) == {"other slopes"}
    for change in (-1.0, -math.inf):
        report = check.bias(lambda *sizes, change=change: last_row(*sizes, change), decoding=False)
        assert names(report) == {"length cap"}
        assert report.comparison is not None and report.comparison.place == (7, 299, 0)


def test_report_has_the_numbers_of_the_fault_and_pictures_in_a_notebook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = check.bias(gallery.biases.attention_gym_2024, num_heads=[8])
    weights = (
        "16 queries, 16 keys, head 1 gives key 0 the weight 0.394 for query 15, expected 0.000218"
    )
    assert report.comparison and str(report).endswith(
        f"\nWeights at equal content: with 8 heads, {weights}"
    )
    html, right = (
        report._repr_html_(),
        check.bias(bias_of(alibi_slopes), [8], length=16)._repr_html_(),
    )
    assert (
        "<b>ALiBi check of attention_gym_2024: 1 fault</b>" in html
        and "<b>sign reversed:</b>" in html
    )
    assert html.endswith(
        comparison_html(report.comparison.wanted, report.comparison.got, (0, 15, 0))
    )
    assert (
        "<b>ALiBi check of bias_of.&lt;locals&gt;.&lt;lambda&gt;: no" in right
        and "<img" not in right
    )
    monkeypatch.setitem(sys.modules, "alibi_viz.figures.matrices", None)  # without the extra
    assert "<b>sign reversed:</b>" in report._repr_html_() and "<img" not in report._repr_html_()


def test_a_fault_in_some_calls_says_in_which() -> None:
    some = " (only with 8 heads, 1 query, 16 keys; 8 heads, 5 queries, 16 keys)"
    for worst, other in ((5, -2), (-2, 3)):  # farthest from 1
        weaker = lambda q, k, v, by={1: worst, 5: other}: attend(by.get(q.shape[2], 1) * q, k, v)  # noqa: E731
        (weak,) = check.attention(weaker, num_heads=[8], length=16).findings
        assert (
            weak.evidence
            == f"with 8 heads, 1 query, 16 keys and head_dim 64, q . k counts {worst} times{some}"
        )
    assert "only with" not in str(check.attention(lambda q, k, v: attend(5 * q, k, v)))
    (branch,) = check.bias(
        lambda h, q, k: RIGHT(h, q, k) * (1 if q == k else -1), [8], length=16
    ).findings
    assert branch.evidence == f"head 1 of 8 has slope -0.5, expected 0.5{some}"
    by_length = str(check.bias(lambda h, q, k: RIGHT(h, q, k) / k, [8], decoding=False))
    assert (
        "slope 0.03125, expected 0.5 with 8 heads, 16 queries" in by_length
        and "only with" not in by_length
    )


def test_long_calls_have_few_queries_above_512_keys() -> None:
    short = [(8, 16, 16), (12, 16, 16), (8, 1, 16), (8, 5, 16)]
    for length, queries in ((16, []), (512, [1, 512]), (513, [1, 16])):
        calls: list[tuple[int, ...]] = []
        check.bias(lambda *sizes, calls=calls: calls.append(sizes), length=length)
        assert calls == short + [(8, each, length) for each in queries]


@pytest.mark.parametrize(("base", "size"), [(1.5, 20), (2, 16)])
def test_a_short_call_is_shown_if_it_has_half_of_the_largest_difference(
    base: float, size: int
) -> None:
    # Weights that should be nearly equal are 1 / base^distance, up to a factor, for 16 keys, and 1
    # / 4^distance for 20.
    bias = lambda h, q, k: math.log(base if k == 16 else 4) * alibi_bias(torch.ones(h), q, k)  # noqa: E731
    comparison = check.bias(bias, [1], slopes=lambda heads: [1e-9], length=20).comparison
    assert comparison is not None and comparison.title == f"1 head, {size} queries, {size} keys"


def test_unknown_fault_is_diagnosed_without_comparing_every_row_with_each_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[int] = []
    agrees = Observation.agrees

    def count(observation: Observation, bias: Tensor, *rows: Any) -> bool:
        compared.append(bias.numel())
        return agrees(observation, bias, *rows)

    monkeypatch.setattr(Observation, "agrees", count)
    report = check.bias(
        lambda *sizes: -(bias_of(alibi_slopes)(*sizes).abs() ** 1.3), num_heads=[32], length=256
    )
    assert names(report) == {"unknown fault"}
    assert sum(compared) < 8 * 32 * 256**2, "all rules times all rows would be 70 times"
