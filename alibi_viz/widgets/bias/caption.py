"""The caption of the bias figure: the form of the bias, what it leaves to distant keys, and what is masked."""

from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from alibi_viz.figures import bias as bias_plot
from alibi_viz.widgets.core.formatting import format_number, format_percent, format_slope
from alibi_viz.widgets.core.traits import LINEAR, law_name

__all__ = ["describe"]

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]

_MINUS = "\N{MINUS SIGN}"
_FORMULAS = {
    "relative": f"{_MINUS}m (i {_MINUS} j)",
    "key": "m j",
    "end": f"m (j {_MINUS} last)",
    "symmetric": f"{_MINUS}m |i {_MINUS} j|",
    "split": f"{_MINUS}m |i {_MINUS} j|, half of the heads looking back, half ahead",
}
_UNIFORM = 0.04  # a head that spans at most this share of the color scale looks like one color
_ENDS = (0, -1)  # the first and the last query: in every form their biases include the extremes of all queries
_SAME_WEIGHTS = "Each row differs from the relative form by a constant, so the softmax gives the same weights."
_LAST_KEYS = "Without a mask every query favors the last keys, whatever its own position."
_ALIKE = "Keys before and after a query are treated alike, as in an encoder."
_NOTES_WITH_MASK = {
    "key": [_SAME_WEIGHTS],
    "end": [_SAME_WEIGHTS],
    "split": ["Under a causal mask the heads that look ahead see only their own position."],
}
_NOTES_WITHOUT_MASK = {
    "relative": f"The keys ahead get a positive bias. {_LAST_KEYS}",
    "key": f"{_SAME_WEIGHTS} {_LAST_KEYS}",
    "end": f"{_SAME_WEIGHTS} {_LAST_KEYS}",
    "symmetric": _ALIKE,
    "split": "Gray is masked: the side to which a head does not attend.",
}


def describe(app: Any, bias: Floats, masked: Mask, slope: SupportsFloat | None) -> str:
    """Describe what a `BiasExplorer` shows.

    Args:
        app: the app, for its state.
        bias, masked: of the heads shown, [heads, query, key].
        slope: of the enlarged head; None for all heads, or for another law than ALiBi.
    """
    shown = _weights(app, bias, masked) if app.show == "weight" else _extremes(app, bias, masked)
    notes = _form_notes(app, masked) if app.law == LINEAR else _law_notes(app, bias, masked)
    return " ".join([_form(app, slope), shown, *notes, *_click_notes(app)])


def _form(app: Any, slope: SupportsFloat | None) -> str:
    if app.law == LINEAR:
        bias = f"{app.form} form, {_FORMULAS[app.form]}."
    else:
        distance = f"i {_MINUS} j" if app.causal else f"|i {_MINUS} j|"
        bias = f"the bias is {law_name(app.law)}(d), where d = {distance}."
    form = f"{app.length} x {app.length}, {bias}"
    if app.head is not None:
        of_slope = "" if slope is None else f", slope {format_slope(slope)}"
        return f"Head {app.head} of {app.num_heads}{of_slope}: {form}"
    return f"{app.num_heads} {'head' if app.num_heads == 1 else 'heads'}, {form}"


def _weights(app: Any, bias: Floats, masked: Mask) -> str:
    """How much weight the farthest key keeps in the steepest and in the flattest head shown."""
    if app.law == LINEAR:
        one_sided = app.causal or app.form in ("symmetric", "split")
        favored = "the query's own position" if one_sided else "the last key"
        hidden = masked[:, _ENDS]
        weights = np.where(hidden, 1, bias_plot.weights_from_bias(bias[:, _ENDS], hidden)).min((1, 2))  # [heads]
        heads = np.flatnonzero((~hidden).sum(-1).max(-1) > 1)  # heads that see another key than their own position
    else:
        favored = "the most favored key"
        weights = bias_plot.weights_from_bias(bias[:, -1], masked[:, -1])[:, 0]  # of the first key for the last query
        heads = np.arange(len(bias) if app.length > 1 else 0)
    text = f"Color shows e^bias: the weight left to a key of equal content, relative to {favored}."
    if not len(heads):
        return text
    steep, flat = heads[weights[heads].argmin()], heads[weights[heads].argmax()]
    first = app.head or 1
    text += f" At distance {app.length - 1}, head {first + steep} leaves {format_percent(weights[steep])}"
    if steep == flat:
        return f"{text}."
    return f"{text}, while head {first + flat} still leaves {format_percent(weights[flat])}."


def _extremes(app: Any, bias: Floats, masked: Mask) -> str:
    """The smallest and the largest bias shown, in which heads, and which heads look uniform on a linear scale."""
    visible = np.where(masked[:, _ENDS], np.float32(np.nan), bias[:, _ENDS])
    low, high = np.nanmin(visible, (1, 2)), np.nanmax(visible, (1, 2))  # [heads]
    ends = [
        format_number(values[head]) + (f" (head {head + 1})" if values[head] and len(values) > 1 else "")
        for values, head in ((low, low.argmin()), (high, high.argmax()))
    ]
    text = f"The bias is {ends[0]}." if ends[0] == ends[1] else f"The bias ranges from {ends[0]} to {ends[1]}."
    size = np.maximum(-low, high)
    count = int((size <= _UNIFORM * size.max()).sum())
    if app.scale == "logarithmic" or len(size) == 1 or not count or not size.max():
        return text
    heads = "1 head looks" if count == 1 else f"{count} heads look"
    limit = f"head {int(size.argmin()) + 1} stays within {format_number(size.min())}"
    return f"{text} On a linear color scale {heads} uniform ({limit}). Switch to the logarithmic scale to see more."


def _form_notes(app: Any, masked: Mask) -> list[str]:
    """What this form of ALiBi means with or without a mask."""
    if app.causal:
        return ["Gray is masked: the keys after each query."] * bool(masked.any()) + _NOTES_WITH_MASK.get(app.form, [])
    return [_NOTES_WITHOUT_MASK[app.form]] if masked.any() or app.form != "split" else []


def _law_notes(app: Any, bias: Floats, masked: Mask) -> list[str]:
    """What is masked, by causality or by the law, or what a law means without a mask."""
    reasons = ["the keys after each query"] * bool(app.causal and app.length > 1)
    reasons += [f"the keys to which the law gives {_MINUS}infinity"] * bool(np.isneginf(bias[:, -1]).any())
    gray = [f"Gray is masked: {' and '.join(reasons)}."] * bool(reasons)
    return gray if app.causal else [_ALIKE, *gray]


def _click_notes(app: Any) -> list[str]:
    """How to enlarge a head, and what its colors mean."""
    if app.head is not None:
        color_scale = "" if app.show == "weight" else "The color scale is this head's own. "
        return [f"{color_scale}Click the tile to see all heads."]
    return ["Click a head to enlarge it."] * (app.num_heads > 1)
