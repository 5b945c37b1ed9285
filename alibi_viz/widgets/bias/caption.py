"""The caption of the bias figure and its details: the form, what is left to distant keys, and what is masked."""

from collections.abc import Iterator
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from alibi_viz.figures.bias import weights_from_bias
from alibi_viz.widgets.core.formatting import format_number, format_percent, format_slope
from alibi_viz.widgets.core.traits import LINEAR, law_name

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


def describe(app: Any, bias: Floats, masked: Mask, slope: SupportsFloat | None) -> tuple[str, str]:
    """The caption of a `BiasExplorer` and its details.

    Args:
        app: the app, for its state.
        bias, masked: of the heads shown, [heads, query, key].
        slope: of the enlarged head; None for all heads, or for another law than ALiBi.
    """
    shown, *more = (_weights if app.show == "weight" else _extremes)(app, bias[:, _ENDS], masked[:, _ENDS])
    return f"{_form(app, slope)} {shown}", " ".join([*more, *_notes(app, bias, masked), *_click_notes(app)])


def _form(app: Any, slope: SupportsFloat | None) -> str:
    formula = f"{app.form} form, {_FORMULAS[app.form]}."
    if app.law != LINEAR:
        distance = f"i {_MINUS} j" if app.causal else f"|i {_MINUS} j|"
        formula = f"the bias is {law_name(app.law)}(d), where d = {distance}."
    heads = f"{app.num_heads} {'head' if app.num_heads == 1 else 'heads'},"
    if app.head is not None:
        of_slope = "" if slope is None else f", slope {format_slope(slope)}"
        heads = f"Head {app.head} of {app.num_heads}{of_slope}:"
    return f"{heads} {app.length} x {app.length}, {formula}"


def _weights(app: Any, bias: Floats, masked: Mask) -> list[str]:
    """What color means, and how much weight the farthest key keeps in the steepest and in the flattest head shown."""
    color = "Color shows e^bias: the weight left to a key of equal content, relative to the query's most favored key."
    weights = weights_from_bias(bias, masked)
    left = np.where(masked[:, -1, 0], weights[:, 0, -1], weights[:, -1, 0])  # the first key, or the last if it is ahead
    heads = np.flatnonzero((~masked).sum(-1).max(-1) > 1)  # heads that see another key than their own position
    if not len(heads):
        return [color]
    steep, flat = heads[left[heads].argmin()], heads[left[heads].argmax()]
    first = app.head or 1
    text = f"At distance {app.length - 1}, head {first + steep} leaves {format_percent(left[steep])}"
    if steep != flat:
        text += f", while head {first + flat} still leaves {format_percent(left[flat])}"
    return [f"{text}.", color]


def _extremes(app: Any, bias: Floats, masked: Mask) -> list[str]:
    """The smallest and the largest bias shown, in which heads, and which heads look uniform on a linear scale."""
    visible = np.where(masked, np.float32(np.nan), bias)
    low, high = np.nanmin(visible, (1, 2)), np.nanmax(visible, (1, 2))  # [heads]
    ends = [
        format_number(values[head]) + (f" (head {head + 1})" if values[head] and len(values) > 1 else "")
        for values, head in ((low, low.argmin()), (high, high.argmax()))
    ]
    text = f"The bias is {ends[0]}." if ends[0] == ends[1] else f"The bias ranges from {ends[0]} to {ends[1]}."
    size = np.maximum(-low, high)
    count = int((size <= _UNIFORM * size.max()).sum())
    if app.scale == "logarithmic" or len(size) == 1 or not count or not size.max():
        return [text]
    heads = "1 head looks" if count == 1 else f"{count} heads look"
    limit = f"head {int(size.argmin()) + 1} stays within {format_number(size.min())}"
    return [text, f"On a linear color scale {heads} uniform ({limit}). Switch to the logarithmic scale to see more."]


def _notes(app: Any, bias: Floats, masked: Mask) -> Iterator[str]:
    """What is masked, and what a form or a law means."""
    form = app.form if app.law == LINEAR else "law"
    by_law = form == "law" and bool(np.isneginf(bias[:, -1]).any())
    reasons = ["the keys after each query"] * bool(app.causal and app.length > 1)
    reasons += [f"the keys to which the law gives {_MINUS}infinity"] * by_law
    reasons += ["the side to which a head does not attend"] * (form == "split" and not app.causal)
    if masked.any():
        yield f"Gray is masked: {' and '.join(reasons)}."
    if form in ("key", "end"):
        yield "Each row differs from the relative form by a constant, so the softmax gives the same weights."
    if app.causal:
        if form == "split":
            yield "Under a causal mask the heads that look ahead see only their own position."
    elif form in ("symmetric", "law"):
        yield "Keys before and after a query are treated alike, as in an encoder."
    elif form != "split":
        ahead = "The keys ahead get a positive bias. " * (form == "relative")
        yield f"{ahead}Without a mask every query favors the last keys, whatever its own position."


def _click_notes(app: Any) -> list[str]:
    """How to enlarge a head, and what its colors mean."""
    if app.head is None:
        return ["Click a head to enlarge it."] * (app.num_heads > 1)
    return ["The color scale is this head's own."] * (app.show == "bias") + ["Click the tile to see all heads."]
