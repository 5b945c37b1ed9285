"""Texts side by side follow an app, the timeline is in order and has sources, and the decision tree ends in advice."""

import traitlets

from alibi_viz import lessons
from alibi_viz.lessons.pages import HISTORY


def test_live_texts_are_written_again_when_a_trait_changes_and_escaped() -> None:
    app = type("App", (traitlets.HasTraits,), {"factor": traitlets.Float(1.0)})()
    texts = lessons.live_texts(app, ["factor"], lambda: {"after": ("Once ", f"<{app.factor:g}>")})
    app.factor = 2.0
    page = texts.children[1].value
    assert "&lt;2&gt;" in page and "<2>" not in page
    assert repr(texts) == "after: Once <1>"  # what a notebook stores doesn't change


def test_the_timeline_is_in_order_and_every_entry_has_a_source() -> None:
    page = lessons.timeline()._repr_html_()
    assert page.count("<details open>") == len(HISTORY["lane"]), "who can't click reads one entry of each"
    for lane in HISTORY["lane"]:
        dates = [when for when, *_ in lane["entries"]]
        assert dates == sorted(dates)
        for _, name, text, source in lane["entries"]:
            assert source.startswith("https://") and text.endswith(".")
            assert name in page.replace("&#x27;", "'")


def test_the_decision_tree_reaches_every_question_once_and_ends_in_advice() -> None:
    tree, reached, open_ends = HISTORY["tree"], ["start"], ["start"]
    while open_ends:
        answers = tree[open_ends.pop()].get("answers", {}).values()
        reached += answers
        open_ends += answers
    assert sorted(reached) == sorted(tree)
    assert lessons.decision_tree()._repr_html_().count("<details>") == len(tree) - 1
