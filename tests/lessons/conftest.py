"""For the lessons: a folder of their own, because guesses keep their score in the current one."""

import pytest


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """The current folder is empty."""
    monkeypatch.chdir(tmp_path)
