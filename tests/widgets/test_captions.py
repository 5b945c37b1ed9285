"""What the apps say is what captions.txt says."""

import pytest

from tests.widgets import captions

pytestmark = pytest.mark.usefixtures("quick_writing")


def test_captions_are_those_of_the_file():
    changed = "the apps say something else: run `make words`, and review the diff of captions.txt"
    assert captions.FILE.read_text("utf-8") == captions.words(), changed
