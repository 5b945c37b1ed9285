"""Our own study with the lab: published results and models, the claims that they test, and the
report about them."""

from alibi_viz.study.judge import (
    CLAIMS,
    PAPERS,
    Claim,
    Term,
    Verdict,
    conclusion,
    judge,
    verdict_table,
)
from alibi_viz.study.records import (
    PUBLISHED_MODELS,
    published_model,
    published_results,
    reproduce,
    train_published_models,
)
from alibi_viz.study.report_page import write_report

__all__ = [
    "CLAIMS",
    "PAPERS",
    "PUBLISHED_MODELS",
    "Claim",
    "Term",
    "Verdict",
    "conclusion",
    "judge",
    "published_model",
    "published_results",
    "reproduce",
    "train_published_models",
    "verdict_table",
    "write_report",
]
