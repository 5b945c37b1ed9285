"""ComparisonExplorer refuses what isn't a table of results, and says what is missing."""

import pytest

from alibi_viz import study
from alibi_viz.widgets import ComparisonExplorer


def test_something_else_than_a_table_raises() -> None:
    with pytest.raises(TypeError, match=r"results must be a table with the columns of lab\.COLUMNS, got str"):
        ComparisonExplorer("results")  # type: ignore[arg-type]


def test_table_without_some_columns_raises() -> None:
    table = study.published_results().drop(columns=["label", "value"])
    with pytest.raises(
        ValueError, match=r"results must have the columns of lab\.COLUMNS, and label, value are missing"
    ):
        ComparisonExplorer(table)
