"""What the published rotary model writes with its far keys changed, in the settings of
`far_keys`."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from alibi_viz.lab import Run, continuations, load_text
from alibi_viz.measure.continuations import Continuation, known_words
from alibi_viz.study.far_keys import BRAKES, STOPS, with_far_keys
from alibi_viz.study.records import published_model

FILE = Path(__file__).parent / "published" / "far_texts.csv"


class FarText(NamedTuple):
    """What the model writes in a setting."""

    written: Continuation  # the first of eight texts
    known_words: float  # the share of the words beyond the training length, in all eight


@cache
def far_texts() -> dict[tuple[int, float], FarText]:
    """{(stop, brake): text}, from the published file, because writing takes seconds.

    >>> from alibi_viz.study.far_texts import far_texts
    >>> far_texts()[31, 0.0].written.prompt
    'This is the story of Emma, a pro'
    """
    texts = {}
    for row in pd.read_csv(FILE).itertuples():
        written = Continuation(row.prompt, row.within, row.beyond)
        texts[row.stop, row.brake] = FarText(written, row.known_words)
    return texts


def write_far_texts() -> Iterator[dict[str, Any]]:
    """Let the published model write in each setting. Yields the rows of the file."""
    text = load_text()
    model = published_model("rotary").model
    for stop, brake in product(STOPS, BRAKES):
        changed = with_far_keys(model, stop, brake, Run.length)
        texts = continuations(changed, text, Run.length)
        share = known_words([written.beyond for written in texts], text)
        yield {"stop": stop, "brake": brake, "known_words": share, **texts[0]._asdict()}
