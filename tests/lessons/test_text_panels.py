"""Texts side by side follow an app, the timeline is in order and has sources, and the decision tree
ends in advice."""

import html
import re

import traitlets

from alibi_viz import lessons
from alibi_viz.lessons.text_panels import HISTORY, MONTHS

ENTRY = re.compile(
    '<summary>(.*?) <small>(.*?)</small></summary><p>(.*?[.]) <a href="(https://.*?)"'
)


def test_live_texts_are_written_again_when_a_trait_changes_and_escaped() -> None:
    app = type("App", (traitlets.HasTraits,), {"factor": traitlets.Float(1.0)})()
    texts = lessons.live_texts(app, ["factor"], lambda: {"after": ("Once ", f"<{app.factor:g}>")})
    app.factor = 2.0
    page = texts.children[1].value
    assert ">Once </span>&lt;2&gt;</div>" in page and "<2>" not in page
    assert repr(texts) == "after: Once <1>"  # what a notebook stores doesn't change


def test_the_timeline_is_in_order_and_every_entry_has_a_source() -> None:
    page, lanes = html.unescape(lessons.timeline()._repr_html_()), HISTORY["lane"]
    _, head, *rows = page.split("<tr>")
    assert re.findall("<th>(.*?)</th>", head) == ["", *(lane["name"] for lane in lanes)]
    assert page.count("<details open>") == len(lanes), "who can't click reads one entry of each"
    for column, lane in enumerate(lanes, start=1):
        dates, names, *more = zip(*lane["entries"], strict=True)
        assert [*dates] == sorted(dates) and f"<details open><summary>{names[0]} <small>" in page
        years, months = (
            [f"{when[:4]}<" for when in dates],
            [MONTHS[int(when[5:]) - 1] for when in dates],
        )
        shown = [
            (row[4:9], *entry) for row in rows for entry in ENTRY.findall(row.split("<td")[column])
        ]
        assert shown == [*zip(years, names, months, *more, strict=True)]


def test_the_decision_tree_reaches_every_question_once_and_ends_in_advice() -> None:
    tree, reached, open_ends = HISTORY["tree"], ["start"], ["start"]
    while open_ends:
        answers = tree[open_ends.pop()].get("answers", {}).values()
        reached += answers
        open_ends += answers
    assert sorted(reached) == sorted(tree)
    assert lessons.decision_tree()._repr_html_().count("<details>") == len(tree) - 1
