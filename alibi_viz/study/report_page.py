"""Write one page from the published records: settings, claims, tables, and how they were made."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from alibi_viz.files import create_folder, write
from alibi_viz.formatting import format_slope
from alibi_viz.lab import QUESTIONS, summary
from alibi_viz.measure.questions import SAMPLES, Question
from alibi_viz.measure.table import AS_TRAINED, LEVEL, VERDICTS
from alibi_viz.study.far_keys import EXCHANGED, NEVER, WINDOW, far_keys
from alibi_viz.study.judge import (
    FOLDER,
    PAPERS,
    RESOLUTION,
    SCALED_ALIBI,
    SMALLEST_EFFECT,
    conclusion,
    prediction_table,
    reach_table,
    verdict_table,
)
from alibi_viz.study.records import history, published_records, table_by_setting
from alibi_viz.study.settings import MAIN, SETTINGS, TARGETS, setting_of
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
        smallest=SMALLEST_EFFECT,
        records=records,
        versions={name: Counter(values) for name, values in made_with.items()},
        settings=_settings_table(records),
        claims=list(_claims(verdicts)),
        predictions=_predictions(verdicts),
        slopes=_slopes_table(results),
        far_keys=_far_keys_table(),
        exchanges=_exchange_table(),
        limits=_limits_table(),
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
    for setting in SETTINGS.values():
        rows[setting.name] = {
            "changes": setting.factor,
            "because": setting.reason,
            "seeds": " to ".join(
                str(seeds) for seeds in sorted({setting.seeds, *setting.more_seeds.values()})
            ),
            "runs": runs[setting.id],
            "minutes of one core": f"{seconds[setting.id] / 60:.0f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def _claims(verdicts: pd.DataFrame) -> Iterator[tuple[Any, str, pd.DataFrame]]:
    """Each claim with its row of `reach_table`, what the edition before found, and its verdicts."""
    earlier = history().query("edition == 'second'")
    for claim in reach_table(verdicts).itertuples():
        of_claim = earlier[earlier["claim"] == claim.claim]
        found = [f"{VERDICTS[row.verdict]} ({row.setting})" for row in of_claim.itertuples()]
        cells = verdicts[verdicts["claim"] == claim.claim].set_index("setting_name")
        cells["verdict"] = cells["verdict"].map(VERDICTS)
        yield claim, ", ".join(found), cells[["slopes", "verdict", "numbers"]]


def _predictions(verdicts: pd.DataFrame) -> pd.DataFrame:
    """A row for each claim and kind of slopes: what one more setting would show."""
    table = prediction_table(verdicts).set_index("claim")
    for column in ("margin", "low", "high"):
        table[column] = table[column].map("{:+.3f}".format)
    table["prediction"] = table["prediction"].map(VERDICTS)
    table["between"] = table["between"].map("{:.3f}".format)
    return table


def _slopes_table(results: pd.DataFrame) -> pd.DataFrame:
    """The loss on sequences of L by the factor of ALiBi's slopes, a row for each text and L."""
    factors = {
        "alibi": "times 1",
        "alibi, slopes times 2": "times 2",
        "alibi, slopes times 4": "times 4",
        SCALED_ALIBI: "times 8",
        "alibi, slopes times 16": "times 16",
    }
    settings = [MAIN, *(name for name in SETTINGS if SETTINGS[name].factor in ("text", "length"))]
    rows = results[
        results["setting"].isin(settings)
        & (results["question"] == "longer sequences")
        & (results["variant"] == AS_TRAINED)
        & (results["x"] == results["length"])
        & results["label"].isin(factors)
    ]
    means = rows.groupby(["setting", "label"])["value"].mean().unstack()
    cells = means.loc[settings, list(factors)].map("{:.3f}".format)
    return cells.rename(columns=factors, index=lambda setting: SETTINGS[setting].name)


def _far_keys_table() -> pd.DataFrame:
    """Rotary's loss and far share with every stop and brake, means of eight models."""
    table = far_keys()
    table = table[table["stop"] == table["share_stop"]]
    means = table.groupby(["stop", "brake"])[["bits", "far_share"]].mean()
    cells = means.apply(lambda row: f"{row['bits']:.2f} ({row['far_share']:.0%})", axis=1)
    return cells.unstack().rename(index=_stop, columns=_brake).fillna("")


def _exchange_table() -> pd.DataFrame:
    """The loss with and without angles that are new, at the far share of either."""
    table = far_keys()
    table = table[table["brake"].isin(EXCHANGED) & table["stop"].isin([LENGTH - 1, NEVER])]
    means = table.groupby(["brake", "stop", "share_stop"])[["bits", "far_share"]].mean()
    cells = means.apply(lambda row: f"{row['bits']:.3f} ({row['far_share']:.1%})", axis=1)
    named = cells.unstack(["stop", "share_stop"]).rename(index=_brake)
    named.columns = [
        f"angles: {_stop(stop)}; share: {_stop(share_stop)}" for stop, share_stop in named.columns
    ]
    return named


def _limits_table() -> pd.DataFrame:
    """The loss with and without angles that are new, if far keys get at most a limit."""
    table = far_keys().dropna(subset="limit")
    means = table.pivot_table(index="limit", columns="stop", values="bits").map("{:.3f}".format)
    return means.rename(index="{:.0%}".format, columns=_stop)


def _stop(stop: int) -> str:
    return "angles never stop" if stop == NEVER else f"angles stop at {stop}"


def _brake(brake: float) -> str:
    if brake == WINDOW:
        return "window"
    return "no brake" if brake == 0 else f"brake {format_slope(brake)}"


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
        for setting in SETTINGS.values():
            rows_of_setting = rows[rows["setting"] == setting.id]
            if setting.factor in ("", "text") and not rows_of_setting.empty:
                tables[setting.name] = summary(rows_of_setting, question.name)
        if tables:
            yield question, tables, int(rows["count"].min()), int(rows["count"].max())
