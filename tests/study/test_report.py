"""The page about the published results is computed from their records."""

import re

import pytest

from alibi_viz import lab, study
from alibi_viz.study.records import PUBLISHED


@pytest.fixture(scope="module")
def page() -> str:
    return (PUBLISHED / "report.md").read_text()


def section(page: str, title: str) -> dict[str, dict[str, str]]:
    """The rows of all tables of a section: {first cell: {column: cell}}."""
    text = page.split(f"## {title}\n")[1].split("\n## ", maxsplit=1)[0]
    rows: dict[str, dict[str, str]] = {}
    for lines in re.findall(r"(?:^\|.*\n)+", text + "\n", re.M):
        header, _, *cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()]
        rows |= {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in cells}
    return rows


def test_committed_page_is_that_of_the_published_records(tmp_path) -> None:
    study.write_report(tmp_path)
    assert (tmp_path / "report.md").read_text() == (PUBLISHED / "report.md").read_text(), "run `make report`"


@pytest.mark.parametrize("question", ["needle", "induction"])
def test_every_mean_is_on_the_page(page: str, question: str) -> None:
    shown, table = section(page, question.capitalize()), lab.summary(study.published_results(), question)
    for label, cells in shown.items():
        for x, cell in cells.items():
            assert str(table.loc[label, x if x == "seeds" else int(x.replace(",", ""))]) == cell
    assert set(table.index) == set(shown)


def test_every_claim_stands_beside_its_verdict_in_each_setting(page: str) -> None:
    table = study.verdict_table(study.published_results(by_block=True))
    for row in table.itertuples():
        line = f"| **{row.claim}.** {row.text} ({row.source}) | {row.verdict} | {row.numbers} | {row.known} |"
        assert line in page.split(f"### {row.setting[0].upper()}{row.setting[1:]}\n")[1].split("\n##", maxsplit=1)[0]
