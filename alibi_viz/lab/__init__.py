"""Train small models, evaluate and compare them: text -> batches -> model -> training steps -> results."""

from alibi_viz.lab.attention_stats import AttentionStats, attention_stats
from alibi_viz.lab.checkpoints import BadRun, SavedRun, load_run, save_run
from alibi_viz.lab.claims import Claim, Verdict, judge
from alibi_viz.lab.compare import Comparison, compare
from alibi_viz.lab.comparison import PARTS
from alibi_viz.lab.continuations import Continuation, continuations, known_words
from alibi_viz.lab.evaluation import TARGETS, diverged, loss_by_context, loss_by_length, loss_by_position, token_losses
from alibi_viz.lab.experiment import Run, measure
from alibi_viz.lab.length_curve import length_curve
from alibi_viz.lab.model_sources import PretrainedModel
from alibi_viz.lab.modify import modify
from alibi_viz.lab.needle import needle_margins
from alibi_viz.lab.passages import PassagesText, Recurrence, passages_text
from alibi_viz.lab.published import PUBLISHED_MODELS, published_model, published_results
from alibi_viz.lab.questions import QUESTIONS, Answer, Question, find_question
from alibi_viz.lab.race import Lap, Scoreboard, evaluation_distances, evaluation_lengths, race
from alibi_viz.lab.results import COLUMNS, Record, read_results, results_table
from alibi_viz.lab.summary import summary
from alibi_viz.lab.sweep import process_pool, sweep
from alibi_viz.lab.tasks import TASKS, Task, accuracy
from alibi_viz.lab.text import Text, load_text, python_text, tales_text
from alibi_viz.lab.training import Step, TrainingDiverged, make_model, train
from alibi_viz.lab.windows import window_table

__all__ = [
    "COLUMNS",
    "PARTS",
    "PUBLISHED_MODELS",
    "QUESTIONS",
    "TARGETS",
    "TASKS",
    "Answer",
    "AttentionStats",
    "BadRun",
    "Claim",
    "Comparison",
    "Continuation",
    "Lap",
    "PassagesText",
    "PretrainedModel",
    "Question",
    "Record",
    "Recurrence",
    "Run",
    "SavedRun",
    "Scoreboard",
    "Step",
    "Task",
    "Text",
    "TrainingDiverged",
    "Verdict",
    "accuracy",
    "attention_stats",
    "compare",
    "continuations",
    "diverged",
    "evaluation_distances",
    "evaluation_lengths",
    "find_question",
    "judge",
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
    "passages_text",
    "process_pool",
    "published_model",
    "published_results",
    "python_text",
    "race",
    "read_results",
    "results_table",
    "save_run",
    "summary",
    "sweep",
    "tales_text",
    "token_losses",
    "train",
    "window_table",
]
