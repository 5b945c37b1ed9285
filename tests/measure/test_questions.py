"""Each question measures what it says: compared with the functions of the lab, with loops and with
formulas."""

import math
import re
from itertools import pairwise

import pytest
import torch

from alibi_viz import alibi_slopes, lab
from alibi_viz.measure import questions
from alibi_viz.measure.questions import (
    QUESTIONS,
    STRIDE,
    find_question,
    main_question,
    memory_bits,
)
from alibi_viz.measure.task_accuracy import accuracy
from alibi_viz.surgery.modify import VARIANTS, evaluation_variants
from tests.rows import each_case
from tests.tables import SMALL

TEXT = lab.load_text()
NEEDLE = lab.TASKS["needle"]
LENGTH = 16
LENGTHS = [16, 32, 64]


def measured(question, model, source=TEXT, length=LENGTH, longest=4):
    """The answers to a question: {x: (value, number of samples)}."""
    answers = find_question(question).measure(model, source, length, longest)
    return {x: (value, count) for x, value, count in answers}


def measured_values(*arguments, **options):
    return {x: value for x, (value, _) in measured(*arguments, **options).items()}


def measured_counts(*arguments, **options):
    return [count for _, count in measured(*arguments, **options).values()]


@pytest.fixture(scope="module")
def model():
    model = lab.make_model("none", max_length=LENGTH, **SMALL)
    list(lab.train(model, TEXT, length=LENGTH, steps=5, device="cpu"))
    return model


# Descriptions


def test_questions_are_found_by_names_that_all_differ():
    for question in QUESTIONS:
        assert find_question(question.name) is question


def test_an_unknown_question_is_refused_with_those_that_there_are():
    message = r"must be one of longer sequences, gap, .*, got 'Needles'; did you mean 'needle'\?"
    with pytest.raises(ValueError, match=message):
        find_question("Needles")


@pytest.mark.parametrize("task", ["text", *lab.TASKS])
def test_each_task_has_a_main_question(task):
    assert main_question(task).task == task


def test_every_variant_is_tested_on_longer_sequences():
    assert find_question("longer sequences").variants == ["as trained", *VARIANTS]


def test_notes_state_the_numbers_of_the_code():
    assert f"or up to {STRIDE - 1} bytes less" in find_question("same targets").note
    for name, task in lab.TASKS.items():
        assert f"{task.chance:.1%}" in find_question(name).note


@pytest.mark.parametrize("name", lab.TASKS)
def test_the_axes_of_a_task_show_the_level_of_guessing(name):
    assert find_question(name).axes(16).chance == lab.TASKS[name].chance


def test_the_axes_of_losses_alone_have_the_yardsticks_of_the_text():
    with_yardsticks = [
        question.name for question in QUESTIONS if question.axes(16, text=TEXT).yardsticks
    ]
    assert with_yardsticks == ["longer sequences", "by position", "same targets", "sliding windows"]
    assert main_question("text").axes(16, text=TEXT).yardsticks == TEXT.yardsticks
    assert main_question("text").axes(16).yardsticks == {}


def test_only_shares_have_limits():
    shares = [question.name for question in QUESTIONS if question.figure.limits == (0, 1)]
    assert shares == ["attention beyond L", "needle", "induction"]


@each_case(
    ("length", "xs", "ticks"),
    {
        "up to 16 L without values": (16, [], [16, 32, 64, 128, 256]),
        "from the smallest value": (16, [1], [1, 2, 4, 8, 16]),
        "to the largest value": (16, [64], [16, 32, 64]),
        "beyond both values": (1000, [300, 3000], [250, 500, 1000, 2000, 4000]),
    },
)
def test_ticks_of_lengths_are_doublings_of_the_training_length(length, xs, ticks):
    assert list(main_question("text").axes(length, xs).ticks) == ticks


def test_ticks_of_lengths_name_multiples_of_the_training_length():
    ticks = main_question("text").axes(1000, [500, 3000]).ticks
    assert list(ticks.values()) == ["500", "1,000<br>L", "2,000<br>2 L", "4,000<br>4 L"]


@each_case(
    ("xs", "ticks"),
    {
        "no value": ([], ["1"]),
        "six": ([50, 1000], ["167", "334", "501", "668", "835", "1,000"]),
        "25 would be too close to 27": ([27], ["5", "10", "15", "20", "27"]),
    },
)
def test_ticks_of_steps_end_at_the_last_one(xs, ticks):
    axes = find_question("gap").axes(16, xs)
    assert list(axes.ticks.values()) == ticks
    assert not axes.log


# Losses


def test_losses_on_longer_sequences_are_the_losses_by_length(model):
    answers = measured_values("longer sequences", model)
    means = {length: sum(blocks) / len(blocks) for length, blocks in answers.items()}
    assert means == pytest.approx(lab.loss_by_length(model, TEXT, LENGTHS))


@each_case(
    ("length", "longest", "blocks"),
    {
        "sixteen": (16, 4, 16),
        "sixteen sequences of the longest length": (16, 32, 16),
        "eight sequences of the longest length": (64, 16, 8),
    },
)
def test_a_loss_has_equally_many_blocks_of_whole_sequences_at_every_length(
    model, length, longest, blocks
):
    answers = measured_values("longer sequences", model, length=length, longest=longest)
    assert {len(means) for means in answers.values()} == {blocks}


@pytest.mark.parametrize(("length", "targets"), [(16, 8192), (100, 8000)])
def test_losses_on_longer_sequences_count_the_targets_that_lengths_share(model, length, targets):
    assert set(measured_counts("longer sequences", model, length=length)) == {targets}


def test_the_same_targets_are_predicted_from_more_and_more_context(model):
    """They are 128 passages of sixteen bytes, the last at the end of the text."""
    data = TEXT.validation.long()
    first = LENGTHS[-1] + 1
    spacing = (len(data) - first) / 127
    ends = [round(first + spacing * passage) for passage in range(128)]
    assert ends[-1] == len(data)

    answers = measured("same targets", model)
    for context in LENGTHS:
        bits = []
        for end in ends:
            sequence = data[end - context - 1 : end]
            with torch.inference_mode():
                chances = model.eval()(sequence[None, :-1])[0, -16:].double().softmax(-1)
            bits.append(-chances.gather(-1, sequence[-16:, None]).log2().mean())
        means_of_blocks, count = answers[context]
        assert count == 2048
        assert means_of_blocks == pytest.approx(
            torch.stack(bits).view(16, 8).mean(1).tolist(), abs=1e-4
        )


@pytest.mark.parametrize("length", [8, 9, 100])
def test_bins_of_positions_are_means_of_the_loss_by_position(model, length):
    tested = 4 * length
    targets = min(32_768, 128 * tested)
    bits = lab.loss_by_position(model, TEXT, tested, targets=targets)
    sequences = targets // tested

    first = 1  # the first position of the bin
    edges = [first]
    for x, (value, count) in measured("by position", model, length=length).items():
        last = first + count // sequences - 1
        assert value == pytest.approx(float(bits[first - 1 : last].mean()), abs=1e-4)
        assert x == pytest.approx((first + last) / 2, abs=0.5)
        first = last + 1
        edges.append(first)
    assert edges[-1] == tested + 1, "each position is in one bin"
    assert length + 1 in edges, "a bin ends at the training length"
    for start, end in pairwise(edges):
        if start > 16:
            ratio = (end - 1) / (start - 1)
            assert ratio == pytest.approx(math.sqrt(2), rel=0.06), "two bins to a doubling"


# Tasks


def test_a_task_is_measured_by_its_accuracy():
    model = lab.make_model("alibi", vocabulary=NEEDLE.vocabulary)
    answers = measured("needle", model, NEEDLE, length=8)
    assert list(answers) == [8, 16, 32]
    assert answers[8] == (accuracy(model, NEEDLE, 8, samples=512), 512)


# Attention


def equal_content(position):
    """A model with zero queries, so that all keys have the same content logit."""
    model = lab.make_model(position)
    for block in model.transformer.blocks:
        torch.nn.init.zeros_(block.attention.qkv.weight)
    return model


def beyond_training(weights):
    return sum(weights[LENGTH:]) / sum(weights)


def denominator(weights):
    return math.log2(sum(weights))


@pytest.mark.parametrize(
    ("question", "statistic"),
    [("attention beyond L", beyond_training), ("softmax denominator", denominator)],
    ids=["attention beyond L", "softmax denominator"],
)
@pytest.mark.parametrize("position", ["none", "alibi"])
def test_at_equal_content_the_answers_on_attention_are_those_of_the_bias_alone(
    position, question, statistic
):
    slopes = alibi_slopes(4).tolist() if position == "alibi" else [0.0]
    answers = measured_values(question, equal_content(position))
    for length in LENGTHS:
        expected = []
        for slope in slopes:
            for keys in range(length - 15, length + 1):  # of the last 16 queries
                expected.append(statistic([math.exp(-slope * back) for back in range(keys)]))
        assert answers[length] == pytest.approx(sum(expected) / len(expected), abs=1e-5)


@each_case(
    ("length", "queries"),
    {"all queries of L": (16, 16), "the last 32 queries": (64, 32)},
)
def test_answers_on_attention_count_the_queries_of_eight_sequences(length, queries):
    counts = measured_counts("softmax denominator", equal_content("none"), length=length)
    assert set(counts) == {8 * queries}


def test_a_window_has_no_attention_beyond_it():
    windowed = evaluation_variants(equal_content("none"), LENGTH)["window"]
    assert list(measured_values("attention beyond L", windowed).values()) == [0, 0, 0]


def test_sinks_are_four_more_tokens_than_the_window():
    with_sinks = evaluation_variants(equal_content("none"), LENGTH)["window and sinks"]
    answers = measured_values("softmax denominator", with_sinks)
    assert answers[64] == pytest.approx(math.log2(LENGTH + 4))


# Where models or texts end


@pytest.mark.parametrize(
    "question", ["attention beyond L", "softmax denominator", "longer sequences", "same targets"]
)
def test_beyond_a_learned_table_answers_are_nan(question):
    learned = lab.make_model("learned", max_length=16, **SMALL)
    answers = measured_values(question, learned)
    is_finite = [bool(torch.tensor(value).isfinite().all()) for value in answers.values()]
    assert is_finite == [True, False, False]


@each_case(
    ("question", "length", "longest", "counts"),
    {
        "two sequences of 64": ("softmax denominator", 16, 4, [32, 32, 32]),
        "128 passages of one byte": ("same targets", 1, 4, [128, 128, 128]),
        "14 passages of eight": ("same targets", 8, 8, [112, 112, 112, 112]),
        "86 sequences of two bytes": ("by position", 2, 1, [86, 86]),
        "34 sequences of five bytes": ("by position", 1, 5, [34] * 5),
    },
)
def test_a_short_text_has_fewer_samples(question, length, longest, counts):
    text = lab.load_text("to be or not to be, that is the question. " * 41)
    assert len(text.validation) == 173
    model = lab.make_model(**SMALL)
    assert measured_counts(question, model, text, length, longest) == counts


# Names


def names_of(text):
    return text.facts.query("kind in ('hero', 'friend')")


def test_bits_of_a_fact_are_those_of_its_bytes_without_and_with_memory(
    monkeypatch,
):
    text = lab.tales_text(2_000, 30_000, seed=3)
    facts = names_of(text).query("stop > 600 and distance < 400")[:20]

    def losses(_, sequences, last):
        """Two bits for each byte if the fact was told, and three if another was."""
        told = []
        for sequence, size in zip(sequences, facts["stop"] - facts["start"], strict=True):
            data = bytes(sequence.tolist())
            told.append(data[-size:] in data[:-size])
        return torch.tensor([2.0 if was_told else 3.0 for was_told in told])[:, None].expand(
            -1, last
        )

    monkeypatch.setattr(questions, "sequence_losses", losses)
    bits = memory_bits(lab.make_model(**SMALL), text, facts, 500)
    assert bits.tolist() == (facts["stop"] - facts["start"]).tolist()


def test_the_context_of_a_fact_is_the_same_with_and_without_its_name(
    monkeypatch,
):
    text = lab.tales_text(2_000, 30_000, seed=3)
    facts = names_of(text).query("stop > 600 and distance < 400")[:20]
    passed = []

    def losses(_, sequences, last):
        passed.append([bytes(sequence.tolist()).decode() for sequence in sequences])
        return torch.zeros(len(sequences), last)

    monkeypatch.setattr(questions, "sequence_losses", losses)
    memory_bits(lab.make_model(**SMALL), text, facts, 500)
    all_retold, all_told = passed
    for stop, size, retold, told in zip(
        facts["stop"], facts["stop"] - facts["start"], all_retold, all_told, strict=True
    ):
        original = bytes(text.validation[:stop].tolist()).decode()
        name = original[-size:]
        assert told == original[-501:]
        assert len(retold) == 501
        assert retold.index(name) == 501 - size, "the name is nowhere before"

        # The word that stands where the name was last told
        since_told = told.rsplit(name, 2)[1] + name
        other = re.findall(r"\w+", retold.removesuffix(since_told))[-1]
        whole_words = retold[retold.index(" ") :]  # the first word may be cut
        assert original.endswith(whole_words.replace(other, name)), "nothing else has changed"


def test_names_are_asked_in_bins_that_double():
    model = lab.make_model("none", **SMALL)
    text = lab.tales_text(1_000, 100_000, seed=1)
    assert list(measured("names", model, text, 1024)) == [23, 45, 91, 181, 362, 724]


def test_a_bin_has_sixteen_to_sixty_four_names():
    """Fewer say little, and more say little more."""
    model = lab.make_model("none", **SMALL)
    text = lab.tales_text(2_000, 13_000, seed=74)  # with a name on the edge of each condition
    counts = measured_counts("names", model, text, 64, 16)
    assert min(counts) == 16
    assert max(counts) == 64


@pytest.mark.parametrize(
    ("number", "first", "context"),
    [(0, 16, 64), (1, 32, 64), (2, 64, 160), (3, 128, 288), (4, 256, 544)],
    ids=["16 to 31", "32 to 63", "64 to 127", "128 to 255", "256 to 511"],
)
def test_a_bin_has_all_names_of_its_distances_that_fit_into_the_context(
    number, first, context, monkeypatch
):
    """The context has the training length up to it, and 32 bytes more than the bin beyond it."""
    text = lab.tales_text(2_000, 13_000, seed=74)
    asked = []

    def keep_names(_, __, facts, context):
        asked.append((facts, context))
        return torch.zeros(len(facts))

    monkeypatch.setattr(questions, "MOST", 1000)
    monkeypatch.setattr(questions, "memory_bits", keep_names)
    assert len(measured("names", lab.make_model("none", **SMALL), text, 64, 8)) == 5

    facts, passed_context = asked[number]
    assert passed_context == context
    names = names_of(text)
    expected = names.query(
        f"{first} <= distance < {2 * first} "
        f"and distance + stop - start <= {context} "
        f"and stop > {context + 32}"
    )
    assert facts.equals(expected)


def test_a_text_without_recorded_facts_has_no_answers_about_names():
    model = lab.make_model("none", **SMALL)
    assert measured("names", model, lab.load_text("to be or not to be " * 500), 64) == {}
