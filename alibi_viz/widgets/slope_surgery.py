"""SlopeSurgery: change a trained model without training it again, and see what that does at every
length."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ipywidgets import FloatLogSlider, Layout, Widget
from torch import Tensor, nn

from alibi_viz import lab, study
from alibi_viz.arguments import check_positive_integers, positive_integers
from alibi_viz.figures import surgery_plot as picture
from alibi_viz.figures.surgery_plot import AFTER, BEFORE
from alibi_viz.measure.attention_statistics import attention_stats, pretrained_stats
from alibi_viz.measure.length_curve import encode, evaluated_bytes
from alibi_viz.measure.losses import TARGETS, diverged
from alibi_viz.models import LanguageModel
from alibi_viz.models.pretrained import family_name, family_of, longest_context, training_length
from alibi_viz.surgery.modify import has_sinks
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.controls import column, fold, labeled, row
from alibi_viz.widgets.core.formatting import format_number, format_percent
from alibi_viz.widgets.core.traits import BadValue, Choice, Count, Number, raising_bad_value

YOURS = "yours"
MODELS = (
    "alibi",
    "rotary",
    "sinusoidal",
)  # that ship with the package and are tested within seconds
WINDOWS = [2**power for power in range(2, 12)]  # in the menu
PRETRAINED_TARGETS = 2048  # bytes predicted: few enough for a result while the user moves a control
STATS_LENGTH = 8  # times L: the length of the sequences in which attention is measured
STATS_QUERIES = 128  # of a pretrained model, whose attention is measured in one sequence
EQUAL = 0.005  # bits per byte: a smaller difference disappears in two decimals


class Evaluation(NamedTuple):
    """The losses and the attention of a model on longer sequences."""

    losses: dict[int, float]  # {length: bits per byte}
    # The mean distance, in tokens, of the keys that each head attends to: float32 [layers, heads]
    distance: Tensor
    beyond: float  # the share of attention on keys at least L back, the mean over all heads
    tested: int  # the length of the sequences in which attention was measured


class Subject(NamedTuple):
    """A trained model to change."""

    name: str
    model: Any
    length: int  # the training length, in `unit`
    unit: str
    num_heads: int
    has_slopes: bool
    has_sinks: bool  # whether the first tokens can stay visible beside a window
    evaluate: Callable[[Any], Evaluation]  # the model, or a changed copy


def own_subject(
    model: LanguageModel, length: Any, lengths: Sequence[int] | None, source: Any
) -> Subject:
    """A model of this lab, which reads bytes. Its evaluation raises ValueError for a short text, or
    for NaN."""
    check_positive_integers(length=length)
    text, lengths = lab.load_text(source), lengths or lab.evaluation_lengths(length)

    def evaluate(model: LanguageModel) -> Evaluation:
        losses = lab.loss_by_length(model, text, lengths, targets=max(TARGETS, *lengths))
        if diverged(model, losses):
            raise ValueError("the model gives NaN instead of losses: its training has diverged")
        tested = int(
            min(
                STATS_LENGTH * length,
                max(lengths),
                model.transformer.position.max_length or math.inf,
            )
        )
        stats = attention_stats(model, text, tested, trained=length, windows=4)
        return Evaluation(losses, stats.distance, float(stats.beyond.mean()), tested)

    applies = model.transformer.position.has_bias, has_sinks(model)
    return Subject(
        model.config.position, model, length, "bytes", model.config.num_heads, *applies, evaluate
    )


def pretrained_subject(
    model: nn.Module, tokenizer: Any, length: Any, lengths: Any, source: Any
) -> Subject:
    """A BLOOM, MPT or Falcon model of the transformers library."""
    if tokenizer is None:
        what = "a LanguageModel, or a model of transformers together with its tokenizer"
        raise ValueError(f"model must be {what}, got only {type(model).__name__}")
    name, family = family_name(model), family_of(model)
    length = training_length(model) if length is None else length
    check_positive_integers(length=length)
    lengths = lengths or lab.evaluation_lengths(length)

    def evaluate(model: nn.Module) -> Evaluation:
        options = {
            "targets": PRETRAINED_TARGETS,
            "stride": max(1, min(lengths) // 2),
            "trained": length,
        }
        table = lab.length_curve(model, tokenizer, source, lengths, **options)
        losses = dict(zip(table["x"].tolist(), table["value"].tolist(), strict=True))
        if not (defined := [x for x, bits in losses.items() if not math.isnan(bits)]):
            limit = longest_context(model)
            raise ValueError(
                f"the model has {limit} positions; lengths must be no longer, got {[*losses]}"
            )
        tested = min(STATS_LENGTH * length, max(defined))
        ids = encode(model, tokenizer, evaluated_bytes(source)[1])[None, -tested:].to(
            next(model.parameters()).device
        )
        stats = pretrained_stats(model, ids, trained=length, queries=STATS_QUERIES)
        return Evaluation(losses, stats.distance, float(stats.beyond.nanmean()), tested)

    return Subject(
        name,
        model,
        length,
        "tokens",
        len(family.slopes(family.layers(model)[0])),
        True,
        True,
        evaluate,
    )


class SlopeSurgery(App):
    """Change a trained model: multiply its slopes, drop biases, or impose a window.

        widgets.SlopeSurgery(lab.make_model("alibi"), length=64)           # your own model
        widgets.SlopeSurgery(bloom, tokenizer=tokenizer, length=2048, lengths=[512, 1024, 2048, 4096])

    Nothing is trained. A change makes a copy that shares every weight with the model, and evaluates
    it. A change that doesn't apply to the model, such as slopes to a rotary one, is left out, and
    its control is disabled.

    Args:
        model: your own trained model, or a BLOOM, MPT or Falcon model of transformers; then
            `subject` is "yours".
        tokenizer: that of a model of transformers.
        length: the training length of that model, in its tokens; by default what its configuration
            says.
        lengths: of the sequences to test that model on; L to 16 L by default.
        text: the text to test on, as `load_text` takes it; the built-in text by default. Models of
            this lab are tested on its validation part, those of transformers as in
            `lab.length_curve`.

    `models` has the model "as trained" and "changed".

    Traits:
        subject: "yours", or a model that comes with the package: "alibi", "rotary" or "sinusoidal".
        factor: multiplies the slopes, 1/16 to 16.
        dropped: "none", "all", or the number of the head, from 1, whose bias is dropped in every
            layer.
        window: how many keys a query sees, including itself; None for all.
        sinks: how many tokens at the start stay visible beside the window; not for rotary and
            sinusoidal.

    >>> from alibi_viz.widgets import SlopeSurgery
    >>> app = SlopeSurgery(window=64)
    >>> app
    SlopeSurgery(subject='alibi', factor=1.0, dropped='none', window=64, sinks=0)
    >>> abs(app.after[1024] - app.before[1024]) < 0.05  # keys more than 64 back hardly matter
    True
    """

    min_width = 520  # two panels
    why = Why(
        "The changed model has the same weights as the one before. So all differences between the "
        "lines come from "
        "the change.",
        "07_surgery",
        "Steeper or flatter slopes",
    )
    subject = Choice("alibi", "subjects")
    factor = Number(1.0, 1 / 16, 16)
    dropped = Choice("none", "droppable")
    window = Count(None, 1, 4096, WINDOWS, allow_none=True)
    sinks = Count(0, 0, 64)
    blank = staticmethod(picture.blank)

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
        self._trained: dict[str, Evaluation] = {}  # of the subjects, without a change
        self._text = text
        self.subjects = MODELS if model is None else (*MODELS, YOURS)
        with raising_bad_value():
            lengths = None if lengths is None else positive_integers("lengths", lengths)
            if isinstance(model, LanguageModel):
                length = model.config.max_length if length is None else length
                self._subjects[YOURS] = own_subject(model, length, lengths, text)
            elif model is not None:
                self._subjects[YOURS] = pretrained_subject(model, tokenizer, length, lengths, text)
            elif any(option is not None for option in (tokenizer, length, lengths)):
                raise BadValue(
                    "tokenizer, length and lengths belong to a model of yours: pass the model too"
                )
        super().__init__(**({"subject": YOURS} if self._subjects else {}) | state)

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
        """Draw the current state, and measure the models again: one may have been trained
        further."""
        self._trained.clear()
        super().refresh()

    def controls(self) -> list[Widget]:
        # called before the menu's own observer: the new model may have no such head
        self.observe(
            lambda _: self.dropped in self.droppable or self.set_trait("dropped", "none"),
            names="subject",
        )
        subject = self.menu("subject", "model", "s-subject", "Which trained model")
        options = {"base": 2, "min": -4, "max": 4, "step": 0.5, "layout": Layout(width="200px")}
        slider = FloatLogSlider(
            **options, tooltip="What the slopes are multiplied by", continuous_update=False
        )
        factor = self.link(slider.add_class("s-factor"), "factor")
        dropped = self.menu(
            "dropped",
            "drop the bias of",
            "s-dropped",
            "Heads that lose their bias",
            follows="subject",
        )
        window = self.menu(
            "window",
            "window",
            "s-window",
            "How many keys a query sees, with its own",
            {None: "none"},
        )
        sinks = self.slider(
            "sinks",
            "sinks",
            "s-sinks",
            "How many tokens at the start stay visible beside the window",
        )
        self._of_slopes, self._of_sinks = (factor, dropped), sinks.children[1:]
        more, further = fold("More", "Keep the first tokens", sinks)
        first = row(
            subject, labeled("slopes times", factor), dropped, window, more, self.reset_button()
        )
        return [column(first, further)]

    def draw(self) -> tuple[str, str]:
        subject, changes = self._subject(), self._changes()
        if self.subject not in self._trained:
            self._trained[self.subject] = subject.evaluate(subject.model)
        before, changed = self._trained[self.subject], subject.model
        if changes:
            values = {name: value for name, (value, _) in changes.items()}
            changed = lab.modify(subject.model, **values, trained_length=subject.length)
        after = subject.evaluate(changed) if changes else before
        self._before, self._after, self.models = (
            before,
            after,
            {BEFORE: subject.model, AFTER: changed},
        )
        for controls, apply in (
            (self._of_slopes, subject.has_slopes),
            (self._of_sinks, subject.has_sinks),
        ):
            for control in controls:
                control.disabled = not apply
        shown = [(each.losses, each.distance) for each in (before, after)[: 1 + bool(changes)]]
        picture.draw(self.figure, subject.length, subject.unit, *shown)
        change = (
            f"with {', '.join(words for _, words in changes.values())}"
            if changes
            else "as it was trained"
        )
        return _describe(subject, change, before, after)

    def _subject(self) -> Subject:
        if self.subject not in self._subjects:
            saved = study.published_model(self.subject)
            with raising_bad_value():
                self._subjects[self.subject] = own_subject(
                    saved.model, saved.settings["length"], None, self._text
                )
        return self._subjects[self.subject]

    def _changes(self) -> dict[str, tuple[Any, str]]:
        """What is asked for and applies: {argument of `lab.modify`: its value, and the change in
        words}."""
        subject, changes = self._subject(), dict[str, tuple[Any, str]]()
        if self.dropped not in self.droppable:
            raise BadValue(
                f"dropped must be one of {', '.join(self.droppable)}, got {self.dropped!r}"
            )
        if subject.has_slopes and (self.factor != 1 or self.dropped != "none"):
            which = "every head" if self.dropped == "all" else f"head {self.dropped}"
            words = [f"slopes times {self.factor:g}"] * (self.factor != 1 and self.dropped != "all")
            words += [f"the bias of {which} dropped in every layer"] * (self.dropped != "none")
            factors = [
                0.0 if self.dropped in ("all", head) else self.factor for head in self.droppable[2:]
            ]
            changes["slopes"] = factors, ", ".join(words)
        if self.window is not None:
            changes["window"] = (
                self.window,
                f"a window of {self.window:,} key{'s' * (self.window > 1)} imposed",
            )
            if self.sinks and subject.has_sinks:
                changes["sinks"] = self.sinks, f"the first {self.sinks:,} kept"
        return changes


def _describe(
    subject: Subject, change: str, before: Evaluation, after: Evaluation
) -> tuple[str, str]:
    """What was changed and what that does to the losses; as details, how far back the heads
    look."""
    length, losses = subject.length, []
    for x in sorted({min(before.losses), max(before.losses)}):
        bits, rise = after.losses[x], after.losses[x] - before.losses[x]
        words = f"{bits:.2f} bits per byte on sequences of {x:,}"
        if math.isnan(bits):
            words = f"its positions are not defined on sequences of {x:,}"
        elif abs(rise) >= EQUAL:  # not NaN
            words += f", {abs(rise):.2f} {'more' if rise > 0 else 'less'} than before"
        losses.append(words)
    distance, original = (format_number(each.distance.mean()) for each in (after, before))
    trained = f" (as trained {original})" if distance != original else ""
    beyond = (
        f", with {format_percent(after.beyond)} of their weight on keys at least {length:,} back"
    )
    look = (
        f"At the end of sequences of {after.tested:,}, its heads look {distance} tokens back "
        f"on average{trained}"
    )
    more = (
        f"The model was trained on sequences of {length:,} {subject.unit}. "
        f"{look}{beyond * (after.tested > length)}."
    )
    return f"{subject.name} {change}: {'; '.join(losses)}.", more
