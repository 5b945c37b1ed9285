"""Folders that can't be written in are reported before anything is trained."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from alibi_viz import cli, lab
from alibi_viz.lab import training

READ_ONLY = Path("/proc/self")  # for root too
TRAIN = ["--length", "16", "--steps", "2"]

pytestmark = pytest.mark.skipif(not READ_ONLY.is_dir(), reason="needs a folder that nobody can write in")


@pytest.fixture(autouse=True)
def _no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Iterator[None]:
        yield pytest.fail("trained for nothing")

    monkeypatch.setattr(training, "_training_steps", fail)


@pytest.mark.parametrize(
    "arguments",
    [
        ["sweep", "alibi", *TRAIN, "--seeds", "1", "--out"],
        ["race", "alibi", *TRAIN, "--save"],
        ["models", "--out"],
        ["reproduce", "needle", "--out"],
        ["reproduce", "needle", "--out", "unused", "--publish"],
        ["compare", "alibi", *TRAIN, "--longest", "2", "--seeds", "1", "--out"],
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_do_not_train_if_they_cannot_save(
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*arguments, str(READ_ONLY)]) == 2
    error = capsys.readouterr().err
    assert f"cannot write in the folder '{READ_ONLY}'" in error
    assert error.count("\n") == 1


def test_published_models_are_not_trained_if_one_exists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rotary").mkdir()
    assert cli.main(["models", "--out", str(tmp_path)]) == 2
    assert "rotary' exists already and is not overwritten" in capsys.readouterr().err


def test_a_checked_folder_is_left_empty(tmp_path: Path) -> None:
    lab.sweep([lab.Run("none")], path=tmp_path / "deep" / "results")
    assert not list((tmp_path / "deep" / "results").iterdir())
