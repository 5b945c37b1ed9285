"""What breaks rotary on long texts: far keys and the share of attention that they get.

The rotary models of the main setting are tested on 16 L letters, where far keys are those at least
L back. Two changes lower what these get, and nothing is trained again:

    stop   the distance at which angles stop growing (ReRoPE). Below L, no angle is new.
    brake  by how much a line lowers the scores of far keys, per letter

Both also decide how far keys divide among themselves what they get together. To tell the two apart,
far keys get in some rows the share that they have with another stop, and in others at most a limit.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pandas as pd

from alibi_viz.lab import load_text, loss_by_length, modify
from alibi_viz.measure.attention_statistics import attention_stats
from alibi_viz.models import LanguageModel
from alibi_viz.study.settings import MAIN, SETTINGS
from alibi_viz.train.training import limited_threads

FILE = Path(__file__).parent / "published" / "far_keys.csv"
LONGEST = 1024  # letters, 16 L
NEVER = LONGEST  # the stop of angles that never stop, because no distance on these texts is so long
STOPS = (8, 16, 23, 31, 39, 47, 55, 63, NEVER)
BRAKES = (0.0, 1 / 64, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
WINDOW = math.inf  # the brake of a window of L, which hides far keys
# With these brakes, shares are exchanged between angles that are new and angles that stop at L - 1.
EXCHANGED = (0.0, 1 / 16, 1 / 8, 1 / 4)
# Without a brake, far keys get at most these shares, with and without angles that are new.
LIMITS = (0.05, 0.1, 0.2, 0.5)
TARGETS = 8192  # letters that each model predicts
COLUMNS = ("seed", "stop", "brake", "share_stop", "limit", "bits", "far_share")


def far_keys() -> pd.DataFrame:
    """Rotary's loss on 1,024 letters with its far keys changed, a row for each model and change.

    Columns: seed; stop and brake (the change; a stop of 1,024 is never reached, and an infinite
    brake is a window); share_stop (another number than `stop` if far keys get the share that they
    have with this stop); limit (the largest share of far keys in each head; then, share_stop is
    NaN, and otherwise limit is); bits per letter; and far_share (of the attention, the mean of all
    heads).

    >>> from alibi_viz import study
    >>> table = study.far_keys().query("stop == share_stop")
    >>> means = table.groupby(["stop", "brake"])["far_share"].mean()
    >>> bool(means[1024, 0.0] > 0.95), bool(means[31, 0.0] < 0.3)
    (True, True)
    """
    return _table().copy()


@cache
def _table() -> pd.DataFrame:
    return pd.read_csv(FILE)


def measure_far_keys(seed: int) -> list[dict[str, float]]:
    """Train the rotary model of a seed and measure it with all changes, in some minutes.

    Raises TypeError or ValueError if the seed is not an integer of at least 0.
    """
    [model_run] = SETTINGS[MAIN].runs(seeds=1, labels=["rotary"])
    run = replace(model_run, seed=seed)
    text = load_text()
    rows = []
    with limited_threads(run.threads):
        model = run.new_model(text)
        for _ in run.train(model, text):
            pass
        for change, changed in _changed_models(model, run.length):
            bits = loss_by_length(changed, text, [LONGEST], targets=TARGETS)[LONGEST]
            stats = attention_stats(changed, text, LONGEST, trained=run.length)
            far_share = float(stats.beyond.mean())
            rows.append({"seed": seed, **change, "bits": round(bits, 5), "far_share": far_share})
    return rows


def _changed_models(
    model: LanguageModel, length: int
) -> Iterator[tuple[dict[str, float], LanguageModel]]:
    """Stop, brake, share_stop and limit of every change, and the model with it."""
    window = {"stop": NEVER, "brake": WINDOW, "share_stop": NEVER, "limit": math.nan}
    yield window, modify(model, window=length)
    for stop, brake in product(STOPS, BRAKES):
        change = {"stop": stop, "brake": brake, "share_stop": stop, "limit": math.nan}
        yield change, with_far_keys(model, stop, brake, length)

    for brake in EXCHANGED:
        for stop, share_stop in ((NEVER, length - 1), (length - 1, NEVER)):
            split = with_far_keys(model, stop, brake, length)
            other = with_far_keys(model, share_stop, brake, length)
            change = {"stop": stop, "brake": brake, "share_stop": share_stop, "limit": math.nan}
            yield change, modify(split, far_share=other, trained_length=length)

    for limit, stop in product(LIMITS, (NEVER, length - 1)):
        split = with_far_keys(model, stop, 0.0, length)
        change = {"stop": stop, "brake": 0.0, "share_stop": math.nan, "limit": limit}
        yield change, modify(split, far_share=limit, trained_length=length)


def with_far_keys(model: LanguageModel, stop: int, brake: float, length: int) -> LanguageModel:
    """A copy of a rotary model, trained on `length` tokens, whose far keys are changed."""
    if stop < NEVER:
        model = modify(model, rotary="rerope", trained_length=stop + 1)
    if brake > 0:
        model = modify(model, far_slope=brake, trained_length=length)
    return model
