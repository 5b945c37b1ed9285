"""Texts side by side in a lesson: escaped, and the prompt paler."""

import pytest

from alibi_viz import lessons


def test_side_by_side_makes_the_prompt_paler_and_escapes_every_part():
    page = lessons.side_by_side({"<b>": ("Once ", "<i>")})._repr_html_()
    assert "<b>&lt;b&gt;</b>" in page
    assert '<span style="opacity: 0.6">Once </span>&lt;i&gt;</div>' in page


@pytest.mark.parametrize("text", ["one string", 3])
def test_a_text_that_is_no_list_of_strings_is_refused(text):
    with pytest.raises(TypeError, match="the text of 'mine' must be a list of strings, got"):
        lessons.side_by_side({"mine": text})
