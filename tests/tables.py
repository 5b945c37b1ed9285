"""Small tables of results, for tests of what reads them, and small models, for tests of what
measures them."""

import torch

from alibi_viz import lab
from alibi_viz.measure.table import AS_TRAINED, results_table

SMALL = {"num_layers": 1, "d_model": 16, "num_heads": 2}  # sizes of a model that trains in no time


def table(question, values, length=32, **columns):
    """The rows of one question: {label: one {x: value} per seed}.

    The first seed is 3, because 0 hides mistakes. `columns` replace the values of other columns.
    """
    asked = lab.find_question(question)
    rows = []
    for label, curves in values.items():
        for seed, points in enumerate(curves, start=3):
            for x, value in points.items():
                row = {
                    "origin": "test",
                    "task": asked.task,
                    "method": label,
                    "label": label,
                    "variant": AS_TRAINED,
                    "seed": seed,
                    "length": length,
                    "step": 100,
                    "question": question,
                    "x": x,
                    "value": value,
                    "unit": asked.unit,
                    "count": 100,
                    "text": "",
                }
                rows.append({**row, **columns})
    return results_table(rows)


def curve(rows, question, **columns):
    """{x: value} of the rows of one question in which the columns have these values."""
    wanted = {"question": question, "variant": AS_TRAINED, **columns}
    for name, value in wanted.items():
        rows = rows[rows[name] == value]
    return dict(zip(rows["x"].tolist(), rows["value"].tolist(), strict=True))


def same_weights(one, other):
    """Whether all parameters and buffers of two models are equal."""
    return all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))
