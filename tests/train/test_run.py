"""A run is trained and tested as its settings say, and its record is the same table after saving
and reading."""

import gzip
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch

from alibi_viz import lab
from alibi_viz.measure.losses import shared_losses
from alibi_viz.measure.table import TRAINING_LOSS
from alibi_viz.train import training
from alibi_viz.train.results import record_table
from alibi_viz.train.run import Record, measure
from alibi_viz.train.training import limited_threads
from tests.custom_laws import root, steep
from tests.rows import each_case
from tests.tables import SMALL, curve
from tests.train.tiny_runs import tiny_run

TEXT = lab.load_text()

# A record has what training and testing by hand give

# More steps than points of the training loss, and neither the default seed nor learning rate.
BY_HAND = {"length": 16, "steps": 90, "batch_size": 4, "learning_rate": 0.01, "seed": 5}


class ByHand(NamedTuple):
    """What the run above should give."""

    losses: list[float]  # of each step
    tests: dict[int, float]  # {length: bits per byte}


@pytest.fixture(scope="module")
def by_hand():
    model = lab.make_model("rotary", seed=5, max_length=16, **SMALL)
    with limited_threads(1):
        losses = [row["value"] for row in lab.train(model, TEXT, **BY_HAND)]
        tests = lab.loss_by_length(model, TEXT, [16, 32, 64])
    return ByHand(losses, tests)


@pytest.fixture(scope="module")
def rows():
    """The table of the run above."""
    record = measure(lab.Run("rotary", longest=4, model=SMALL, **BY_HAND))
    return record_table([record], "mine")


def test_tests_are_those_of_the_trained_model(rows, by_hand):
    assert curve(rows, "longer sequences") == pytest.approx(by_hand.tests, abs=1e-4)


def test_training_loss_has_sixty_points_of_which_one_is_the_last_step(rows):
    points = curve(rows, TRAINING_LOSS)
    assert len(points) == 60
    assert list(points)[-1] == 90


def test_point_of_the_training_loss_is_the_mean_of_the_steps_since_the_last(rows, by_hand):
    points = curve(rows, TRAINING_LOSS)
    previous = 0
    for step, value in points.items():
        assert value == pytest.approx(fmean(by_hand.losses[previous:step]), abs=1e-3)
        previous = step


def test_every_row_has_the_settings_of_its_run(rows):
    settings = {
        "origin": "mine",
        "task": "text",
        "method": "rotary",
        "seed": 5,
        "length": 16,
        "text": TEXT.fingerprint,
    }
    for column, value in settings.items():
        assert set(rows[column]) == {value}, column


def test_training_loss_is_a_row_of_its_own_step(rows):
    of_training = rows[rows["question"] == TRAINING_LOSS]
    assert of_training["step"].tolist() == of_training["x"].tolist()


def test_tests_are_rows_of_the_last_step(rows):
    assert set(rows.loc[rows["question"] != TRAINING_LOSS, "step"]) == {90}


def test_model_is_tested_with_all_its_variants(rows):
    assert set(rows["variant"]) == {
        "as trained",
        "window",
        "far share",
        "pi",
        "ntk",
        "yarn",
    }


# The questions of each task, saved and read


class Saved(NamedTuple):
    """A run, its record, and the folder in which it was saved."""

    run: lab.Run
    record: Record
    folder: Path

    @property
    def rows(self):
        return lab.read_results(self.folder)


@pytest.fixture(scope="module", params=["text", "python reference", "needle", "induction"])
def saved(request, tmp_path_factory):
    """A run on each task."""
    folder = tmp_path_factory.mktemp("saved")
    run = tiny_run(task=request.param, batch_size=2)
    (record,) = lab.sweep([run], out=folder, progress=False)
    return Saved(run, record, folder)


QUESTIONS = {
    "text": {
        "longer sequences",
        "by position",
        "same targets",
        "attention beyond L",
        "softmax denominator",
    },
    "python reference": {"longer sequences", "same targets"},
    "needle": {"needle"},
    "induction": {"induction"},
}


def test_run_answers_the_questions_of_its_task(saved):
    assert set(saved.rows["question"]) >= {TRAINING_LOSS, *QUESTIONS[saved.run.task]}


def test_saved_run_is_read_as_the_table_of_its_record(saved):
    pd.testing.assert_frame_equal(saved.rows, record_table([saved.record], saved.folder.name))


def test_rows_name_the_task(saved):
    assert set(saved.rows["task"]) == {saved.run.task}


def test_rows_have_the_fingerprint_of_a_text_and_none_of_a_task(saved):
    fingerprint = getattr(saved.run.source(), "fingerprint", "")
    assert set(saved.rows["text"]) == {fingerprint}


def test_nothing_is_answered_twice(saved):
    assert not saved.rows.duplicated(["variant", "question", "x"]).any()


# What else a run does as its settings say


def test_equal_settings_give_equal_numbers():
    run = tiny_run(position="kerple-log")
    assert measure(run)["rows"] == measure(run)["rows"]


def test_run_without_tests_has_its_training_loss_only():
    run = tiny_run()
    of_training = [row for row in measure(run)["rows"] if row["question"] == TRAINING_LOSS]
    assert measure(replace(run, longest=0))["rows"] == of_training


def test_a_run_shows_no_progress_unless_asked(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    measure(tiny_run(longest=0))
    assert capsys.readouterr().err == ""


@pytest.fixture
def own_text(tmp_path):
    path = tmp_path / "text.txt"
    sentences = [f"to be or not to be, that is question {number}. " for number in range(300)]
    path.write_text("".join(sentences))
    return path


def test_record_has_the_fingerprint_of_an_own_text(own_text):
    record = measure(tiny_run(path=own_text, longest=0))
    assert record["text"] == lab.load_text(own_text).fingerprint


def test_own_text_is_read_once(own_text, monkeypatch):
    read = Mock(return_value=own_text.read_bytes())
    monkeypatch.setattr(Path, "read_bytes", read)
    measure(tiny_run(path=own_text))
    read.assert_called_once()


def test_own_text_that_is_too_short_is_refused_before_training(own_text, monkeypatch):
    train = Mock()
    monkeypatch.setattr(training, "train", train)
    message = r"too short to test at length 4,112: its validation part has 1,\d\d\d bytes"
    with pytest.raises(ValueError, match=message):
        measure(tiny_run(path=own_text, longest=256))
    train.assert_not_called()


# The bytes that are predicted, in blocks


class Blocks(NamedTuple):
    """A run that predicts 2048 bytes, the same by hand, and its rows with and without blocks."""

    losses: dict[int, float]  # {length: bits per byte}
    bits: torch.Tensor  # at the training length, float32 [bytes]
    means: pd.DataFrame
    blocks: pd.DataFrame


@pytest.fixture(scope="module")
def in_blocks():
    run = tiny_run(position="rotary", targets=2048, variants=["yarn"], longest=4)
    with limited_threads(1):
        model = run.new_model(TEXT)
        list(run.train(model, TEXT))
        losses = lab.loss_by_length(model, TEXT, [16, 32, 64], targets=2048)
        ((_, bits),) = shared_losses(model, TEXT, [16], targets=2048)
    record = measure(run)
    means = record_table([record], "mine")
    blocks = record_table([record], "mine", by_block=True)
    return Blocks(
        losses,
        bits,
        means[means["question"] == "longer sequences"],
        blocks[blocks["question"] == "longer sequences"],
    )


def test_as_many_bytes_are_predicted_as_asked_for(in_blocks):
    assert set(in_blocks.means["count"]) == {2048}
    measured = curve(in_blocks.means, "longer sequences")
    assert measured == pytest.approx(in_blocks.losses, abs=1e-4)


def test_only_the_variants_asked_for_are_tested(in_blocks):
    assert set(in_blocks.means["variant"]) == {"as trained", "yarn"}


def test_there_are_sixteen_blocks_at_each_length(in_blocks):
    number_of_blocks = in_blocks.blocks.groupby(["variant", "x"])["block"].nunique()
    assert set(number_of_blocks) == {16}


def test_block_is_the_mean_of_a_sixteenth_of_the_bytes(in_blocks):
    at_training_length = in_blocks.blocks.query("variant == 'as trained' and x == 16")
    expected = [float(block.mean()) for block in in_blocks.bits.chunk(16)]
    assert at_training_length["value"].tolist() == pytest.approx(expected, abs=1e-4)


# Settings


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("device", torch.device("cpu"), "cpu"),
        ("path", Path("mine.txt"), "mine.txt"),
        ("label", 3, "3"),
    ],
)
def test_settings_are_strings_whatever_was_given(name, given, kept):
    run = tiny_run(**{name: given})
    assert getattr(run, name) == kept


def test_settings_are_the_same_after_a_journey_through_json():
    settings = tiny_run(path="mine.txt", variants=("window",)).settings()
    assert json.loads(json.dumps(settings)) == settings


def test_sizes_that_are_changed_afterwards_have_no_effect():
    sizes = {"d_model": 16}
    run = lab.Run("none", model=sizes)
    sizes["d_model"] = 32
    assert run.model == {"d_model": 16}


@each_case(
    ("settings", "message"),
    {
        "unknown method": ({"position": "alibba"}, "got 'alibba'"),
        "a text for a task": (
            {"task": "needle", "path": "mine.txt"},
            "path must be None for task 'needle', got 'mine.txt'",
        ),
        "unknown variant": (
            {"variants": ["linear"]},
            "variants must be among window, .*, got 'linear'",
        ),
        "a negative seed": ({"seed": -1}, "seed must be at least 0, got -1"),
        "sizes that don't fit": ({"model": {"d_model": 30}}, "d_model=30 must be a multiple"),
    },
)
def test_run_that_would_fail_later_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        lab.Run(**{"position": "none", **settings})


# Own laws


def training_losses(run):
    return [row["value"] for row in measure(run)["rows"]]


def test_runs_with_different_laws_of_one_name_train_their_own_law():
    flat = tiny_run(position=steep(0.0), label="flat", longest=0)
    steeper = tiny_run(position=steep(9.0), label="steep", longest=0)
    assert training_losses(flat) != training_losses(steeper)


def test_copy_of_a_run_keeps_its_law_although_the_name_is_taken_by_another():
    flat = tiny_run(position=steep(0.0), label="flat", longest=0)
    expected = training_losses(flat)
    tiny_run(position=steep(9.0), label="steep")
    assert training_losses(replace(flat, label="a copy")) == expected


def test_settings_keep_the_name_of_an_own_law():
    settings = tiny_run(position=root).settings()
    assert settings["position"] == "root"
    assert settings["label"] == "root"


def test_settings_keep_the_text_of_an_own_law():
    source = tiny_run(position=root).settings()["custom"]["source"]
    assert source.startswith("def root(distance")
    assert "-0.5 * distance.float().sqrt() / head" in source


def test_settings_of_a_run_changed_to_a_named_method_keep_no_text():
    run = tiny_run(position=root)
    assert "custom" not in replace(run, position="alibi").settings()


# Files


COMPRESSED = gzip.compress(b"{}\n", mtime=0)


@each_case(
    ("name", "content", "message"),
    {
        "no JSON": ("notes.jsonl", b"my notes", "line 1 of .* is not a result of this version"),
        "JSON too deep to read": ("deep.jsonl", b"[" * 10_000, "line 1 of .* is not a result"),
        "no UTF-8": ("bytes.jsonl", b"\xff\n", "cannot read results from"),
        "a truncated gzip file": (
            "truncated.jsonl.gz",
            COMPRESSED[:-4],
            "cannot read results from",
        ),
    },
)
def test_file_that_holds_no_results_is_named(tmp_path, name, content, message):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(ValueError, match=f"{message}.*") as error:
        lab.read_results(file)
    assert name in str(error.value)


def test_file_in_a_folder_that_holds_no_result_is_named(tmp_path):
    (tmp_path / "run.json").write_text("my notes")
    with pytest.raises(ValueError, match=r"run\.json"):
        lab.read_results(tmp_path)


@pytest.fixture(scope="module")
def line():
    """The record of a method that is not defined beyond the training length, as JSON."""
    return json.dumps(measure(tiny_run(position="learned")))


def test_file_with_a_record_per_line_is_read(tmp_path, line):
    file = tmp_path / "runs.jsonl.gz"
    file.write_bytes(gzip.compress(f"{line}\n{line}\n".encode(), mtime=0))
    one = record_table([json.loads(line)], "runs.jsonl.gz")
    pd.testing.assert_frame_equal(lab.read_results(file), pd.concat([one, one], ignore_index=True))


def test_value_that_is_not_defined_is_read_as_nan(tmp_path, line):
    file = tmp_path / "runs.jsonl"
    file.write_text(line)
    tested = curve(lab.read_results(file), "longer sequences")
    assert list(tested) == [16, 32]
    assert math.isfinite(tested[16])
    assert math.isnan(tested[32])


def test_number_of_a_bad_line_is_told(tmp_path, line):
    file = tmp_path / "runs.jsonl"
    file.write_text(f"{line}\nnull\n")
    with pytest.raises(ValueError, match="line 2 of "):
        lab.read_results(file)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        lab.read_results(tmp_path / "nowhere")


def test_numbers_of_numpy_are_kept_as_numbers_of_json():
    run = lab.Run(
        "none",
        seed=np.int64(1),
        length=np.int64(16),
        steps=np.int64(2),
        learning_rate=np.float64(0.01),
        longest=np.int64(2),
        model={"d_model": np.int64(32)},
    )
    (record,) = lab.sweep([run], progress=False)
    assert json.loads(json.dumps(record))["run"] == run.settings()


def test_a_law_with_the_name_of_a_method_is_trained_as_it_is():
    def law(distance, head, num_heads):
        return -distance.float()

    law.__name__ = "alibi"
    assert lab.Run(law).position is law
