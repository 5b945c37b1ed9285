"""The printed table of one question, and the LaTeX table: rows, columns and cells."""

import math

import pandas as pd
import pytest

from alibi_viz import lab
from alibi_viz.lab.compare import latex_table
from alibi_viz.table import over_seeds


def rows(label: str, values: dict[int, list[float]], variant: str = "as trained", question: str = "longer windows"):
    common = {"task": "text", "label": label, "length": 64, "variant": variant, "question": question}
    cells = [(x, seed, value) for x, each in values.items() for seed, value in enumerate(each)]
    return pd.DataFrame([{**common, "x": x, "seed": seed, "value": value} for x, seed, value in cells])


RESULTS = pd.concat(
    [
        rows("alibi", {64: [2.0, 2.1, 2.2], 128: [2.0, 2.0, 2.0]}),
        rows("alibi", {64: [2.0, 2.1, 2.2], 128: [1.0, 1.0, 1.0]}, variant="window"),
        rows("learned", {64: [2.5], 128: [math.nan]}),
        rows("alibi", {64: [0.5, 0.5, 0.5]}, question="needle"),
    ]
)


def test_summary_has_means_with_intervals_and_the_number_of_seeds() -> None:
    table = lab.summary(RESULTS, "longer windows")
    assert table.columns.tolist() == [64, 128, "seeds"]
    assert table.loc["alibi"].tolist() == ["2.100 ± 0.248", "2.000 ± 0.000", 3]
    assert table.loc["alibi, window"].tolist() == ["", "1.000 ± 0.000", 3], "up to L, a change makes no difference"
    assert table.loc["learned"].tolist() == ["2.500", "not defined", 1]
    assert lab.summary(RESULTS, "needle").loc["alibi", 64] == "0.500 (0.500 to 0.500)", "a share has limits"


def test_results_on_two_texts_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="results must be on one text, got text, python reference: choose one"):
        lab.summary(pd.concat([RESULTS, RESULTS.assign(task="python reference")]), "longer windows")


def test_labels_and_xs_choose_rows_and_columns_in_their_order() -> None:
    table = lab.summary(RESULTS, "longer windows", ["learned", "alibi"], [128])
    assert table.index.tolist() == ["learned", "alibi"] and table.columns.tolist() == [128, "seeds"]
    with pytest.raises(ValueError, match="weather"):
        lab.summary(RESULTS, "weather")
    with pytest.raises(KeyError, match="rotary"):
        lab.summary(RESULTS, "longer windows", ["rotary"])


def test_latex_table_has_every_mean_and_escapes_names() -> None:
    rows = RESULTS.query("question == 'longer windows' and variant == 'as trained'")
    means = over_seeds(rows.assign(label=rows["label"] + "_1"))
    lines = latex_table(means, [("alibi_1", "alibi_1"), ("learned_1", " 50%")], 64, "A & b").splitlines()
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert [line.split(" & ")[0] for line in body] == [r"alibi\_1", r"\quad 50\%"]
    assert body[1].endswith(r"& 2.500 & -- \\") and r"\caption{A \& b}" in lines
