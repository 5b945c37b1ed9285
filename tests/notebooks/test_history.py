"""What is told in Markdown: tables in the order of time with sources (the implementer's guide), and
a decision tree (lesson 6)."""

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
    r"\| \[(?P<name>.+?)\]\((?P<source>https://\S+)\) \| (?P<month>\w+ \d{4}) \| (?P<text>.+) \|"
)


def cell_with(lesson: str, words: str) -> str:
    """The Markdown cell of a lesson that starts with these words."""
    cells = read(FOLDER / f"{lesson}.ipynb").cells
    (source,) = [cell.source for cell in cells if cell.source.startswith(words)]
    return str(source)


def history(heading: str) -> list[str]:
    """The rows of the table below a heading of the history."""
    everything = cell_with("10_for_implementers", "## Five years in seven questions")
    _, _, following = everything.partition(f"### {heading}\n")
    head, rule, *rows = following.partition("### ")[0].strip().splitlines()
    assert head == "| name | date | in short |"
    assert rule == "|---|---|---|"
    return rows


@pytest.mark.parametrize("heading", LISTS)
def test_every_entry_of_the_history_has_a_date_a_text_and_a_source(heading: str) -> None:
    assert history(heading)
    for row in history(heading):
        assert ENTRY.fullmatch(row), row


@pytest.mark.parametrize("heading", LISTS)
def test_a_table_of_the_history_is_in_the_order_of_time(heading: str) -> None:
    entries = [ENTRY.fullmatch(row) for row in history(heading)]
    months = [datetime.datetime.strptime(entry["month"], "%B %Y") for entry in entries if entry]
    assert months == sorted(months)


def test_the_history_says_how_many_entries_it_has() -> None:
    number = sum(len(history(heading)) for heading in LISTS)
    assert f"{number} models and methods" in cell_with("10_for_implementers", "## Five years")


def test_every_branch_of_the_decision_tree_is_closed_and_ends_in_a_question_or_advice() -> None:
    tree = cell_with("06_what_happened_next", "**What do you want to do?**")
    for tag in ("details", "summary", "blockquote"):
        assert tree.count(f"<{tag}>") == tree.count(f"</{tag}>"), tag
    answers = re.findall(r"<summary>(.+?)</summary><blockquote>\n\n(.+)", tree)
    assert len(answers) == tree.count("<details>"), "an answer is followed by nothing"
