"""Write one page from the published records: the tables with intervals, the verdicts, and how they were made."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import jinja2
import mistune
import pandas as pd

from alibi_viz.lab import QUESTIONS, Question
from alibi_viz.lab.confidence import LEVEL, SEEDS
from alibi_viz.lab.results import AS_TRAINED, Record, record_table
from alibi_viz.lab.tables import summary
from alibi_viz.study.judge import CONTRADICTED, HISTORY, NOT_TESTABLE, PAPERS, REPRODUCED, UNDECIDED, judge
from alibi_viz.study.parts import LENGTH, PARTS, rate_table
from alibi_viz.study.records import SEARCH, published_records

KINDS = (REPRODUCED, CONTRADICTED, UNDECIDED, NOT_TESTABLE)
LEFT_OUT = ("gap", "by position")  # questions with too many columns for a page
EARLIER_TEXT = "2a95af4ac93f5b71"  # the fingerprint of the text of the published runs
TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def report(records: Sequence[Record], search: Sequence[Record]) -> str:
    """The page in Markdown.

    `records` are those of the published comparison, and `search` those of the search for learning rates.
    """
    results = record_table(records, "published")
    verdicts = judge(results)
    history = pd.DataFrame([(each.claim.seen, each.verdict) for each in verdicts], columns=["seen", "verdict"])
    texts = sorted({record["text"] for record in records} - {""})
    versions = {name: Counter(record["made_with"][name] for record in records) for name in records[0]["made_with"]}
    page = TEMPLATES.get_template("report.md.j2").render(
        length=LENGTH,
        level=LEVEL,
        least_seeds=SEEDS,
        runs=len(records),
        hours=_hours(records),
        search_hours=_hours(search),
        failed=[record["run"]["label"] for record in records if record["error"]],
        texts=texts,
        is_earlier=EARLIER_TEXT in texts,
        versions=versions,
        verdicts={kind: [each for each in verdicts if each.verdict == kind] for kind in KINDS},
        history=pd.crosstab(history["seen"], history["verdict"]).reindex(index=HISTORY, columns=KINDS, fill_value=0),
        sections=list(_sections(results)),
        rates=_learning_rates(search),
        papers=PAPERS.values(),
        main_runs=len(PARTS["main"].templates),
    )
    contents = (f"- [{title}](#{_anchor(title)})" for title in re.findall("^## (.*)$", page, flags=re.MULTILINE))
    return page.replace("[contents]", "\n".join(contents))


def write_report(folder: str | Path) -> None:
    """Write report.md and report.html about the published results into a folder."""
    page = report(published_records(), published_records([SEARCH]))
    (Path(folder) / "report.md").write_text(page, encoding="utf-8")
    (Path(folder) / "report.html").write_text(as_html(page), encoding="utf-8")


def as_html(markdown: str) -> str:
    """The page as HTML without scripts, which needs nothing from the network."""
    body = mistune.create_markdown(plugins=["table"])(markdown)
    assert isinstance(body, str)
    body = body.replace("<table>", '<div style="overflow-x: auto"><table>').replace("</table>", "</table></div>")
    body = re.sub("<h2>(.*?)</h2>", lambda heading: f'<h2 id="{_anchor(heading[1])}">{heading[1]}</h2>', body)
    title = markdown.splitlines()[0].removeprefix("# ")
    return TEMPLATES.get_template("report.html.j2").render(title=title, body=body)


def _anchor(title: str) -> str:
    """The id of a heading, the same as on GitHub."""
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")


def _hours(records: Sequence[Record]) -> float:
    return sum(record["seconds"] for record in records) / 3600


def _sections(results: pd.DataFrame) -> Iterator[tuple[Question, dict[str, pd.DataFrame], int, int]]:
    """Each question with a table for every part that answers it, and the numbers of samples that a value is a mean of.

    Changed models are shown for the main methods, and for all methods on longer windows.
    """
    main = [run.label for run in PARTS["main"].templates]
    for question in QUESTIONS:
        rows = results[results["question"] == question.name]
        shown = (rows["evaluated"] == AS_TRAINED) | rows["label"].isin(main) | (question.name == "longer windows")
        rows = rows[shown & (question.name not in LEFT_OUT)]
        tables = {}
        for part in PARTS.values():
            labels = [run.label for run in part.templates if run.task == question.task]
            if rows["label"].isin(labels).any():
                tables[part.summary] = summary(rows[rows["label"].isin(labels)], question.name)
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
