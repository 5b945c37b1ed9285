"""Lessons are copied for readers of an installed package, and what a reader has changed stays."""

import pytest

from alibi_viz.lessons.copies import MANIFEST, copy_lessons, lesson_files
from tests.rows import each_case


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A folder with two short lessons, which stands in for ours: a test may change it."""
    folder = tmp_path / "installed"
    folder.mkdir()
    (folder / "00_start_here.ipynb").write_text("how to start")
    (folder / "01_slopes.ipynb").write_text("slopes")
    monkeypatch.setattr("alibi_viz.lessons.copies.lessons_folder", lambda: folder)
    return folder


@pytest.fixture
def reader(tmp_path):
    """The reader's folder, which is empty."""
    folder = tmp_path / "reader"
    folder.mkdir()
    return folder


def lessons_in(folder):
    """{name: content} of the lessons in a folder."""
    return {path.name: path.read_bytes() for path in folder.glob("*.ipynb")}


def test_all_lessons_are_copied(reader):
    left_alone = copy_lessons(reader)
    assert left_alone == []
    assert lessons_in(reader) == {path.name: path.read_bytes() for path in lesson_files()}


def test_a_notebook_beside_the_lessons_is_not_copied(installed, reader):
    (installed / "Untitled.ipynb").write_text("somebody's own")
    copy_lessons(reader)
    assert set(lessons_in(reader)) == {"00_start_here.ipynb", "01_slopes.ipynb"}


@pytest.mark.usefixtures("installed")
def test_a_folder_that_is_not_there_is_made(reader):
    folder = reader / "courses" / "alibi"
    copy_lessons(folder)
    assert (folder / "01_slopes.ipynb").read_text() == "slopes"


def test_an_unchanged_lesson_is_renewed(installed, reader):
    copy_lessons(reader)
    (installed / "01_slopes.ipynb").write_text("slopes, second edition")
    left_alone = copy_lessons(reader)
    assert left_alone == []
    assert (reader / "01_slopes.ipynb").read_text() == "slopes, second edition"


@pytest.mark.usefixtures("installed")
def test_a_changed_lesson_is_left_alone(reader):
    copy_lessons(reader)
    (reader / "01_slopes.ipynb").write_text("slopes, with my notes")
    left_alone = copy_lessons(reader)
    assert left_alone == ["01_slopes.ipynb"]
    assert (reader / "01_slopes.ipynb").read_text() == "slopes, with my notes"


def test_a_changed_lesson_is_left_alone_when_there_is_a_newer_one(installed, reader):
    copy_lessons(reader)
    (reader / "01_slopes.ipynb").write_text("slopes, with my notes")
    (installed / "01_slopes.ipynb").write_text("slopes, second edition")
    left_alone = copy_lessons(reader)
    assert left_alone == ["01_slopes.ipynb"]
    assert (reader / "01_slopes.ipynb").read_text() == "slopes, with my notes"


@pytest.mark.usefixtures("installed")
def test_a_file_of_the_same_name_is_left_alone(reader):
    (reader / "01_slopes.ipynb").write_text("a file of the reader's own")
    left_alone = copy_lessons(reader)
    assert left_alone == ["01_slopes.ipynb"]
    assert (reader / "01_slopes.ipynb").read_text() == "a file of the reader's own"


@pytest.mark.usefixtures("installed")
def test_the_other_lessons_are_copied_beside_one_that_is_left_alone(reader):
    (reader / "00_start_here.ipynb").write_text("a file of the reader's own")
    copy_lessons(reader)
    assert (reader / "01_slopes.ipynb").read_text() == "slopes"


@pytest.mark.usefixtures("installed")
def test_a_deleted_lesson_comes_back(reader):
    copy_lessons(reader)
    (reader / "01_slopes.ipynb").unlink()
    left_alone = copy_lessons(reader)
    assert left_alone == []
    assert (reader / "01_slopes.ipynb").read_text() == "slopes"


@each_case(
    "damaged",
    {
        "empty": "",
        "a list": "[1, 2]",
        "cut off": '{"01_slopes.ipynb": ',
    },
)
def test_without_readable_fingerprints_a_lesson_that_differs_is_left_alone(
    installed, reader, damaged
):
    copy_lessons(reader)
    (reader / MANIFEST).write_text(damaged)
    (installed / "01_slopes.ipynb").write_text("slopes, second edition")
    left_alone = copy_lessons(reader)
    assert left_alone == ["01_slopes.ipynb"]
    assert (reader / "01_slopes.ipynb").read_text() == "slopes"
