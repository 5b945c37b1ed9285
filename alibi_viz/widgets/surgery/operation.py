"""What is done to a trained model, what that brings, and both in words."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from alibi_viz import lab
from alibi_viz.lab import Text
from alibi_viz.models import LanguageModel
from alibi_viz.widgets.core.formatting import BREAKS, HOLDS, format_number, join_words

__all__ = ["Measured", "Operation", "measure"]

TARGETS = 2048  # bytes predicted at each length: an answer must come while the hand is still on the control
SAME = 0.005  # bits per byte that two decimals cannot show


@dataclass(frozen=True)
class Measured:
    """A model, tested.

    Attributes:
        losses: bits per byte at each test length, L to 16 L.
        targets: how many bytes were predicted for each.
        seen: length of the windows on which attention was looked at: 8 L, or less where positions end.
        distance: tokens back that each head looks on average there: float32 [layers, heads].
        beyond: share of the attention on keys more than L back, the mean over all heads.
    """

    losses: dict[int, float]
    targets: int
    seen: int
    distance: NDArray[np.float32]
    beyond: float


def measure(model: LanguageModel, text: Text, length: int) -> Measured:
    """Test a model that was trained on windows of `length` bytes.

    Raises ValueError when the text is too short for windows of 16 times that, and for a model whose training has
    diverged.
    """
    lengths = lab.evaluation_lengths(length)
    largest, asked = lengths[-1], max(TARGETS, lengths[-1])
    losses = lab.loss_by_length(model, text, lengths, targets=asked)
    if lab.diverged(model, losses):
        raise ValueError("the model must give numbers, and gives none: its training has diverged")
    targets = min(asked, len(text.validation) - 1) // largest * largest  # whole windows only
    longest = model.transformer.position.longest
    seen = 8 * length if longest is None else min(8 * length, longest)
    reach = lab.attention_reach(model, text, seen, trained=length, windows=4)
    return Measured(losses, targets, seen, reach.distance.numpy(), float(reach.beyond.mean()))


@dataclass(frozen=True)
class Operation:
    """Changes to one model, those that do not apply to it left out.

    Attributes:
        model: the patient.
        length: of the windows that it was trained on.
        factor, dropped, window, rule: as in `SlopeSurgery`.

    Raises ValueError for a head that the model does not have.
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
        """Whether the method adds a bias, which can be multiplied or dropped."""
        probe = torch.zeros(1, 1, self.model.config.d_model, device=self.model.head.weight.device)
        return self.model.transformer.position.bias(1, 1, probe) is not None

    @property
    def is_rotary(self) -> bool:
        return self.model.config.position == "rotary"

    @property
    def does_something(self) -> bool:
        """Whether anything that applies is changed."""
        return bool(self._steps())

    def changed(self) -> LanguageModel:
        """A copy with the changes, which shares every weight with the model."""
        model = self.model
        if self.is_rotary and self.rule != "plain":
            model = lab.change_rotary_rule(model, self.rule, self.length)
        if self.has_bias:
            heads = range(1, model.config.num_heads + 1)
            model = lab.multiply_slopes(
                model, [0.0 if self.dropped in ("all", str(head)) else self.factor for head in heads]
            )
        return model if self.window is None else lab.impose_window(model, self.window)

    def caption(self, before: Measured, after: Measured, text: str) -> str:
        """What was done and what followed."""
        name, length = self.model.config.position, self.length
        start = f"{name}, trained on windows of {length} bytes, tested on {before.targets:,} bytes of {text}"
        steps = self._steps()
        done = f"{start}: {join_words(steps)}." if steps else f"{start}, as it was trained."
        return " ".join(
            filter(None, [done, self._left_out(), _losses(before, after, bool(steps)), _looks(before, after, length)])
        )

    def _steps(self) -> list[str]:
        """What is changed, in words."""
        steps = []
        if self.has_bias and self.dropped == "all":
            steps.append("the bias of every head dropped")
        elif self.has_bias:
            if self.factor != 1:
                steps.append(f"slopes times {self.factor:g}")
            if self.dropped != "none":
                steps.append(f"the bias of head {self.dropped} dropped in every layer")
        if self.is_rotary and self.rule != "plain":
            steps.append({"pi": "positions interpolated", "ntk": "angles stretched by the NTK rule"}[self.rule])
        if self.window is not None:
            steps.append(f"a window of {self.window:,} keys imposed")
        return steps

    def _left_out(self) -> str:
        """What was asked for and does not apply."""
        name, said = self.model.config.position, []
        if not self.has_bias and (self.factor != 1 or self.dropped != "none"):
            said.append(f"{name} adds no bias, so there is nothing to multiply or drop")
        if not self.is_rotary and self.rule != "plain":
            said.append(f"{name} turns nothing, so rotary's rule does not apply")
        return f"{'; '.join(said)}.".capitalize() if said else ""


def _losses(before: Measured, after: Measured, changed: bool) -> str:
    """The loss in range and at the longest test, and whether it breaks in between."""
    first, last = min(after.losses), max(after.losses)
    parts = []
    for length in (first, last):
        now, then = after.losses[length], before.losses[length]
        if math.isnan(now):
            parts.append(f"on windows of {length:,} its positions are not defined")
        elif not changed or math.isnan(then) or abs(now - then) < SAME:
            parts.append(f"on windows of {length:,} it needs {now:.2f} bits per byte{' as before' if changed else ''}")
        else:
            parts.append(
                f"on windows of {length:,} it needs {now:.2f} bits per byte, {abs(now - then):.2f} "
                f"{'more' if now > then else 'less'} than before"
            )
    beyond = [loss for tested, loss in after.losses.items() if tested > first and math.isfinite(loss)]
    rise = max(beyond) - after.losses[first] if beyond else math.nan
    kind = "does not break" if rise <= HOLDS else "breaks" if rise >= BREAKS else "drifts"
    verdict = f" With length it {kind}: at worst {rise:+z.2f} beyond {first}." if math.isfinite(rise) else ""
    said = "; ".join(parts)
    return f"{said[0].upper()}{said[1:]}.{verdict}"


def _looks(before: Measured, after: Measured, length: int) -> str:
    now, then = float(after.distance.mean()), float(before.distance.mean())
    was = f" (as trained {format_number(then)})" if format_number(now) != format_number(then) else ""
    where = f"further back than the training length, {length}"
    return (
        f"On windows of {after.seen:,} its heads look {format_number(now)} tokens back on average{was}, with "
        f"{after.beyond:.0%} of their weight on keys {where}."
    )
