"""A run is trained and tested as its settings say, and its record is the same table after saving
and reading."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from alibi_viz import lab
from alibi_viz.measure.losses import shared_losses
from alibi_viz.measure.table import TRAINING_LOSS
from alibi_viz.models.positions.custom import Method
from alibi_viz.train import training
from alibi_viz.train.results import record_table
from alibi_viz.train.training import limited_threads
from tests.custom_laws import root
from tests.tables import SMALL, curve

TEXT = lab.load_text()
TINY: dict[str, Any] = {"length": 16, "steps": 4, "longest": 2, "model": SMALL}


def test_a_record_has_what_training_and_testing_by_hand_give() -> None:
    """With a seed other than 0, more steps than points of the training loss, and a learning rate of
    its own."""
    run = lab.Run(
        "rotary",
        seed=5,
        length=16,
        steps=90,
        batch_size=4,
        learning_rate=0.01,
        longest=4,
        model=SMALL,
    )
    rows = record_table([lab.measure(run)], "mine")
    with limited_threads(1):
        model = lab.make_model("rotary", seed=5, max_length=16, **SMALL)
        stream = lab.train(
            model, TEXT, length=16, steps=90, batch_size=4, learning_rate=0.01, seed=5
        )
        losses, tests = (
            [row["value"] for row in stream],
            lab.loss_by_length(model, TEXT, [16, 32, 64]),
        )
    assert curve(rows, "longer sequences") == pytest.approx(tests, abs=1e-4)
    points, first = curve(rows, TRAINING_LOSS), 0
    assert len(points) == 60 and list(points)[-1] == 90
    for last, value in points.items():
        assert value == pytest.approx(sum(losses[first:last]) / (last - first), abs=1e-3)
        first = last
    expected = {
        "origin": "mine",
        "task": "text",
        "method": "rotary",
        "seed": 5,
        "length": 16,
        "text": TEXT.fingerprint,
    }
    assert all(set(rows[name]) == {value} for name, value in expected.items())
    assert (rows["step"] == rows["x"].where(rows["question"] == TRAINING_LOSS, 90)).all()
    assert set(rows["variant"]) == {"as trained", "window", "pi", "ntk", "yarn"}


@pytest.mark.parametrize(
    ("task", "questions"),
    [
        (
            "text",
            {
                ("longer sequences"),
                ("by position"),
                ("same targets"),
                ("attention beyond L"),
                "softmax denominator",
            },
        ),
        ("python reference", {"longer sequences", "same targets"}),
        ("needle", {"needle"}),
        ("induction", {"induction"}),
    ],
)
def test_a_run_answers_its_questions_and_is_read(
    task: str, questions: set[str], tmp_path: Path, capsys: Any
) -> None:
    run = lab.Run("alibi", task=task, **{**TINY, "batch_size": 2})
    (record,) = lab.sweep([run], path=tmp_path, progress=False)
    assert capsys.readouterr().err == "", "no progress is shown"
    rows = lab.read_results(tmp_path)
    pd.testing.assert_frame_equal(rows, record_table([record], tmp_path.name))
    assert set(rows["question"]) >= {TRAINING_LOSS, *questions} and set(rows["task"]) == {task}
    assert set(rows["text"]) == {getattr(run.source(), "fingerprint", "")}
    assert not rows.duplicated(["variant", "question", "x"]).any()


def test_equal_settings_give_equal_numbers_and_no_tests_only_a_training_loss() -> None:
    run = lab.Run("kerple-log", **TINY)
    one, other, untested = (
        lab.measure(each)["rows"] for each in (run, run, replace(run, longest=0))
    )
    assert one == other and untested == [row for row in one if row["question"] == TRAINING_LOSS]


def test_an_own_text_is_read_once_and_refused_at_once_if_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, reads, read = tmp_path / "text.txt", [], Path.read_bytes
    path.write_text(
        "".join(f"to be or not to be, that is question {number}. " for number in range(300))
    )
    monkeypatch.setattr(Path, "read_bytes", lambda path: reads.append(path) or read(path))
    record = lab.measure(lab.Run("none", path=path, **TINY))
    assert (
        reads == [path]
        and 0 < record["seconds"] < 60
        and record["text"] == lab.load_text(path).fingerprint
    )
    monkeypatch.setattr(training, "train", lambda *_, **__: pytest.fail("trained for nothing"))
    with pytest.raises(
        ValueError,
        match=r"too short to test at length 4,112: its validation part has 1,\d\d\d bytes",
    ):
        lab.measure(lab.Run("none", path=path, **{**TINY, "longest": 256}))


def test_a_run_predicts_as_many_bytes_in_blocks_and_tests_variants_as_asked_for(
    tmp_path: Path, capsys: Any
) -> None:
    run = lab.Run("rotary", targets=2048, variants=["yarn"], **{**TINY, "longest": 4})
    (record,) = lab.sweep([run], path=tmp_path)
    shown = capsys.readouterr().err
    assert "train rotary, seed 0:" in shown and "test rotary, seed 0:" in shown
    blocks = record_table([record], "mine", by_block=True).query("question == 'longer sequences'")
    means = lab.read_results(tmp_path).query("question == 'longer sequences'")
    assert set(means["variant"]) == {"as trained", "yarn"} and set(means["count"]) == {2048}
    assert blocks.groupby(["variant", "x"])["block"].nunique().eq(16).all()
    text = run.source()
    model = run.new_model(text)
    list(run.train(model, text))
    expected = lab.loss_by_length(model, text, [16, 32, 64], targets=2048)
    assert means.query("variant == 'as trained'").set_index("x")[
        "value"
    ].to_dict() == pytest.approx(expected, abs=1e-4)
    ((_, bits),) = shared_losses(model, text, [16], targets=2048)
    pieces = blocks.query("variant == 'as trained' and x == 16")["value"].tolist()
    assert pieces == pytest.approx(bits.view(16, -1).mean(1).tolist(), abs=1e-4)


def test_settings_are_the_same_strings_whatever_was_given(tmp_path: Path) -> None:
    run = lab.Run("none", device=torch.device("cpu"), path=tmp_path / "mine.txt", label=3)  # type: ignore[arg-type]
    assert (run.device, run.path, run.label) == ("cpu", str(tmp_path / "mine.txt"), "3")
    assert json.loads(json.dumps(run.settings())) == run.settings()
    sizes = {"d_model": 16}
    run = lab.Run("none", model=sizes)
    sizes["d_model"] = 32
    assert run.model == {"d_model": 16}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"position": "alibba"}, "got 'alibba'"),
        (
            {"task": "needle", "path": "mine.txt"},
            "path must be None for task 'needle', got 'mine.txt'",
        ),
        (
            {"task": "juggle"},
            "task must be one of text, python reference, needle, induction, got 'juggle'",
        ),
        ({"variants": ["linear"]}, "variants must be among window, .*, got 'linear'"),
        (
            {"device": "foo"},
            "device must be auto, cpu, cuda or another of torch's names, got 'foo'",
        ),
        ({"seed": 2**63}, f"seed must be between -{2**63} and {2**63 - 1}, got {2**63}"),
        ({"model": {"d_model": 30}}, "d_model=30 must be a multiple"),
    ],
)
def test_a_run_that_would_fail_later_is_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lab.Run(**{"position": "none", **settings})


def steep(slope: float) -> Method:
    def law(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -slope * distance.float()

    return law


def values(run: lab.Run) -> list[float]:
    """All numbers of a run."""
    return [row["value"] for row in lab.measure(run)["rows"]]


def test_runs_with_different_laws_of_one_name_train_their_own_law() -> None:
    flat = lab.Run(steep(0.0), label="flat", **TINY)
    steeper = lab.Run(steep(9.0), label="steep", **TINY)
    assert values(flat) != values(steeper)


def test_copy_of_a_run_keeps_its_law_although_the_name_is_taken_by_another() -> None:
    flat = lab.Run(steep(0.0), label="flat", **TINY)
    expected = values(flat)
    lab.Run(steep(9.0), label="steep", **TINY)
    assert values(replace(flat, label="a copy")) == expected


def test_settings_keep_the_name_and_the_text_of_an_own_law() -> None:
    settings = lab.Run(root, **TINY).settings()
    assert settings["position"] == "root"
    assert settings["label"] == "root"
    assert settings["custom"]["source"].startswith("def root(distance")
    assert "-0.5 * distance.float().sqrt() / head" in settings["custom"]["source"]


def test_settings_of_a_run_changed_to_a_named_method_keep_no_text() -> None:
    run = lab.Run(root, **TINY)
    assert "custom" not in replace(run, position="alibi").settings()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notes.jsonl", b"my notes", "line 1 of .* is not a result of this version"),
        ("old.jsonl", b'{"run": 1}\n', "line 1 of .* is not a result"),
        ("empty.jsonl", b"[]", "line 1 of .* is not a result"),
        ("deep.jsonl", b"[" * 10_000, "line 1 of .* is not a result"),
        ("not-utf-8.jsonl", b"\xff\n", "cannot read results from"),
        ("truncated.jsonl.gz", gzip.compress(b"{}\n", mtime=0)[:-4], "cannot read results from"),
        (
            "damaged.jsonl.gz",
            gzip.compress(b"{}\n", mtime=0)[:10] + b"\xff" * 20,
            "cannot read results from",
        ),
        ("not-compressed.jsonl.gz", b"{}\n", "cannot read results from"),
    ],
)
def test_a_file_that_holds_no_results_is_named(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    for file, path in (
        (tmp_path / name, tmp_path / name),
        (tmp_path / "run.json", tmp_path),
    ):  # and in a folder
        file.write_bytes(content)
        with pytest.raises(
            ValueError, match=f"{message}.*" if path == file else "run.json"
        ) as error:
            lab.read_results(path)
        assert file.name in str(error.value)


def test_a_record_per_line_is_read_with_the_number_of_a_bad_line(tmp_path: Path) -> None:
    record = json.dumps(lab.measure(lab.Run("learned", **TINY)))
    (tmp_path / "runs.jsonl.gz").write_bytes(
        gzip.compress(f"{record}\n{record}\n".encode(), mtime=0)
    )
    rows = lab.read_results(tmp_path / "runs.jsonl.gz").query(
        "question in ('training loss', 'longer sequences')"
    )
    assert rows["value"].isna().tolist() == 2 * [*4 * [False], False, True], (
        "it is not defined at 2L"
    )
    (tmp_path / "runs.jsonl").write_text(f"{record}\nnull\n")
    with pytest.raises(ValueError, match="line 2 of "):
        lab.read_results(tmp_path / "runs.jsonl")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        lab.read_results(tmp_path / "nowhere")
