"""Our own study with the lab: published results and models, the claims that they test in many
settings, and the report about them."""

from alibi_viz.measure.table import VERDICTS
from alibi_viz.study.far_keys import far_keys, measure_far_keys
from alibi_viz.study.judge import (
    CLAIMS,
    PAPERS,
    Claim,
    Term,
    conclusion,
    judge,
    prediction_table,
    reach_table,
    verdict_table,
)
from alibi_viz.study.records import (
    PUBLISHED_MODELS,
    history,
    published_model,
    published_results,
    retrain,
    train_published_models,
)
from alibi_viz.study.report_page import write_report
from alibi_viz.study.settings import SETTINGS, Setting

__all__ = [
    "CLAIMS",
    "PAPERS",
    "PUBLISHED_MODELS",
    "SETTINGS",
    "VERDICTS",
    "Claim",
    "Setting",
    "Term",
    "conclusion",
    "far_keys",
    "history",
    "judge",
    "measure_far_keys",
    "prediction_table",
    "published_model",
    "published_results",
    "reach_table",
    "retrain",
    "train_published_models",
    "verdict_table",
    "write_report",
]
