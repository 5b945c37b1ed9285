"""Floor 4: plotly figures of arrays and tensors.

    from alibi_viz import figures
    figures.slope_figure(av.alibi_slopes(8)).show()
    figures.bias_figure(av.alibi_bias(slopes, 64), ~av.causal_mask(64)).write_html("bias.html")

- `attention_figure(tokens, trace, other)`: content + bias = logits -> weights of one head
- `bias_figure(bias, masked)`: the weight that the bias of each head leaves to each key, or the bias itself
- `panel_figure(panel)`: one measurement of several methods, such as loss against length
- `race_figure(panel, losses, steps)`: training curves beside a panel
- `slope_figure(slopes)`: slopes and half-lives
- `surgery_figure(panel, distance)`: a model with changed slopes

One file per figure. `blank()` creates every trace and axis that the figure will ever need; `draw(figure, ...)` fills in
the data in one `batch_update`. The same `draw` serves a plain `go.Figure` and the live `FigureWidget` of an app, which
is never rebuilt. Nothing here imports a model or a widget.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "attention_figure": "attention",
    "bias_figure": "bias",
    "panel_figure": "panel",
    "race_figure": "race",
    "slope_figure": "slopes",
    "surgery_figure": "surgery",
}

__all__ = ["attention_figure", "bias_figure", "panel_figure", "race_figure", "slope_figure", "surgery_figure"]


def __getattr__(name: str) -> Any:  # on first use, so that one figure does not load the others
    if name not in _MODULES:
        raise AttributeError(f"module 'alibi_viz.figures' has no attribute {name!r}")
    return getattr(import_module(f"alibi_viz.figures.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
