"""Write one page from the published records: the verdicts, the tables with intervals, and how they were made."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import jinja2
import mistune
import pandas as pd

from alibi_viz.lab import QUESTIONS
from alibi_viz.lab.compare import summary
from alibi_viz.lab.questions import Question
from alibi_viz.lab.runs import Record, record_table
from alibi_viz.study.judge import PAPERS, SETTINGS, conclusion, verdict_table
from alibi_viz.study.parts import LENGTH, PARTS, SEEDS, TARGETS, rate_table
from alibi_viz.study.records import SEARCH, published_records
from alibi_viz.table import LEVEL

LEFT_OUT = ("gap", "by position")  # questions with too many columns for a page
TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def write_report(folder: str | Path) -> None:
    """Write report.md and report.html about the published results into a folder.

    The HTML has no scripts and needs nothing from the network.
    """
    records, search = published_records(), published_records([SEARCH])
    verdicts = verdict_table(record_table(records, "published", by_block=True))
    page = TEMPLATES.get_template("report.md.j2").render(
        length=LENGTH,
        seeds=SEEDS,
        targets=TARGETS,
        level=LEVEL,
        records=records,
        search=search,
        versions={name: Counter(record["made_with"][name] for record in records) for name in records[0]["made_with"]},
        verdicts=list(verdicts.itertuples()),
        settings=list(SETTINGS),
        conclusion=conclusion(verdicts),
        sections=list(_sections(record_table(records, "published"))),
        rates=_learning_rates(search),
        papers=PAPERS.values(),
    )
    titles = re.findall("^## (.*)$", page, flags=re.MULTILINE)
    page = page.replace("[contents]", "\n".join(f"- [{title}](#{_anchor(title)})" for title in titles))
    body = str(mistune.create_markdown(plugins=["table"])(page))
    for title in titles:
        body = body.replace(f"<h2>{title}</h2>", f'<h2 id="{_anchor(title)}">{title}</h2>')
    (Path(folder) / "report.md").write_text(page, encoding="utf-8")
    html = TEMPLATES.get_template("report.html.j2").render(body=body)
    (Path(folder) / "report.html").write_text(html, encoding="utf-8")


def _anchor(title: str) -> str:
    """The id of a heading, the same as on GitHub."""
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")


def _sections(results: pd.DataFrame) -> Iterator[tuple[Question, dict[str, pd.DataFrame], int, int]]:
    """Each question, a table for every part that answers it, and the numbers of samples that a value is a mean of."""
    for question in QUESTIONS:
        rows = results[(results["question"] == question.name) & (question.name not in LEFT_OUT)]
        tables = {
            part.summary: summary(rows[rows["task"] == part.templates[0].task], question.name)
            for part in PARTS.values()
            if part.templates[0].task in set(rows["task"])
        }
        if tables:
            yield question, tables, int(rows["count"].min()), int(rows["count"].max())


def _learning_rates(search: Sequence[Record]) -> tuple[pd.DataFrame, int]:
    """The mean training losses, the lowest in bold, and how many of these are at an end of what was tried."""
    table = rate_table(search)
    best = table.idxmin(axis=1)
    at_end = sum(rate in table.columns[table.loc[run].notna()][[0, -1]] for run, rate in best.items())
    cells = table.map("{:.3f}".format).where(table.notna(), "")
    for run, rate in best.items():
        cells.loc[run, rate] = f"**{cells.loc[run, rate]}**"
    cells.index = pd.Index([f"{label} ({task})" for task, label in table.index])
    return cells, at_end
