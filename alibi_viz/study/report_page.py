"""Write one page from the published records: settings, claims, tables, and how they were made."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from alibi_viz.files import create_folder, write
from alibi_viz.lab import QUESTIONS, summary
from alibi_viz.measure.questions import SAMPLES, Question
from alibi_viz.measure.table import LEVEL
from alibi_viz.study.judge import FOLDER, PAPERS, RESOLUTION, conclusion, reach_table, verdict_table
from alibi_viz.study.records import history, published_records, table_by_setting
from alibi_viz.study.settings import SETTINGS, TARGETS, setting_of
from alibi_viz.train.run import Record

LENGTH = 64  # L, in bytes or tokens


def write_report(folder: str | Path) -> None:
    """Write report.md about the published results into a folder."""
    path = create_folder(folder) / "report.md"  # rather than fail after all has been computed
    records = published_records()
    results = table_by_setting(records, "published")
    verdicts = verdict_table(table_by_setting(records, "published", by_block=True))
    made_with = pd.DataFrame(record["made_with"] for record in records)
    same_targets = results.loc[results["question"] == "same targets", "count"].min()

    source = (FOLDER / "report.md.j2").read_text(encoding="utf-8")
    template = jinja2.Template(source, undefined=jinja2.StrictUndefined, trim_blocks=True)
    page = template.render(
        length=LENGTH,
        targets=TARGETS,
        same_targets=int(same_targets),
        samples=SAMPLES,
        level=LEVEL,
        resolution=RESOLUTION,
        records=records,
        versions={name: Counter(values) for name, values in made_with.items()},
        settings=_settings_table(records),
        claims=list(_claims(verdicts)),
        conclusion=conclusion(verdicts),
        sections=list(_sections(results)),
        papers=PAPERS.values(),
    )
    write(path, page)


def _settings_table(records: list[Record]) -> pd.DataFrame:
    """A row for each setting: what it changes and why, and what its runs took."""
    seconds: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    for record in records:
        of_record = setting_of(record["run"])
        seconds[of_record] += record["seconds"]
        runs[of_record] += 1

    rows: dict[str, dict[str, Any]] = {}
    for name, setting in SETTINGS.items():
        rows[name] = {
            "changes": setting.factor,
            "because": setting.reason,
            "seeds": setting.seeds,
            "runs": runs[name],
            "minutes of one core": f"{seconds[name] / 60:.0f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def _claims(verdicts: pd.DataFrame) -> Iterator[tuple[Any, str, pd.DataFrame]]:
    """Each claim with its row of `reach_table`, what the edition before found, and its verdicts."""
    earlier = history().query("edition == 'second'")
    for claim in reach_table(verdicts).itertuples():
        of_claim = earlier[earlier["claim"] == claim.claim]
        found = [f"{row.verdict} ({row.setting})" for row in of_claim.itertuples()]
        cells = verdicts[verdicts["claim"] == claim.claim].set_index("setting")
        yield claim, ", ".join(found), cells[["slopes", "verdict", "numbers"]]


def _sections(
    results: pd.DataFrame,
) -> Iterator[tuple[Question, dict[str, pd.DataFrame], int, int]]:
    """Each question, its tables, and the fewest and most samples that a value is a mean of.

    The tables are {name of a setting: table}, for each main setting that answers the question, and
    for the other text.
    """
    for question in QUESTIONS:
        if question.name == "by position":  # too many columns
            continue
        rows = results[results["question"] == question.name]
        if question.name == "attention beyond L":  # of a model trained at 2L, these are other keys
            rows = rows[rows["length"] == LENGTH]
        tables = {}
        for name, setting in SETTINGS.items():
            rows_of_setting = rows[rows["setting"] == name]
            if setting.factor in ("", "text") and not rows_of_setting.empty:
                tables[name] = summary(rows_of_setting, question.name)
        if tables:
            yield question, tables, int(rows["count"].min()), int(rows["count"].max())
