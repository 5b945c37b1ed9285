"""SlopeSurgery: change a trained model without training it again, and see what that does at every length."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from ipywidgets import FloatLogSlider, Layout, Widget
from torch import Tensor, nn

from alibi_viz import lab, study
from alibi_viz.arguments import check_positive_integers
from alibi_viz.figures import surgery as picture
from alibi_viz.lab.attention_stats import attention_stats, pretrained_stats
from alibi_viz.lab.evaluation import TARGETS, count_shared_targets, diverged
from alibi_viz.lab.length_curve import encode, evaluated_bytes
from alibi_viz.lab.modify import VARIANTS, has_sinks
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.rotary import ROTARY_RULES
from alibi_viz.pretrained import family_name, family_of, longest_context, training_length
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.controls import column, fold, labeled, row
from alibi_viz.widgets.core.formatting import format_number
from alibi_viz.widgets.core.traits import BadValue, Choice, Count, Number, raising_bad_value

YOURS = "yours"
MODELS = ("alibi", "rotary", "sinusoidal")  # that ship with the package and are tested within seconds
WINDOWS = [2**power for power in range(2, 12)]  # in the menu
PRETRAINED_TARGETS = 2048  # bytes predicted: few enough for a result while the user moves a control
STATS_LENGTH = 8  # times L: the length of the windows in which attention is measured
STATS_QUERIES = 128  # of a pretrained model, whose attention is measured in one window
EQUAL = 0.005  # bits per byte: a smaller difference disappears in two decimals


@dataclass(frozen=True)
class Evaluation:
    """The losses and the attention of a model on longer windows."""

    losses: dict[int, float]  # {length: bits per byte}
    targets: int  # how many bytes were predicted at each length
    window: int  # the length of the windows in which attention was measured: 8 L, or the longest that is defined
    distance: Tensor  # the mean distance, in tokens, of the keys that each head attends to: float32 [layers, heads]
    beyond: float  # the share of attention on keys at least L back, the mean over all heads


class Subject:
    """A trained model to change, and a text to test it on: here a model of this lab, which reads bytes."""

    unit = "bytes"  # what lengths are counted in

    def __init__(self, model: LanguageModel, length: Any, text: lab.Text, lengths: Sequence[int] | None = None) -> None:
        position = model.transformer.position
        self.name, self.num_heads = model.config.position, model.config.num_heads
        # Which changes apply, by their argument of `lab.modify`.
        self.applies = {"slopes": position.has_bias, "rotary": self.name == "rotary", "sinks": has_sinks(model)}
        self._use(model, length, text, lengths)

    def _use(self, model: Any, length: Any, text: lab.Text, lengths: Sequence[int] | None) -> None:
        check_positive_integers(length=length)
        self.model, self.length, self.text = model, length, text
        self.lengths = list(lengths or lab.evaluation_lengths(length))

    @cached_property
    def as_trained(self) -> Evaluation:
        """The evaluation of the model without a change."""
        return self.evaluate(self.model)

    def evaluate(self, model: Any) -> Evaluation:
        """Evaluate the model, or a changed copy. Raises ValueError if the text is too short or the losses are NaN."""
        targets = max(TARGETS, *self.lengths)
        losses = lab.loss_by_length(model, self.text, self.lengths, targets=targets)
        if diverged(model, losses):
            raise ValueError("the model gives NaN instead of losses: its training has diverged")
        window = int(min(STATS_LENGTH * self.length, model.transformer.position.max_length or math.inf))
        stats = attention_stats(model, self.text, window, trained=self.length, windows=4)
        predicted = count_shared_targets(self.text, self.lengths, targets)
        return Evaluation(losses, predicted, window, stats.distance, float(stats.beyond.mean()))


class PretrainedSubject(Subject):
    """A BLOOM, MPT or Falcon model of the transformers library."""

    unit = "tokens"

    def __init__(self, model: nn.Module, tokenizer: Any, length: Any, text: Any, lengths: Sequence[int] | None) -> None:
        self.name, family = family_name(model), family_of(model)
        if tokenizer is None:
            raise ValueError(f"a model of transformers needs its tokenizer: pass tokenizer, got {type(model).__name__}")
        self.num_heads, self.tokenizer, self.source = len(family.slopes(family.layers(model)[0])), tokenizer, text
        self.applies = {"slopes": True, "rotary": False, "sinks": True}
        self._use(model, training_length(model) if length is None else length, evaluated_bytes(text)[0], lengths)

    def evaluate(self, model: Any) -> Evaluation:
        stride, targets = max(1, min(self.lengths) // 2), PRETRAINED_TARGETS
        table = lab.length_curve(
            model, self.tokenizer, self.source, self.lengths, targets=targets, stride=stride, trained=self.length
        )
        losses = dict(zip(table["x"].tolist(), table["value"].tolist(), strict=True))
        defined = [length for length, bits in losses.items() if not math.isnan(bits)]
        if not defined:
            limit = longest_context(model)
            raise ValueError(f"the model has {limit} positions; lengths must be no longer, got {[*losses]}")
        window = min(STATS_LENGTH * self.length, max(defined))
        ids = encode(model, self.tokenizer, evaluated_bytes(self.source)[1])[None, -window:]
        device = next(model.parameters()).device
        stats = pretrained_stats(model, ids.to(device), trained=self.length, queries=STATS_QUERIES)
        return Evaluation(losses, int(table["count"].iloc[0]), window, stats.distance, float(stats.beyond.nanmean()))


class SlopeSurgery(App):
    """Change a trained model: multiply its slopes, drop biases, impose a window, or replace rotary's rule.

        widgets.SlopeSurgery(lab.make_model("alibi"), length=64)           # your own model
        widgets.SlopeSurgery(bloom, tokenizer=tokenizer, length=2048, lengths=[512, 1024, 2048, 4096])

    Nothing is trained. A change makes a copy that shares every weight with the model, and evaluates it. A change that
    doesn't apply to the model, such as slopes to a rotary one, is left out, and the details say so.

    Args:
        model: your own trained model, or a BLOOM, MPT or Falcon model of transformers; then `subject` is "yours".
        tokenizer: that of a model of transformers.
        length: the training length of that model, in its tokens; by default what its configuration says.
        lengths: of the windows to test that model on; L to 16 L by default.
        text: the text to test on, as `load_text` takes it; the built-in text by default. Models of this lab are tested
            on its validation part, those of transformers as in `lab.length_curve`.

    Traits:
        subject: "yours", or a model that comes with the package: "alibi", "rotary" or "sinusoidal".
        factor: multiplies the slopes, 1/16 to 16.
        dropped: "none", "all", or the number of the head, from 1, whose bias is dropped in every layer.
        window: how many keys a query sees, including itself; None for all.
        sinks: how many tokens at the start stay visible beside the window; not for rotary and sinusoidal.
        rule: "plain", "pi", "ntk" or "yarn", for rotary.

    >>> from alibi_viz.widgets import SlopeSurgery
    >>> app = SlopeSurgery(window=64)
    >>> app
    SlopeSurgery(subject='alibi', factor=1.0, dropped='none', window=64, sinks=0, rule='plain')
    >>> abs(app.after[1024] - app.before[1024]) < 0.05  # keys more than 64 back hardly matter
    True
    """

    why = Why(
        "The changed model has the same weights as the one before. So all differences between the lines come from "
        "the change.",
        "07_surgery",
        "Steeper or flatter slopes",
    )
    subject = Choice("alibi", "subjects")
    factor = Number(1.0, 1 / 16, 16.0)
    dropped = Choice("none", "droppable")
    window = Count(None, 1, 4096, WINDOWS, allow_none=True)
    sinks = Count(0, 0, 64)
    rule = Choice("plain", ROTARY_RULES)

    def __init__(
        self,
        model: LanguageModel | nn.Module | None = None,
        *,
        tokenizer: Any = None,
        length: int | None = None,
        lengths: Sequence[int] | None = None,
        text: str | Path | bytes | None = None,
        **state: Any,
    ) -> None:
        self._subjects: dict[str, Subject] = {}  # that have been used
        self.subjects = MODELS if model is None else (*MODELS, YOURS)
        with raising_bad_value():
            self._text = lab.load_text(text)
            if isinstance(model, LanguageModel):
                length = model.config.max_length if length is None else length
                self._subjects[YOURS] = Subject(model, length, self._text, lengths)
            elif model is not None:
                self._subjects[YOURS] = PretrainedSubject(model, tokenizer, length, text, lengths)
            elif any(option is not None for option in (tokenizer, length, lengths)):
                raise BadValue("tokenizer, length and lengths belong to a model of yours: pass the model too")
        super().__init__(**({"subject": YOURS} if self._subjects else {}) | state)

    # Results.

    @property
    def droppable(self) -> list[str]:
        """What can be dropped from the model."""
        return ["none", "all", *map(str, range(1, self._subject().num_heads + 1))]

    @property
    def before(self) -> dict[int, float]:
        """{length: bits per byte} of the model as it was trained."""
        return self._before.losses

    @property
    def after(self) -> dict[int, float]:
        """{length: bits per byte} of the changed model; equal to `before` without a change."""
        return self._after.losses

    def refresh(self) -> None:
        """Evaluate the model again, because its weights may have changed, and draw."""
        for subject in self._subjects.values():
            vars(subject).pop("as_trained", None)
        super().refresh()

    # Methods that `App` requires.

    def blank(self) -> go.Figure:
        return picture.blank()

    def controls(self) -> list[Widget]:
        subject = self.menu("subject", "model", "s-subject", "Which trained model")
        tip, layout = "What the slopes are multiplied by", Layout(width="150px")
        options = {"value": 1, "base": 2, "min": -4, "max": 4, "step": 0.5, "readout": False, "tooltip": tip}
        slider = FloatLogSlider(**options, layout=layout, continuous_update=False).add_class("s-factor")
        factor = self.link(slider, "factor"), self.field("factor", "s-factor-field", "60px", tip)
        tip = "Heads whose bias is dropped"
        dropped = self.menu("dropped", "drop the bias of", "s-dropped", tip, follows="subject")
        tip = "How many keys a query sees, including its own"
        window = self.menu("window", "window", "s-window", tip, {None: "none"})
        tip = "How rotary treats positions beyond its training length"
        rule = self.menu("rule", "rotary's rule", "s-rule", tip)
        sinks = self.slider("sinks", "sinks", "s-sinks", "How many tokens at the start stay visible beside the window")
        self._controls = {"slopes": (*factor, dropped), "rotary": (rule,), "sinks": sinks.children[1:]}
        more, further = fold("More", "Changes for rotary, and sinks", row(rule, sinks))
        first = row(subject, labeled("slopes times", *factor), dropped, window, more, self.reset_button())
        return [column(first, further)]

    def draw(self) -> tuple[str, str]:
        subject, changes = self._subject(), self._changes()
        used = {name: each for name, each in changes.items() if subject.applies.get(name, True)}
        if "window" not in changes:
            used.pop("sinks", None)  # every token is visible
        self._before = self._after = subject.as_trained
        if used:
            values = {name: value for name, (value, _) in used.items()}
            self._after = subject.evaluate(lab.modify(subject.model, **values, trained_length=subject.length))
        for name, applies in subject.applies.items():
            for control in self._controls[name]:
                control.disabled = not applies
        before, after = self._before, self._after
        shown = [(each.losses, each.distance) for each in (before, after)[: 1 + bool(used)]]
        picture.draw(self.figure, subject.length, subject.unit, *shown)
        details = (
            f"The losses are bits per byte of {before.targets:,} bytes of {subject.text.name}, and the distances were "
            f"measured on windows of {before.window:,} {subject.unit}."
        )
        if unused := [words for name, (_, words) in changes.items() if name not in used]:
            details += f" Without effect on {subject.name} here: {', '.join(unused)}."
        change = ", ".join(words for _, words in used.values())
        return _describe(subject, f"with {change}" if used else "as it was trained", before, after), details

    def _subject(self) -> Subject:
        if self.subject not in self._subjects:
            saved = study.published_model(self.subject)
            self._subjects[self.subject] = Subject(saved.model, saved.settings["length"], self._text)
        return self._subjects[self.subject]

    def _changes(self) -> dict[str, tuple[Any, str]]:
        """What is asked for: {argument of `lab.modify`: its value, and the change in words}."""
        changes: dict[str, tuple[Any, str]] = {}
        if self.dropped not in self.droppable:
            raise BadValue(f"dropped must be one of {', '.join(self.droppable)}, got {self.dropped!r}")
        if self.factor != 1 or self.dropped != "none":
            which = "every head" if self.dropped == "all" else f"head {self.dropped}"
            words = [f"slopes times {self.factor:g}"] * (self.factor != 1 and self.dropped != "all")
            words += [f"the bias of {which} dropped in every layer"] * (self.dropped != "none")
            factors = [0.0 if self.dropped in ("all", head) else self.factor for head in self.droppable[2:]]
            changes["slopes"] = factors, ", ".join(words)
        if self.rule != "plain":
            changes["rotary"] = self.rule, VARIANTS[self.rule].removeprefix("with ")
        if self.window is not None:
            changes["window"] = self.window, f"a window of {self.window:,} keys imposed"
        if self.sinks:
            changes["sinks"] = self.sinks, f"the first {self.sinks:,} kept"
        return changes


def _describe(subject: Subject, change: str, before: Evaluation, after: Evaluation) -> str:
    """What was changed, what that does to the losses, and how far back the heads look."""
    length, losses = subject.length, []
    for x in (min(before.losses), max(before.losses)):
        bits, rise = after.losses[x], after.losses[x] - before.losses[x]
        words = f"{bits:.2f} bits per byte on windows of {x:,}"
        if math.isnan(bits):
            words = f"its positions are not defined on windows of {x:,}"
        elif abs(rise) >= EQUAL:  # not NaN
            words += f", {abs(rise):.2f} {'more' if rise > 0 else 'less'} than before"
        losses.append(words)
    distance, original = (format_number(each.distance.mean()) for each in (after, before))
    trained = f" (as trained {original})" if distance != original else ""
    return (
        f"{subject.name}, trained on windows of {length:,} {subject.unit}, {change}: {'; '.join(losses)}. "
        f"Its heads look {distance} tokens back on average{trained}, with {after.beyond:.0%} of their weight on "
        f"keys at least {length:,} back, the training length."
    )
