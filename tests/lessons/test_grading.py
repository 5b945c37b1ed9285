"""The exercises: right answers pass, and every hint belongs to a mistake that a reader can make."""

import math
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import alibi_viz as av
from alibi_viz import gallery, lessons
from alibi_viz.lessons.grading import HINTS, window
from tests.check.faulty import PARTS, attend, with_faults

Function = Callable[..., Any]


def fold_with(content: float | None = None, extra: float = 1.0, *, vary: bool = True) -> Function:
    """A fold of one channel, slope times position, with these factors of the content and of the
    channel."""

    def fold(query: Tensor, key: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
        position = torch.arange(float(key.shape[2])) if vary else torch.ones(key.shape[2])
        for_query = extra * slopes[:, None, None].expand(*query.shape[:3], 1)
        for_key = position[:, None].expand(*key.shape[:3], 1)
        scale = query.shape[-1] ** -0.5 if content is None else content
        return torch.cat((query * scale, for_query), -1), torch.cat((key, for_key), -1)

    return fold


def times_mask(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention in which the causal mask is multiplied with the logits."""
    trace = av.attention_trace(query, key, official(query.shape[1]), causal=False)
    return (trace.logits * av.causal_mask(query.shape[2], key.shape[2])).softmax(-1) @ value


official = av.alibi_slopes
RIGHT = [
    (lessons.grade_slopes, official),
    (
        lessons.grade_bias,
        lambda heads, queries, keys: av.alibi_bias(official(heads), queries, keys, form="key"),
    ),
    (lessons.grade_attention, lambda q, k, v: av.alibi_attention(q, k, v, official(q.shape[1]))),
    (lessons.grade_fold, fold_with()),
    (lessons.grade_window, window),
]
# {exercise: {mistake: a function that makes it}}
WRONG: dict[str, dict[str, Function]] = {
    "slopes": {
        **{fault: rule for fault, rule in PARTS["slopes"].items() if fault in HINTS["slopes"]},
        "negative slopes": lambda heads: -official(heads),
        "no bias": lambda heads: (
            2 ** -torch.arange(1, heads + 1)
        ),  # integers to a negative power are 0
        "bias multiplied": lambda heads: 3 * official(heads),
        "other slopes": lambda heads: [1 / head for head in range(1, heads + 1)],
        "wrong shape": lambda heads: official(heads)[:, None],
        "wrong type": lambda heads: "slopes",
        "raises an error": lambda heads: official(heads)[heads],
        "returns NaN": lambda heads: official(heads) * math.nan,
    },
    "bias": {
        "sign reversed": lambda heads, queries, keys: (
            -av.alibi_bias(official(heads), queries, keys)
        ),
        "wrong corner of the cache": gallery.biases.x_transformers_2022,
        "no bias while decoding": gallery.biases.keras_hub_falcon,
        "colliding positions": gallery.biases.bloom_in_bfloat16,
        "returns NaN": lambda heads, queries, keys: (
            av.alibi_bias(official(heads), queries, keys) / 0
        ),
    },
    "attention": {
        **{
            fault: with_faults(fault)
            for rules in PARTS.values()
            for fault in rules
            if fault in HINTS["attention"]
        },
        "content multiplied": lambda q, k, v: attend(q * q.shape[-1] ** 0.5 / 8, k, v),
        "content depends on position": times_mask,
        "no bias": lambda q, k, v: attend(q, k, v, factor=0),
        "rewarded future": lambda q, k, v: attend(q, k, v, hidden=0),
        "not a weighted average": lambda q, k, v: 2 * attend(q, k, v),
    },
    "fold": {
        "no bias": fold_with(vary=False),
        "sign reversed": fold_with(extra=-1.0),
        "content not scaled": fold_with(content=1.0),
        "bias before scaling": fold_with(extra=32**-0.5),
        "content multiplied": fold_with(content=1 / 8),  # right for 64 channels only
        "bias multiplied": fold_with(extra=3.0),
        "wrong type": lambda query, key, slopes: query,
        "wrong shape": lambda query, key, slopes: (query[:, :1], key),
    },
}


@pytest.mark.parametrize(("check", "function"), RIGHT)
def test_right_function_is_praised(check: Function, function: Function) -> None:
    answer = check(function)
    assert answer.ok and "is right. Tested with" in str(answer)
    assert not answer.weights or torch.allclose(
        answer.weights["yours"], answer.weights["correct"], atol=1e-6
    )
    assert lessons.grade_slopes(lambda heads: official(heads).half()).ok, "rounded last"


@pytest.mark.parametrize(
    ("exercise", "mistake"), [(name, mistake) for name in WRONG for mistake in WRONG[name]]
)
def test_mistake_is_named_with_its_own_hint_and_every_hint_is_tried(
    exercise: str, mistake: str
) -> None:
    assert HINTS[exercise].keys() <= WRONG[exercise].keys()
    answer = getattr(lessons, f"grade_{exercise}")(WRONG[exercise][mistake])
    assert not answer.ok
    hint = HINTS[exercise].get(mistake, HINTS["any"].get(mistake))
    assert re.search(
        rf"\n  {re.escape(mistake)}: .*\n  Hint: {re.escape(str(hint))}(\n|$)", str(answer)
    )


def test_window_is_the_smallest_beyond_which_the_weights_add_up_to_the_share() -> None:
    for slope in (8.0, 0.5, 1 / 16, 1 / 256):
        weights = torch.exp(-slope * torch.arange(20_000.0, dtype=torch.float64))
        beyond = (
            weights.flip(0).cumsum(0).flip(0) / weights.sum()
        )  # the share of all keys at least so far back
        steps = window(slope, 0.01)
        assert beyond[steps + 1] <= 0.01 < beyond[steps]
    tested: set[tuple[float, float]] = set()
    lessons.grade_window(lambda slope, share: tested.add((slope, share)) or window(slope, share))
    assert tested == {
        (2**-power, share) for power in range(1, 9) for share in (0.01, 0.001, 2**-24)
    }


@pytest.mark.parametrize("blank", [None, ..., (..., ...)])
@pytest.mark.parametrize(("check", "right"), RIGHT)
def test_blank_gets_a_note_and_no_mistake(check: Function, right: Function, blank: object) -> None:
    answer = check(
        lambda *example: (right(*example), blank)[1]
    )  # the example must suit the function
    assert not answer.ok and answer.report is None
    assert str(answer).startswith("<lambda> isn't written yet, or returns nothing.")


@pytest.mark.parametrize(
    "hangs", [8, 128]
)  # the example of the exercise, and a number that is tested
def test_hanging_function_is_a_mistake_after_the_time_limit(
    monkeypatch: pytest.MonkeyPatch, hangs: int
) -> None:
    monkeypatch.setattr("alibi_viz.lessons.grading.SECONDS", 0.2)
    answer = lessons.grade_slopes(
        lambda heads: time.sleep(60) if heads == hangs else official(heads)
    )
    assert "does not finish" in str(answer)


def test_html_shows_the_goal_then_the_mistake_then_the_readers_own_weights() -> None:
    tries = [lambda *_: ..., WRONG["bias"]["sign reversed"], RIGHT[1][1]]
    pages = [lessons.grade_bias(each)._repr_html_() for each in tries]
    assert [page.count("<img") for page in pages] == [
        1,
        3,
        2,
    ]  # correct; wanted, got and their difference; both
    assert "yours" in pages[2] and "yours" not in pages[0]


def test_if_written_returns_the_readers_function_or_the_other_with_a_note(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert lessons.if_written(torch.rand, otherwise=official) is torch.rand
    assert (
        lessons.if_written(torch.add, official, torch.ones(1), 1) is torch.add
        and capsys.readouterr().out == ""
    )
    assert lessons.if_written(lambda heads: None, otherwise=official) is official
    assert "isn't written yet, so alibi_slopes is used." in capsys.readouterr().out
