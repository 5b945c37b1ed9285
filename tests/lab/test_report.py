"""The page about the published results is computed from their records."""

import html.parser
import re
from pathlib import Path

import pytest

from alibi_viz import lab
from alibi_viz.lab import published
from alibi_viz.lab.__main__ import main
from alibi_viz.lab.claims import CLAIMS, PAPERS
from alibi_viz.lab.intervals import over_seeds
from alibi_viz.lab.published import published_records
from alibi_viz.lab.report import as_html, report

SEARCH = [
    {
        "run": {"task": "text", "label": "alibi", "learning_rate": rate, "steps": 100},
        "error": None,
        "seconds": 1800,
        "answers": [["as trained", "training loss", 100, loss, "bits per byte", 1]],
    }
    for rate, loss in ((0.004, 2.5), (0.008, 2.25))
]


@pytest.fixture(scope="module")
def page():
    learned = lab.measure(lab.Run("learned", length=64, steps=1, longest=16, label="learned, one step"))
    return report([*published_records(), learned], SEARCH)


def table(page, title):
    """The rows of all tables of a section: {first cell: {column: cell}}."""
    section = page.split(f"## {title}\n")[1].split("\n## ")[0]
    rows = {}
    for lines in re.findall(r"(?:^\|.*\n)+", section + "\n", re.M):
        header, _, *cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()]
        rows |= {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in cells}
    return rows


def test_the_main_table_has_each_mean_with_its_interval_and_the_number_of_seeds(page):
    rows = lab.published_results().query("question == 'longer windows' and evaluated == 'as trained'")
    summary = over_seeds(rows.assign(curve=rows["label"]))
    shown = table(page, "Longer windows")
    for label, x in (("alibi", 64), ("rotary", 1024)):
        mean, half_width, seeds = summary.loc[(label, x)]
        assert shown[label][f"{x:,}"] == f"{mean:.3f} ± {half_width:.3f}"
        assert shown[label]["seeds"] == f"{seeds:.0f}"
    assert shown["learned, one step"]["1,024"] == "not defined"
    assert {"rotary, window", "rotary, ntk"} <= shown.keys()


def test_every_claim_stands_under_its_verdict(page):
    verdicts = lab.judge(lab.published_results())
    for kind in ("reproduced", "contradicted", "undecided", "not testable here"):
        own = [verdict for verdict in verdicts if verdict.verdict == kind]
        section = page.split(f"### {kind[0].upper()}{kind[1:]}: {len(own)}\n")[1].split("\n##")[0]
        assert section.count("\n- ") == len(own)
        assert all(verdict.claim.text in section for verdict in own)
    assert len(verdicts) == len(CLAIMS)


def test_the_chosen_learning_rate_is_bold(page):
    assert table(page, "Learning rates") == {"alibi (text)": {"0.004": "2.500", "0.008": "**2.250**"}}


def test_papers_versions_and_texts_are_named(page):
    assert all(paper.title in page for paper in PAPERS.values())
    assert "- torch: 2.13.0" in page
    assert "and the search for learning rates 1.0 hours" in page
    assert lab.published_results()["text"].max() in page


def test_the_page_as_html_has_its_tables_and_needs_nothing_from_the_network(page):
    tags = []
    parser = html.parser.HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, dict(attributes)))
    parser.feed(as_html(page))
    names = [tag for tag, _ in tags]
    assert names.count("table") == len(re.findall(r"^\| ?--- ", page, flags=re.MULTILINE))
    assert names.count("h1") == 1
    assert not {"script", "link", "img"} & {*names}


def test_the_committed_page_is_that_of_the_published_records(tmp_path):
    main(["report", "--out", str(tmp_path)])
    folder = Path(published.__file__).parent
    for name in ("report.md", "report.html"):
        assert (tmp_path / name).read_text() == (folder / name).read_text(), "run `make report`"


def test_every_link_of_the_contents_leads_to_a_section(page):
    targets = re.findall(r"\]\(#(.*?)\)", page)
    assert len(targets) > 5
    headings = re.findall(r'<h2 id="(.*?)">', as_html(page))
    assert targets == headings
