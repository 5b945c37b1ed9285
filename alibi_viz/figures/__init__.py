"""Plotly figures of arrays and tensors.

    from alibi_viz import figures
    slopes = av.alibi_slopes(8)
    figures.slope_figure(slopes).show()
    figures.bias_figure(av.alibi_bias(slopes, 64), ~av.causal_mask(64)).write_html("bias.html")

One file per figure. `blank()` creates every trace and axis that the figure will ever need; `draw(figure, ...)` fills in
the data in one `batch_update`. The same `draw` serves a plain `go.Figure` and the live `FigureWidget` of an app, which
is never rebuilt. Nothing here imports a model or a widget.
"""

from typing import Any

from alibi_viz.arguments import load_module

_MODULES = {
    "bias_figure": "bias",  # the weight that the bias of each head leaves to each key, or the bias itself
    "comparison_html": "matrices",  # checked attention weights beside the correct ones
    "MAX_METHODS": "curves",  # how many methods a figure of curves can show
    "curve_figure": "curves",  # one measurement of several methods, such as loss against length
    "forest_figure": "forest",  # by how much each claim of the study holds, with its interval
    "mark_guesses": "forest",  # what a reader guessed of each claim
    "save_images": "theme",  # SVG, PDF and PNG files
    "slope_figure": "slopes",  # slopes and half-lives
    "weights_html": "matrices",  # attention weights side by side
}
__all__ = sorted(_MODULES)  # noqa: PLE0605  # sorted() returns a list


def __getattr__(name: str) -> Any:  # on first use, so that one figure does not load the others
    if name not in _MODULES:
        raise AttributeError(f"module 'alibi_viz.figures' has no attribute {name!r}")
    return getattr(load_module(f"alibi_viz.figures.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
