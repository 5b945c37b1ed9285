"""Far context and recall by distance measure what a search through the bytes of the text gives."""

import math

import pytest

from alibi_viz import lab
from alibi_viz.lab.passages import PLACES
from alibi_viz.lab.questions import QUESTIONS
from alibi_viz.lab.questions.far_context import MAX_RECURRENCES, FarContext
from alibi_viz.lab.questions.recall_by_distance import RecallByDistance
from alibi_viz.lab.results import record_table
from tests.lab.copier import Copier, Guesser

CONTEXTS = [64, 128, 256, 512, 1024]
SMALL = {"num_layers": 1, "d_model": 8, "num_heads": 1, "expansion_factor": 1}
FAR, RECALL = FarContext("passages", "far"), RecallByDistance("passages", "recall")


@pytest.fixture(scope="module")
def text():
    return lab.passages_text()


def far_passages(text):
    """(position, distance) of second occurrences whose first one is beyond 64 bytes, found by reading the bytes."""
    data, first, found = text.validation.tolist(), None, []
    for position, byte in enumerate(data):
        if 128 <= byte < 136:
            first = position
        elif 192 <= byte < 200:
            found.append((position, position - first))
    return [(p, d) for p, d in found if p + PLACES > 1024 and 64 < d <= 1024 - PLACES][:MAX_RECURRENCES]


def test_far_context_of_a_copier_is_the_share_of_bytes_out_of_sight(text):
    passages = far_passages(text)
    for context, value, count in FAR.measure(Copier(), text, 64):
        start = PLACES - 1 - context  # of the window, from the start of the second occurrence
        hidden = [-distance + place < start for _, distance in passages for place in range(1, PLACES)]
        assert count == len(hidden) == len(passages) * (PLACES - 1)
        assert value == pytest.approx(3 * sum(hidden) / len(hidden), abs=1e-3)
        assert (value > 2.9) == (context == 64)


def test_far_context_does_not_help_a_guesser(text):
    assert list(FAR.measure(Guesser(), text, 64)) == [(c, 8.0, 7 * MAX_RECURRENCES) for c in CONTEXTS]


def test_recall_by_distance_of_a_copier_ends_at_its_reach(text):
    values = {x: value for x, value, _ in RECALL.measure(Copier(reach=127), text, 64)}
    assert list(values) == [11, 23, 45, 91, 181, 362, 724]
    assert list(values.values()) == pytest.approx([0, 0, 0, 0, 3, 3, 3], abs=1e-3)


def test_values_beyond_a_learned_table_are_nan(text):
    model = lab.make_model("learned", max_length=64, **SMALL)
    values = {x: value for x, value, _ in FAR.measure(model, text, 64)}
    assert math.isfinite(values[64]) and all(math.isnan(values[x]) for x in CONTEXTS[1:])


def table(question, values, seeds=2):
    """Results of a question: {label: {x: value}}, the same for every seed."""
    answers = {label: [["as trained", question.name, *item, question.unit, 100] for item in points.items()]
               for label, points in values.items()}  # fmt: skip
    return record_table(
        [
            {"run": {"task": question.task, "label": label, "seed": seed, "length": 64, "position": "none"},
             "text": "", "answers": rows}
            for label, rows in answers.items() for seed in range(seeds)
        ],
        "test",
    )  # fmt: skip


def test_far_context_findings_name_gains_losses_and_the_best():
    values = {
        "a": {64: 3.0, 1024: 1.5},
        "b": {64: 3.0, 1024: 4.0},
        "c": {64: 3.0, 1024: 2.95},
        "d": {64: 3.0, 1024: math.nan},
    }
    assert FAR.findings(table(FAR, values), 64) == [
        "Without recall, a byte needs 3 bits.",
        "With 1,024 bytes of context instead of 64, at least 0.1 bits less in every seed: a (-1.50).",
        "With 1,024 bytes of context instead of 64, at least 0.1 bits more in every seed: b (+1.00).",
        "Not defined beyond 64: d.",
        "With the most context a is best in every seed.",
    ]
    assert FAR.findings(table(FAR, {}), 64) == []


def test_recall_findings_name_the_last_bin_that_every_seed_recalls():
    values = {"a": {11: 0.1, 23: 1.5, 45: 2.0, 91: 1.0}, "b": {11: 2.0, 23: 2.0, 45: 2.0, 91: 2.0}}
    assert RECALL.findings(table(RECALL, values), 64) == [
        "Recalled, with at most 1.5 of 3 bits per byte in every seed: a up to around 23 and b not at all.",
        "At the largest distances a is best in every seed.",
    ]


@pytest.mark.parametrize("task", ["passages", "text with passages"])
def test_a_run_answers_both_questions_of_its_task(task, tmp_path):
    run = lab.Run("alibi", task=task, length=16, steps=2, batch_size=2, longest=2, model=SMALL)
    (record,) = lab.sweep([run], path=tmp_path, progress=False)
    results = record_table([record], "test")
    assert record["text"] == run.source().fingerprint
    names = [question.name for question in QUESTIONS if question.task == task]
    assert results["question"].unique().tolist() == ["training loss", *names]
    assert set(results["unit"]) == {"bits per byte"}
    far = results[results["question"] == names[0]]
    assert {*far["evaluated"]} == {"as trained", "window"}
    assert all(rows["x"].tolist() == CONTEXTS for _, rows in far.groupby("evaluated"))
    assert far["count"].min() > 600
    assert [each for each in lab.sweep([run], path=tmp_path, progress=False)] == [record], "read again, not trained"
