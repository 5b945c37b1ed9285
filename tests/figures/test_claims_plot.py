"""The figure of the claims: a dot with its interval for each setting, in the color of the factor
that decides."""

import numpy as np
import pandas as pd
import pytest

from alibi_viz import study
from alibi_viz.figures import claims_figure, theme
from alibi_viz.figures.claims_plot import MAIN_SETTING, OTHER_SETTINGS
from alibi_viz.measure.table import VERDICT_COLUMNS

# Claim A holds in all settings, claim B hangs on the optimizer.
CELLS = [
    ("main", "", "official", "A", "seen", 0.1),
    ("main", "", "times 8", "A", "seen", 0.2),
    ("main", "", "official", "B", "seen", 0.1),
    ("AdamW", "optimizer", "official", "A", "open", 0.01),
    ("AdamW", "optimizer", "official", "B", "not_seen", -0.1),
    ("steps", "steps", "official", "B", "seen", 3.0),
]
TABLE = pd.DataFrame(
    CELLS, columns=["setting", "factor", "slopes", "claim", "verdict", "margin"]
).assign(text="It does.", source="", known="blind", numbers="as measured", p=0.01, holm=0.02)
TABLE = TABLE.assign(
    setting_name=TABLE["setting"],
    base=TABLE["factor"].map(lambda factor: "main" if factor else ""),
    error=0.01,
    low=TABLE["margin"] - 0.05,
    high=TABLE["margin"] + 0.1,
)


def drawn(table=TABLE):
    return claims_figure(table, study.reach_table(table))


def points(figure):
    """(trace, x, row, symbol) of every dot."""
    found = []
    for trace in figure.data:
        for x, y, symbol in zip(trace.x, trace.y, trace.marker.symbol, strict=True):
            found.append((trace.name, round(float(x), 3), round(y), symbol))
    return found


def shrunk(margin):
    """Where a margin is on the axis."""
    return round(float(np.arcsinh(margin / 0.1)), 3)


def test_every_verdict_is_a_dot_in_the_row_of_its_claim():
    assert sorted(points(drawn())) == sorted(
        [
            (MAIN_SETTING, shrunk(0.1), 0, "circle"),
            (OTHER_SETTINGS, shrunk(0.2), 0, "diamond"),
            (MAIN_SETTING, shrunk(0.1), 1, "circle"),
            (OTHER_SETTINGS, shrunk(0.01), 0, "circle-open"),
            ("optimizer", shrunk(-0.1), 1, "circle"),
            (OTHER_SETTINGS, shrunk(3.0), 1, "circle"),
        ]
    )


def test_settings_have_the_color_of_the_factor_that_a_claim_hangs_on():
    colors = {trace.name: trace.marker.color for trace in drawn().data}
    assert colors["optimizer"] == theme.COLORS[0]
    assert colors[OTHER_SETTINGS] == theme.GRAY


def test_diamonds_have_the_color_of_slopes_if_a_claim_hangs_on_them():
    hanging = TABLE.iloc[:2].assign(verdict=["seen", "not_seen"])
    assert [name for name, *_ in points(drawn(hanging))] == [MAIN_SETTING, "slopes"]


def test_intervals_reach_from_low_to_high():
    for trace in drawn().data:
        lows = trace.x - trace.error_x.arrayminus
        highs = trace.x + trace.error_x.array
        margins = np.sinh(np.array(trace.x)) * 0.1
        np.testing.assert_allclose(np.sinh(lows) * 0.1, margins - 0.05, atol=1e-9)
        np.testing.assert_allclose(np.sinh(highs) * 0.1, margins + 0.1, atol=1e-9)


def test_words_say_how_far_each_claim_reaches():
    texts = {note.y: note.text for note in drawn().layout.annotations}
    assert texts == {0: "seen in 2 of 3, else open", 1: "<b>hangs on the optimizer</b>"}


def test_the_axis_has_words_instead_of_numbers_and_the_threshold_is_a_line():
    figure = drawn()
    axis = figure.layout.xaxis
    assert axis.ticktext == (
        "clearly<br>fails",
        "narrowly<br>fails",
        "threshold",
        "narrowly<br>holds",
        "clearly<br>holds",
    )
    (line,) = figure.layout.shapes
    assert line.x0 == line.x1 == axis.tickvals[2] == 0


def test_the_first_claim_is_at_the_top():
    axis = drawn().layout.yaxis
    assert axis.ticktext == ("A", "B")
    assert axis.range == (1.5, -0.5)


def test_a_verdict_without_results_has_no_dot():
    without = TABLE.assign(low=[np.nan, *TABLE["low"][1:]])
    assert len(points(drawn(without))) == len(TABLE) - 1


def test_hovering_shows_verdict_setting_and_numbers():
    (trace,) = (trace for trace in drawn().data if trace.name == "optimizer")
    assert trace.customdata.tolist() == [
        ["not seen", "AdamW, slopes official", "It does.", "as measured"]
    ]


def test_tables_with_missing_columns_are_refused():
    with pytest.raises(ValueError, match="table must have the columns"):
        claims_figure(TABLE.drop(columns=["factor"]), study.reach_table(TABLE))
    with pytest.raises(ValueError, match="reach must have the columns"):
        claims_figure(TABLE, TABLE)
    assert set(VERDICT_COLUMNS) <= set(TABLE.columns)
