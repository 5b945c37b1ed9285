"""Train small models, evaluate and compare them: text -> batches -> model -> rows of one table.

rows = pd.DataFrame(lab.race(["alibi", my_law], lab.load_text(), steps=300))
"""

from alibi_viz.lab.attention_stats import attention_stats
from alibi_viz.lab.checkpoints import load_run, save_run
from alibi_viz.lab.compare import compare
from alibi_viz.lab.continuations import continuations, known_words
from alibi_viz.lab.evaluation import evaluation_lengths, loss_by_context, loss_by_length, loss_by_position
from alibi_viz.lab.length_curve import length_curve
from alibi_viz.lab.model_sources import PretrainedModel
from alibi_viz.lab.modify import modify
from alibi_viz.lab.needle import needle_margins
from alibi_viz.lab.questions import QUESTIONS, find_question
from alibi_viz.lab.race import race
from alibi_viz.lab.runs import Run, measure, read_results
from alibi_viz.lab.sweep import sweep
from alibi_viz.lab.tables import summary
from alibi_viz.lab.tasks import TASKS, accuracy, evaluation_distances
from alibi_viz.lab.text import Text, load_text, python_text, tales_text
from alibi_viz.lab.training import TrainingDiverged, make_model, train
from alibi_viz.lab.windows import window_table
from alibi_viz.table import COLUMNS, results_table

__all__ = [
    "COLUMNS",
    "QUESTIONS",
    "TASKS",
    "PretrainedModel",
    "Run",
    "Text",
    "TrainingDiverged",
    "accuracy",
    "attention_stats",
    "compare",
    "continuations",
    "evaluation_distances",
    "evaluation_lengths",
    "find_question",
    "known_words",
    "length_curve",
    "load_run",
    "load_text",
    "loss_by_context",
    "loss_by_length",
    "loss_by_position",
    "make_model",
    "measure",
    "modify",
    "needle_margins",
    "python_text",
    "race",
    "read_results",
    "results_table",
    "save_run",
    "summary",
    "sweep",
    "tales_text",
    "train",
    "window_table",
]
