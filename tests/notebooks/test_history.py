"""What is told in Markdown: tables with dates and sources (the implementer's guide), and a decision
tree (lesson 6)."""

import re

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


def test_every_entry_of_the_history_has_a_date_a_text_and_a_source() -> None:
    for heading in LISTS:
        rows = history(heading)
        assert rows, heading
        for row in rows:
            assert ENTRY.fullmatch(row), row


def test_every_branch_of_the_decision_tree_is_closed_and_ends_in_a_question_or_advice() -> None:
    tree = cell_with("06_what_happened_next", "**What do you want to do?**")
    for tag in ("details", "summary", "blockquote"):
        assert tree.count(f"<{tag}>") == tree.count(f"</{tag}>"), tag
    answers = re.findall(r"<summary>(.+?)</summary><blockquote>\n\n(.+)", tree)
    assert len(answers) == tree.count("<details>"), "an answer is followed by nothing"
