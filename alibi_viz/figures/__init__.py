"""Plotly figures of arrays and tensors.

    from alibi_viz import figures
    slopes = av.alibi_slopes(8)
    figures.slope_figure(slopes).show()
    figures.bias_figure(av.alibi_bias(slopes, 64), ~av.causal_mask(64)).write_html("bias.html")

One file per figure. `blank()` creates every trace and axis that the figure will ever need;
`draw(figure, ...)` fills in the data in one `batch_update`. The same `draw` serves a plain
`go.Figure` and the live `FigureWidget` of an app, which is never rebuilt. Nothing here imports a
model or a widget.
"""

from alibi_viz.arguments import lazy

_MODULES = {
    # The weight that the bias of each head leaves to each key, or the bias itself
    "bias_figure": "bias_plot",
    "MAX_METHODS": "curve_plot",  # how many methods a figure of curves can show
    "claims_figure": "claims_plot",  # by how much each claim of the study holds in each setting
    "curve_figure": "curve_plot",  # one measurement of several methods, such as loss against length
    "mark_guesses": "claims_plot",  # what a reader guessed of each claim
    "rounding_figure": "rounding_plot",  # what a dtype does to the biases of one query
    "save_images": "theme",  # SVG, PDF and PNG files
    "slope_figure": "slope_plot",  # slopes and half-lives
    "switches_figure": "switches_plot",  # one rotary model with two switches, four losses
    "weights_html": "matrices_html",  # attention weights side by side
    "window_figure": "window_plot",  # how far back each head looks
}
__all__ = sorted(_MODULES)  # noqa: PLE0605  # sorted() returns a list
# One figure does not load the others.
__getattr__, __dir__ = lazy(
    __name__, {name: f"{__name__}.{module}" for name, module in _MODULES.items()}
)
