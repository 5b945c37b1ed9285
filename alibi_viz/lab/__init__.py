"""Floor 3, the laboratory: text -> batches -> model -> steps -> curves."""

from alibi_viz.lab.attention_stats import Reach, attention_reach
from alibi_viz.lab.checkpoints import BadRun, SavedRun, load_run, save_run
from alibi_viz.lab.claims import Claim, Verdict, judge
from alibi_viz.lab.comparison import default_comparison, published_curves, published_results
from alibi_viz.lab.context import loss_by_context
from alibi_viz.lab.cost import Cost, cost_by_length
from alibi_viz.lab.evaluation import diverged, loss_by_length, loss_by_position, token_losses
from alibi_viz.lab.experiment import Record, Run, measure
from alibi_viz.lab.interventions import change_rotary_rule, drop_bias, impose_window, multiply_slopes
from alibi_viz.lab.published.models import PUBLISHED_MODELS, published_model
from alibi_viz.lab.race import Lap, race, test_distances, test_lengths
from alibi_viz.lab.scoreboard import Scoreboard
from alibi_viz.lab.sweep import read_results, sweep
from alibi_viz.lab.tasks import TASKS, Task, accuracy
from alibi_viz.lab.text import Text, load_text
from alibi_viz.lab.training import Step, TrainingDiverged, make_model, preset, train

__all__ = [
    "PUBLISHED_MODELS",
    "TASKS",
    "BadRun",
    "Claim",
    "Cost",
    "Lap",
    "Reach",
    "Record",
    "Run",
    "SavedRun",
    "Scoreboard",
    "Step",
    "Task",
    "Text",
    "TrainingDiverged",
    "Verdict",
    "accuracy",
    "attention_reach",
    "change_rotary_rule",
    "cost_by_length",
    "default_comparison",
    "diverged",
    "drop_bias",
    "impose_window",
    "judge",
    "load_run",
    "load_text",
    "loss_by_context",
    "loss_by_length",
    "loss_by_position",
    "make_model",
    "measure",
    "multiply_slopes",
    "preset",
    "published_curves",
    "published_model",
    "published_results",
    "race",
    "read_results",
    "save_run",
    "sweep",
    "test_distances",
    "test_lengths",
    "token_losses",
    "train",
]
