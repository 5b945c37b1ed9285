"""Write one page from the published records: verdicts, tables, and how they were made."""

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
from alibi_viz.train.results import create_folder, record_table


def write_report(folder: str | Path) -> None:
    """Write report.md about the published results into a folder."""
    records = published_records()
    search = published_records([SEARCH])
    verdicts = verdict_table(record_table(records, "published", by_block=True))
    rates = rate_table(search)
    made_with = pd.DataFrame(record["made_with"] for record in records)

    source = (FOLDER / "report.md.j2").read_text(encoding="utf-8")
    template = jinja2.Template(source, undefined=jinja2.StrictUndefined, trim_blocks=True)
    page = template.render(
        length=LENGTH,
        seeds=SEEDS,
        targets=TARGETS,
        samples=SAMPLES,
        level=LEVEL,
        records=records,
        search=search,
        versions={name: Counter(values) for name, values in made_with.items()},
        verdicts=list(verdicts.itertuples()),
        settings=list(SETTINGS),
        conclusion=conclusion(verdicts),
        sections=list(_sections(record_table(records, "published"))),
        rates=_with_lowest_in_bold(rates),
        at_end=_best_at_an_end(rates),
        papers=PAPERS.values(),
    )
    write(create_folder(folder) / "report.md", page)


def _best_at_an_end(rates: pd.DataFrame) -> int:
    """How many models learn best with the lowest or the highest rate that was tried."""
    count = 0
    for model, best_rate in rates.idxmin(axis=1).items():
        tried_rates = rates.loc[model].dropna().index
        if best_rate in (tried_rates[0], tried_rates[-1]):
            count += 1
    return count


def _sections(
    results: pd.DataFrame,
) -> Iterator[tuple[Question, dict[str, pd.DataFrame], int, int]]:
    """Each question, its tables, and the fewest and most samples that a value is a mean of.

    The tables are {summary of a part: table}, for every part that answers the question.
    """
    for question in QUESTIONS:
        if question.name == "by position":  # too many columns
            continue
        rows = results[results["question"] == question.name]
        if question.name == "attention beyond L":  # of a model trained at 2L, these are other keys
            rows = rows[rows["length"] == LENGTH]
        tables = {}
        for name, runs in PARTS.items():
            rows_of_task = rows[rows["task"] == runs[0].task]
            if not rows_of_task.empty:
                tables[SUMMARIES[name]] = summary(rows_of_task, question.name)
        if tables:
            yield question, tables, int(rows["count"].min()), int(rows["count"].max())


def _with_lowest_in_bold(rates: pd.DataFrame) -> pd.DataFrame:
    """The cells of a table of training losses, the lowest of each row in bold."""
    cells = rates.map("{:.3f}".format).where(rates.notna(), "")
    cells = cells.mask(rates.eq(rates.min(axis=1), axis=0), "**" + cells + "**")
    return cells.set_axis([f"{label} ({task})" for task, label in rates.index])
