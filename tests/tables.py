"""Small tables of results, for tests of what reads them, and small models, for tests of what
measures them."""

import pandas as pd
import torch

from alibi_viz import lab
from alibi_viz.measure.table import AS_TRAINED, results_table
from alibi_viz.models import LanguageModel

SMALL = {"num_layers": 1, "d_model": 16, "num_heads": 2}  # sizes of a model that trains in no time


def table(
    question: str, values: dict[str, list[dict[int, float]]], length: int = 32, **more: object
) -> pd.DataFrame:
    """The rows of one question: {label: one {x: value} per seed}. The first seed is 3, because 0
    hides mistakes."""
    known = lab.find_question(question)
    common = {
        **dict.fromkeys(lab.COLUMNS, ""),
        "origin": "test",
        "task": known.task,
        "variant": AS_TRAINED,
    }
    common |= {
        "question": question,
        "unit": known.unit,
        "length": length,
        "step": 100,
        "count": 100,
        **more,
    }
    return results_table(
        {**common, "method": label, "label": label, "seed": seed, "x": x, "value": value}
        for label, seeds in values.items()
        for seed, points in enumerate(seeds, start=3)
        for x, value in points.items()
    )


def curve(rows: pd.DataFrame, question: str, **columns: object) -> dict[int, float]:
    """{x: value} of the rows of one question in which the columns have these values."""
    for name, value in {"question": question, "variant": AS_TRAINED, **columns}.items():
        rows = rows[rows[name] == value]
    return dict(zip(rows["x"].tolist(), rows["value"].tolist(), strict=True))


def same_weights(one: LanguageModel, other: LanguageModel) -> bool:
    return all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))
