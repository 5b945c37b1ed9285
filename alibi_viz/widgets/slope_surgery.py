"""SlopeSurgery: change a trained model without training it, and see its loss at every length."""

import html
import math
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ipywidgets import HTML, Layout, SelectionSlider, Widget
from torch import Tensor, nn
from traitlets import Float, Int, Unicode

from alibi_viz import lab, study
from alibi_viz.arguments import check_positive_integers, positive_integers
from alibi_viz.figures.surgery_plot import AFTER, BEFORE, surgery_picture
from alibi_viz.formatting import format_number, format_percent, format_slope, in_prose
from alibi_viz.measure.attention_statistics import attention_stats, pretrained_stats
from alibi_viz.measure.continuations import Continuation, known_words, unknown_words
from alibi_viz.measure.length_curve import encode, evaluated_bytes
from alibi_viz.measure.losses import TARGETS, diverged
from alibi_viz.models import LanguageModel
from alibi_viz.models.pretrained import family_name, family_of, longest_context, training_length
from alibi_viz.surgery.sinks import has_sinks
from alibi_viz.widgets.core.app import App, Drawn, Why
from alibi_viz.widgets.core.controls import column, fold, labeled, nearest, row, show
from alibi_viz.widgets.core.traits import BadValue, raising_bad_value
from alibi_viz.widgets.core.written import written_html

YOURS = "yours"
LARGE = "alibi-large"
# These models come with the package and are tested within seconds.
MODELS = ("alibi", "rotary", "sinusoidal", LARGE)
FACTORS = [2 ** (half / 2) for half in range(-8, 9)]  # on the slider
WINDOWS = [2**power for power in range(2, 12)]  # in the menu
PRETRAINED_TARGETS = 2048  # bytes predicted: few enough for a result while the user moves a control
STATS_LENGTH = 8  # times L: the length of the sequences in which attention is measured
# A model continues half as many bytes, and stops at 8 times as many: as those of the first race,
# which are trained on so many.
WRITING_LENGTH = 64
STATS_QUERIES = 128  # of a pretrained model, whose attention is measured in one sequence
WORD = re.compile(r"\s*\S+|\s+$")  # with the space before it
EQUAL = 0.005  # bits per byte: a smaller difference disappears in two decimals


class Effort(NamedTuple):
    """How much a model is tested with, for a result while the user waits."""

    longest: int  # of the sequences for the losses, times L
    targets: int  # bytes predicted at each length
    stats_length: int  # of the sequences in which attention is measured, times L
    stats_windows: int  # such sequences
    most_bytes: int  # of what it writes, with the prompt


USUAL = Effort(
    longest=16, targets=TARGETS, stats_length=STATS_LENGTH, stats_windows=4, most_bytes=256
)
# The large model takes seven times as long per byte.
REDUCED = Effort(longest=8, targets=2048, stats_length=4, stats_windows=1, most_bytes=144)


class Evaluation(NamedTuple):
    """The losses and the attention of a model on longer sequences, and what it writes."""

    losses: dict[int, float]  # {length: bits per byte}
    # The mean distance, in tokens, of the keys that each head attends to: float32 [layers, heads]
    distance: Tensor
    beyond: float  # the share of attention on keys at least L back, the mean over all heads
    tested: int  # the length of the sequences in which attention was measured
    written: Continuation | None = None  # None for a model of transformers
    known_words: float = math.nan  # the share of its words that occur in the training text
    unknown_words: frozenset[str] = frozenset()  # the others


class Subject(NamedTuple):
    """A trained model to change."""

    name: str
    model: Any
    length: int  # the training length, in `unit`
    unit: str  # "letters", which are bytes, or "tokens"
    num_heads: int
    has_slopes: bool
    has_sinks: bool  # whether the first tokens can stay visible beside a window
    evaluate: Callable[[Any], Evaluation]  # the model, or a changed copy
    # Of the text it is evaluated on, see `Text.yardsticks`; empty if its tokens aren't bytes
    yardsticks: Mapping[str, float]


class DescribedChange(NamedTuple):
    """One argument of `lab.modify`, and what it does in words."""

    value: Any
    words: str


def own_subject(
    model: LanguageModel,
    length: Any,
    lengths: Sequence[int] | None,
    source: Any,
    *,
    name: str = "",
    effort: Effort = USUAL,
) -> Subject:
    """A model of this lab, which reads bytes; `name` is by default that of its position method.

    Its evaluation raises ValueError for a text that is too short, or if the model gives NaN.
    """
    check_positive_integers(length=length)
    text = lab.load_text(source)
    lengths = lengths or lab.evaluation_lengths(length, effort.longest)
    position = model.transformer.position
    # One byte is too short to be continued.
    writing_length = max(2, min(length, WRITING_LENGTH))

    def evaluate(model: LanguageModel) -> Evaluation:
        targets = max(effort.targets, *lengths)
        losses = lab.loss_by_length(model, text, lengths, targets=targets)
        if diverged(model, losses):
            raise ValueError("the model gives NaN instead of losses: its training has diverged")

        longest_defined = model.transformer.position.longest or math.inf
        tested = int(min(effort.stats_length * length, max(lengths), longest_defined))
        windows = effort.stats_windows
        stats = attention_stats(model, text, tested, trained=length, windows=windows)
        written = lab.continuations(model, text, writing_length, most=effort.most_bytes)[0]
        passage = written.within + written.beyond
        return Evaluation(
            losses,
            stats.distance,
            float(stats.beyond.mean()),
            tested,
            written,
            known_words([passage], text),
            frozenset(passage[start:end] for start, end in unknown_words(passage, text)),
        )

    return Subject(
        name=in_prose(name or model.config.method),
        model=model,
        length=length,
        unit="letters",
        num_heads=model.config.num_heads,
        has_slopes=position.uses("bias"),
        has_sinks=has_sinks(model),
        evaluate=evaluate,
        yardsticks=text.yardsticks,
    )


def pretrained_subject(
    model: nn.Module, tokenizer: Any, length: Any, lengths: Any, source: Any
) -> Subject:
    """A BLOOM, MPT or Falcon model of the transformers library."""
    if tokenizer is None:
        what = "a LanguageModel, or a model of transformers together with its tokenizer"
        raise ValueError(f"model must be {what}, got only {type(model).__name__}")
    name = family_name(model)
    family = family_of(model)
    length = training_length(model) if length is None else length
    check_positive_integers(length=length)
    lengths = lengths or lab.evaluation_lengths(length)
    first_layer = family.layers(model)[0]

    def evaluate(model: nn.Module) -> Evaluation:
        table = lab.length_curve(
            model,
            tokenizer,
            source,
            lengths,
            targets=PRETRAINED_TARGETS,
            stride=max(1, min(lengths) // 2),
            trained=length,
        )
        losses = dict(zip(table["x"].tolist(), table["value"].tolist(), strict=True))
        defined = [x for x, bits in losses.items() if not math.isnan(bits)]
        if not defined:
            limit = longest_context(model)
            raise ValueError(
                f"the model has {limit} positions; lengths must be no longer, got {[*losses]}"
            )

        tested = min(STATS_LENGTH * length, max(defined))
        device = next(model.parameters()).device
        ids = encode(model, tokenizer, evaluated_bytes(source)[1])
        last_ids = ids[None, -tested:].to(device)
        stats = pretrained_stats(model, last_ids, trained=length, queries=STATS_QUERIES)
        return Evaluation(losses, stats.distance, float(stats.beyond.nanmean()), tested)

    return Subject(
        name=name,
        model=model,
        length=length,
        unit="tokens",
        num_heads=len(family.slopes(first_layer)),
        has_slopes=True,
        has_sinks=True,
        evaluate=evaluate,
        yardsticks={},
    )


class SlopeSurgery(App):
    """Change a trained model: multiply its slopes, drop biases, or impose a window.

        # your own model
        widgets.SlopeSurgery(lab.make_model("alibi"), length=64)
        # a model of the transformers library
        lengths = [512, 1024, 2048, 4096]
        widgets.SlopeSurgery(bloom, tokenizer=tokenizer, length=2048, lengths=lengths)

    Nothing is trained. A change makes a copy that shares every weight with the model, and evaluates
    it. Before and after, the model continues the same text; words that have changed are tinted. A
    change that doesn't apply to the model, such as slopes to a rotary one, is left out, and
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
        subject: "yours", or a model that comes with the package: "alibi", "rotary", "sinusoidal",
            or "alibi-large", which is tested on fewer bytes.
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

    min_width = 360
    why = Why(
        "The changed model has the same parameters as the one before. So all differences between "
        "the lines come from the change.",
        "04_surgery",
        "Steeper or flatter slopes",
    )
    subject = Unicode("alibi").tag(choices="subjects")
    factor = Float(1.0, min=1 / 16, max=16)
    dropped = Unicode("none").tag(choices="droppable")
    window = Int(None, min=1, max=4096, allow_none=True)
    sinks = Int(0, min=0, max=64)

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
        # What was measured last: the subject and its changes, the model, and its evaluation
        self._changed: tuple[Any, Any, Evaluation] | None = None
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
        if model is not None:
            state = {"subject": YOURS} | state
        super().__init__(**state)

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
        """Measure the models again, which may have been trained further, and draw the result."""
        self._trained.clear()
        self._changed = None
        super().refresh()

    def controls(self) -> list[Widget]:
        # Called before the menu's own observer.
        self.observe(self._keep_possible_drop, names="subject")

        subject = self.menu("subject", "model", "s-subject", "Which trained model")
        factor = SelectionSlider(
            options=[(format_slope(factor), factor) for factor in FACTORS],
            tooltip="What the slopes are multiplied by",
            continuous_update=False,
            layout=Layout(width="128px", margin="2px 2px 2px 10px"),
        )
        self.link(factor.add_class("s-factor"), "factor", show=partial(nearest, FACTORS))
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
            offered=self._windows,
        )
        sinks = self.slider(
            "sinks",
            "sinks",
            "s-sinks",
            "How many tokens at the start stay visible beside the window",
        )
        self._texts = HTML().add_class("s-texts")
        self._slopes_controls = [factor, dropped]
        self._sinks_controls = [sinks.slider, sinks.field]

        more, further = fold("More", "Keep the first tokens", sinks)
        slopes_times = labeled("slopes times", factor)
        first = row(subject, slopes_times, dropped, window, more, self.reset_button())
        return [column(first, further)]

    def body(self) -> list[Widget]:
        parts = super().body()
        parts.insert(parts.index(self.details_line), self._texts)
        return parts

    def draw(self) -> Drawn:
        subject = self._subject()
        changes = self._changes()
        words = "as it was trained"
        if self.subject not in self._trained:
            self._trained[self.subject] = self._measure(subject, subject.model, words)
        before = self._trained[self.subject]
        model = subject.model
        after = before
        evaluations = [before]
        if changes:
            words = "with " + ", ".join(change.words for change in changes.values())
            # A page of another width is drawn anew, and nothing is measured again.
            if self._changed is None or self._changed[0] != (self.subject, changes):
                values = {name: change.value for name, change in changes.items()}
                model = lab.modify(subject.model, **values, trained_length=subject.length)
                after = self._measure(subject, model, words)
                self._changed = ((self.subject, changes), model, after)
            _, model, after = self._changed
            evaluations.append(after)
        self._before = before
        self._after = after
        self.models = {BEFORE: subject.model, AFTER: model}

        for control in self._slopes_controls:
            control.disabled = not subject.has_slopes
        for control in self._sinks_controls:
            control.disabled = not subject.has_sinks
        self._texts.value = texts_html(before, after, is_changed=bool(changes))
        show(before.written, self._texts)
        picture = surgery_picture(
            subject.length,
            [evaluation.losses for evaluation in evaluations],
            [evaluation.distance for evaluation in evaluations],
            unit=subject.unit,
            yardsticks=subject.yardsticks,
            page_width=self.page_width,
        )
        return Drawn(picture, *_describe(subject, words, before, after))

    def _measure(self, subject: Subject, model: Any, words: str) -> Evaluation:
        """Evaluate a model of a subject, which is busy meanwhile."""
        with self.busy(f"Measuring {subject.name} {words} \N{HORIZONTAL ELLIPSIS}"):
            return subject.evaluate(model)

    def _windows(self) -> tuple[int | None, ...]:
        """What the menu offers: powers of two, and a window that was set in code."""
        windows = set(WINDOWS)
        if self.window is not None:
            windows.add(self.window)
        return (None, *sorted(windows))

    def _keep_possible_drop(self, _: Any) -> None:
        """Drop nothing if the new model has no such head."""
        if self.dropped not in self.droppable:
            self.dropped = "none"

    def _subject(self) -> Subject:
        if self.subject not in self._subjects:
            saved = study.published_model(self.subject)
            with raising_bad_value():
                subject = own_subject(
                    saved.model,
                    saved.settings["length"],
                    lengths=None,
                    source=self._text,
                    name=self.subject,
                    effort=REDUCED if self.subject == LARGE else USUAL,
                )
            self._subjects[self.subject] = subject
        return self._subjects[self.subject]

    def _changes(self) -> dict[str, DescribedChange]:
        """What is asked for and applies to the model: {argument of `lab.modify`: change}."""
        if self.dropped not in self.droppable:
            raise BadValue(
                f"dropped must be one of {', '.join(self.droppable)}, got {self.dropped!r}"
            )
        subject = self._subject()
        changes = {}
        if subject.has_slopes and (self.factor != 1 or self.dropped != "none"):
            changes["slopes"] = self._change_of_slopes(subject.num_heads)
        if self.window is not None:
            keys = "key" if self.window == 1 else "keys"
            words = f"a window of {self.window:,} {keys} imposed"
            changes["window"] = DescribedChange(self.window, words)
            if self.sinks and subject.has_sinks:
                changes["sinks"] = DescribedChange(self.sinks, f"the first {self.sinks:,} kept")
        return changes

    def _change_of_slopes(self, num_heads: int) -> DescribedChange:
        """A factor for the slope of each head; 0 drops its bias."""
        if self.dropped == "all":
            return DescribedChange(
                [0.0] * num_heads, "the bias of every head dropped in every layer"
            )

        factors = [self.factor] * num_heads
        words = []
        if self.factor != 1:
            words.append(f"slopes times {format_slope(self.factor)}")
        if self.dropped != "none":
            factors[int(self.dropped) - 1] = 0.0
            words.append(f"the bias of head {self.dropped} dropped in every layer")
        return DescribedChange(factors, ", ".join(words))


def texts_html(before: Evaluation, after: Evaluation, *, is_changed: bool) -> str:
    """What a model writes before and after a change, in two columns of HTML.

    The prompt is paler, words that the other text doesn't have at this place are tinted, and a wavy
    line is under those that the training text doesn't have.
    """
    if before.written is None or after.written is None:
        return ""
    written_before = before.written.within + before.written.beyond
    written_after = after.written.within + after.written.beyond
    prompt = before.written.prompt

    def text(name: str, evaluation: Evaluation, continuation: str) -> str:
        return written_html(
            name,
            prompt,
            continuation,
            known_words=evaluation.known_words,
            unknown_words=evaluation.unknown_words,
        )

    texts = [text(BEFORE, before, html.escape(written_before))]
    if is_changed:
        texts.append(text(AFTER, after, _tinted(written_before, written_after)))
    else:
        invitation = " \N{HORIZONTAL ELLIPSIS} Move a control, and it writes something else."
        texts.append(text(AFTER, before._replace(known_words=math.nan), invitation))
    return f'<div class="alibi-written">{"".join(texts)}</div>'


def _tinted(before: str, after: str) -> str:
    """The text after a change as HTML, with a tint on the words that differ."""
    words_before = WORD.findall(before)
    words_after = WORD.findall(after)
    matcher = SequenceMatcher(a=words_before, b=words_after, autojunk=False)
    pieces = []
    for kind, _, _, start, stop in matcher.get_opcodes():
        piece = html.escape("".join(words_after[start:stop]))
        pieces.append(piece if kind == "equal" else f"<mark>{piece}</mark>")
    return "".join(pieces)


def _describe(
    subject: Subject, change: str, before: Evaluation, after: Evaluation
) -> tuple[str, str]:
    """What was changed and what that does to the losses; as details, how far the heads look."""
    shortest = min(before.losses)
    longest = max(before.losses)
    losses = [_describe_loss(subject, shortest, before, after)]
    if longest != shortest:
        losses.append(_describe_loss(subject, longest, before, after))
    caption = f"{subject.name} {change}: {'; '.join(losses)}."

    distance = format_number(after.distance.mean())
    original = format_number(before.distance.mean())
    look = (
        f"At the end of sequences of {after.tested:,}, its heads look {distance} {subject.unit} "
        "back on average"
    )
    if distance != original:
        look += f" (as trained {original})"
    if after.tested > subject.length:
        share = format_percent(after.beyond)
        look += f", with {share} of their weight on keys at least {subject.length:,} back"
    trained = f"The model was trained on sequences of {subject.length:,} {subject.unit}."
    return caption, f"{trained} {look}."


def _describe_loss(subject: Subject, length: int, before: Evaluation, after: Evaluation) -> str:
    """The loss at one length, and how much it has changed."""
    bits = after.losses[length]
    if math.isnan(bits):
        return f"its positions are not defined on sequences of {length:,}"

    unit = "letter" if subject.unit == "letters" else "byte"
    words = f"{bits:.2f} bits per {unit} on sequences of {length:,}"
    rise = bits - before.losses[length]
    if abs(rise) >= EQUAL:
        words += f", {abs(rise):.2f} {'more' if rise > 0 else 'less'} than before"
    return words
