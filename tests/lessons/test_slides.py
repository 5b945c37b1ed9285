"""The pictures of the lessons as files."""

import pytest
from PIL import Image

from alibi_viz.lessons import slides
from alibi_viz.lessons.slides import save_slides
from tests.notebooks.lessons import LESSONS


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return save_slides(tmp_path_factory.mktemp("slides"))


def test_every_lesson_has_a_picture(files):
    lessons = {file.name.partition("-")[0] for file in files}
    assert lessons == {path.stem for path in LESSONS}


def test_files_are_pictures_wide_enough_for_a_slide(files):
    for file in files:
        with Image.open(file) as picture:
            assert picture.width >= 600, file.name


def test_files_have_names_of_their_own(files):
    assert len(set(files)) == len(files)


def test_the_first_picture_shows_the_app_that_it_is_named_after(files):
    assert "01_the_line-Forgetting.png" in {file.name for file in files}


def test_the_command_says_how_many_pictures_it_saved(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["slides", str(tmp_path / "slides")])
    slides.main()
    number = len(list((tmp_path / "slides").iterdir()))
    assert f"{number} pictures in {tmp_path / 'slides'}" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_named_in_words(tmp_path, monkeypatch, capsys):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setattr("sys.argv", ["slides", str(file)])
    with pytest.raises(SystemExit, match="2"):
        slides.main()
    assert capsys.readouterr().err == f"slides: {str(file)!r} must be a folder, and is a file\n"
