"""Plotly figures of arrays and tensors.

    from alibi_viz import figures
    slopes = av.alibi_slopes(8)
    figures.slope_figure(slopes).show()
    figures.bias_figure(av.alibi_bias(slopes, 64), ~av.causal_mask(64)).write_html("bias.html")

One file per figure, or for a few of one lesson. A figure is a function of its arguments: what an
app shows is the same function of its state. Those that an app draws at each step of a slider are
plain dicts, `slope_picture(...)`; `slope_figure(...)` is a plotly figure of them, whose properties
plotly has checked. Nothing here imports a model or a widget.
"""

from alibi_viz.arguments import lazy

_MODULES = {
    "attention_figure": "attention_plot",  # how heads read a text
    # The weight that the bias of each head leaves to each key, or the bias itself
    "bias_figure": "bias_plot",
    "MAX_METHODS": "curve_plot",  # how many methods a figure of curves can show
    "claims_figure": "claims_plot",  # by how much each claim of the study holds in each setting
    "clocks_figure": "position_plot",  # rotary positions as hands of clocks
    "curve_figure": "curve_plot",  # one measurement of several methods, such as loss against length
    "far_share_figure": "far_share_plot",  # loss against the share of attention on far keys
    "forgetting_figure": "forgetting_plot",  # what words keep of their weight, by half-life
    "logit_figure": "position_plot",  # the logit of a position method at each distance
    "rounding_figure": "rounding_plot",  # what a dtype does to the biases of one query
    "save_images": "theme",  # SVG, PDF and PNG files
    "slope_figure": "slope_plot",  # slopes and half-lives
    "softmax_figure": "softmax_plot",  # logits and their weights, as numbers
    "surgery_figure": "surgery_plot",  # a model's losses and attention, before and after a change
    "tug_figure": "tug_plot",  # content against distance
    "waves_figure": "position_plot",  # sinusoidal positions as a barcode
    "weights_figure": "matrices",  # attention weights side by side
    "weights_html": "matrices_html",  # the same as HTML, for reports
    "window_figure": "window_plot",  # how far back each head looks
}
__all__ = sorted(_MODULES)  # noqa: PLE0605  # sorted() returns a list
# One figure does not load the others.
__getattr__, __dir__ = lazy(
    __name__, {name: f"{__name__}.{module}" for name, module in _MODULES.items()}
)
