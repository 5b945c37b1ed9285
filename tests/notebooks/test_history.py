"""What lesson 6 tells in Markdown: lists in the order of time with sources, and a decision
tree."""

import datetime
import re

import pytest

from tests.notebooks.lessons import FOLDER, read

LISTS = (
    "Who used it?",
    "Is it better than other methods?",
    "Where are the limits?",
    "Can rotary be stretched?",
    "Can a model learn the bias?",
    "Can layers forget by decays?",
    "Does every layer need positions?",
)
ENTRY = re.compile(
    r"<details( open)?><summary><b>(?P<name>.+?)</b>, (?P<month>\w+ \d{4})</summary>\n\n"
    r"(?P<text>.+?) \[Source\]\((?P<source>https://\S+)\)\n\n</details>"
)


def cell_with(words: str) -> str:
    """The Markdown cell of lesson 6 that starts with these words."""
    cells = read(FOLDER / "06_what_happened_next.ipynb").cells
    (source,) = [cell.source for cell in cells if cell.source.startswith(words)]
    return str(source)


def history(heading: str) -> str:
    """The part of the history below a heading."""
    _, _, following = cell_with("### ").partition(f"### {heading}\n")
    return following.partition("### ")[0]


@pytest.mark.parametrize("heading", LISTS)
def test_a_list_of_the_history_is_in_the_order_of_time(heading: str) -> None:
    months = [
        datetime.datetime.strptime(entry["month"], "%B %Y")
        for entry in ENTRY.finditer(history(heading))
    ]
    assert months
    assert months == sorted(months)


@pytest.mark.parametrize("heading", LISTS)
def test_every_entry_of_the_history_has_a_date_a_text_and_a_source(heading: str) -> None:
    assert history(heading)
    assert ENTRY.sub("", history(heading)).strip() == "", "these entries have another form"


@pytest.mark.parametrize("heading", LISTS)
def test_only_the_first_entry_of_a_list_is_open(heading: str) -> None:
    entries = history(heading)
    assert entries.strip().startswith("<details open>")
    assert entries.count("<details open>") == 1


def test_every_branch_of_the_decision_tree_is_closed_and_ends_in_a_question_or_advice() -> None:
    tree = cell_with("**What do you want to do?**")
    for tag in ("details", "summary", "blockquote"):
        assert tree.count(f"<{tag}>") == tree.count(f"</{tag}>"), tag
    answers = re.findall(r"<summary>(.+?)</summary><blockquote>\n\n(.+)", tree)
    assert len(answers) == tree.count("<details>"), "an answer is followed by nothing"
