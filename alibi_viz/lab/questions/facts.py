"""From how far back does a model remember what a tale has told?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pandas as pd
import torch
from torch import Tensor

from alibi_viz.lab.evaluation import window_losses
from alibi_viz.lab.questions.outcomes import join, quoted
from alibi_viz.lab.questions.question import Answer, Question, mean_curve, with_multiple
from alibi_viz.lab.results import seed_curves
from alibi_viz.lab.tales import LONGEST, SHORTEST, retell
from alibi_viz.lab.tasks import Task
from alibi_viz.lab.text import Text
from alibi_viz.models import LanguageModel
from alibi_viz.panel import Panel

__all__ = ["Facts", "memory_bits"]

EDGES = [2**power for power in range(SHORTEST.bit_length() - 1, LONGEST.bit_length() + 1)]  # of the bins: 16 to 2,048
MAX_FACTS = 64  # in each bin
SPARE = 32  # bytes: no fact is longer, and no other value of it is this much longer or shorter


class Facts(Question):
    """How many bits it is worth to have been told a fact, by distance; x is the middle of a bin of distances.

    A tale says that the bell is in the barn, and later that it is found there. We tell the model the same tale with
    another place. If it needs more bits for "barn" then, it has remembered; if it needs as many, it has forgotten. Only
    tales record their facts, so there are no answers for another text.
    """

    name = "facts"
    summary = "From how many bytes back does a model remember what a tale has told?"
    title = "What a fact is worth, by how long ago it was told"
    x_title = "bytes since the fact was last told"
    hover = "facts told around %{x} bytes before"
    unit = "bits per fact"
    lowest_is_best = False

    def measure(self, model: LanguageModel, source: Text | Task, length: int, *, longest: int = 16) -> Iterator[Answer]:
        assert isinstance(source, Text)
        if source.recalled is None:
            return
        facts = source.facts
        for first, end in pairwise(EDGES):
            context = max(length, end) + SPARE
            is_in_bin = (facts["distance"] >= first) & (facts["distance"] < end) & (facts["stop"] > context + SPARE)
            if end <= length * longest and is_in_bin.any():
                bits = memory_bits(model, source, facts[is_in_bin][:MAX_FACTS], context)
                yield Answer(round((first * end) ** 0.5), float(bits.double().mean()), len(bits))

    def axes(self, length: int, xs: Sequence[int]) -> Panel:
        edges = [edge for edge in EDGES if not xs or edge <= 2 * max(xs)]
        ticks = {edge: with_multiple(edge, edge / length) if edge >= length else f"{edge}" for edge in edges}
        return replace(super().axes(length, xs), ticks=ticks, low=0.0, high=3.0)

    def findings(self, results: pd.DataFrame, length: int) -> list[str]:
        if results.empty:
            return ["This text has no recorded facts; the tales have."]
        near, far = min(results["x"]), max(results["x"])
        means = {label: mean_curve(list(seeds.values())) for label, seeds in seed_curves(results).items()}
        clauses = [f"{quoted(label)} {mean[near]:.1f} and {mean[far]:.1f} bits" for label, mean in means.items()]
        return [
            f"Having been told a fact around {near} and around {far:,} bytes before saves {join(clauses)}.",
            "A model that needs as many bits when the tale has told something else has forgotten the fact.",
        ]


def memory_bits(model: LanguageModel, text: Text, facts: pd.DataFrame, context: int) -> Tensor:
    """How many bits more a model needs for each fact when its context has told another value: float32 [facts].

    Args:
        model, text: a model with a vocabulary of 256, and tales whose validation part it predicts.
        facts: rows of `text.facts`, each with at least `context` + 32 bytes before it.
        context: how many bytes the model sees before the last byte of the fact.
    """
    data = text.validation.numpy().tobytes()
    told, retold = [], []
    for start, stop in zip(facts["start"], facts["stop"], strict=True):
        before, fact = data[stop - context - 1 - SPARE : start].decode("utf-8", "replace"), data[start:stop]
        told.append(data[stop - context - 1 : stop])
        retold.append((retell(before, fact.decode()).encode() + fact)[-context - 1 :])
    sizes = torch.tensor((facts["stop"] - facts["start"]).to_numpy())
    longest = int(sizes.max())
    windows = torch.frombuffer(bytearray(b"".join(retold + told)), dtype=torch.uint8).view(2, len(facts), context + 1)
    without, with_fact = (window_losses(model, each, last=longest) for each in windows)
    return (without - with_fact).where(torch.arange(longest) >= longest - sizes[:, None], 0).sum(1)
