"""The table of results, with one row per measured value.

Training, races and questions yield its rows; captions, figures, judges and files read it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from alibi_viz.arguments import check_instance

AS_TRAINED = "as trained"
TRAINING_LOSS = "training loss"
COLUMNS = {
    # "live" (a race in this session), "published" (shipped), or the name of a results file
    "origin": "str",
    "task": "str",  # what was trained on: "text" or a task such as "needle"
    "method": "str",  # position method
    "label": "str",  # name in tables and legends; the method unless a run has special settings
    # "as trained", or how the model was changed before evaluation, such as "window"
    "variant": "str",
    "seed": "int64",  # of the starting weights and the batches
    "length": "int64",  # training length L
    "step": "int64",  # of training, after which it was measured
    "question": "str",  # what was measured, see `lab.QUESTIONS`; or "training loss"
    "x": "int64",  # position on the question's axis: a length, distance, position or step
    "value": "float64",  # the measurement; NaN where a method is not defined
    "unit": "str",  # of the value, such as "bits per byte"
    "count": "int64",  # how many targets or samples the value is a mean over
    "text": "str",  # fingerprint of the text, "" for a task
}
SCALED = "times 8"  # ALiBi's slopes, in the column "slopes" of verdicts
# {id of a verdict: what a reader sees}
VERDICTS = {"seen": "seen", "not_seen": "not seen", "open": "open"}
SEEN, NOT_SEEN, OPEN = VERDICTS
VERDICT_COLUMNS = (
    "setting",
    "setting_name",
    "factor",
    "base",
    "slopes",
    "claim",
    "text",
    "source",
    "known",
    "margin",
    "error",
    "low",
    "high",
    "p",
    "verdict",
    "numbers",
)
REACH_COLUMNS = (
    "claim",
    "text",
    "source",
    "known",
    *VERDICTS,
    "hangs_on",
    "reach",
)
PREDICTION_COLUMNS = (
    "claim",
    "slopes",
    "settings",
    "margin",
    "between",
    "low",
    "high",
    "prediction",
)
# The confidence level of all intervals.
LEVEL = 0.95
# Nothing is decided with fewer seeds.
FEWEST_SEEDS = 3
# One row of the table, by column.
Row = dict[str, Any]


def check_table(name: str, value: Any, columns: Iterable[str] = COLUMNS) -> None:
    """Check for a table with these columns, by default those of `COLUMNS`."""
    if isinstance(value, str | Path):
        raise TypeError(
            f"{name} must be a table, got {value!r}: lab.read_results reads that of a folder"
        )
    check_instance(name, value, pd.DataFrame)
    missing = [column for column in columns if column not in value]
    if missing:
        raise ValueError(
            f"{name} must have the columns {', '.join(columns)}; {', '.join(missing)} are missing"
        )


def results_table(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A table with the columns of `COLUMNS`, also when there are no rows."""
    return pd.DataFrame(list(rows), columns=list(COLUMNS)).astype(COLUMNS)


def over_seeds(
    rows: pd.DataFrame,
    by: Sequence[str] = ("label", "x"),
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> pd.DataFrame:
    """Mean and 95% interval of the values over seeds, in the order of the rows.

    The interval is that of Student's t distribution: a bootstrap promises too much with so few
    seeds. It ends at the `limits` of the values.

    Returns a row for each group of the columns `by`, with "mean", "half_width", "low", "high" (NaN
    for fewer than two seeds) and "seeds" (how many have a value).

    >>> import pandas as pd
    >>> from alibi_viz.measure.table import over_seeds
    >>> rows = pd.DataFrame({"label": "alibi", "x": 64, "value": [2.0, 2.1, 2.2]})
    >>> over_seeds(rows).round(3).to_dict("records")
    [{'mean': 2.1, 'half_width': 0.248, 'low': 1.852, 'high': 2.348, 'seeds': 3}]
    """
    groups = rows.groupby(list(by), sort=False)["value"].agg(["mean", "std", "count"])
    mean = groups["mean"]
    seeds = groups["count"]

    # Student's t distribution; NaN for fewer than two seeds.
    quantile = pd.Series(math.nan, index=seeds.index)
    if (seeds >= 2).any():
        # Not at the top: it takes 0.2 seconds, and an app that opens, or has one seed, needs none
        # of it. scipy.stats would take a second.
        from scipy.special import stdtrit  # noqa: PLC0415

        quantile = stdtrit(seeds - 1, (1 + LEVEL) / 2)
    half_width = quantile * groups["std"] / seeds**0.5

    lowest, highest = limits
    return pd.DataFrame(
        {
            "mean": mean,
            "half_width": half_width,
            "low": (mean - half_width).clip(lower=lowest),
            "high": (mean + half_width).clip(upper=highest),
            "seeds": seeds,
        }
    )


@dataclass(frozen=True, kw_only=True)
class Axes:
    """The axes of a figure of curves, as plain data."""

    title: str
    x_title: str
    point: str  # a point in words, such as "windows of {x} bytes"
    unit: str  # of the values
    number: str = ".2f"  # the format of a value
    # The vertical axis ends at multiples of `step`, and includes `low` and `high`; None for no such
    # value
    low: float | None = 0.0
    high: float | None = 1.0
    step: float = 0.1
    log: bool = True  # logarithmic horizontal axis; a linear one starts at 0
    # {position: label}; the outermost are the ends of a logarithmic axis
    ticks: Mapping[int, str] = field(default_factory=dict)
    # The training length, drawn as a dotted line with everything beyond it shaded
    length: int | None = None
    chance: float | None = None  # the value of guessing at random, drawn as a horizontal line
    # At most two losses of models that only count, such as `Text.yardsticks`: drawn as horizontal
    # lines if they lie within the axis, which isn't stretched for them
    yardsticks: Mapping[str, float] = field(default_factory=dict)
    # Whether the vertical axis runs from `low` to `high` as long as all values lie between them
    is_steady: bool = False

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and largest possible value; intervals end there."""
        return (0.0, 1.0) if "%" in self.number else (-math.inf, math.inf)
