"""Lessons are copied for readers of an installed package, and what a reader has changed stays."""

from pathlib import Path

import pytest

from alibi_viz.lessons.copies import MANIFEST, copy_lessons, lessons_folder


def test_lessons_are_copied_once_renewed_if_unchanged_and_kept_if_changed(tmp_path: Path) -> None:
    (tmp_path / "01_slopes.ipynb").write_text("a file of the same name that is not ours")
    assert copy_lessons(tmp_path) == ["01_slopes.ipynb"]
    assert (tmp_path / MANIFEST).exists()
    (tmp_path / "01_slopes.ipynb").unlink()
    assert copy_lessons(tmp_path) == []
    assert {path.name for path in tmp_path.glob("*.ipynb")} == {
        path.name for path in lessons_folder().glob("*.ipynb")
    }
    first, second, *_ = sorted(tmp_path.glob("*.ipynb"))
    first.write_text("my notes")
    second.unlink()
    assert copy_lessons(tmp_path) == [first.name]
    assert (
        first.read_text() == "my notes"
        and second.read_bytes() == (lessons_folder() / second.name).read_bytes()
    )


def test_an_unchanged_lesson_of_an_older_version_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, target = tmp_path / "old", tmp_path / "new" / "target"
    old.mkdir()
    (old / "00_start_here.ipynb").write_text("old")
    monkeypatch.setattr("alibi_viz.lessons.copies.lessons_folder", lambda: old)
    copy_lessons(target)
    monkeypatch.undo()
    assert copy_lessons(target) == []
    assert (target / "00_start_here.ipynb").read_text() != "old"
