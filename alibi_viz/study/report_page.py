"""Write one page from the published records: the verdicts, the tables with intervals, and how they
were made."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pandas as pd

from alibi_viz.files import write
from alibi_viz.lab import QUESTIONS, summary
from alibi_viz.measure.questions import SAMPLES, Question
from alibi_viz.measure.table import LEVEL
from alibi_viz.study.judge import FOLDER, PAPERS, SETTINGS, conclusion, verdict_table
from alibi_viz.study.parts import LENGTH, PARTS, SEARCH, SEEDS, SUMMARIES, TARGETS, rate_table
from alibi_viz.study.records import published_records
from alibi_viz.train.runs import create_folder, record_table


def write_report(folder: str | Path) -> None:
    """Write report.md about the published results into a folder."""
    records, search = published_records(), published_records([SEARCH])
    verdicts, rates = (
        verdict_table(record_table(records, "published", by_block=True)),
        rate_table(search),
    )
    rows = [(rates.loc[run].dropna(), rate) for run, rate in rates.idxmin(axis=1).items()]
    made_with = pd.DataFrame(record["made_with"] for record in records)
    source = (FOLDER / "report.md.j2").read_text(encoding="utf-8")
    numbers = {
        "length": LENGTH,
        "seeds": SEEDS,
        "targets": TARGETS,
        "samples": SAMPLES,
        "level": LEVEL,
    }
    page = jinja2.Template(source, undefined=jinja2.StrictUndefined, trim_blocks=True).render(
        **numbers,
        records=records,
        search=search,
        versions={name: Counter(values) for name, values in made_with.items()},
        verdicts=list(verdicts.itertuples()),
        settings=list(SETTINGS),
        conclusion=conclusion(verdicts),
        sections=list(_sections(record_table(records, "published"))),
        rates=_with_lowest_in_bold(rates),
        at_end=sum(best in tried.index[[0, -1]] for tried, best in rows),
        papers=PAPERS.values(),
    )
    write(create_folder(folder) / "report.md", page)


def _sections(
    results: pd.DataFrame,
) -> Iterator[tuple[Question, dict[str, pd.DataFrame], int, int]]:
    """Each question, a table for every part that answers it, and the numbers of samples that a
    value is a mean of."""
    for question in QUESTIONS:
        rows = results[
            (results["question"] == question.name) & (question.name != "by position")
        ]  # too many columns
        if question.name == "attention beyond L":  # of a model trained at 2L, these are other keys
            rows = rows[rows["length"] == LENGTH]
        tables = {
            SUMMARIES[name]: summary(rows[rows["task"] == runs[0].task], question.name)
            for name, runs in PARTS.items()
            if runs[0].task in set(rows["task"])
        }
        if tables:
            yield question, tables, int(rows["count"].min()), int(rows["count"].max())


def _with_lowest_in_bold(rates: pd.DataFrame) -> pd.DataFrame:
    """The cells of a table of training losses, the lowest of each row in bold."""
    cells = rates.map("{:.3f}".format).where(rates.notna(), "")
    cells = cells.mask(rates.eq(rates.min(axis=1), axis=0), "**" + cells + "**")
    return cells.set_axis([f"{label} ({task})" for task, label in rates.index])
