"""SlopeSurgery: change a trained model without training it again, and see what that does at every length."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from ipywidgets import Dropdown, FloatLogSlider, Layout, Text, Widget
from torch import Tensor, nn

from alibi_viz import lab, study
from alibi_viz.figures import surgery as picture
from alibi_viz.lab.attention_stats import attention_stats, pretrained_stats
from alibi_viz.lab.evaluation import TARGETS, diverged
from alibi_viz.lab.length_curve import encode, evaluated_bytes
from alibi_viz.lab.modify import has_sinks
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions.rotary import ROTARY_RULES
from alibi_viz.pretrained import family_name, family_of, longest_context, training_length
from alibi_viz.widgets.core.app import App, Why
from alibi_viz.widgets.core.controls import FIT, column, labeled, row
from alibi_viz.widgets.core.formatting import format_number
from alibi_viz.widgets.core.traits import BadValue, Choice, Count, Number, raising_bad_value, short_repr

YOURS = "yours"
MODELS = ("alibi", "rotary", "sinusoidal")  # that ship with the package and are tested within seconds
MAX_HEADS = 32  # heads whose bias can be dropped one by one
WINDOWS = tuple(2**power for power in range(2, 12))
PRETRAINED_TARGETS = 2048  # bytes predicted: few enough for a result while the user moves a control
STATS_LENGTH = 8  # times L: the length of the windows in which attention is measured
STATS_QUERIES = 128  # of a pretrained model, whose attention is measured in one window
EQUAL = 0.005  # bits per byte: a smaller difference disappears in two decimals
RULES = {
    "pi": "positions interpolated",
    "ntk": "rotary frequencies scaled by the NTK rule",
    "yarn": "rotary frequencies scaled by YaRN",
}


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
    has_bias = True
    is_rotary = False
    text: Any  # for a model of transformers, as in `lab.length_curve`

    def __init__(self, model: Any, length: Any, text: lab.Text, lengths: Sequence[int] | None) -> None:
        if isinstance(length, bool) or not isinstance(length, int) or length < 1:
            raise BadValue(f"length must be an integer of at least 1, the training length of the model, got {length!r}")
        self.model, self.length, self.text, self.text_name = model, length, text, text.name
        self.lengths = list(lengths or lab.evaluation_lengths(length))
        self.has_sinks = has_sinks(model)
        if isinstance(model, LanguageModel):
            self.name, self.num_heads = model.config.position, model.config.num_heads
            self.has_bias, self.is_rotary = model.transformer.position.has_bias, self.name == "rotary"

    def evaluate(self, model: Any) -> Evaluation:
        """Evaluate the model, or a changed copy. Raises ValueError if the text is too short or the losses are NaN."""
        longest = max(self.lengths)
        targets = max(TARGETS, longest)
        losses = lab.loss_by_length(model, self.text, self.lengths, targets=targets)
        if diverged(model, losses):
            raise ValueError("the model gives NaN instead of losses: its training has diverged")
        predicted = min(targets, len(self.text.validation) - 1) // longest * longest  # whole windows only
        window = int(min(STATS_LENGTH * self.length, model.transformer.position.max_length or math.inf))
        stats = attention_stats(model, self.text, window, trained=self.length, windows=4)
        return Evaluation(losses, predicted, window, stats.distance, float(stats.beyond.mean()))


class PretrainedSubject(Subject):
    """A BLOOM, MPT or Falcon model of the transformers library."""

    unit = "tokens"

    def __init__(self, model: nn.Module, tokenizer: Any, length: Any, text: Any, lengths: Sequence[int] | None) -> None:
        family, self.name = family_of(model), family_name(model)
        if tokenizer is None:
            raise ValueError(f"a model of transformers needs its tokenizer: pass tokenizer, got {type(model).__name__}")
        super().__init__(model, training_length(model) if length is None else length, evaluated_bytes(text)[0], lengths)
        self.tokenizer, self.text = tokenizer, text
        self.num_heads = len(family.slopes(family.layers(model)[0]))

    def evaluate(self, model: Any) -> Evaluation:
        stride, targets = max(1, min(self.lengths) // 2), PRETRAINED_TARGETS
        table = lab.length_curve(
            model, self.tokenizer, self.text, self.lengths, targets=targets, stride=stride, trained=self.length
        )
        losses = dict(zip(table["x"].tolist(), table["value"].tolist(), strict=True))
        defined = [length for length, bits in losses.items() if not math.isnan(bits)]
        if not defined:
            limit = longest_context(model)
            raise ValueError(f"the model has {limit} positions; lengths must be no longer, got {[*losses]}")
        window = min(STATS_LENGTH * self.length, max(defined))
        ids = encode(model, self.tokenizer, evaluated_bytes(self.text)[1])[None, -window:]
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
        "06_surgery",
        "Steeper or flatter slopes",
    )
    subject = Choice("alibi", (*MODELS, YOURS))
    factor = Number(1.0, 1 / 16, 16.0)
    dropped = Choice("none", ("none", "all", *map(str, range(1, MAX_HEADS + 1))))
    window = Count(None, 1, 4096, allow_none=True)
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
        self._as_trained: dict[str, Evaluation] = {}
        self._subjects: dict[str, Subject] = {}
        with raising_bad_value():
            self._text = lab.load_text(text)
            if isinstance(model, LanguageModel):
                length = model.config.max_length if length is None else length
                self._subjects[YOURS] = Subject(model, length, self._text, lengths)
            elif model is not None:
                self._subjects[YOURS] = PretrainedSubject(model, tokenizer, length, text, lengths)
            elif any(option is not None for option in (tokenizer, length, lengths)):
                raise BadValue("tokenizer, length and lengths belong to a model of yours: pass the model too")
        if self._subjects:
            state.setdefault("subject", YOURS)
        super().__init__(**state)

    # Results.

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
        self._as_trained.clear()
        super().refresh()

    def open_run(self, folder: str | Path) -> None:
        """Open a model that `lab.save_run` saved. Raises BadValue, and changes nothing, if it can't be used."""
        with raising_bad_value():
            saved = lab.load_run(_path(folder))
            task = saved.settings.get("task", "text")
            if task != "text":
                raise ValueError(f"{str(folder)!r} was trained on the task {task}; choose a model of text")
            length = saved.settings.get("length", saved.model.config.max_length)
            previous = self._subjects, self._as_trained
            self._subjects = self._subjects | {YOURS: Subject(saved.model, length, self._text, None)}
            self._as_trained = {name: result for name, result in self._as_trained.items() if name != YOURS}
            try:
                if self.subject == YOURS:
                    self._redraw()
                else:
                    self.subject = YOURS
            except (TypeError, ValueError):
                self._subjects, self._as_trained = previous
                raise

    # Methods that `App` requires.

    def blank(self) -> go.Figure:
        return picture.blank()

    def controls(self) -> list[Widget]:
        subject = self.menu("subject", "model", "s-subject", "Which trained model", {YOURS: "yours (below)"})
        self._dropped = self.menu("dropped", "drop the bias of", "s-dropped", "Heads whose bias is dropped")
        tip = "How rotary treats positions beyond its training length"
        self._rule = self.menu("rule", "rotary's rule", "s-rule", tip)
        tip = "What the slopes are multiplied by"
        options = {"value": 1, "base": 2, "min": -4, "max": 4, "step": 0.5, "readout": False, "tooltip": tip}
        self._factor = FloatLogSlider(**options, layout=Layout(width="150px"), continuous_update=False)
        self.link(self._factor.add_class("s-factor"), "factor")
        self._factor_field = self.field("factor", "s-factor-field", "60px", tip)
        tip = "How many keys a query sees, including its own"
        self._window = Dropdown(layout=FIT, options=_windows(None), tooltip=tip)
        self.link(self._window.add_class("s-window"), "window", lambda size: size or None, self._show_window)
        self._sinks = self.field("sinks", "s-sinks", "44px", "How many tokens at the start stay visible")
        hint, layout = "the folder of a saved run", Layout(width="280px")
        folder = Text(placeholder=hint, tooltip="Open a model of yours", continuous_update=False, layout=layout)
        folder.add_class("s-folder").observe(self._on_folder, names="value")
        first = row(subject, labeled("slopes times", self._factor, self._factor_field), self._dropped)
        window = labeled("window", self._window), labeled("sinks", self._sinks)
        return [column(first, row(*window, self._rule, labeled("open", folder), self.reset_button()))]

    def draw(self) -> tuple[str, str]:
        subject = self._subject()
        settings, changes = self._changes(subject)
        if self.subject not in self._as_trained:
            self._as_trained[self.subject] = subject.evaluate(subject.model)
        before = after = self._as_trained[self.subject]
        if changes:
            after = subject.evaluate(lab.modify(subject.model, **settings, trained_length=subject.length))
        self._before, self._after = before, after
        for control in (self._factor, self._factor_field, self._dropped):
            control.disabled = not subject.has_bias
        self._rule.disabled = not subject.is_rotary
        self._sinks.disabled = not subject.has_sinks
        shown = [(each.losses, each.distance) for each in (before, after)[: 1 + bool(changes)]]
        picture.draw(self.figure, subject.length, subject.unit, *shown)
        return self._words(subject, changes)

    def _subject(self) -> Subject:
        if self.subject not in self._subjects:
            if self.subject == YOURS:
                raise BadValue("there is no model of yours yet: enter the folder of a saved run, or pass a model")
            saved = study.published_model(self.subject)
            self._subjects[self.subject] = Subject(saved.model, saved.settings["length"], self._text, None)
        return self._subjects[self.subject]

    def _changes(self, subject: Subject) -> tuple[dict[str, Any], list[str]]:
        """The changes that apply to the model, as arguments of `lab.modify`, and in words."""
        heads = range(1, subject.num_heads + 1)
        settings: dict[str, Any] = {}
        words = []
        if subject.has_bias:
            if self.dropped.isdecimal() and int(self.dropped) not in heads:
                raise BadValue(f"dropped must be none, all or a head from 1 to {len(heads)}, got {self.dropped}")
            settings["slopes"] = [0.0 if self.dropped in ("all", str(head)) else self.factor for head in heads]
            if self.dropped == "all":
                words.append("the bias of every head dropped")
            else:
                words += [f"slopes times {self.factor:g}"] if self.factor != 1 else []
                words += [f"the bias of head {self.dropped} dropped in every layer"] if self.dropped != "none" else []
        if subject.is_rotary and self.rule != "plain":
            settings["rotary"] = self.rule
            words.append(RULES[self.rule])
        if self.window is not None:
            settings |= {"window": self.window, "sinks": self.sinks if subject.has_sinks else 0}
            first = f" and the first {self.sinks:,}" if settings["sinks"] else ""
            words.append(f"a window of {self.window:,} keys{first} imposed")
        return settings, words

    def _words(self, subject: Subject, changes: list[str]) -> tuple[str, str]:
        """What was changed and what that does; and what was measured, and the changes that don't apply."""
        before, after, name, length = self._before, self._after, subject.name, subject.length
        change = f"with {', '.join(changes)}" if changes else "as it was trained"
        losses = [_compare(after.losses[x], before.losses[x], x) for x in (min(before.losses), max(before.losses))]
        distance, original = (format_number(each.distance.mean()) for each in (after, before))
        trained = f" (as trained {original})" if distance != original else ""
        caption = (
            f"{name}, trained on windows of {length:,} {subject.unit}, {change}: {'; '.join(losses)}. "
            f"Its heads look {distance} tokens back on average{trained}, with {after.beyond:.0%} of their weight on "
            f"keys at least {length:,} back, the training length."
        )
        unused_bias = not subject.has_bias and (self.factor != 1 or self.dropped != "none")
        unused_rule = not subject.is_rotary and self.rule != "plain"
        details = [
            (True, f"The losses are bits per byte of {before.targets:,} bytes of {subject.text_name}."),
            (True, f"The distances were measured on windows of {before.window:,} {subject.unit}."),
            (unused_bias, f"There is no bias in {name} to multiply or drop."),
            (unused_rule, f"The rule is for rotary positions only, so it does not apply to {name}."),
            (
                self.sinks and not subject.has_sinks,
                f"The positions of {name} are not all in a bias, so the first tokens are not kept.",
            ),
            (
                self.sinks and self.window is None,
                "Without a window every token is visible, so sinks change nothing.",
            ),
        ]
        return caption, " ".join(sentence for applies, sentence in details if applies)

    def _on_folder(self, change: Any) -> None:
        if folder := change.new.strip():
            self.attempt(lambda: self.open_run(folder))

    def _show_window(self, window: int | None) -> int:
        """The value of the menu for a window, which becomes one of its options."""
        if (window or 0) not in dict(self._window.options).values():
            self._window.options = _windows(window)
        return window or 0


def _compare(bits: float, original: float, length: int) -> str:
    """The loss at a length, and the difference to the model as it was trained, if there is one."""
    if math.isnan(bits):
        return f"its positions are not defined on windows of {length:,}"
    words = f"{bits:.2f} bits per byte on windows of {length:,}"
    if math.isnan(original) or abs(bits - original) < EQUAL:
        return words
    return f"{words}, {abs(bits - original):.2f} {'more' if bits > original else 'less'} than before"


def _path(name: str | Path) -> Path:
    """A path that the user typed, with `~` expanded. Raises BadValue for an unknown user or an invalid name."""
    try:
        path = Path(name).expanduser()
        with suppress(FileNotFoundError, NotADirectoryError):  # `load_run` says what is missing
            path.lstat()  # raises for a name that contains NUL or is too long
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadValue(f"{short_repr(str(name))} is not a usable path: {reason}") from None
    return path


def _windows(current: int | None) -> list[tuple[str, int]]:
    """The options of the menu. 0 stands for no window, because a menu takes None for "nothing selected"."""
    return [("none", 0), *((f"{size:,}", size) for size in sorted({*WINDOWS, current or WINDOWS[0]}))]
