"""Texts side by side in a lesson: escaped, and written again when an app changes."""

import traitlets

from alibi_viz import lessons


class Scale(traitlets.HasTraits):
    """Stands for an app with one trait."""

    factor = traitlets.Float(1.0)


def test_side_by_side_makes_the_prompt_paler_and_escapes_every_part() -> None:
    page = lessons.side_by_side({"<b>": ("Once ", "<i>")})._repr_html_()
    assert "<b>&lt;b&gt;</b>" in page
    assert '<span style="opacity: 0.6">Once </span>&lt;i&gt;</div>' in page


def test_live_texts_are_written_again_when_a_trait_changes() -> None:
    scale = Scale()
    texts = lessons.live_texts(scale, ["factor"], lambda: {"after": ("Once ", f"{scale.factor:g}")})

    scale.factor = 2.0

    page = texts.children[1].value
    assert ">Once </span>2</div>" in page
    assert repr(texts) == "after: Once 1", "what a notebook stores must not change"
