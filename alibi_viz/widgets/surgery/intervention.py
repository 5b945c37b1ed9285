"""Changes to a trained model, and what followed, in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from alibi_viz.lab.questions import join, outcome
from alibi_viz.lab.questions.outcomes import rises
from alibi_viz.widgets.core.formatting import format_number
from alibi_viz.widgets.surgery.subject import Evaluation, Subject

__all__ = ["Intervention"]

EQUAL = 0.005  # bits per byte: a smaller difference disappears in two decimals
RULES = {
    "pi": "positions interpolated",
    "ntk": "rotary frequencies scaled by the NTK rule",
    "yarn": "rotary frequencies scaled by YaRN",
}


@dataclass(frozen=True)
class Intervention:
    """Changes to one model. Those that don't apply to it are left out.

    Attributes:
        subject: the model to change.
        factor, dropped, window, sinks, rule: as in `SlopeSurgery`.

    Raises ValueError for a head that the model doesn't have.
    """

    subject: Subject
    factor: float
    dropped: str
    window: int | None
    sinks: int
    rule: str

    def __post_init__(self) -> None:
        heads = self.subject.num_heads
        if self.subject.has_bias and self.dropped.isdecimal() and int(self.dropped) > heads:
            raise ValueError(f"dropped must be none, all or a head from 1 to {heads}, got {self.dropped}")

    def changes(self) -> list[str]:
        """The changes that apply, in words."""
        changes = []
        if self.subject.has_bias and self.dropped == "all":
            changes.append("the bias of every head dropped")
        elif self.subject.has_bias:
            if self.factor != 1:
                changes.append(f"slopes times {self.factor:g}")
            if self.dropped != "none":
                changes.append(f"the bias of head {self.dropped} dropped in every layer")
        if self.subject.is_rotary and self.rule != "plain":
            changes.append(RULES[self.rule])
        if self.window is not None:
            first = f" and the first {self.sinks:,}" if self.sinks and self.subject.has_sinks else ""
            changes.append(f"a window of {self.window:,} keys{first} imposed")
        return changes

    def apply(self) -> nn.Module:
        """A changed copy that shares every weight with the model."""
        heads = range(1, self.subject.num_heads + 1)
        factors = [0.0 if self.dropped in ("all", str(head)) else self.factor for head in heads]
        return self.subject.change(factors, self.window, self.sinks, self.rule)

    def caption(self, before: Evaluation, after: Evaluation) -> str:
        """What was changed and what followed."""
        subject, changes = self.subject, self.changes()
        trained = f"{subject.name}, trained on windows of {subject.length:,} {subject.unit}"
        tested = f"{trained}, tested on {before.targets:,} bytes of {subject.text_name}"
        sentences = [
            f"{tested}: {join(changes)}." if changes else f"{tested}, as it was trained.",
            self._left_out(),
            _compare_losses(before, after, bool(changes)),
            _describe_length(after),
            _compare_attention(before, after, subject.length),
        ]
        return " ".join(sentence for sentence in sentences if sentence)

    def _left_out(self) -> str:
        """The changes that don't apply, and why."""
        subject, reasons = self.subject, []
        if not subject.has_bias and (self.factor != 1 or self.dropped != "none"):
            reasons.append(f"{subject.name} adds no bias, so there is nothing to multiply or drop")
        if not subject.is_rotary and self.rule != "plain":
            reasons.append(f"the rule is for rotary positions only, so it does not apply to {subject.name}")
        if self.sinks and not subject.has_sinks:
            reasons.append(f"the positions of {subject.name} are not all in a bias, so the first tokens are not kept")
        elif self.sinks and self.window is None:
            reasons.append("without a window every token is visible, so sinks change nothing")
        return _sentence(reasons) if reasons else ""


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
    return _sentence(clauses)


def _sentence(clauses: Sequence[str]) -> str:
    """Clauses as a sentence. Only its first letter changes: names of methods keep their spelling."""
    text = "; ".join(clauses)
    return f"{text[0].upper()}{text[1:]}."


def _describe_length(after: Evaluation) -> str:
    """Whether the model holds, degrades or fails on longer windows."""
    (rise,) = rises({"": {0: after.losses}}).get("", [math.nan])
    if math.isnan(rise):
        return ""
    return f"On longer windows it {outcome([rise])}: at worst {rise:+z.2f} beyond {min(after.losses):,}."


def _compare_attention(before: Evaluation, after: Evaluation, length: int) -> str:
    """How far back the heads look."""
    distance, original = format_number(after.distance.mean()), format_number(before.distance.mean())
    trained = f" (as trained {original})" if distance != original else ""
    return (
        f"On windows of {after.window:,} its heads look {distance} tokens back on average{trained}, with "
        f"{after.beyond:.0%} of their weight on keys at least {length:,} back, the training length."
    )
