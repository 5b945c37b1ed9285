"""Floor 3, the laboratory: text -> batches -> model -> steps -> curves."""

from alibi_viz.lab.evaluation import loss_by_length, loss_by_position, token_losses
from alibi_viz.lab.race import Lap, race, test_lengths
from alibi_viz.lab.scoreboard import Scoreboard
from alibi_viz.lab.text import Text, load_text
from alibi_viz.lab.training import Step, TrainingDiverged, make_model, train

__all__ = [
    "Lap",
    "Scoreboard",
    "Step",
    "Text",
    "TrainingDiverged",
    "load_text",
    "loss_by_length",
    "loss_by_position",
    "make_model",
    "race",
    "test_lengths",
    "token_losses",
    "train",
]
