"""Changes to a trained model, the results of evaluating it, and both in words."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from alibi_viz import lab
from alibi_viz.lab import Text
from alibi_viz.lab.questions import join, outcome
from alibi_viz.lab.questions.outcomes import rises
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.core.formatting import format_number

__all__ = ["Evaluation", "Intervention", "evaluate"]

TARGETS = 2048  # bytes predicted at each length: few enough for a result while the user moves a control
EQUAL = 0.005  # bits per byte: a smaller difference disappears in two decimals
RULES = {"pi": "positions interpolated", "ntk": "rotary frequencies scaled by the NTK rule"}
STATS_LENGTH = 8  # times L: the length of the windows in which attention is measured


@dataclass(frozen=True)
class Evaluation:
    """The losses and the attention of a model on longer windows.

    Attributes:
        losses: {length: bits per byte}, for windows of L to 16 L.
        targets: how many bytes were predicted at each length.
        window: the length of the windows in which attention was measured: 8 L, or the longest that is defined.
        distance: the mean distance, in tokens, of the keys that each head attends to: float32 [layers, heads].
        beyond: the share of attention on keys more than L back, the mean over all heads.
    """

    losses: dict[int, float]
    targets: int
    window: int
    distance: NDArray[np.float32]
    beyond: float


def evaluate(model: LanguageModel, text: Text, length: int) -> Evaluation:
    """Evaluate a model that was trained on windows of `length` bytes.

    Raises ValueError if the text is too short for windows of 16 times that, or the model gives no numbers.
    """
    lengths = lab.evaluation_lengths(length)
    targets = max(TARGETS, lengths[-1])
    losses = lab.loss_by_length(model, text, lengths, targets=targets)
    if lab.diverged(model, losses):
        raise ValueError("the model gives NaN instead of losses: its training has diverged")
    predicted = min(targets, len(text.validation) - 1) // lengths[-1] * lengths[-1]  # whole windows only
    longest = model.transformer.position.max_length
    window = STATS_LENGTH * length if longest is None else min(STATS_LENGTH * length, longest)
    stats = lab.attention_stats(model, text, window, trained=length, windows=4)
    return Evaluation(losses, predicted, window, stats.distance.numpy(), float(stats.beyond.mean()))


@dataclass(frozen=True)
class Intervention:
    """Changes to one model. Those that don't apply to its position method are left out.

    Attributes:
        model: the model to change.
        length: of the windows it was trained on.
        factor, dropped, window, rule: as in `SlopeSurgery`.

    Raises ValueError for a head that the model doesn't have.
    """

    model: LanguageModel
    length: int
    factor: float
    dropped: str
    window: int | None
    rule: str

    def __post_init__(self) -> None:
        heads = self.model.config.num_heads
        if self.has_bias and self.dropped.isdecimal() and int(self.dropped) > heads:
            raise ValueError(f"dropped must be none, all or a head from 1 to {heads}, got {self.dropped}")

    @property
    def has_bias(self) -> bool:
        """Whether the position method adds a bias, which can be multiplied or dropped."""
        return self.model.transformer.position.has_bias

    @property
    def is_rotary(self) -> bool:
        """Whether the model has a rotary rule to change."""
        return self.model.config.position == "rotary"

    def changes(self) -> list[str]:
        """The changes that apply, in words."""
        changes = []
        if self.has_bias and self.dropped == "all":
            changes.append("the bias of every head dropped")
        elif self.has_bias:
            if self.factor != 1:
                changes.append(f"slopes times {self.factor:g}")
            if self.dropped != "none":
                changes.append(f"the bias of head {self.dropped} dropped in every layer")
        if self.is_rotary and self.rule != "plain":
            changes.append(RULES[self.rule])
        if self.window is not None:
            changes.append(f"a window of {self.window:,} keys imposed")
        return changes

    def apply(self) -> LanguageModel:
        """A changed copy that shares every weight with the model."""
        model = self.model
        if self.is_rotary and self.rule != "plain":
            model = lab.change_rotary_rule(model, self.rule, self.length)
        if self.has_bias:
            heads = range(1, model.config.num_heads + 1)
            factors = [0.0 if self.dropped in ("all", str(head)) else self.factor for head in heads]
            model = lab.multiply_slopes(model, factors)
        return model if self.window is None else lab.impose_window(model, self.window)

    def caption(self, before: Evaluation, after: Evaluation, text: str) -> str:
        """What was changed and what followed."""
        name, length, changes = self.model.config.position, self.length, self.changes()
        tested = f"{name}, trained on windows of {length} bytes, tested on {before.targets:,} bytes of {text}"
        sentences = [
            f"{tested}: {join(changes)}." if changes else f"{tested}, as it was trained.",
            self._left_out(),
            _compare_losses(before, after, bool(changes)),
            _describe_length(after),
            _compare_attention(before, after, length),
        ]
        return " ".join(sentence for sentence in sentences if sentence)

    def _left_out(self) -> str:
        """The changes that don't apply, and why."""
        name, reasons = self.model.config.position, []
        if not self.has_bias and (self.factor != 1 or self.dropped != "none"):
            reasons.append(f"{name} adds no bias, so there is nothing to multiply or drop")
        if not self.is_rotary and self.rule != "plain":
            reasons.append(f"{name} does not rotate queries and keys, so rotary's rule does not apply")
        return f"{'; '.join(reasons)}.".capitalize() if reasons else ""


def _compare_losses(before: Evaluation, after: Evaluation, changed: bool) -> str:
    """The loss at the training length and on the longest windows."""
    clauses = []
    for length in (min(after.losses), max(after.losses)):
        bits, original = after.losses[length], before.losses[length]
        if math.isnan(bits):
            clauses.append(f"on windows of {length:,} its positions are not defined")
            continue
        needs = f"on windows of {length:,} it needs {bits:.2f} bits per byte"
        if not changed:
            clauses.append(needs)
        elif math.isnan(original) or abs(bits - original) < EQUAL:
            clauses.append(f"{needs} as before")
        else:
            clauses.append(f"{needs}, {abs(bits - original):.2f} {'more' if bits > original else 'less'} than before")
    return f"{'; '.join(clauses)}.".capitalize()


def _describe_length(after: Evaluation) -> str:
    """Whether the model holds, degrades or fails on longer windows."""
    (rise,) = rises({"": {0: after.losses}}).get("", [math.nan])
    if math.isnan(rise):
        return ""
    return f"On longer windows it {outcome([rise])}: at worst {rise:+z.2f} beyond {min(after.losses)}."


def _compare_attention(before: Evaluation, after: Evaluation, length: int) -> str:
    """How far back the heads look."""
    distance, original = format_number(after.distance.mean()), format_number(before.distance.mean())
    trained = f" (as trained {original})" if distance != original else ""
    return (
        f"On windows of {after.window:,} its heads look {distance} tokens back on average{trained}, with "
        f"{after.beyond:.0%} of their weight on keys further back than the training length, {length}."
    )
