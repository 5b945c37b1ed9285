"""Train small models, evaluate and compare them.

Each step gives the next: text -> batches -> model -> rows of one table.

    from alibi_viz import lab
    rows = list(lab.race(["alibi", my_law], lab.load_text(), steps=300))

The names come from four packages:

- data: what models read (`load_text`, `python_text`, `tales_text`, `Text`, `TASKS`)
- train: training, races and sweeps, and the files they leave (`make_model`, `train`, `race`, `Run`,
  `sweep`, `compare`, `summary`, `read_results`)
- measure: losses, questions and attention, and the table they are written to (`loss_by_length`,
  `loss_by_position`, `length_curve`, `continuations`, `window_table`, `QUESTIONS`)
- surgery: changing a trained model (`modify`)
"""

# What models read
from alibi_viz.data.tasks import TASKS
from alibi_viz.data.text import Text, load_text, python_text, tales_text

# Measuring them
from alibi_viz.measure.attention_sources import PretrainedModel
from alibi_viz.measure.attention_statistics import window_table
from alibi_viz.measure.continuations import continuations
from alibi_viz.measure.length_curve import length_curve
from alibi_viz.measure.losses import evaluation_lengths, loss_by_length, loss_by_position
from alibi_viz.measure.questions import QUESTIONS, find_question
from alibi_viz.measure.table import COLUMNS

# Changing them
from alibi_viz.surgery.modify import modify

# Training them, and keeping the results
from alibi_viz.train.compare import compare, summary
from alibi_viz.train.race import race
from alibi_viz.train.results import read_results, sweep
from alibi_viz.train.run import Run
from alibi_viz.train.training import TrainingDiverged, make_model, train

__all__ = [
    "COLUMNS",
    "QUESTIONS",
    "TASKS",
    "PretrainedModel",
    "Run",
    "Text",
    "TrainingDiverged",
    "compare",
    "continuations",
    "evaluation_lengths",
    "find_question",
    "length_curve",
    "load_text",
    "loss_by_length",
    "loss_by_position",
    "make_model",
    "modify",
    "python_text",
    "race",
    "read_results",
    "summary",
    "sweep",
    "tales_text",
    "train",
    "window_table",
]
