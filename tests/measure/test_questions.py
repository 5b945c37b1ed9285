"""Each question measures what it says: compared with the functions of the lab, with loops and with
formulas."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from alibi_viz import LanguageModel, alibi_slopes, lab
from alibi_viz.measure import questions
from alibi_viz.measure.questions import (
    QUESTIONS,
    SLIDING_WINDOWS,
    STRIDE,
    find_question,
    main_question,
    memory_bits,
)
from alibi_viz.surgery.modify import VARIANTS, evaluation_variants
from tests.tables import SMALL

TEXT, NEEDLE = lab.load_text(), lab.TASKS["needle"]
LENGTH, LENGTHS = 16, [16, 32, 64]


def measured(
    question: str, model: Any, source: Any = TEXT, length: int = LENGTH, longest: int = 4
) -> dict[int, Any]:
    return {
        x: (value, n)
        for x, value, n in find_question(question).measure(model, source, length, longest)
    }


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    model = lab.make_model("none", max_length=LENGTH, **SMALL)
    list(lab.train(model, TEXT, length=LENGTH, steps=5, device="cpu"))
    return model


def test_questions_have_different_names_and_each_task_a_main_one_that_is_answered_while_training() -> (
    None
):
    names = [question.name for question in (*QUESTIONS, SLIDING_WINDOWS)]
    assert len(set(names)) == len(names) and [find_question(name).name for name in names] == names
    with pytest.raises(
        ValueError,
        match=r"must be one of longer sequences, gap, .*, sliding windows, got 'nothing'",
    ):
        find_question("nothing")
    for task in ("text", *lab.TASKS):
        assert main_question(task).task == task and main_question(task).while_training


def test_descriptions_agree_with_the_code() -> None:
    assert find_question("longer sequences").variants == ("as trained", *VARIANTS)
    assert f"or up to {STRIDE - 1} bytes less" in find_question("same targets").note
    for name, task in lab.TASKS.items():
        assert (
            f"{task.chance:.1%}" in find_question(name).note
            and find_question(name).axes(16).chance == task.chance
        )
    ticks = {250: "250", 500: "500", 1000: "1,000<br>L", 2000: "2,000<br>2 L", 4000: "4,000<br>4 L"}
    assert main_question("text").axes(1000, [300, 3000]).ticks == ticks
    ticks = [[*main_question("text").axes(16, xs).ticks] for xs in ((), [1], [64])]
    assert ticks == [[16, 32, 64, 128, 256], [1, 2, 4, 8, 16], [16, 32, 64]], (
        "without values, up to 16 L"
    )
    steps = [find_question("gap").axes(16, xs).ticks for xs in ([], [50, 1000])]
    assert steps == [
        {1: "1"},
        {167: "167", 334: "334", 501: "501", 668: "668", 835: "835", 1000: "1,000"},
    ]
    axes = find_question("gap").axes(16, [27])
    assert ([*axes.ticks], axes.log) == ([5, 10, 15, 20, 27], False), "25 would be too close to 27"


def test_longer_windows_are_the_losses_by_length(model: LanguageModel) -> None:
    answers, expected = (
        measured("longer sequences", model),
        lab.loss_by_length(model, TEXT, LENGTHS),
    )
    assert {x: sum(blocks) / 16 for x, (blocks, _) in answers.items()} == pytest.approx(expected)
    assert {(len(blocks), count) for blocks, count in answers.values()} == {(16, 8192)}
    longer = find_question("longer sequences").measure(model, TEXT, LENGTH, 32)
    assert {len(blocks) for _, blocks, _ in longer} == {16}
    longer = find_question("longer sequences").measure(model, TEXT, 64, 16)
    assert {len(blocks) for _, blocks, _ in longer} == {8}, "as many at every length"
    assert {count for _, count in measured("longer sequences", model, length=100).values()} == {
        8000
    }, "those shared"


def test_the_same_targets_are_predicted_from_more_and_more_context(model: LanguageModel) -> None:
    """The 1,024 bytes after the first 65, sixteen in each window, which ends before its last
    one."""
    data, answers = TEXT.validation.long(), measured("same targets", model)
    for context in LENGTHS:
        windows = data[
            torch.arange(64, 64 + 1024, 16)[:, None] + 16 - context + torch.arange(context + 1)
        ]
        with torch.inference_mode():
            chances = model.eval()(windows[:, :-1])[:, -16:].double().softmax(-1)
        bits = -chances.gather(-1, windows[:, -16:, None]).log2()
        assert answers[context] == (pytest.approx(float(bits.mean()), abs=1e-4), 1024)


@pytest.mark.parametrize("length", [8, 9, 16, 100])
def test_bins_average_each_position_once_and_split_at_the_training_length(
    model: LanguageModel, length: int
) -> None:
    answers = measured("by position", model, length=length)
    bits = lab.loss_by_position(model, TEXT, 4 * length, targets=min(32_768, 128 * 4 * length))
    windows, ends = min(32_768, 128 * 4 * length) // (4 * length), [1]
    for x, (value, count) in answers.items():
        first, end = ends[-1], ends[-1] + count // windows
        assert value == pytest.approx(float(bits[first - 1 : end - 1].mean()), abs=1e-4)
        assert x == pytest.approx((first + end - 1) / 2, abs=0.5)
        assert first <= 16 or (end - 1) / (first - 1) == pytest.approx(math.sqrt(2), rel=0.06), (
            "two bins to double"
        )
        ends.append(end)
    assert ends[-1] == 4 * length + 1 and length + 1 in ends


def test_a_task_is_measured_by_its_accuracy() -> None:
    model = lab.make_model("alibi", vocabulary=NEEDLE.vocabulary)
    answers = measured("needle", model, NEEDLE, 8)
    assert (list(answers), answers[8]) == (
        [8, 16, 32],
        (lab.accuracy(model, NEEDLE, 8, samples=512), 512),
    )


def equal_content(position: str) -> LanguageModel:
    """A model with zero queries, so that all keys have the same content logit."""
    model = lab.make_model(position)
    for block in model.transformer.blocks:
        torch.nn.init.zeros_(block.attention.qkv.weight)
    return model


@pytest.mark.parametrize("position", ["none", "alibi"])
def test_at_equal_content_the_answers_on_attention_are_those_of_the_bias_alone(
    position: str,
) -> None:
    slopes = alibi_slopes(8).tolist() if position == "alibi" else [0.0]
    statistics: dict[str, Callable[[list[float]], float]] = {
        "attention beyond L": lambda weights: sum(weights[LENGTH:]) / sum(weights),
        "softmax denominator": lambda weights: math.log2(sum(weights)),
    }
    model = equal_content(position)
    for question, statistic in statistics.items():
        expected = {
            length: sum(
                statistic([math.exp(-m * d) for d in range(keys)])
                for m in slopes
                for keys in range(length - 15, length + 1)  # of the last 16 queries
            )
            / (16 * len(slopes))
            for length in LENGTHS
        }
        answers = measured(question, model)
        assert {x: value for x, (value, _) in answers.items()} == pytest.approx(expected, abs=1e-5)
        assert {count for _, count in answers.values()} == {
            8 * 16
        }  # windows, and the queries of a window of 16


def test_a_window_has_no_attention_beyond_it_and_sinks_are_four_more_tokens() -> None:
    variants = evaluation_variants(equal_content("none"), LENGTH)
    assert [value for value, _ in measured("attention beyond L", variants["window"]).values()] == [
        0,
        0,
        0,
    ]
    assert measured("softmax denominator", variants["window and sinks"])[64][0] == pytest.approx(
        math.log2(20)
    )
    assert measured("softmax denominator", variants["window"], length=64)[64][1] == 8 * 32, (
        "the last queries"
    )


def test_beyond_a_learned_table_answers_are_nan_and_a_short_text_has_fewer_samples() -> None:
    learned = lab.make_model("learned", max_length=16, **SMALL)
    for question in (
        "attention beyond L",
        "softmax denominator",
        "longer sequences",
        "same targets",
    ):
        finite = [
            math.isfinite(torch.tensor(value).sum())
            for value, _ in measured(question, learned).values()
        ]
        assert finite == [True, False, False]
    model, text = (
        lab.make_model(**SMALL),
        lab.load_text("to be or not to be, that is the question. " * 41),
    )
    size = len(text.validation)
    asked = [
        ("softmax denominator", 16, 4),
        ("same targets", 1, 4),
        ("by position", 2, 1),
        ("by position", 1, 5),
    ]
    counts = [
        [n for _, n in measured(name, model, text, *lengths).values()] for name, *lengths in asked
    ]
    assert size % 2 == 1 and counts == [
        [size // 64 * 16] * 3,
        [size - 5] * 3,
        [size // 2] * 2,
        [(size - 1) // 5] * 5,
    ]


def test_bits_of_a_fact_are_compared_with_a_text_in_which_another_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, sequences = lab.tales_text(2_000, 30_000, seed=3), []
    facts = text.facts.query("stop > 600 and kind in ('hero', 'friend') and distance < 400")[:20]

    def losses(_: LanguageModel, each: torch.Tensor, last: int) -> torch.Tensor:
        sequences.append([bytes(row.tolist()).decode() for row in each])
        return torch.full(
            (len(each), last), 4.0 - len(sequences)
        )  # each byte takes 3 bits, and 2 where it was told

    monkeypatch.setattr(questions, "sequence_losses", losses)
    sizes = facts["stop"] - facts["start"]
    assert memory_bits(lab.make_model(**SMALL), text, facts, 500).tolist() == sizes.tolist()
    for stop, size, retold, told in zip(facts["stop"], sizes, *sequences, strict=True):
        before, name = bytes(text.validation[:stop].tolist()).decode(), told[-size:]
        other = re.findall(r"\w+", retold.removesuffix(told.rsplit(name, 2)[1] + name))[-1]
        assert told == before[-501:] and retold.index(name) == 501 - size, (
            "only in one was the name told before"
        )
        whole = retold[retold.index(" ") :].replace(other, name)  # the first word may be cut
        assert len(retold) == 501 and before.endswith(whole)


def test_names_are_asked_by_their_distance_and_up_to_the_training_length_within_it(
    monkeypatch: Any,
) -> None:
    model, text, contexts = (
        lab.make_model("none", **SMALL),
        lab.tales_text(1_000, 100_000, seed=1),
        [],
    )
    assert [*measured("names", model, text, 1024)] == [
        23,
        45,
        91,
        181,
        362,
        724,
    ]  # other names may shorten a tale
    text = lab.tales_text(2_000, 13_000, seed=74)  # with a name on the edge of each condition
    counts = [n for _, n in measured("names", model, text, 64, 16).values()]
    assert (min(counts), max(counts)) == (16, 64), "fewer say little, more say little more"
    monkeypatch.setattr(questions, "MOST", 1000)
    monkeypatch.setattr(
        questions, "memory_bits", lambda *call: contexts.append(call[2:]) or memory_bits(*call)
    )
    assert [*measured("names", model, text, 64, 8)] == [23, 45, 91, 181, 362]
    assert [context for _, context in contexts] == [64, 64, 128 + 32, 256 + 32, 512 + 32]
    for first, (names, context) in zip((16, 32, 64, 128, 256), contexts, strict=True):
        place = (
            f"{first} <= distance < {2 * first} and distance + stop - start <= {context} and "
            f"stop > {context + 32}"
        )
        assert names.equals(text.facts.query(f"kind in ('hero', 'friend') and {place}"))
    assert not measured("names", model, lab.load_text("to be or not to be " * 500), 64)
