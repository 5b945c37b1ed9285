"""What is told in Markdown: the list of methods with dates and sources, and the cases of a decision
(lesson 6)."""

import re

from tests.notebooks.lessons import FOLDER, read

METHOD = re.compile(
    r"\| \[(?P<name>.+?)\]\((?P<source>https://\S+)\) \| \d{4}-\d{2} \| (?P<about>.+?) \| .+ \|"
)
MARKS = ("*measured here*", "*by others*", "*untested*")


def rows_below(text: str, head: str) -> list[str]:
    """The rows of the table with this head."""
    _, _, following = text.partition(f"{head}\n")
    rule, *rows = following.partition("\n\n")[0].splitlines()
    assert set(rule) == {"|", "-"}, head
    return rows


def test_every_method_has_a_source_a_month_and_a_text() -> None:
    text = (FOLDER / "methods.md").read_text(encoding="utf-8")
    rows = rows_below(text, "| name | date | about | in short |")
    methods = [METHOD.fullmatch(row) for row in rows]
    assert None not in methods, [row for row in rows if not METHOD.fullmatch(row)]
    names = [method["name"] for method in methods if method]
    assert len(set(names)) == len(names) >= 58


def test_every_case_of_the_decision_says_how_its_advice_is_known() -> None:
    cells = read(FOLDER / "06_what_happened_next.ipynb").cells
    (text,) = [cell.source for cell in cells if cell.source.startswith("## Which should I use?")]
    of_trained_models = rows_below(text, "| your case | what to do | evidence |")
    of_new_models = rows_below(text, "| your case | what to try | evidence |")
    for row in of_trained_models + of_new_models:
        case, advice, mark = row.strip("| ").split(" | ")
        assert case and advice
        assert mark in MARKS, row
