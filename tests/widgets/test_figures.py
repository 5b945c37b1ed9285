"""The figure and the caption of every app as it opens, and with one check box changed, are those
last looked at.

After a change that you want, look at the apps and write their figures again: python -m
tests.widgets.test_figures
"""

import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alibi_viz.widgets.core.traits import Flag, Number
from tests.widgets.test_every_app import APPS, SMALL

LOOKS = re.compile(
    r"template|uid|font|margin|line|anchor|color(?!axis\d?\.c)|type|mode|ref$|shift|showgrid|len$|thickness|outline"
)
STORED = Path(__file__).with_name("figures.json")


def values(part: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers and texts of a figure with their paths; of many, how many there are, a checksum
    and three means."""
    if isinstance(part, dict):
        for key in sorted(part):
            yield from values(part[key], f"{path}.{key}")
    elif isinstance(part, np.ndarray) or (
        isinstance(part, list | tuple) and not any(type(x) is dict for x in part)
    ):
        flat = np.asarray(part, dtype=object).ravel()
        texts = [each for each in flat if isinstance(each, str)]
        numbers = np.nan_to_num([float(each or 0) for each in flat if not isinstance(each, str)])
        means = (
            numbers * weight for weight in (1, np.sign(numbers), np.linspace(0, 1, numbers.size))
        )
        yield (
            path,
            [
                len(texts),
                zlib.crc32("".join(texts).encode()),
                numbers.size,
                *(each.sum() for each in means),
            ],
        )
    elif isinstance(part, np.ndarray | list | tuple):
        for number, each in enumerate(part):
            yield from values(each, f"{path}[{number}]")
    else:
        yield path, float(part) if isinstance(part, int | float | np.number) else str(part)


def shown(name: str, **state: bool) -> dict[str, Any]:
    """What an app shows as it opens, or in this state."""
    app = SMALL[name](**state)
    figure = values({"data": app.figure._data, "layout": app.figure._layout})
    limits = {
        name: [trait.low, trait.high]
        for name, trait in app.traits().items()
        if isinstance(trait, Number)
    }
    return (
        {"caption": app.caption}
        | limits
        | {path: value for path, value in figure if not LOOKS.search(path)}
    )


CASES = {name: (name, {}) for name in APPS} | {
    f"{name} {flag}": (name, {flag: not trait.default_value})
    for name, app in APPS.items()
    for flag, trait in app.class_traits().items()
    if isinstance(trait, Flag)
}


@pytest.mark.parametrize("case", CASES)
def test_figure_and_caption_are_those_last_looked_at(case: str) -> None:
    name, state = CASES[case]
    now, stored = shown(name, **state), json.loads(STORED.read_text(encoding="utf-8"))[case]
    assert now.keys() == stored.keys()
    for path, value in now.items():
        assert value == (
            stored[path] if isinstance(value, str) else pytest.approx(stored[path], 2e-4, 1e-5)
        ), path


if __name__ == "__main__":
    figures = {case: shown(name, **state) for case, (name, state) in CASES.items()}
    rounded = json.loads(
        json.dumps(figures), parse_float=lambda number: float(f"{float(number):.5g}")
    )
    STORED.write_text(
        json.dumps(rounded, ensure_ascii=False).replace(', "', ',\n"') + "\n", encoding="utf-8"
    )
