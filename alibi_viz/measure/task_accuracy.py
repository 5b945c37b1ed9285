"""Measure how many answers of a synthetic task a model gets right."""

import math

import torch

from alibi_viz.data.tasks import Task
from alibi_viz.measure.losses import MAX_BATCH_TOKENS, evaluating
from alibi_viz.models import LanguageModel

# Tokens of the examples that share one bias, whose cost doesn't grow with their number
SHARED_BATCH_TOKENS = 65_536


def accuracy(model: LanguageModel, task: Task, length: int, *, samples: int = 256) -> float:
    """The share of correct answers in examples of `length` tokens.

    The answer is `length // 2` tokens before the end. All models get the same examples. NaN where
    the model isn't defined. Raises ValueError if no example fits `length`.

    >>> from alibi_viz import lab
    >>> from alibi_viz.measure.task_accuracy import accuracy
    >>> task = lab.TASKS["needle"]
    >>> untrained = lab.make_model(vocabulary=task.vocabulary)
    >>> accuracy(untrained, task, 20) < 0.3  # near chance, 1/16
    True
    """
    task.max_distance(length)  # raises ValueError if no example fits
    if not model.is_defined_at(length):
        return math.nan

    inputs, targets = task.make(samples, length // 2, length, torch.Generator().manual_seed(0))
    answers = targets[:, -1]
    with evaluating(model) as device:
        batches = inputs.to(device).split(examples_at_once(model, length))
        guesses = torch.cat([model(batch, last=1)[:, -1].argmax(-1) for batch in batches]).cpu()
    return float((guesses == answers).float().mean())


def examples_at_once(model: LanguageModel, length: int) -> int:
    """How many examples to evaluate in one batch.

    Many if they share one bias, few if each has its own.
    """
    shares_bias = not model.transformer.position.reads_input
    batch_tokens = SHARED_BATCH_TOKENS if shares_bias else MAX_BATCH_TOKENS
    return max(1, batch_tokens // length)
