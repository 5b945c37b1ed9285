"""The caption of the precision microscope: which keys collide, where numbers are too coarse, the largest error."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from alibi_viz.figures.precision import SMALLEST
from alibi_viz.precision import DTYPES, WeightErrors, groups
from alibi_viz.widgets.core.formatting import format_number, format_percent, format_slope

__all__ = ["FORMULAS", "Row", "describe"]

_MINUS = "\N{MINUS SIGN}"
FORMULAS = {
    "key": "m j",
    "end": f"m (j {_MINUS} last)",
    "positions": f"{_MINUS}m (i {_MINUS} j), i and j rounded",
    "relative": f"{_MINUS}m (i {_MINUS} j)",
}


class Row(NamedTuple):
    """The bias of one query."""

    query: int
    exact: Tensor  # float64 [key], up to the query
    rounded: Tensor  # the same
    runs: list[range]  # neighboring keys with the same rounded bias
    shared: Tensor  # bool [nearest key], whether in a run of several


def describe(app: Any, slope: float, row: Row, errors: WeightErrors) -> str:
    """Describe what a `PrecisionMicroscope` shows."""
    setting = (
        f"Head {app.head} of {app.num_heads}, slope {format_slope(slope)}, {app.length:,} "
        f"{'token' if app.length == 1 else 'tokens'}, {app.form} form, {FORMULAS[app.form]}, in {app.dtype}."
    )
    return " ".join([setting, _keys(row), *_spacing(app, slope, row), *_nearest(slope, row), *_errors(app, errors)])


def _keys(row: Row) -> str:
    """How many different biases the nearest keys have."""
    count = len(row.shared)
    if count == 1:
        return f"Query {row.query:,} sees only itself."
    different, same = len(groups(row.rounded[-count:])), int(row.shared.sum())
    text = f"On the left is query {row.query:,}. Its {count} nearest keys have {different} different "
    text += "bias" if different == 1 else "biases"
    if not same:
        return f"{text}."
    return f"{text}; {'all' if same == count else same} of them share theirs with a neighbor."


def _spacing(app: Any, slope: float, row: Row) -> list[str]:
    """How far apart the numbers of the dtype are at the query's own key, if that is further than needed."""
    what, value, step = "biases", abs(float(row.exact[-1])), slope
    if app.form == "positions":
        what, value, step = "positions", float(row.query), 1.0
    gap = _gap(value, app.dtype)
    if gap <= step:
        return []
    sizes = [format_slope(size) if size < 1 else format_number(size) for size in (gap, step)]
    only = f"Just below {format_number(value)}, {app.dtype} has only multiples of {sizes[0]}"
    return [f"{only}, while neighboring {what} differ by {sizes[1]}."]


def _gap(value: float, dtype: str) -> float:
    """The distance from a number to the next smaller one of a dtype.

    >>> _gap(1023.5, "bfloat16"), _gap(0.0, "bfloat16")
    (4.0, 0.0)
    """
    if not value:
        return 0.0
    return float(torch.finfo(DTYPES[dtype]).eps) * 2.0 ** math.floor(math.log2(value))


def _nearest(slope: float, row: Row) -> list[str]:
    """The nearest keys with equal biases, and the weight that their distance leaves them."""
    run = next((run for run in reversed(row.runs) if len(run) > 1), None)
    if run is None:
        return ["All its keys have different biases."] if len(row.rounded) > len(row.shared) else []
    near, far = row.query - run[-1], row.query - run[0]
    text = f"The nearest keys with equal biases are {near} {'to' if len(run) > 2 else 'and'} {far} tokens back"
    if not near:
        return [f"{text}."]
    return [f"{text}, where a key has {format_percent(math.exp(-slope * near))} of the weight of the query's own key."]


def _errors(app: Any, errors: WeightErrors) -> list[str]:
    """The largest error of a weight, and where it is."""
    text = f"On the right, with {app.content} content"
    if errors.negligible:
        return [f"{text} no weight is wrong by more than 10^{_MINUS}12."]
    sides = format_percent(errors.weight), format_percent(errors.exact)
    instead = f": {sides[0]} instead of {sides[1]}" if sides[0] != sides[1] else ""
    text += f" the largest error of a weight is {_error(errors.largest)}"
    text += f", for query {errors.query:,} and key {errors.key:,}{instead}."
    cell = f"A cell shows the largest error of {errors.size} x {errors.size} weights."
    return [text, cell] if errors.size > 1 else [text]


def _error(value: float) -> str:
    """An error with two digits; a small one as a power of ten.

    >>> _error(0.5031), _error(0.00039), _error(8.79e-6)
    ('0.50', '0.00039', '8.8 x 10^\N{MINUS SIGN}6')
    """
    if value >= 1e-4:
        return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    below = ", below the range of the colors" if value < SMALLEST else ""
    return f"{mantissa} x 10^{_MINUS}{-int(exponent)}{below}"
