"""Floor 4: plotly figures of arrays.

One file per figure. `blank()` creates every trace and axis that the figure will ever need; `draw(figure, ...)` fills in
the data in one `batch_update`. The same `draw` serves a plain `go.Figure` and the live `FigureWidget` of an app, which
is never rebuilt. Nothing here imports a model or a widget.
"""
