"""The printed table of one question: rows, columns and cells."""

import pandas as pd
import pytest

from alibi_viz import lab


def rows(label: str, values: dict[int, list[float]], evaluated: str = "as trained", question: str = "longer windows"):
    records = [
        {
            "label": label,
            "seed": seed,
            "length": 64,
            "evaluated": evaluated,
            "question": question,
            "x": x,
            "value": bits,
        }
        for x, bits_by_seed in values.items()
        for seed, bits in enumerate(bits_by_seed)
    ]
    return pd.DataFrame(records)


RESULTS = pd.concat(
    [
        rows("alibi", {64: [2.0, 2.1, 2.2], 128: [2.0, 2.0, 2.0]}),
        rows("alibi", {64: [2.0, 2.1, 2.2], 128: [1.0, 1.0, 1.0]}, evaluated="window"),
        rows("learned", {64: [2.5], 128: [float("nan")]}),
        rows("alibi", {64: [0.5, 0.5, 0.5]}, question="needle"),
    ]
)


def test_cell_holds_the_mean_and_half_of_its_interval_and_the_last_column_the_seeds() -> None:
    table = lab.summary(RESULTS, "longer windows")
    assert table.columns.tolist() == [64, 128, "seeds"]
    assert table.loc["alibi"].tolist() == ["2.100 ± 0.248", "2.000 ± 0.000", 3]


def test_changed_model_is_a_row_of_its_own_beyond_the_training_length() -> None:
    table = lab.summary(RESULTS, "longer windows")
    assert table.loc["alibi, window"].tolist() == ["", "1.000 ± 0.000", 3]


def test_single_seed_has_no_interval_and_a_missing_value_is_not_defined() -> None:
    assert lab.summary(RESULTS, "longer windows").loc["learned"].tolist() == ["2.500", "not defined", 1]


def test_share_shows_both_ends_of_its_interval() -> None:
    assert lab.summary(RESULTS, "needle").loc["alibi", 64] == "0.500 (0.500 to 0.500)"


def test_labels_and_xs_choose_rows_and_columns_in_their_order() -> None:
    table = lab.summary(RESULTS, "longer windows", ["learned", "alibi"], [128])
    assert table.index.tolist() == ["learned", "alibi"]
    assert table.columns.tolist() == [128, "seeds"]


def test_unknown_question_or_label_is_an_error() -> None:
    with pytest.raises(ValueError, match="weather"):
        lab.summary(RESULTS, "weather")
    with pytest.raises(KeyError, match="rotary"):
        lab.summary(RESULTS, "longer windows", ["rotary"])
